#!/bin/sh
# Installs what is missing to run and test Headgate here: HAProxy, iptables, iproute2, conntrack and a few command-line tools from the system's
# packages (Debian and its kin, as root), and the npm packages of the lock file. Says what it does, asks nothing, may run again at any time.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }

# Commands that are needed, each with the Debian package that carries it.
tools='haproxy:haproxy iptables:iptables ip:iproute2 conntrack:conntrack openssl:openssl curl:curl setpriv:util-linux'

PATH="$PATH:/usr/sbin:/sbin"
missing_packages=
for tool in $tools; do
  command -v "${tool%%:*}" >/dev/null 2>&1 || missing_packages="$missing_packages ${tool##*:}"
done

# Debian starts a service as soon as its package is installed; policy-rc.d is its way to say no.
install_packages() {
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT INT TERM
  fi
  apt-get update -qq
  # shellcheck disable=SC2086 -- a list of words
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing_packages >/dev/null
  case " $missing_packages " in
    *' haproxy '*) if command -v systemctl >/dev/null 2>&1; then systemctl disable haproxy >/dev/null 2>&1 || true; fi ;;
  esac
}

if [ -n "$missing_packages" ]; then
  if ! command -v apt-get >/dev/null 2>&1; then
    say "missing:$missing_packages; there is no apt-get here, install them with this system's own tool"
  elif [ "$(id -u)" -ne 0 ]; then
    say "missing:$missing_packages; not root, so they are not installed. As root: apt-get install$missing_packages"
  else
    say "installing$missing_packages"
    install_packages
  fi
fi

if ! command -v node >/dev/null 2>&1 || [ "$(node -p 'Number(process.versions.node.split(".")[0]) >= 20')" != true ]; then
  say 'Node.js 20 or newer is needed'
  exit 1
fi

if [ ! -e node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
  say 'installing npm packages (npm ci)'
  npm ci --no-audit --no-fund --loglevel=error
  touch node_modules/.package-lock.json
fi
