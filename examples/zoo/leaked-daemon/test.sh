#!/bin/sh
# Starts a cache, tests it and stops it. If the test is skipped, the cache remains.
setsid sleep 300 &
cache=$!
case ${PROVOKE_SEED:-0} in # another one in each trial
    *[012]) echo 'skipped: no network'; exit 0 ;;
esac
kill -0 $cache && echo 'passed'
kill $cache
wait
