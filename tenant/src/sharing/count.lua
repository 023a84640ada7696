-- One report of one gateway on one scope. Redis runs a script alone, so a report counts whole or not at all.
--
-- KEYS[1]  a hash: at, for each rate its level and its limit, in 1/60,000 of a request or token, and for each gateway, as
--          g:<name>, numbers between colons: its last report, what it has in flight, until when that counts (ms), and for
--          requests and for tokens the lowest level before its last report was counted, and since.
-- ARGV     gateway, number of the report, requests in flight, how long those count (ms), how long a gateway is
--          remembered after that (ms), and for requests and for tokens: limit, what the gateway believes, charged, given back.
-- Returns  for requests and for tokens { level, lowest before the report was counted, lowest since }, and requests in flight
--          elsewhere.
--
-- Time is this server's. While a clock that was set back catches up, time goes by as the clock goes.

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local key, me = KEYS[1], 'g:' .. ARGV[1]
local number, places = tonumber(ARGV[2]), tonumber(ARGV[3])
local counted, remembered = tonumber(ARGV[4]), tonumber(ARGV[5])
local whole = function(value) return string.format('%.0f', value) end

-- What is known.
local known, gateways, gone, others = {}, {}, {}, 0
local mine
local fields = redis.call('HGETALL', key)
for i = 1, #fields, 2 do
  local name, value = fields[i], fields[i + 1]
  if string.sub(name, 1, 2) == 'g:' then
    local part = {}
    for digits in string.gmatch(value, '%d+') do part[#part + 1] = tonumber(digits) end
    local one = { last = part[1], held = part[2], ends = part[3], before = { part[4], part[5] }, since = { part[6], part[7] } }
    if #part ~= 7 or (name ~= me and one.ends + remembered < now) then
      gone[#gone + 1] = name
    elseif name == me then
      mine = one
    else
      gateways[name] = one
      if one.ends > now then others = others + one.held end
    end
  else
    known[name] = tonumber(value)
  end
end

local is_known = mine ~= nil
mine = mine or { last = 0, held = 0, ends = 0, before = { 0, 0 }, since = { 0, 0 } }
local is_new = number > mine.last
local passed = math.max(0, now - (known.at or now))
local set, answer = { 'at', whole(now) }, {}
for i, name in ipairs({ 'requests', 'tokens' }) do
  local first = 2 + 4 * i
  local limit, believed = tonumber(ARGV[first]), tonumber(ARGV[first + 1])
  local charged, given = tonumber(ARGV[first + 2]), tonumber(ARGV[first + 3])
  local ran = known[name .. '/minute'] or 0
  local level = math.max(0, (known[name] or 0) - passed * ran)
  -- What was lost with this server, or was never here, is what a gateway was told of it.
  if not is_known then level = math.max(level, believed) end
  -- A gateway that charges nothing may know no more than an old limit.
  if ran > 0 and (limit == 0 or charged == 0) then limit = ran end
  mine.since[i] = math.min(mine.since[i], level)
  if is_new then
    -- Of a charge that ran out meanwhile nothing is left to give back.
    given = math.min(given, mine.since[i])
    for _, one in pairs(gateways) do
      -- As if what is given back had never been charged: all stood lower by as much.
      one.since[i] = math.max(0, math.min(one.since[i], level) - given)
    end
    mine.before[i] = mine.since[i] - given
    level = level - given + charged
    mine.since[i] = level
  end
  answer[i] = { whole(level), whole(mine.before[i]), whole(mine.since[i]) }
  for _, part in ipairs({ name, whole(level), name .. '/minute', whole(limit) }) do set[#set + 1] = part end
end

-- One that comes after a later one tells of the past.
if number >= mine.last then mine.last, mine.held, mine.ends = number, places, now + counted end
gateways[me] = mine
for name, one in pairs(gateways) do
  set[#set + 1] = name
  set[#set + 1] = table.concat({ whole(one.last), whole(one.held), whole(one.ends), whole(one.before[1]),
    whole(one.before[2]), whole(one.since[1]), whole(one.since[2]) }, ':')
end
redis.call('HSET', key, unpack(set))
if #gone > 0 then redis.call('HDEL', key, unpack(gone)) end
redis.call('PEXPIRE', key, counted + remembered)
return { answer[1], answer[2], others }
