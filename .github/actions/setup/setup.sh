#!/bin/bash
# Installs uroce on a runner and has the steps that follow load it.
set -euo pipefail

root=()
if [ "$(id -u)" != 0 ]; then root=(sudo); fi

deb=$PACKAGE
if [ -z "$deb" ]; then
  deb=$(mktemp -d)/uroce_${VERSION}_$(dpkg --print-architecture).deb
  curl --fail --silent --show-error --location --output "$deb" "$RELEASES/v$VERSION/$(basename "$deb")"
fi

"${root[@]}" apt-get update -qq
# The list of programs is one of words.
# shellcheck disable=SC2086
"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$(realpath "$deb")" $PROGRAMS

if [ "$PRELOAD" = true ]; then
  # What `uroce run` would tell each program.
  uroce run -- env | grep -E '^(LD_PRELOAD|UROCE_[A-Z_]+)=' >>"$GITHUB_ENV"
fi
uroce run -- ibv_devinfo
