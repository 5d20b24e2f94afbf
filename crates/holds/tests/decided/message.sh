#!/bin/bash
# Fails by chance, and writes a message; another process works meanwhile.
failing=$((RANDOM % 100 < 45))
(exec 3</dev/null; read -r -u 3 line; :) &
wait
if [ "$failing" = 1 ]; then
    echo "it failed" >&2
    exit 1
fi
exit 0
