# shellcheck shell=bash
# Finds out which system packages a command lacks and installs them; sourced by ./dev.
# Names are Debian's. Where apt may not be used, the one line to run is printed instead.

have() {
  command -v "$1" >/dev/null 2>&1
}

has_library() {
  have pkg-config && pkg-config --exists "$1"
}

has_java() {
  local version
  version=$(java -version 2>&1 | sed -n '1s/.*version "\([0-9]*\).*/\1/p') || return 1
  [ "${version:-0}" -ge 17 ]
}

has_clickhouse_server() {
  PATH=$PATH:/usr/sbin have clickhouse-server
}

has_python_headers() {
  [ -e "$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null)/Python.h" ]
}

# Prints the packages that are missing for one purpose: build, services.
missing_packages() {
  case $1 in
    build)
      have cc && have c++ || echo g++
      have make || echo make
      have pkg-config || echo pkg-config
      has_library openssl || echo libssl-dev
      has_library zlib || echo zlib1g-dev
      ;;
    check)
      have git || echo git
      ;;
    services)
      has_java || echo default-jre-headless
      have mvn || echo maven
      have npm || echo npm
      have python3 || echo python3
      python3 -m pip --version >/dev/null 2>&1 || echo python3-pip
      has_python_headers || echo python3-dev
      have openssl || echo openssl
      has_clickhouse_server || echo clickhouse-server
      have clickhouse-client || echo clickhouse-client
      have kcat || echo kcat
      ;;
  esac
}

require_packages() {
  local purpose missing=()
  for purpose in "$@"; do
    mapfile -t -O "${#missing[@]}" missing < <(missing_packages "$purpose")
  done
  if [ ${#missing[@]} -gt 0 ]; then install_packages "${missing[@]}"; fi
}

require_rust() {
  have cargo || die "cargo is missing: install Rust ${1:-} or newer, for example from https://rustup.rs"
}

# Packages start no service while they are installed, and none at the next boot: ./dev runs its own instances.
install_packages() {
  local root=()
  have apt-get || die "this system lacks: $* (Debian's names); please install them"
  if [ "$(id -u)" != 0 ]; then
    have sudo && sudo -n true 2>/dev/null ||
      die "system packages are missing, please run: sudo apt-get install --no-install-recommends $*"
    root=(sudo -n)
  fi
  echo "installing system packages: $*" >&2
  # shellcheck disable=SC2016
  "${root[@]}" sh -euc '
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
      trap "rm -f $policy" EXIT
      trap "exit 1" INT TERM
      printf "#!/bin/sh\nexit 101\n" >$policy
      chmod 755 $policy
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "$@" >/dev/null
    for package; do
      if [ "$package" = clickhouse-server ]; then update-rc.d clickhouse-server disable || true; fi
    done' sh "$@" </dev/null >&2
}
