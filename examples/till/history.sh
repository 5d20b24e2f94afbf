#!/bin/sh
# Makes a small project with a history, in which one commit introduced a crash that occurs in one of eight runs:
#     sh examples/till/history.sh FOLDER
set -e
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" && cd "$1"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=till GIT_AUTHOR_EMAIL=till@example.org GIT_COMMITTER_NAME=till GIT_COMMITTER_EMAIL=till@example.org
git init -q -b main
commit() {
    export GIT_AUTHOR_DATE="2026-10-$1T12:00:00Z" GIT_COMMITTER_DATE="2026-10-$1T12:00:00Z"
    git add -A && git commit -q -m "$2"
}
printf 'till: till.c prices.h\n\tcc -g -o till till.c\n' >Makefile
printf 'till\nprovoke-out\n' >.gitignore
for item in lamp chair table rug; do echo "{\"$item\", 1999}," >>prices.h; done
for number in 01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 16 17 18 19 20; do
    case $number in
        05) echo 'order lamp 1 coupon kettle' ;;
        *[27]) echo 'order chair 2' ;;
        *[38]) echo 'order rug 1' ;;
        *) echo 'order table 1' ;;
    esac
done >orders.txt
sed '/^\/\/coupons$/d; s|/\*with coupon\*/ ||' "$here/till.c" >till.c
commit 01 'a till' && git tag v1.0
for day in 02 03 04 05 06 07 08 09 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28; do
    if [ $day = 17 ]; then
        sed -e "/^\/\/coupons$/{r $here/coupons.c" -e 'd;}' \
            -e 's|/\*with coupon\*/ total(item, count)|with_coupon(item, count, gift)|' "$here/till.c" >till.c
        commit $day 'coupons: a gift with an order'
    else
        echo "{\"item$day\", 1${day}0}," >>prices.h
        commit $day "prices: item$day"
    fi
done
