#!/usr/bin/env bash
# A current ClickHouse on loopback: its real TCP and HTTP handlers, from the npm package of libchdb.
# usage: start.sh RUN_DIR (see ../lib.sh). Users: default (no password), tester and reader (secret; reader is read-only).
# It has no TLS, and a login with a wrong password ends the whole process: test those on clickhouse-18.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
source "$here/../lib.sh"

package=@chdb/lib-linux-x64-gnu
version=26.7.3-stable.1
library=$CACHE_DIR/libchdb-$version/libchdb.so

PORT_NAMES=(tcp http)

fetch() {
  need python3
  [ -e "$library" ] || with_cache_lock fetch_library
}

# The folder gets its name only when it is complete.
fetch_library() {
  [ ! -e "$library" ] || return 0
  need npm
  echo "fetching ClickHouse $version (once, 180 MB)" >&2
  local folder=${library%/*}
  rm -rf "$folder" "$folder.part"
  mkdir -p "$folder.part"
  (
    cd "$folder.part"
    npm pack --loglevel=error "$package@$version" >/dev/null
    tar -xzf ./*.tgz --strip-components=1
    rm -f ./*.tgz
  )
  mv "$folder.part" "$folder"
}

configure() {
  cat >"$RUN_DIR/etc/config.xml" <<CONF
<?xml version="1.0"?>
<clickhouse>
  <logger>
    <log>$RUN_DIR/log/server.log</log>
    <errorlog>$RUN_DIR/log/server.err.log</errorlog>
    <size>50M</size>
    <count>2</count>
  </logger>
  <users_config>$RUN_DIR/etc/users.xml</users_config>
  <timezone>UTC</timezone>
  <max_connections>256</max_connections>
  <max_concurrent_queries>64</max_concurrent_queries>
</clickhouse>
CONF
  cat >"$RUN_DIR/etc/users.xml" <<CONF
<?xml version="1.0"?>
<clickhouse>
  <profiles>
    <default></default>
    <readonly>
      <readonly>1</readonly>
    </readonly>
  </profiles>
  <users>
    <default>
      <password></password>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>default</profile>
      <quota>default</quota>
    </default>
    <tester>
      <password>secret</password>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>default</profile>
      <quota>default</quota>
    </tester>
    <reader>
      <password>secret</password>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>readonly</profile>
      <quota>default</quota>
    </reader>
  </users>
  <quotas>
    <default></default>
  </quotas>
</clickhouse>
CONF
}

command_line() {
  # The library takes its time zone from the environment.
  COMMAND=(env TZ=UTC python3 "$here/serve.py" "$library" "$RUN_DIR/data" "${PORT[tcp]}" "${PORT[http]}" "$RUN_DIR/etc/config.xml")
}

ready() {
  [[ $(http_get "${PORT[http]}" "/?query=SELECT%201") == *$'\n'1* ]] && listening "${PORT[tcp]}"
}

endpoints() {
  echo "CONNECTOR_TEST_CLICKHOUSE_CURRENT_TCP=127.0.0.1:${PORT[tcp]}"
  echo "CONNECTOR_TEST_CLICKHOUSE_CURRENT_HTTP=127.0.0.1:${PORT[http]}"
}

start_service "$@"
