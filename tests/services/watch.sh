#!/usr/bin/env bash
# Kills one service once its owner is gone, so that a test run that died by a signal leaves nothing behind.
# Ends by itself when the service has ended. usage: watch.sh OWNER_PID RUN_DIR
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
owner=$1 RUN_DIR=${2%/}

find_service || exit 0
owner_began=$(began "$owner") || owner_began=gone
while runs "$PID" "$BEGAN"; do
  if ! runs "$owner" "$owner_began"; then
    end_process "$PID" "$BEGAN" --kill
    break
  fi
  sleep 1
done
