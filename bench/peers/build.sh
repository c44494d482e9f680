#!/usr/bin/env bash
# Builds the brokers that `srtm bench compare` measures beside SRTM into build/bin, from package registries only.
# mosquitto comes from Debian; it is installed when it is missing and this runs as root, else it is left out.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
bin="$(cd "$here/../.." && pwd)/build/bin"
mkdir -p "$bin"

cd "$here"
go build -trimpath -o "$bin/nsqd" github.com/nsqio/nsq/apps/nsqd
go build -trimpath -o "$bin/nats-server" github.com/nats-io/nats-server/v2

if [ ! -x /usr/sbin/mosquitto ] && ! command -v mosquitto >/dev/null; then
  if [ "$(id -u)" = 0 ]; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mosquitto
  else
    echo "mosquitto is not installed and this is not root: the comparison will leave it out" >&2
  fi
fi
ls -l "$bin"
