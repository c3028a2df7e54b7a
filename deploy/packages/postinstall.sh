#!/bin/sh
# After the files are there. dpkg calls it with "configure" and the version before, rpm with 1 at the first
# installation and 2 at an upgrade.
set -e

unit=gpu_leak_exporter.service
first=no
case "$1" in
configure) [ -n "$2" ] || first=deb ;;
1) first=rpm ;;
2) ;;
*) exit 0 ;; # dpkg takes back something that failed
esac

# An account that nobody can log in to. It stays when the package goes, so that no other gets its number.
if ! getent passwd gpu_leak_exporter >/dev/null; then
	useradd --system --user-group --no-create-home --home-dir /var/lib/gpu_leak_exporter --shell /usr/sbin/nologin gpu_leak_exporter
fi

command -v systemctl >/dev/null || exit 0
running=no
[ ! -d /run/systemd/system ] || running=yes
[ "$running" = no ] || systemctl daemon-reload
case "$first" in
# A unit that was masked before is to stay as it is: that is no failure of the installation.
deb) systemctl enable "$unit" || echo "$unit is not enabled" >&2 ;;
# What the distribution says of new services; "systemctl enable --now gpu_leak_exporter" starts it.
rpm) systemctl preset "$unit" || echo "$unit is not enabled" >&2 ;;
esac
[ "$running" = yes ] || exit 0
# One that was disabled or stopped stays so.
if [ "$first" = deb ] && systemctl --quiet is-enabled "$unit"; then
	systemctl start "$unit"
else
	systemctl try-restart "$unit"
fi
