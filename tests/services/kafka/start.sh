#!/usr/bin/env bash
# Kafka (KRaft, each node is broker and controller) on loopback, one node or several. usage: start.sh RUN_DIR (see ../lib.sh)
# Listeners: plain text; TLS; TLS that wants the client's certificate; SASL (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 as user
# tester with the password secret; OAUTHBEARER with tokens that nobody signed) in plain text and over TLS.
# CONNECTOR_KAFKA_BROKERS=N makes a new cluster one of N nodes (default 1), at most 3. Those beside the first have the plain
# listener only. etc/broker-N.pid holds the process of a node; SIGUSR1 to the process of the cluster (the file pid) starts
# again what does not run.
# CONNECTOR_KAFKA_AUTHORIZER=1 makes a new cluster one that has an authorizer: who comes without a login may do everything,
# and users only what they were given the right to.
# CONNECTOR_KAFKA_PROXY=HOST:PORT adds a listener that clients are told to reach at that address: a proxy in front.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
source "$here/../lib.sh"

version=$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$here/pom.xml")
jars=$CACHE_DIR/kafka-$version
archive=$CACHE_DIR/kafka-$version.jsa
# Apart from the broker's jars: the class-data archive holds for those alone.
tools=$CACHE_DIR/kafka-tools-$version
java_options=(-Xms64m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -Djava.awt.headless=true
  -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -Dorg.slf4j.simpleLogger.log.kafka.server=info
  -Dorg.slf4j.simpleLogger.showDateTime=true)
MOST_BROKERS=3

PORT_NAMES=(plain_1 controller_1 tls mutual sasl sasltls proxied)
for ((n = 2; n <= MOST_BROKERS; n++)); do PORT_NAMES+=("plain_$n" "controller_$n"); done

fetch() {
  need java openssl
  [ -d "$jars" ] || with_cache_lock fetch_jars
  [ -d "$tools" ] || with_cache_lock fetch_tools
}

# The folder gets its name only when it is complete.
fetch_jars() {
  [ ! -d "$jars" ] || return 0
  need mvn
  echo "fetching Kafka $version (once)" >&2
  rm -rf "$jars.part"
  mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
    -DoutputDirectory="$jars.part" >&2
  mv "$jars.part" "$jars"
}

# The console consumer and producer.
fetch_tools() {
  [ ! -d "$tools" ] || return 0
  need mvn
  rm -rf "$tools.part"
  mvn -q -B dependency:copy -Dartifact="org.apache.kafka:kafka-tools:$version" -DoutputDirectory="$tools.part" >&2
  mv "$tools.part" "$tools"
}

configure() {
  local n proxy=${CONNECTOR_KAFKA_PROXY:-}
  make_certificate
  make_certificate client
  cat "$RUN_DIR/etc/server.key" "$RUN_DIR/etc/server.crt" >"$RUN_DIR/etc/server.pem"
  [ -s "$RUN_DIR/etc/brokers" ] || echo "${CONNECTOR_KAFKA_BROKERS:-1}" >"$RUN_DIR/etc/brokers"
  BROKERS=$(cat "$RUN_DIR/etc/brokers")
  if [ "$BROKERS" -lt 1 ] || [ "$BROKERS" -gt $MOST_BROKERS ]; then fail "CONNECTOR_KAFKA_BROKERS must be 1..$MOST_BROKERS"; fi
  [ "$BROKERS" = 1 ] || need python3
  [ -z "$proxy" ] || echo "$proxy" >"$RUN_DIR/etc/proxy"
  [ -z "${CONNECTOR_KAFKA_AUTHORIZER:-}" ] || : >"$RUN_DIR/etc/authorizer"
  for ((n = 1; n <= BROKERS; n++)); do
    broker_conf "$n" >"$RUN_DIR/etc/broker-$n.properties"
  done
  [ -e "$RUN_DIR/data/broker-$BROKERS/meta.properties" ] || format_data
}

# The configuration of a node: broker_conf N
broker_conf() {
  local host=127.0.0.1 n in_sync=$(((BROKERS + 1) / 2)) listeners advertised protocols proxy voters=""
  for ((n = 1; n <= BROKERS; n++)); do voters+=${voters:+,}$n@$host:${PORT[controller_$n]}; done
  proxy=$(cat "$RUN_DIR/etc/proxy" 2>/dev/null || true)
  listeners="PLAIN://$host:${PORT[plain_$1]}"
  advertised=$listeners
  protocols="PLAIN:PLAINTEXT,TLS:SSL,MUTUAL:SSL,SASL:SASL_PLAINTEXT,SASLTLS:SASL_SSL,CONTROLLER:PLAINTEXT"
  if [ "$1" = 1 ]; then
    listeners+=",TLS://$host:${PORT[tls]},MUTUAL://$host:${PORT[mutual]}"
    listeners+=",SASL://$host:${PORT[sasl]},SASLTLS://$host:${PORT[sasltls]}"
    advertised=$listeners
  fi
  if [ "$1" = 1 ] && [ -n "$proxy" ]; then
    listeners+=",PROXIED://$host:${PORT[proxied]}"
    advertised+=",PROXIED://$proxy"
    protocols+=",PROXIED:PLAINTEXT"
  fi
  cat <<CONF
process.roles=broker,controller
node.id=$1
controller.quorum.voters=$voters
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAIN
listeners=$listeners,CONTROLLER://$host:${PORT[controller_$1]}
advertised.listeners=$advertised
listener.security.protocol.map=$protocols
log.dirs=$RUN_DIR/data/broker-$1

# TLS and logins
ssl.keystore.type=PEM
ssl.keystore.location=$RUN_DIR/etc/server.pem
listener.name.mutual.ssl.client.auth=required
listener.name.mutual.ssl.truststore.type=PEM
listener.name.mutual.ssl.truststore.location=$RUN_DIR/etc/client.crt
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
$(for listener in sasl sasltls; do logins $listener; done)
$(if [ -e "$RUN_DIR/etc/authorizer" ]; then authorizer; fi)

# Internal topics have a replica on every node
offsets.topic.num.partitions=4
offsets.topic.replication.factor=$BROKERS
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=$BROKERS
transaction.state.log.min.isr=$in_sync
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=$BROKERS
share.coordinator.state.topic.min.isr=$in_sync

# Small and quick: groups form at once, the log cleaner looks often, a misspelled topic is an error
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
num.network.threads=2
num.io.threads=2
num.recovery.threads.per.data.dir=1
log.cleaner.dedupe.buffer.size=8388608
log.cleaner.backoff.ms=500

# A node that was killed is let in again once its old session has ended
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=1000
CONF
}

authorizer() {
  echo "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
  echo "super.users=User:ANONYMOUS"
}

# The logins of a listener.
logins() {
  local package=org.apache.kafka.common.security
  echo "listener.name.$1.plain.sasl.jaas.config=$package.plain.PlainLoginModule required user_tester=\"secret\";"
  echo "listener.name.$1.scram-sha-256.sasl.jaas.config=$package.scram.ScramLoginModule required;"
  echo "listener.name.$1.scram-sha-512.sasl.jaas.config=$package.scram.ScramLoginModule required;"
  echo "listener.name.$1.oauthbearer.sasl.jaas.config=$package.oauthbearer.OAuthBearerLoginModule required" \
    "unsecuredLoginStringClaim_sub=\"broker\";"
}

format_data() {
  local n cluster first=$RUN_DIR/data/broker-1
  rm -rf "$first"
  cluster=$(head -c 16 /dev/urandom | base64 | tr '+/' 'Aa' | cut -c1-22)
  java "${java_options[@]}" -cp "$jars/*" kafka.tools.StorageTool format \
    --cluster-id "$cluster" --config "$RUN_DIR/etc/broker-1.properties" \
    --add-scram 'SCRAM-SHA-256=[name=tester,password=secret]' \
    --add-scram 'SCRAM-SHA-512=[name=tester,password=secret]' >"$RUN_DIR/log/format.log" 2>&1 ||
    fail "could not format $first, see $RUN_DIR/log/format.log"
  # Seconds quicker than the tool. Each node makes up the id of its folder.
  for ((n = 2; n <= BROKERS; n++)); do
    rm -rf "$RUN_DIR/data/broker-$n"
    cp -r "$first" "$RUN_DIR/data/broker-$n"
    sed "/^directory.id=/d; s/^node.id=.*/node.id=$n/" "$first/meta.properties" >"$RUN_DIR/data/broker-$n/meta.properties"
  done
}

# A class-data archive halves the start of the JVM. The first instance of one node that stops in good order leaves one (stop.sh).
command_line() {
  local classes=-Xshare:auto
  if [ -e "$archive" ]; then classes=-XX:SharedArchiveFile=$archive
  elif [ "$BROKERS" = 1 ]; then classes=-XX:ArchiveClassesAtExit=$RUN_DIR/kafka.jsa; fi
  COMMAND=(java "${java_options[@]}" "$classes" -cp "$jars/*")
  if [ "$BROKERS" = 1 ]; then
    COMMAND+=(kafka.Kafka "$RUN_DIR/etc/broker-1.properties")
  else
    COMMAND=(python3 "$here/cluster.py" "$RUN_DIR" "$BROKERS" "${COMMAND[@]}" -Xmx256m kafka.Kafka "$RUN_DIR/etc/broker-{N}.properties")
  fi
  rm -f "$RUN_DIR"/log/broker-*.log
  : >"$RUN_DIR/log/output.log"
}

ready() {
  local n log
  for ((n = 1; n <= BROKERS; n++)); do
    log=$RUN_DIR/log/broker-$n.log
    [ "$BROKERS" != 1 ] || log=$RUN_DIR/log/output.log
    grep -q "Kafka Server started" "$log" 2>/dev/null && listening "${PORT[plain_$n]}" || return 1
  done
}

endpoints() {
  local n all=""
  for ((n = 1; n <= BROKERS; n++)); do all+=${all:+,}127.0.0.1:${PORT[plain_$n]}; done
  echo "CONNECTOR_TEST_KAFKA_BOOTSTRAP=$all"
  echo "CONNECTOR_TEST_KAFKA_TLS_BOOTSTRAP=127.0.0.1:${PORT[tls]}"
  echo "CONNECTOR_TEST_KAFKA_SASL_BOOTSTRAP=127.0.0.1:${PORT[sasl]}"
  echo "CONNECTOR_TEST_KAFKA_MUTUAL_BOOTSTRAP=127.0.0.1:${PORT[mutual]}"
  echo "CONNECTOR_TEST_KAFKA_SASL_TLS_BOOTSTRAP=127.0.0.1:${PORT[sasltls]}"
  echo "CONNECTOR_TEST_KAFKA_CERTIFICATE=$RUN_DIR/etc/server.crt"
  echo "CONNECTOR_TEST_KAFKA_CLIENT_CERTIFICATE=$RUN_DIR/etc/client.crt"
  echo "CONNECTOR_TEST_KAFKA_CLIENT_KEY=$RUN_DIR/etc/client.key"
  echo "CONNECTOR_TEST_KAFKA_TOOLS=$jars/*:$tools/*"
  [ ! -e "$RUN_DIR/etc/proxy" ] || echo "CONNECTOR_TEST_KAFKA_PROXIED=127.0.0.1:${PORT[proxied]}"
}

start_service "$@"
