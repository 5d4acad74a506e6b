#!/usr/bin/env bash
# The pictures in docs/pictures match the current schedules, mesh and pieces.
# label: slow
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
draw=$(dirname "$BEVATRON")/draw_pictures
[ -x "$draw" ] || { echo "skipped: draw_pictures was not built"; exit 77; }
"$draw" "$work/pictures" && pass || fail "draw_pictures"
for picture in docs/pictures/*.svg; do
    expect_same "$picture" "$work/pictures/$(basename "$picture")" "$picture is stale: run make pictures"
done
[ "$(ls "$work/pictures")" = "$(cd docs/pictures && ls ./*.svg | sed 's|^./||')" ] && pass || fail "a picture is missing: run make pictures"
expect 2 "usage" "$draw"
finish
