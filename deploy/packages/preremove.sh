#!/bin/sh
# Before the files go. dpkg calls it with "remove" or "upgrade", rpm with 0 at the removal and 1 at an upgrade.
set -e

command -v systemctl >/dev/null || exit 0
case "$1" in
0) systemctl disable gpu_leak_exporter.service ;;
remove) ;; # dpkg may bring it back: what was enabled stays enabled until it is purged
*) exit 0 ;;
esac
[ ! -d /run/systemd/system ] || systemctl stop gpu_leak_exporter.service
