#!/bin/sh
# Tests of devices behind ssh talk to a server of their own; in CI, as root on Debian, it is installed where it is missing.
set -eu

if { command -v sshd >/dev/null 2>&1 || [ -x /usr/sbin/sshd ]; } && command -v ssh >/dev/null 2>&1; then
    exit 0
fi
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    apt-get -qq update
    exec apt-get -qq install -y --no-install-recommends openssh-server openssh-client
fi
echo "OpenSSH is missing, and tests of devices behind ssh need its server and client; install them, on Debian with" \
    "'apt-get install openssh-server openssh-client'" >&2
exit 2
