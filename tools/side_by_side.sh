#!/bin/sh
# Run two commands at the same time: the first with its output as it comes, then what the second wrote. Fails if one did.
set -u
written=$(mktemp)
trap 'rm -f "$written"' EXIT
sh -c "$2" >"$written" 2>&1 &
beside=$!
trap 'kill "$beside" 2>/dev/null; exit 130' INT TERM
sh -c "$1"
status=$?
wait "$beside"
other=$?
cat "$written"
[ "$status" -eq 0 ] || echo "FAILED: $1" >&2
[ "$other" -eq 0 ] || echo "FAILED: $2" >&2
[ "$status" -eq 0 ] && [ "$other" -eq 0 ]
