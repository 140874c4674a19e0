#!/bin/sh
# Runs tests on every other Python of 3.11 to 3.14 that is found: tools/pythons.sh DIRECTORY OWN NEWEST TESTS [TESTS]
# OWN is the Python of all other tests, whose version is left out. With NEWEST=1 the newest other one is enough. Each
# gets its environment in DIRECTORY. TESTS are arguments for pytest; a second lot runs beside the first.
# Fails if a test did on any of them. A Python is found on PATH, or among those of pyenv.
set -u
directory=$1 own=$2 newest=$3 tests=$4 beside=${5:-}
lock=requirements-dev.lock

own=$("$own" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || exit 1
pyenv=$(pyenv root 2>/dev/null)

suits() { "$1" -c "import ensurepip, sys, venv; sys.exit('%d.%d' % sys.version_info[:2] != '$2')" 2>/dev/null; }

find_python() {
    for candidate in "python$1" "${pyenv:-/nonexistent}/versions/$1."*[0-9]/bin/python; do
        if suits "$candidate" "$1"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    return 1
}

# An environment is kept until what it is built from changes, its Python is gone, or the checkout was moved.
is_built() {
    "$1/bin/python" -c '' 2>/dev/null && [ "$(cat "$1/built" 2>/dev/null)" = "$PWD" ] &&
        [ -z "$(find "$lock" pyproject.toml -newer "$1/built")" ]
}

build() {
    mkdir -p "$directory" && tools/venv.sh "$1" "$2" "$lock" &&
        "$1/bin/python" -m pip install -qq --no-input --no-deps --no-index --no-build-isolation --editable . &&
        printf '%s\n' "$PWD" >"$1/built"
}

run() {
    pytest="$1/bin/python -m pytest -q -m 'not long'"
    if [ -n "$beside" ]; then
        tools/side_by_side.sh "$pytest $tests" "$pytest $beside"
    else
        sh -c "$pytest $tests"
    fi
}

passed='' failed='' missing=''
for version in 3.14 3.13 3.12 3.11; do
    [ "$version" != "$own" ] || continue
    [ "$newest" != 1 ] || [ -z "$passed$failed" ] || continue
    if ! python=$(find_python "$version"); then
        missing="$missing $version"
        continue
    fi
    venv=$directory/$version
    echo "Tests on $("$python" --version)"
    if { is_built "$venv" || build "$venv" "$python"; } && run "$venv"; then
        passed="$passed $version"
    else
        failed="$failed $version"
    fi
done

[ -z "$passed" ] || echo "Passed on Python:$passed"
[ -z "$missing" ] || echo "Not run, since neither PATH nor pyenv has them complete with venv: Python$missing"
[ -z "$failed" ] || echo "FAILED on Python:$failed" >&2
[ -n "$passed$failed" ] || echo "NOTHING WAS RUN: no Python but $own was found." >&2
[ -z "$failed" ]
