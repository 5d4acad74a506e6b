#!/bin/bash
# The demo's corpus generator: the same seed gives the same stories, a longer corpus begins with the shorter one, every
# line is one JSON object, no brace of the grammar is left, and a wrong grammar is an error that says where. Then the
# demo itself, twice.
set -u
make_stories=$(dirname "${BEVATRON:-build/release/bevatron}")/make_stories
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

expect() {
    local what=$1
    shift
    if ! "$@"; then
        echo "FAIL $what"
        failed=1
    fi
}

# expect_error TEXT ARGUMENT…: the program must fail and print TEXT.
expect_error() {
    local text=$1
    shift
    if "$make_stories" "$@" >"$scratch/out" 2>&1; then
        echo "FAIL no error for: $*"
        failed=1
    elif ! grep -qF -- "$text" "$scratch/out"; then
        echo "FAIL '$text' is not in:"
        cat "$scratch/out"
        failed=1
    fi
}

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
"$make_stories" --megabytes 1 >"$scratch/one" || exit 1
"$make_stories" --megabytes 2 >"$scratch/two" || exit 1
"$make_stories" --megabytes 1 --seed 2 >"$scratch/other" || exit 1
size=$(wc -c <"$scratch/one")
expect "a megabyte is a megabyte" test "$size" -ge 1000000 -a "$size" -lt 1010000
expect "a longer corpus begins with the shorter one" cmp -s -n "$size" "$scratch/one" "$scratch/two"
expect "another seed tells other stories" test "$(sort "$scratch/one" "$scratch/other" | uniq -d | wc -l)" -eq 0
expect "no story twice" test "$(sort "$scratch/two" | uniq -d | wc -l)" -eq 0
expect "every line is one object" test "$(grep -cvE '^\{"text": "([^"\\]|\\["n])*"\}$' "$scratch/two")" -eq 0
expect "only plain ASCII" test "$(LC_ALL=C grep -c '[^ -~]' "$scratch/two")" -eq 0
expect "no brace left over" test "$(sed 's/^.//; s/.$//' "$scratch/two" | grep -c '[{}]')" -eq 0
expect "articles are right" test "$(grep -cE '[ "]a [aeio]|[ "]an [bcdfgj-np-tv-z]' "$scratch/two")" -eq 0

wrong() {
    printf '%s\n' "$@" >"$scratch/wrong"
}
wrong '[story]' 'Hello {nobody}.'
expect_error 'wrong:2: neither a rule nor a name' --grammar "$scratch/wrong" --stories 1
wrong '[story]' 'Hello {who' '[who]' 'you'
expect_error 'wrong:2: braces do not match' --grammar "$scratch/wrong" --stories 1
wrong '[story]' '{story}'
expect_error 'wrong:2: rules go round in a circle' --grammar "$scratch/wrong" --stories 1
wrong 'Hello'
expect_error 'wrong:1: text before the first rule' --grammar "$scratch/wrong" --stories 1
expect_error 'cannot read' --grammar "$scratch/missing"
expect_error '--megabytes takes a number' --megabytes many
expect_error '--nothing is unknown' --nothing

# The demo starts over when it is started again. Two iterations are fewer than its warmup, so it ends before training,
# after everything that it writes before.
for time in first second; do
    DEMO_FOLDER="$scratch/demo" DEMO_ITERS=2 DEMO_MEGABYTES=1 BEVATRON="${BEVATRON:-build/release/bevatron}" \
        MAKE_STORIES="$make_stories" bash examples/demo/run.sh >"$scratch/out" 2>&1
    expect "the $time demo: $(tail -n 1 "$scratch/out")" grep -q "must be below --train-iters 2" "$scratch/out"
done

[ "$failed" -eq 0 ] && echo "all cases passed"
exit "$failed"
