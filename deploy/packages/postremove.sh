#!/bin/sh
# After the files have gone. Only dpkg knows "purge", which takes the state, too; after rpm the state stays.
set -e

if [ "$1" = purge ]; then
	rm -rf /var/lib/gpu_leak_exporter
	rm -f /etc/systemd/system/multi-user.target.wants/gpu_leak_exporter.service
fi
case "$1" in
purge | remove | 0) [ ! -d /run/systemd/system ] || systemctl daemon-reload ;;
esac
