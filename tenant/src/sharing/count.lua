-- One report of one gateway on one scope. Redis runs a script alone, so a report counts whole or not at all.
--
-- KEYS[1]  a hash: at, for each rate its level and its limit, in 1/60,000 of a request or token, and for each gateway, as
--          g:<name>, "<last report>:<in flight>:<until, ms>:<lowest level of requests since>:<of tokens>".
-- ARGV     gateway, number of the report, requests in flight, how long those count (ms), how long a gateway is
--          remembered after that (ms), and for requests and for tokens: limit, what the gateway believes, charged, given back.
-- Returns  for requests and for tokens { level, lowest level since the gateway's last report }, requests in flight elsewhere.
--
-- Time is this server's. A clock that was set back lets nothing run out until it has caught up.

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local key, me = KEYS[1], 'g:' .. ARGV[1]
local number, places = tonumber(ARGV[2]), tonumber(ARGV[3])
local counted, remembered = tonumber(ARGV[4]), tonumber(ARGV[5])
local whole = function(value) return string.format('%.0f', value) end

-- What is known.
local known, gateways, gone, others = {}, {}, {}, 0
local mine = { last = 0, lowest = { 0, 0 } }
local fields = redis.call('HGETALL', key)
for i = 1, #fields, 2 do
  local name, value = fields[i], fields[i + 1]
  if string.sub(name, 1, 2) == 'g:' then
    local last, held, ends, few, least = string.match(value, '^(%d+):(%d+):(%d+):(%d+):(%d+)$')
    local one = { last = tonumber(last), held = tonumber(held), ends = tonumber(ends),
      lowest = { tonumber(few), tonumber(least) } }
    if name == me then
      mine = one
    elseif one.ends + remembered < now then
      gone[#gone + 1] = name
    else
      gateways[name] = one
      if one.ends > now then others = others + one.held end
    end
  else
    known[name] = tonumber(value)
  end
end

local is_new = number > mine.last
local at = math.max(known.at or now, now)
local passed = at - (known.at or at)
local set, answer = { 'at', whole(at) }, {}
for i, name in ipairs({ 'requests', 'tokens' }) do
  local first = 2 + 4 * i
  local limit, believed = tonumber(ARGV[first]), tonumber(ARGV[first + 1])
  local charged, given = tonumber(ARGV[first + 2]), tonumber(ARGV[first + 3])
  -- What was lost with this server, or was never here, begins with what a gateway was told of it.
  local level = believed
  if known.at then level = math.max(0, (known[name] or 0) - passed * (known[name .. '/minute'] or 0)) end
  local lowest = math.min(mine.lowest[i], level)
  if not is_new then charged, given = 0, 0 end
  -- Of a charge that ran out meanwhile nothing is left to give back.
  given = math.min(given, lowest)
  for _, one in pairs(gateways) do
    -- As if what is given back had never been charged: all stood lower by as much.
    one.lowest[i] = math.max(0, math.min(one.lowest[i], level) - given)
  end
  answer[i] = { whole(level - given + charged), whole(math.max(0, lowest - given)) }
  mine.lowest[i] = level - given + charged
  for _, part in ipairs({ name, answer[i][1], name .. '/minute', whole(limit) }) do set[#set + 1] = part end
end

mine.last, mine.held, mine.ends = math.max(number, mine.last), places, now + counted
gateways[me] = mine
for name, one in pairs(gateways) do
  set[#set + 1] = name
  set[#set + 1] = table.concat({ whole(one.last), whole(one.held), whole(one.ends), whole(one.lowest[1]), whole(one.lowest[2]) }, ':')
end
redis.call('HSET', key, unpack(set))
if #gone > 0 then redis.call('HDEL', key, unpack(gone)) end
redis.call('PEXPIRE', key, counted + remembered)
return { answer[1], answer[2], others }
