# shellcheck shell=bash
# Starts and stops the real servers that tests and benches run against; sourced by ./dev.
# One run is a folder under target/services with one folder per server; tests put the servers they own beside them.

SERVICES=(kafka clickhouse-18 clickhouse-current fluss schema-registry)
DRIVERS=python-drivers # other people's clients, which are no service; required like one
RUN=     # the folder of this run
JOB=     # the process group of the command that uses the servers
STARTERS=() # the process groups of the start.sh that have not ended yet

# Starts all servers at once under $RUN and waits until they answer.
start_services() {
  local service starter failed=0
  set -m
  for service in "${SERVICES[@]}"; do
    "tests/services/$service/start.sh" "$RUN/$service" >/dev/null </dev/null &
    STARTERS+=($!)
  done
  tests/drivers/install.sh >"$RUN/$DRIVERS.env" </dev/null &
  STARTERS+=($!)
  set +m
  for starter in "${STARTERS[@]}"; do wait "$starter" || failed=1; done
  STARTERS=()
  [ $failed = 0 ] || die "a server did not start, or a download failed; logs lie in $RUN/*/log"
}

# Stops every server under $RUN, the ones that tests started too.
stop_services() {
  local folder stoppers=()
  for folder in "$RUN"/*/; do
    [ -e "$folder/service" ] || continue
    "tests/services/$(cat "$folder/service")/stop.sh" "$folder" &
    stoppers+=($!)
  done
  [ ${#stoppers[@]} = 0 ] || wait "${stoppers[@]}"
}

# Prints the KEY=VALUE lines of all servers under $RUN.
endpoints() {
  local service
  for service in "${SERVICES[@]}"; do cat "$RUN/$service/env"; done
  cat "$RUN/$DRIVERS.env"
}

# Runs a command with servers of its own, and leaves nothing running however this script ends.
# The command has a process group of its own: one signal ends it with all its children.
with_services() {
  local name=$1 line status=0
  shift
  mkdir -p "$TARGET/services"
  sweep_old_runs
  RUN=$TARGET/services/$name-$$
  mkdir "$RUN"
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  trap end_run EXIT

  export CONNECTOR_OWNER_PID=$$
  start_services
  while read -r line; do export "${line?}"; done < <(endpoints)
  export CONNECTOR_TEST_RUN_DIR=$RUN
  CONNECTOR_TEST_REQUIRE=$(IFS=, && echo "${SERVICES[*]},$DRIVERS")
  export CONNECTOR_TEST_REQUIRE

  set -m
  "$@" </dev/null &
  JOB=$!
  set +m
  wait "$JOB" || status=$?
  JOB=
  return $status
}

end_run() {
  local status=$? starter
  trap - EXIT
  trap '' HUP INT TERM
  if [ -n "$JOB" ]; then
    kill -TERM -- "-$JOB" 2>/dev/null || true
    wait "$JOB" 2>/dev/null || true
  fi
  for starter in "${STARTERS[@]}"; do
    kill -TERM -- "-$starter" 2>/dev/null || true
    wait "$starter" 2>/dev/null || true
  done
  stop_services || true
  if [ $status = 0 ]; then
    rm -rf "$RUN"
  else
    rm -rf "$RUN"/*/{data,tmp}
    echo "not successful; the servers' logs lie in $RUN/*/log" >&2
  fi
  exit $status
}

# The logs of a failed run stay until the next run.
sweep_old_runs() {
  local folder
  for folder in "$TARGET"/services/*-*/; do
    [ -d "$folder" ] || continue
    kill -0 "$(basename "${folder##*-}")" 2>/dev/null || rm -rf "$folder"
  done
}

start_standing_services() {
  RUN=$TARGET/services/standing
  mkdir -p "$RUN"
  start_services
  endpoints
}

stop_standing_services() {
  RUN=$TARGET/services/standing
  [ -d "$RUN" ] || return 0
  stop_services
  rm -rf "$RUN"
}

print_status() {
  local service pid
  for service in "${SERVICES[@]}"; do
    if pid=$(standing_pid "$service"); then
      echo "$service: running, process $pid, logs in $TARGET/services/standing/$service/log"
    else
      echo "$service: stopped"
    fi
  done
}

standing_pid() {
  (
    source tests/services/lib.sh
    RUN_DIR=$TARGET/services/standing/$1
    find_service && echo "$PID"
  )
}

print_exports() {
  local service key value
  RUN=$TARGET/services/standing
  for service in "${SERVICES[@]}"; do
    standing_pid "$service" >/dev/null || die "$service does not run; start the servers with ./dev services start"
  done
  while IFS='=' read -r key value; do printf 'export %s=%q\n' "$key" "$value"; done < <(endpoints)
}
