#!/usr/bin/env bash
# A schema registry on loopback that answers as Confluent's does: Apicurio Registry, all in memory. usage: start.sh RUN_DIR (see ../lib.sh)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
source "$here/../lib.sh"

# The last one that runs on Java 17.
version=2.6.13.Final
app=$CACHE_DIR/apicurio-registry-$version
PORT_NAMES=(http)

fetch() {
  need java
  [ -d "$app" ] || with_cache_lock fetch_app
}

# The folder gets its name only when it is complete.
fetch_app() {
  [ ! -d "$app" ] || return 0
  need mvn tar
  echo "fetching Apicurio Registry $version (once)" >&2
  rm -rf "$app.part"
  mkdir -p "$app.part"
  mvn -q -B dependency:copy -Dartifact="io.apicurio:apicurio-registry-app:$version:tar.gz:all" \
    -DoutputDirectory="$app.part" >&2
  tar -xzf "$app.part"/*.tar.gz -C "$app.part"
  rm "$app.part"/*.tar.gz
  mv "$app.part" "$app"
}

configure() { :; }

command_line() {
  COMMAND=(java -Xms32m -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.awt.headless=true
    -Dquarkus.http.host=127.0.0.1 -Dquarkus.http.port="${PORT[http]}"
    -jar "$app/apicurio-registry-app-$version-runner.jar")
}

ready() {
  http_get "${PORT[http]}" /apis/ccompat/v7/subjects | grep -q "200 OK"
}

endpoints() {
  echo "CONNECTOR_TEST_SCHEMA_REGISTRY=http://127.0.0.1:${PORT[http]}/apis/ccompat/v7"
}

start_service "$@"
