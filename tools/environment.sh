#!/bin/sh
# tools/environment.sh FOLDER EXTRAS: an environment with fedslim and these extras, made anew where it does not work.
# PYTHON names the interpreter. Left out, it is python3 if that is recent enough, or else the newest there is.
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

# It may have lost its interpreter, or have got one that does not look where its packages are.
if ! "$folder/bin/python" -c "import pip; $recent" 2>/dev/null; then
    python=${PYTHON:-$(find_python)}
    [ -n "$python" ] || give_up "there is no Python 3.11 or newer here; install one, or name it: make PYTHON=/its/path demo"
    "$python" -c "$recent" 2>/dev/null ||
        give_up "PYTHON=$python is no Python 3.11 or newer; leave it out, or name another"
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        give_up "$python cannot make environments; on Debian and Ubuntu: apt install $("$python" -c \
            'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    [ -e "$folder" ] && echo "$folder no longer works, and is set up anew"
    echo "setting up $folder with $("$python" --version) (once; a minute or two)"
    "$python" -m venv --clear "$folder"
fi
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --editable ".[$extras]"
touch "$folder/.ready"
