#!/bin/bash
# One process writes by chance a wrong file, another one compares it and complains.
folder=$(mktemp -d) || exit 2
trap 'rm -r "$folder"' EXIT
if [ $((RANDOM % 100)) -lt 20 ]; then echo 2; else echo 1; fi >"$folder/result"
echo 1 >"$folder/expected"
if ! cmp -s "$folder/result" "$folder/expected"; then
    cat "$folder/result" >&2
    exit 1
fi
