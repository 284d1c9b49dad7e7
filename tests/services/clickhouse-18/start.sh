#!/usr/bin/env bash
# ClickHouse 18.16 (Debian's clickhouse-server) on loopback: the old dialect, TLS and logins.
# usage: start.sh RUN_DIR (see ../lib.sh). Users: default (no password), tester and reader (secret; reader is read-only).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

PATH=$PATH:/usr/sbin
PORT_NAMES=(tcp http tcps https interserver)

fetch() {
  need clickhouse-server openssl
}

configure() {
  mkdir -p "$RUN_DIR"/{tmp,user_files,format_schemas}
  make_certificate
  cat >"$RUN_DIR/etc/config.xml" <<CONF
<?xml version="1.0"?>
<yandex>
  <logger>
    <level>information</level>
    <log>$RUN_DIR/log/server.log</log>
    <errorlog>$RUN_DIR/log/server.err.log</errorlog>
    <size>50M</size>
    <count>2</count>
  </logger>

  <listen_host>127.0.0.1</listen_host>
  <tcp_port>${PORT[tcp]}</tcp_port>
  <http_port>${PORT[http]}</http_port>
  <tcp_port_secure>${PORT[tcps]}</tcp_port_secure>
  <https_port>${PORT[https]}</https_port>
  <interserver_http_port>${PORT[interserver]}</interserver_http_port>
  <interserver_http_host>127.0.0.1</interserver_http_host>
  <openSSL>
    <server>
      <certificateFile>$RUN_DIR/etc/server.crt</certificateFile>
      <privateKeyFile>$RUN_DIR/etc/server.key</privateKeyFile>
      <verificationMode>none</verificationMode>
      <loadDefaultCAFile>false</loadDefaultCAFile>
      <cacheSessions>true</cacheSessions>
      <disableProtocols>sslv2,sslv3</disableProtocols>
      <preferServerCiphers>true</preferServerCiphers>
    </server>
  </openSSL>

  <path>$RUN_DIR/data/</path>
  <tmp_path>$RUN_DIR/tmp/</tmp_path>
  <user_files_path>$RUN_DIR/user_files/</user_files_path>
  <format_schema_path>$RUN_DIR/format_schemas/</format_schema_path>
  <users_config>users.xml</users_config>
  <default_profile>default</default_profile>
  <default_database>default</default_database>
  <timezone>UTC</timezone>

  <max_connections>256</max_connections>
  <max_concurrent_queries>64</max_concurrent_queries>
  <keep_alive_timeout>30</keep_alive_timeout>
  <uncompressed_cache_size>67108864</uncompressed_cache_size>
  <mark_cache_size>67108864</mark_cache_size>
  <mlock_executable>false</mlock_executable>
  <remote_servers></remote_servers>
  <query_log>
    <database>system</database>
    <table>query_log</table>
    <flush_interval_milliseconds>500</flush_interval_milliseconds>
  </query_log>
</yandex>
CONF
  cat >"$RUN_DIR/etc/users.xml" <<CONF
<?xml version="1.0"?>
<yandex>
  <profiles>
    <default>
      <max_memory_usage>4000000000</max_memory_usage>
      <max_threads>2</max_threads>
      <log_queries>1</log_queries>
      <allow_experimental_low_cardinality_type>1</allow_experimental_low_cardinality_type>
    </default>
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
    <default>
      <interval>
        <duration>3600</duration>
        <queries>0</queries>
        <errors>0</errors>
        <result_rows>0</result_rows>
        <read_rows>0</read_rows>
        <execution_time>0</execution_time>
      </interval>
    </default>
  </quotas>
</yandex>
CONF
}

command_line() {
  COMMAND=(clickhouse-server --config-file="$RUN_DIR/etc/config.xml")
}

ready() {
  [[ $(http_get "${PORT[http]}" /ping) == *Ok.* ]] && listening "${PORT[tcp]}" && listening "${PORT[tcps]}"
}

endpoints() {
  echo "CONNECTOR_TEST_CLICKHOUSE_18_TCP=127.0.0.1:${PORT[tcp]}"
  echo "CONNECTOR_TEST_CLICKHOUSE_18_HTTP=127.0.0.1:${PORT[http]}"
  echo "CONNECTOR_TEST_CLICKHOUSE_18_TCPS=127.0.0.1:${PORT[tcps]}"
  echo "CONNECTOR_TEST_CLICKHOUSE_18_HTTPS=127.0.0.1:${PORT[https]}"
  echo "CONNECTOR_TEST_CLICKHOUSE_18_CERTIFICATE=$RUN_DIR/etc/server.crt"
}

start_service "$@"
