# shellcheck shell=bash
# The checks that need no server; sourced by ./dev. Every check runs, also after one has failed.

ARROW_MAJOR=59
# As in deny.toml.
TARGETS=(aarch64-apple-darwin aarch64-unknown-linux-gnu x86_64-apple-darwin x86_64-pc-windows-msvc x86_64-unknown-linux-gnu)

check() {
  local name started failed=()
  require_packages build check
  for name in formatting lints documentation licences one_arrow_major separate_connectors embedding \
    machine_paths shell_scripts cargo_deny; do
    echo "== ${name//_/ }"
    started=$SECONDS
    if "check_$name"; then
      echo "   ok, $((SECONDS - started)) s"
    else
      echo "   FAILED, $((SECONDS - started)) s"
      failed+=("${name//_/ }")
    fi
  done
  [ ${#failed[@]} = 0 ] || die "failed: $(IFS=, && echo "${failed[*]}")"
}

check_formatting() {
  cargo fmt --all --check
}

check_lints() {
  cargo clippy -q "${LOCKED[@]}" --workspace --all-targets -- -D warnings
}

check_documentation() {
  RUSTDOCFLAGS="-D warnings" cargo doc -q "${LOCKED[@]}" --workspace --no-deps
}

# Lists crates, one a line, over all platforms of the array TARGETS.
tree() {
  cargo tree -q "${LOCKED[@]}" "${TARGETS[@]/#/--target=}" --prefix none "$@"
}

check_licences() {
  tree --workspace --edges normal,build,dev --format '{p}|{l}' | awk -f scripts/licences.awk deny.toml -
}

check_one_arrow_major() {
  local others
  others=$(tree --workspace --edges normal,build,dev --format '{p}' |
    awk -v major="v$ARROW_MAJOR." '$1 ~ /^arrow(-|$)/ && index($2, major) != 1 { print $1, $2 }' | sort -u)
  [ -z "$others" ] || { echo "only Arrow $ARROW_MAJOR may be in the tree: $others" && return 1; }
}

# A program that adds one connector compiles no other system's client, and the core knows none at all.
check_separate_connectors() {
  local kafka='rdkafka|connector-kafka' fluss='fluss|connector-fluss'
  local bytehouse='klickhouse|clickhouse|bytehouse-testkit|connector-bytehouse'
  depends_on_none_of connector-core "$kafka|$bytehouse|$fluss" &&
    depends_on_none_of connector-kafka "$bytehouse|$fluss" &&
    depends_on_none_of connector-bytehouse-common "$kafka|klickhouse|clickhouse|$fluss" &&
    depends_on_none_of connector-bytehouse-cdw "$kafka|klickhouse|clickhouse|$fluss" &&
    depends_on_none_of connector-fluss "$kafka|$bytehouse"
}

depends_on_none_of() {
  local crate=$1 pattern=$2 all found
  all=$(tree -p "$crate" --all-features --edges normal,build --format '{p}') || return 1
  found=$(grep -E "^($pattern)" <<<"$all" | grep -v "^$crate " | sort -u || true)
  [ -z "$found" ] || { echo "$crate must not depend on: $found" && return 1; }
}

# A program outside the workspace adds connector-kafka by its path, and compiles it alone. It has the profile of the
# workspace, so that what is compiled already is not compiled again.
check_embedding() {
  local host status=0
  host=$(mktemp -d) || return 1
  embed "$host" || status=1
  rm -rf "$host"
  return $status
}

embed() {
  local host=$1 all found
  cargo init -q --bin --name embedding-host --vcs none "$host" &&
    cargo add -q --manifest-path "$host/Cargo.toml" --path connector-kafka &&
    echo 'use connector_kafka as _; fn main() {}' >"$host/src/main.rs" &&
    awk '/^\[/ { profile = /^\[profile\.dev/ } profile' Cargo.toml >>"$host/Cargo.toml" &&
    cp Cargo.lock "$host/Cargo.lock" &&
    all=$(cargo tree -q --manifest-path "$host/Cargo.toml" "${TARGETS[@]/#/--target=}" --prefix none --format '{p}') ||
    return 1
  found=$(grep -E '^(connector-bytehouse|bytehouse|connector-fluss|fluss|klickhouse|clickhouse)' <<<"$all" || true)
  [ -z "$found" ] || { echo "a host of connector-kafka compiles: $found" && return 1; }
  cargo check -q --manifest-path "$host/Cargo.toml" --target-dir "$TARGET"
}

check_machine_paths() {
  have git && git rev-parse --git-dir >/dev/null 2>&1 || { echo "skipped: not a git checkout" && return 0; }
  if git grep --untracked -nIE '(^|[^[:alnum:]_.])/(home|root|work|Users)/' -- . ':!Cargo.lock'; then
    echo "paths of one machine do not belong in the repository"
    return 1
  fi
}

check_shell_scripts() {
  local script
  for script in dev .ci/run scripts/*.sh tests/services/*.sh tests/services/*/*.sh tests/drivers/*.sh; do
    bash -n "$script" || return 1
  done
  have shellcheck || { echo "shellcheck is not installed: syntax only" && return 0; }
  # SC2034: the scripts set variables that the ones they source use.
  shellcheck -x -S warning -e SC2034 dev .ci/run scripts/*.sh tests/services/*.sh tests/services/*/*.sh tests/drivers/*.sh
}

check_cargo_deny() {
  have cargo-deny || { echo "skipped: cargo-deny is not installed" && return 0; }
  cargo deny check licenses bans sources
}
