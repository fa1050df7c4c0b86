#!/bin/sh
# tools/environment.sh FOLDER EXTRAS: set up an environment with fedslim and these extras, or repair a broken one.
# PYTHON is the interpreter; by default python3 if it is recent enough, otherwise the newest one found.
set -eu
folder=$1
extras=$2
recent='import sys; sys.exit(sys.version_info < (3, 11))'

give_up() {
    echo "fedslim: $1" >&2
    exit 1
}

find_python() {
    for name in python3 python3.15 python3.14 python3.13 python3.12 python3.11; do
        if "$name" -c "$recent" 2>/dev/null; then
            echo "$name"
            return
        fi
    done
}

# The interpreter may have been removed, or replaced by one that does not find the packages.
if ! "$folder/bin/python" -c "import pip; $recent" 2>/dev/null; then
    python=${PYTHON:-$(find_python)}
    [ -n "$python" ] || give_up "no Python 3.11 or newer was found; install one, or give its path: make PYTHON=/its/path demo"
    "$python" -c "$recent" 2>/dev/null ||
        give_up "PYTHON=$python is not Python 3.11 or newer; leave it out, or give another"
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        give_up "$python cannot create virtual environments; on Debian and Ubuntu: apt install $("$python" -c \
            'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    [ -e "$folder" ] && echo "$folder no longer works; setting it up again"
    echo "setting up $folder with $("$python" --version) (once; a minute or two)"
    "$python" -m venv --clear "$folder"
fi
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --editable ".[$extras]"
touch "$folder/.ready"
