#!/bin/sh
# Print the path of a Python that can run this project; exit 2 with one sentence when there is none.
#
# Plain `python3` may be too old, so the version in .python-version is looked for first: among pyenv's, uv's, and on
# the PATH. Then the other versions that the toolkits have wheels for, and last whatever `python3` is.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)

# The toolchains need 3.12, a virtual environment with pip in it, and a build with the usual lock.
usable() {
    [ -n "$1" ] && command -v "$1" >/dev/null 2>&1 && "$1" -I -c '
import sys, sysconfig
assert sys.version_info >= (3, 12) and not sysconfig.get_config_var("Py_GIL_DISABLED")
import ctypes, ensurepip, ssl, venv
' >/dev/null 2>&1
}

try() {
    if usable "$1"; then
        command -v "$1"
        exit 0
    fi
}

# Its versions of one minor release, newest patch first.
try_pyenv() {
    versions=${PYENV_ROOT:-}
    if [ -z "$versions" ] && command -v pyenv >/dev/null 2>&1; then
        versions=$(pyenv root 2>/dev/null || true)
    fi
    versions=${versions:-${HOME:-/nonexistent}/.pyenv}/versions
    [ -d "$versions" ] || return 0
    for name in "$1" $(cd "$versions" && ls -d "$1".* 2>/dev/null | sort -t . -k 3,3nr); do
        try "$versions/$name/bin/python"
    done
}

try_version() {
    try_pyenv "$1"
    if command -v uv >/dev/null 2>&1; then
        try "$(uv python find --system "$1" 2>/dev/null || true)"
    fi
    try "python$1"
}

wanted=
if [ -f "$root/.python-version" ]; then
    read -r wanted <"$root/.python-version" || true
fi
for version in $wanted 3.12 3.13 3.14; do
    try_version "$version"
done
try python3
try python

others=
[ -z "$wanted" ] || [ "$wanted" = 3.12 ] || others="$wanted, "
echo "no Python 3.12 or newer that can make virtual environments was found (looked for ${others}3.12, 3.13 and" \
    "3.14 in pyenv, uv and on the PATH); install one, for example with 'pyenv install 3.12' or" \
    "'uv python install 3.12'" >&2
exit 2
