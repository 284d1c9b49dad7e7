#!/usr/bin/env bash
# A Fluss cluster on loopback: ZooKeeper, a coordinator and tablet servers. usage: start.sh RUN_DIR (see ../lib.sh)
# Listeners: plain text without a login, and SASL/PLAIN (user tester, password secret).
# CONNECTOR_FLUSS_TABLETS=N makes a new cluster one of N tablet servers (default 1) with as many replicas, at most 3.
# etc/tablet-N.pid holds the process of a tablet server; SIGUSR1 to the process of the cluster (the file pid) starts
# again what does not run.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
source "$here/../lib.sh"

version=$(sed -n 's:.*<fluss.version>\(.*\)</fluss.version>.*:\1:p' "$here/pom.xml")
jars=$CACHE_DIR/fluss-$version
MOST_TABLETS=3

PORT_NAMES=(zookeeper coordinator coordinator_sasl coordinator_internal)
for ((n = 0; n < MOST_TABLETS; n++)); do PORT_NAMES+=("tablet_$n" "tablet_sasl_$n" "tablet_internal_$n"); done

fetch() {
  need java python3
  [ -d "$jars" ] || with_cache_lock fetch_jars
}

# The folder gets its name only when it is complete.
fetch_jars() {
  [ ! -d "$jars" ] || return 0
  need mvn
  echo "fetching Fluss $version (once, 155 MB)" >&2
  rm -rf "$jars.part"
  mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
    -DoutputDirectory="$jars.part" >&2
  mv "$jars.part" "$jars"
}

# What coordinator and tablet servers have in common: server_conf PLAIN_PORT SASL_PORT INTERNAL_PORT
server_conf() {
  local host=127.0.0.1
  cat <<CONF
zookeeper.address: $host:${PORT[zookeeper]}
zookeeper.path.root: /fluss
internal.listener.name: INTERNAL
bind.listeners: INTERNAL://$host:$3,PLAIN://$host:$1,SECURE://$host:$2
security.protocol.map: SECURE:sasl
security.sasl.enabled.mechanisms: PLAIN
security.sasl.plain.jaas.config: org.apache.fluss.security.auth.sasl.plain.PlainLoginModule required user_tester="secret";
default.bucket.number: 1
default.replication.factor: $TABLETS
# Clients read it as it stands, and fluss-rs knows no "file:" in front.
remote.data.dir: $RUN_DIR/data/remote
auto-partition.check.interval: 1s
# Small and quick
log.segment.preallocate: false
log.segment.file-size: 1mb
remote.log.task-interval-duration: 2s
netty.server.num-network-threads: 1
netty.server.num-worker-threads: 4
kv.rocksdb.block.cache-size: 8mb
kv.rocksdb.writebuffer.size: 8mb
CONF
}

configure() {
  local n
  [ -s "$RUN_DIR/etc/tablets" ] || echo "${CONNECTOR_FLUSS_TABLETS:-1}" >"$RUN_DIR/etc/tablets"
  TABLETS=$(cat "$RUN_DIR/etc/tablets")
  if [ "$TABLETS" -lt 1 ] || [ "$TABLETS" -gt $MOST_TABLETS ]; then fail "CONNECTOR_FLUSS_TABLETS must be 1..$MOST_TABLETS"; fi
  mkdir -p "$RUN_DIR"/data/{zookeeper,remote} "$RUN_DIR/etc/coordinator"
  cat >"$RUN_DIR/etc/zoo.cfg" <<CONF
dataDir=$RUN_DIR/data/zookeeper
clientPort=${PORT[zookeeper]}
clientPortAddress=127.0.0.1
maxClientCnxns=0
admin.enableServer=false
tickTime=1000
CONF
  server_conf "${PORT[coordinator]}" "${PORT[coordinator_sasl]}" "${PORT[coordinator_internal]}" \
    >"$RUN_DIR/etc/coordinator/server.yaml"
  for ((n = 0; n < TABLETS; n++)); do
    mkdir -p "$RUN_DIR/etc/tablet-$n"
    {
      server_conf "${PORT[tablet_$n]}" "${PORT[tablet_sasl_$n]}" "${PORT[tablet_internal_$n]}"
      echo "tablet-server.id: $n"
      echo "data.dir: $RUN_DIR/data/tablet-$n"
    } >"$RUN_DIR/etc/tablet-$n/server.yaml"
  done
}

command_line() {
  COMMAND=(python3 "$here/cluster.py" "$jars" "$RUN_DIR" "${PORT[zookeeper]}" "$TABLETS")
  rm -f "$RUN_DIR"/log/{output,zookeeper,coordinator,tablet-*}.log
}

# The coordinator deals buckets out only to tablet servers that it has heard of.
ready() {
  local n log=$RUN_DIR/log
  grep -q "Load tablet servers success" "$log/coordinator.log" 2>/dev/null && listening "${PORT[coordinator]}" || return 1
  for ((n = 0; n < TABLETS; n++)); do
    grep -q "Registered tablet server $n at path" "$log/tablet-$n.log" 2>/dev/null && listening "${PORT[tablet_$n]}" || return 1
  done
}

endpoints() {
  echo "CONNECTOR_TEST_FLUSS_BOOTSTRAP=127.0.0.1:${PORT[coordinator]}"
  echo "CONNECTOR_TEST_FLUSS_SASL_BOOTSTRAP=127.0.0.1:${PORT[coordinator_sasl]}"
  echo "CONNECTOR_TEST_FLUSS_JARS=$jars"
}

start_service "$@"
