#!/bin/sh
# Within an image: installs the packages of the section of runtime-packages.txt that is named, and leaves nothing else behind.
set -eu
section=$1
here=$(dirname "$0")

packages=$(awk -v wanted="# [$section]" '/^# \[/ {inside = ($0 == wanted); next} inside && /^[a-z]/' "$here/runtime-packages.txt")
[ -n "$packages" ] || { echo "install_runtime: no section $section" >&2; exit 2; }
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086  # one argument for each package
apt-get install -y -qq --no-install-recommends $packages > /dev/null
apt-get clean
rm -rf /var/lib/apt/lists/* /var/cache/ldconfig/aux-cache /var/log/apt /var/log/dpkg.log "$here"
