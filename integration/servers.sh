# Sourced by ./check: starts the servers that tests talk to, in a folder of their own, and stops them when the script ends.

servers=''

# A port that nobody has now.
free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# PostgreSQL refuses to run as root.
as_postgres() {
  if [ "$(id -u)" -eq 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi
}

# The folder of the newest PostgreSQL that is installed; nothing when there is none.
postgres_bin() {
  local found
  found=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
  if [ -z "$found" ] && command -v initdb >/dev/null; then found=$(dirname "$(command -v initdb)"); fi
  printf '%s' "$found"
}

# Exports BULKHEAD_TEST_POSTGRES. Not synced to disk: what tests write may be lost with the machine.
start_postgres() {
  local bin port
  bin=$(postgres_bin)
  port=$(free_port)
  mkdir "$servers/postgres"
  if [ "$(id -u)" -eq 0 ]; then chown postgres "$servers" "$servers/postgres"; fi
  (
    cd "$servers/postgres"
    as_postgres "$bin/initdb" -D data -U bulkhead -A trust --no-sync >initdb.log
    as_postgres "$bin/pg_ctl" -D data -w -l server.log start >/dev/null -o \
      "-c listen_addresses=127.0.0.1 -c port=$port -c unix_socket_directories=$servers/postgres -c fsync=off -c max_connections=300"
  )
  export BULKHEAD_TEST_POSTGRES=postgres://bulkhead@127.0.0.1:$port/postgres
}

# Exports BULKHEAD_TEST_REDIS. It keeps nothing on disk.
start_redis() {
  local port
  port=$(free_port)
  redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no --daemonize yes \
    --pidfile "$servers/redis.pid" --logfile "$servers/redis.log" >/dev/null
  export BULKHEAD_TEST_REDIS=redis://127.0.0.1:$port/0
}

stop_servers() {
  if [ -s "$servers/redis.pid" ]; then kill "$(cat "$servers/redis.pid")" 2>/dev/null || true; fi
  if [ -d "$servers/postgres/data" ]; then
    (cd "$servers/postgres" && as_postgres "$(postgres_bin)/pg_ctl" -D data -m immediate stop >/dev/null 2>&1) || true
  fi
  rm -rf "$servers"
}

start_servers() {
  servers=$(mktemp -d)
  trap stop_servers EXIT
  start_postgres
  start_redis
}
