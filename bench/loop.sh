#!/usr/bin/env bash
# A developer's loop: seconds and processor seconds to build and run a folder's tests after one of its C files was edited.
#   bench/loop.sh [FILE…]     default: src/base/buffer.c src/data/loader.c src/config/flag.c; prints a row of a table for each
# A line at the end of the file is the edit; it is taken back. Everything else is built before, and ccache is not asked.
# From the environment: TREE (another work tree, to compare with), BUILD (its configured folder, default build/release),
# JOBS (default: all cores), TIMES (default 3: the shortest counts, as other work beside it only adds).
set -eu
cd "${TREE:-$(dirname "${BASH_SOURCE[0]}")/..}"
build=${BUILD:-build/release}
jobs=${JOBS:-$(nproc)}
export CCACHE_DISABLE=1 TIMEFORMAT='%R %U %S'
[ $# -gt 0 ] || set -- src/base/buffer.c src/data/loader.c src/config/flag.c
kept=$(mktemp)
edited=
restore() { [ -z "$edited" ] || { cp -p "$kept" "$edited" && touch "$edited"; }; }
trap restore EXIT

# took COMMAND…: its seconds and processor seconds.
took() {
    local log status=0
    log=$(mktemp)
    times=$({ time "$@" >"$log" 2>&1; } 2>&1) || status=$?
    [ "$status" = 0 ] || { tail -n 20 "$log" >&2; echo "loop.sh: $* failed" >&2; }
    rm -f "$log"
    awk '{ printf "%.1f %.1f\n", $1, $2 + $3 }' <<<"$times"
}

echo "| edited | tests | build, s | processor s | tests, s | processor s | load |"
echo "|---|---:|---:|---:|---:|---:|---:|"
for file in "$@"; do
    folder=${file#src/}
    folder=${folder%%/*}
    mapfile -t targets < <(cmake --build "$build" --target help | grep -oE "test_${folder}_[a-z0-9_]+" | sort -u)
    cmake --build "$build" --parallel "$jobs" --target "${targets[@]}" >/dev/null
    tests=(ctest --test-dir "$build" -R "^$folder/" -LE '^all$' -j "$jobs")
    best=
    for _ in $(seq "${TIMES:-3}"); do
        cp -p "$file" "$kept" && edited=$file
        echo "// edited" >>"$file"
        row=$(took cmake --build "$build" --parallel "$jobs" --target "${targets[@]}")
        row="$row $(took "${tests[@]}")"
        restore && edited=
        cmake --build "$build" --parallel "$jobs" --target "${targets[@]}" >/dev/null
        best=$(printf '%s\n%s\n' "$best" "$row" | grep . | sort -g -k1,1 | head -n 1)
    done
    count=$("${tests[@]}" -N | sed -n 's/^Total Tests: //p')
    echo "| \`$file\` | $count | ${best// / | } | $(cut -d' ' -f1 /proc/loadavg) |"
done
