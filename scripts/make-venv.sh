#!/bin/sh
# Make .venv, or bring it up to date: this project as it lies here, the core toolkits and the tools for its tests.
# What is installed already at the right version is kept.
set -eu

cd -- "$(dirname -- "$0")/.."
python=.venv/bin/python

# An environment that was moved, or whose Python is gone, is made anew.
if ! "$python" -I -c 'import os, sys; assert sys.version_info >= (3, 12) and os.path.samefile(sys.prefix, ".venv")' \
    2>/dev/null || [ "$(cat .venv/place 2>/dev/null)" != "$(pwd -P)" ]; then
    base=$(sh scripts/find-python.sh)
    echo "making .venv with $base"
    "$base" -I -m venv --clear .venv
    pwd -P >.venv/place
fi

echo "installing into .venv; the first time takes some minutes and 7 GB of disk"
bar=off
[ ! -t 1 ] || bar=on
"$python" -I -m pip install --disable-pip-version-check --no-input --progress-bar "$bar" \
    --constraint convert/constraints/core.txt --constraint convert/constraints/dev.txt --editable '.[core,dev]'
