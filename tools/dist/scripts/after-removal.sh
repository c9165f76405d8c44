#!/bin/sh
# Runs after the files of the package went: postrm of dpkg, postun of rpm.
case "$1" in
    remove | 0)
        # systemd forgets the units.
        if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ] && command -v systemctl >/dev/null 2>&1; then
            systemctl --quiet daemon-reload || :
        fi
        ;;
    purge)
        # What docs/serve.md lets the administrator write, and the slots of clients (StateDirectory= of a service with
        # DynamicUser=, of which the first is a link to the second).
        rm -f "$DPKG_ROOT/etc/default/uroce-serve"
        rm -rf "$DPKG_ROOT/var/lib/uroce-serve" "$DPKG_ROOT/var/lib/private/uroce-serve"
        ;;
esac
exit 0
