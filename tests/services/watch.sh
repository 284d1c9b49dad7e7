#!/usr/bin/env bash
# Kills one service once its owner is gone, so that a test run that died by a signal leaves nothing behind.
# Ends by itself when the service was stopped. usage: watch.sh OWNER_PID RUN_DIR SERVICE_PID
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
owner=$1 RUN_DIR=${2%/} service=$3

# The time a process began, in clock ticks since boot: tells a process from a later one with the same id.
began() {
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  stat=${stat##*) }
  set -- $stat
  [ "$1" != Z ] && echo "${20}"
}

owner_began=$(began "$owner") || owner_began=gone
while [ "$(service_pid || true)" = "$service" ]; do
  if [ "$(began "$owner" || true)" != "$owner_began" ]; then
    stop_process --kill
    break
  fi
  sleep 1
done
