#!/usr/bin/env bash
# usage: stop.sh RUN_DIR [--kill] (see ../lib.sh)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
source "$here/../lib.sh"

stop_service "$@"

# The class-data archive of the first instance speeds up all later ones.
version=$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$here/pom.xml")
if [ -s "$1/kafka.jsa" ]; then
  cp "$1/kafka.jsa" "$CACHE_DIR/kafka.jsa.$$"
  mv "$CACHE_DIR/kafka.jsa.$$" "$CACHE_DIR/kafka-$version.jsa"
  rm -f "$1/kafka.jsa"
fi
