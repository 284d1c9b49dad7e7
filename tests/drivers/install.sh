#!/usr/bin/env bash
# Brings the Python drivers of requirements.txt into the cache, once, and prints where they are.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
source "$here/../services/lib.sh"

wanted=$(cksum <"$here/requirements.txt")
folder=$CACHE_DIR/python-drivers-$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')-${wanted%% *}

# The folder gets its name only when it is complete.
install_drivers() {
  [ ! -e "$folder" ] || return 0
  echo "fetching the Python drivers (once)" >&2
  rm -rf "$folder.part"
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
    --target "$folder.part" --requirement "$here/requirements.txt" >&2
  mv "$folder.part" "$folder"
}

need python3
[ -e "$folder" ] || with_cache_lock install_drivers
echo "CONNECTOR_TEST_DRIVERS=$folder"
