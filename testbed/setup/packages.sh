#!/bin/sh
# Installs the distribution's packages that are missing. The only step that may need root, and only then.
# Exit codes: 0 all there; 1 the installation failed; 2 not possible here (the message says what to do).
set -eu
step=packages
. "$(dirname "$0")/steps.sh"

# the network: Mininet, its bridge and switch, and the tools it calls
PACKAGES="mininet iproute2 iputils-ping bridge-utils ethtool openvswitch-switch"
# the data that the experiments train on
PACKAGES="$PACKAGES dataset-fashion-mnist"
# the kernel's source and what builds it; bzip2 because Ubuntu packs the source with it
PACKAGES="$PACKAGES linux-source gcc libc6-dev make flex bison bc xz-utils bzip2 patch"
# the virtual environment
PACKAGES="$PACKAGES python3-venv"

POLICY=/usr/sbin/policy-rc.d

find_missing() {
    # ${...} is dpkg-query's own syntax
    # shellcheck disable=SC2016,SC2086
    installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' $PACKAGES 2>/dev/null || true)
    missing=
    for package in $PACKAGES; do
        printf '%s\n' "$installed" | grep -qx "$package installed" || missing="$missing $package"
    done
    missing=${missing# }
}

# Sets `root` to what goes before a command that needs root.
find_root() {
    root=
    [ "$(id -u)" -ne 0 ] || return 0
    if command -v sudo >/dev/null 2>&1; then
        root=sudo
    else
        fail 2 "not installed: $missing" "Installing them needs root, and there is no sudo. As root, run" \
            "    apt-get update && apt-get install -y --no-install-recommends $missing" "and start again."
    fi
}

# Without systemd, Open vSwitch's installation starts its daemons by hand and fails where the machine's
# kernel has no openvswitch module. The experiments start their own, so nothing is lost by not starting.
hold_services() {
    [ ! -d /run/systemd/system ] && [ ! -e "$POLICY" ] || return 0
    trap '$root rm -f "$POLICY"; stop_ticker; rm -f "$log"' EXIT
    # shellcheck disable=SC2016
    $root sh -c 'printf "#!/bin/sh\nexit 101\n" >"$1" && chmod 755 "$1"' sh "$POLICY"
}

# The lock is waited for because a fresh machine often updates itself in its first minutes.
apt_get() {
    # shellcheck disable=SC2086
    quietly $root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
        apt-get -q -y -o DPkg::Lock::Timeout=300 "$@"
}

if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
    fail 2 "this is neither Debian nor Ubuntu" "The set-up knows Debian 12 and Ubuntu 24.04." \
        "Elsewhere, run the project in a container of one of them."
fi
find_missing
if [ -z "$missing" ]; then
    say "up to date"
    exit 0
fi
find_root
note "installing $missing"
hold_services
# One broken list must not stop what the others can give: whether it matters, the installation tells.
apt_get update || note "apt-get update failed, going on with the lists that are there"
# shellcheck disable=SC2086
if ! apt_get install --no-install-recommends $missing; then
    show_log
    fail 1 "apt-get could not install: $missing" \
        "What apt-get said stands above. A package it cannot locate is on Ubuntu often in 'universe':" \
        "    sudo add-apt-repository universe" "Then start again."
fi
find_missing
[ -z "$missing" ] || fail 1 "still not installed: $missing" "apt-get said nothing. Try: apt-get install $missing"
say installed
