#!/bin/sh
# Makes the virtual environment .venv from pyproject.toml, and makes it anew or brings it up to date when
# pyproject.toml, the Python or the choice of PyTorch has changed.
#   PYTHON  the Python to use, 3.11 or later (default: the distribution's)
#   TORCH   what pip is asked for first (default below). Machines that train on the processor want the
#           CPU build: it is 0.2 GB, and the ordinary one brings 3 GB of CUDA libraries. pip finds the CPU
#           build by itself when PIP_EXTRA_INDEX_URL names PyTorch's CPU index, or PIP_FIND_LINKS a folder
#           that holds its wheel. TORCH may also be the path of a wheel.
# Exit codes: 0 ready; 1 the installation failed; 2 no suitable Python (the message says what to do).
set -eu
step=environment
. "$(dirname "$0")/steps.sh"
cd "$(dirname "$0")/../.."

PYTHON=${PYTHON:-/usr/bin/python3}
TORCH=${TORCH:-torch==2.13.0}
VENV=.venv
STAMP=$VENV/wan-testbed.key

check_python() {
    version=$("$PYTHON" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) ||
        fail 2 "no Python at '$PYTHON'" "Name one of version 3.11 or later: make setup PYTHON=python3.12"
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail 2 "'$PYTHON' is Python $version, 3.11 or later is needed" \
            "Name another one: make setup PYTHON=python3.12"
}

# The folder belongs to the key because the scripts of an environment hold absolute paths.
make_key() {
    base="$PYTHON $version $(pwd)"
    key=$( (printf '%s\n' "$base" "$TORCH"; cat pyproject.toml) | sha256sum | cut -c 1-16)
}

create() {
    note "creating $VENV with Python $version"
    rm -rf "$VENV"
    if ! quietly "$PYTHON" -m venv "$VENV"; then
        show_log
        rm -rf "$VENV"
        fail 1 "'$PYTHON' cannot make virtual environments" \
            "The distribution's needs python3-venv (make setup installs it); another one must have venv and pip."
    fi
    printf '%s\n' "$base" >"$VENV/wan-testbed.base"
}

pip_install() {
    quietly "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
}

# A version alone does not say which build is meant: the CPU build is asked for by its full name first.
install_torch() {
    note "installing $TORCH"
    case $TORCH in
        torch==*+*) ;;
        torch==*) ! pip_install "$TORCH+cpu" || return 0
            note "no CPU build on offer: the ordinary one may bring 3 GB of CUDA libraries"
            note "(PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS can offer it, see testbed/setup/environment.sh)" ;;
    esac
    pip_install "$TORCH" || pip_failed "$TORCH"
}

pip_failed() {
    show_log
    fail 1 "pip could not install $1" "What pip said stands above. Without a network, PIP_FIND_LINKS may name a" \
        "folder of wheels; another PyTorch is chosen by TORCH='torch==2.x.y'. Then start again."
}

check_python
make_key
if [ "$(cat "$STAMP" 2>/dev/null)" = "$key" ] && [ -x "$VENV/bin/testbed" ]; then
    say "up to date"
    exit 0
fi
rm -f "$STAMP"    # so that an interrupted installation is not taken for a finished one
[ "$(cat "$VENV/wan-testbed.base" 2>/dev/null)" = "$base" ] || create
install_torch
note "installing the project and its libraries"
pip_install -e '.[test]' || pip_failed "the libraries in pyproject.toml"
printf '%s\n' "$key" >"$STAMP"
say installed
