#!/bin/sh
# Runs before the files of the package go: prerm of dpkg, preun of rpm. A service would outlive its program and keep
# the port. $1 is `remove` (dpkg) or 0 (rpm) for a removal; before an upgrade the service stays.
case "$1" in
    remove | 0) ;;
    *) exit 0 ;;
esac
# dpkg that works on a root other than its own: the init system here is not that of the root.
[ -z "$DPKG_ROOT" ] || exit 0
command -v systemctl >/dev/null 2>&1 || exit 0
if [ -d /run/systemd/system ]; then
    now=--now
else
    now=
fi
systemctl --quiet disable $now uroce-serve.socket uroce-serve.service || :
# Whatever went wrong, the package can be removed.
exit 0
