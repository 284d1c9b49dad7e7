# shellcheck shell=bash
# Shared by the start.sh and stop.sh of every service; sourced, never run.
#
#   start.sh RUN_DIR          starts the service on loopback, prints KEY=VALUE lines once it answers, and keeps them in
#                             RUN_DIR/env. Called again with the same RUN_DIR it starts on the same ports and data.
#   stop.sh RUN_DIR [--kill]  stops it: in good order, or at once with SIGKILL.
#
# RUN_DIR holds everything of one instance: service (its name), env, pid, ports, etc/, data/, log/.
# CONNECTOR_OWNER_PID: where it is set, the service is killed soon after that process is gone, however it ended.
# CONNECTOR_CACHE_DIR: where downloads are kept (default: connector-tests in the user's cache folder).
#
# A start.sh sets PORT_NAMES, defines these functions, and calls start_service "$@":
#   fetch         brings what the service needs into $CACHE_DIR; quick when it is there
#   configure     writes the configuration, for the ports ${PORT[NAME]}
#   command_line  sets COMMAND
#   ready         succeeds once the service answers
#   endpoints     prints the KEY=VALUE lines

SERVICES_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
CACHE_DIR=${CONNECTOR_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/connector-tests}
START_SECONDS=${CONNECTOR_START_SECONDS:-120}
PORT_NAMES=()
COMMAND=()
declare -A PORT=()

fail() {
  echo "$(basename "$(dirname "$0")"): $*" >&2
  exit 1
}

need() {
  local tool
  for tool in "$@"; do
    command -v "$tool" >/dev/null || fail "$tool is missing; ./dev installs what is missing, or prints how"
  done
}

# Runs a command while no other checkout fills the cache.
with_cache_lock() {
  mkdir -p "$CACHE_DIR"
  (
    flock 9
    "$@" 9>&-
  ) 9>"$CACHE_DIR/lock"
}

# Succeeds when something listens on a loopback port.
listening() {
  (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# Prints the answer of http://127.0.0.1:PORT/PATH, headers included.
http_get() {
  (
    exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
    printf 'GET %s HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' "$2" >&3
    timeout 2 cat <&3
  ) 2>/dev/null
}

# Ports are picked below the ephemeral range, where no outgoing connection takes them while the service is down.
choose_ports() {
  local name port
  : >"$RUN_DIR/ports"
  for name in "${PORT_NAMES[@]}"; do
    while :; do
      port=$((15000 + (RANDOM * 32768 + RANDOM) % 17000))
      if ! grep -q "=$port\$" "$RUN_DIR/ports" && ! listening "$port"; then break; fi
    done
    echo "$name=$port" >>"$RUN_DIR/ports"
  done
}

read_ports() {
  local name port
  while IFS='=' read -r name port; do PORT[$name]=$port; done <"$RUN_DIR/ports"
}

# A self-signed certificate for localhost, by default the server's: etc/server.key and etc/server.crt.
make_certificate() {
  local name=${1:-server}
  [ ! -s "$RUN_DIR/etc/$name.crt" ] || return 0
  openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=localhost \
    -addext "subjectAltName=DNS:localhost,IP:127.0.0.1" \
    -keyout "$RUN_DIR/etc/$name.key" -out "$RUN_DIR/etc/$name.crt" >"$RUN_DIR/log/openssl.log" 2>&1 ||
    fail "openssl made no certificate, see $RUN_DIR/log/openssl.log"
}

# Prints the time a process began, in clock ticks since boot, which tells it from a later one with the same id; fails
# when it is gone. Unlike the command line, it stays the same and readable while the process turns into another program.
began() {
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  stat=${stat##*) }
  # shellcheck disable=SC2086
  set -- $stat
  [ "$1" != Z ] && echo "${20}"
}

# Succeeds while the process runs: runs PID BEGAN
runs() {
  [ "$(began "$1" || true)" = "$2" ]
}

# Sets PID and BEGAN to what was recorded of this instance's process; fails when it does not run.
find_service() {
  { read -r PID BEGAN <"$RUN_DIR/pid"; } 2>/dev/null && runs "$PID" "$BEGAN"
}

# Starts COMMAND detached from the terminal. Before the process becomes the service it records its own id and, where an
# owner is named, starts the watcher: there is no moment at which the service runs unrecorded or unwatched.
launch() {
  rm -f "$RUN_DIR/pid"
  # shellcheck disable=SC2016
  setsid bash -c '
    run_dir=$1 watcher=$2 owner=$3
    shift 3
    cd "$run_dir"
    read -r stat </proc/$$/stat
    fields=(${stat##*) })
    echo $$ ${fields[19]} >pid.part
    mv pid.part pid
    if [ -n "$owner" ]; then bash "$watcher" "$owner" "$run_dir" >/dev/null 2>&1 & fi
    exec "$@"' launch "$RUN_DIR/" "$SERVICES_DIR/watch.sh" "${CONNECTOR_OWNER_PID:-}" "${COMMAND[@]}" \
    >>"$RUN_DIR/log/output.log" 2>&1 </dev/null &
  until [ -s "$RUN_DIR/pid" ]; do
    kill -0 $! 2>/dev/null || fail "could not run ${COMMAND[0]}, see $RUN_DIR/log/output.log"
    sleep 0.02
  done
}

# Waits until the launched process answers; fails when it ends or takes too long.
wait_ready() {
  local deadline=$((SECONDS + START_SECONDS))
  while [ $SECONDS -lt $deadline ]; do
    find_service || return 1
    if ready; then return 0; fi
    sleep 0.05
  done
  return 1
}

start_service() {
  local attempts=1
  [ $# = 1 ] || fail "usage: start.sh RUN_DIR"
  mkdir -p "$1"/{etc,data,log}
  RUN_DIR=$(cd "$1" && pwd -P)
  basename "$(dirname "$0")" >"$RUN_DIR/service"
  if find_service; then
    cat "$RUN_DIR/env"
    return 0
  fi
  fetch
  # A new instance may lose a port to another process between the choice and the start: it chooses again.
  # An old one keeps its ports, since clients know them.
  [ -s "$RUN_DIR/env" ] || attempts=3
  for _ in $(seq "$attempts"); do
    if [ ! -s "$RUN_DIR/env" ]; then choose_ports; fi
    read_ports
    configure
    command_line
    launch
    if wait_ready; then
      endpoints >"$RUN_DIR/env"
      cat "$RUN_DIR/env"
      return 0
    fi
    stop_process --kill
  done
  tail -n 20 "$RUN_DIR"/log/* >&2
  fail "did not start in $attempts attempts, logs in $RUN_DIR/log"
}

# Ends a process and waits until it is gone: end_process PID BEGAN [--kill]
end_process() {
  local signal=TERM deadline=$((SECONDS + 20))
  [ "${3:-}" != --kill ] || signal=KILL
  while runs "$1" "$2"; do
    kill -"$signal" "$1" 2>/dev/null || true
    until ! runs "$1" "$2" || [ $SECONDS -ge $deadline ]; do sleep 0.05; done
    signal=KILL
  done
}

# Ends the recorded process, if it runs.
stop_process() {
  if find_service; then end_process "$PID" "$BEGAN" "${1:-}"; fi
  rm -f "$RUN_DIR/pid"
}

stop_service() {
  [ $# -ge 1 ] || fail "usage: stop.sh RUN_DIR [--kill]"
  [ -d "$1" ] || return 0
  RUN_DIR=$(cd "$1" && pwd -P)
  stop_process "${2:-}"
}
