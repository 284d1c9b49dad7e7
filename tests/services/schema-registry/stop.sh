#!/usr/bin/env bash
# usage: stop.sh RUN_DIR [--kill] (see ../lib.sh)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

stop_service "$@"
