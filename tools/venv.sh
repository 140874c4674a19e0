#!/bin/sh
# Builds an environment of this checkout from a hash-pinned lock: tools/venv.sh DIRECTORY [PYTHON [LOCK]]
# A missing piece of the machine gets a sentence that says what to install.
set -eu
venv=$1
wanted=${2:-}

suits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; }
builds() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

python=
lame=
for candidate in ${wanted:-python3.14 python3.13 python3.12 python3.11 python3}; do
    suits "$candidate" || continue
    if builds "$candidate"; then
        python=$candidate
        break
    fi
    lame=${lame:-$candidate}
done

if [ -z "$python" ]; then
    if [ -n "$lame" ]; then
        version=$("$lame" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        echo "$lame cannot build a virtual environment: its venv module is not complete." >&2
        echo "On Debian and Ubuntu: apt install python$version-venv (or python3-venv); then run make again." >&2
    else
        echo "No Python from 3.11 to 3.14 found${wanted:+ as '$wanted'}." >&2
        echo "Install one (Debian and Ubuntu: apt install python3 python3-venv), or name it: make PYTHON=/path/to/python3." >&2
    fi
    exit 1
fi

echo "Building $venv with $("$python" --version)"
rm -rf "$venv"
"$python" -m venv "$venv"
"$venv/bin/python" -m pip install -qq --no-input --require-hashes --no-deps -r "${3:-requirements-dev.lock}"
