#!/bin/sh
# The tvm target links its libraries with a C++ compiler; exit 2 with one sentence when there is none.
set -eu

for compiler in g++ clang++ c++; do
    if command -v "$compiler" >/dev/null 2>&1; then
        exit 0
    fi
done
echo "no C++ compiler was found (g++, clang++ and c++ are not on the PATH), and the tvm target links its libraries" \
    "with one; install g++, on Debian with 'apt-get install g++'" >&2
exit 2
