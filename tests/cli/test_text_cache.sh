#!/usr/bin/env bash
# train on text where others meddle: a person at a terminal is asked for a tokenizer; datasets in use stay when old ones are
# removed; a build that is killed is made again; two runs at once build once.
# tier: all
# cost: 8
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/cli/text.sh || exit

# A person at a terminal is asked, and the answer holds for all ranks. (script has a terminal to offer.)
typed() { # ANSWER COMMAND…
    printf '%s\n' "$1" >"$work/answer"
    printf '%q ' "${@:2}" >"$work/line"
    script -qec "$(cat "$work/line")" /dev/null <"$work/answer"
}
if command -v script >/dev/null; then
    asked=("${train[@]}" --data-path "$text" --vocab-size 300 --data-cache-path "$work/asked")
    expect 2 "books.jsonl is text, but no tokenizer is given. Train one of 300 tokens on it (--tokenizer-type auto)? [Y/n]" typed n "${asked[@]}"
    grep -q "add --tokenizer-type auto" "$work/out" && pass || fail "a refusal does not say what else to do"
    expect 0 "iteration 2/2" typed y "${asked[@]}" --save "$work/asked_run"
    [ -d "$(echo "$work"/asked/tokenizer-*)" ] && pass || fail "no tokenizer was trained"
    if "$BEVATRON" version | grep -q "MPI *yes" && command -v mpirun >/dev/null; then
        expect 0 "iteration 2/2" typed "" "${asked[@]}" --nproc 2
        [ "$(grep -c "no tokenizer is given" "$work/out")" = 1 ] && pass || fail "not asked once"
    fi
    # A run that resumes has its checkpoint's, and does not ask.
    expect 0 "iteration        3/" "${asked[@]}" --train-iters 3 --load "$work/asked_run" --override-opt_param-scheduler
fi

# The reference.
expect 0 "tokenized $text: 400 documents" "${train[@]}" --data-path "$text" "${own[@]}"
losses "$work/out" >"$work/first"
[ -s "$work/first" ] && pass || fail "no losses"
"$BEVATRON" tokenizer train --input "$text" --vocab-size 300 --save "$work/tok" >"$work/out" 2>&1

# An entry that has not been used for a month is removed, unless a run has it open. (Not on file systems that machines
# share.)
if [[ " tmpfs ext2/ext3 xfs overlayfs " == *" $(stat -f -c %T "$work") "* ]]; then
    expect 0 "" "${train[@]}" --data-path "$text" "${own[@]}" --data-cache-path "$work/old"
    entry=$(echo "$work"/old/books.jsonl-*[0-9a-f]/)
    in_background "$work/busy_log" "${train[@]}" --data-path "$text" "${own[@]}" --data-cache-path "$work/old" --train-iters 100000 --save "$work/busy"
    pid=$!
    await_text "iteration        1/" "$work/busy_log"
    touch -d "31 days ago" "$entry"/* "$work"/old/tokenizer-*/*
    words 2 50 | as_json >"$work/data/other.jsonl"
    other=("${train[@]}" --data-path "$work/data/other.jsonl" --vocab-file "$work/tok/vocab.json" --merge-file "$work/tok/merges.txt" --data-cache-path "$work/old")
    expect 0 "tokenized $work/data/other.jsonl" "${other[@]}"
    [ -f "$entry/manifest.json" ] && pass || fail "a dataset in use was removed"
    kill -9 $pid
    wait $pid 2>/dev/null
    touch -d "29 days ago" "$entry"/*
    expect 0 "" "${other[@]}"
    [ -f "$entry/manifest.json" ] && pass || fail "a dataset was removed too early"
    mkdir -p "$work/old/mine-0123456789abcdef"
    touch -d "31 days ago" "$entry"/* "$work/old/mine-0123456789abcdef"
    expect 0 "unused for 30 days" "${other[@]}"
    [ ! -e "$entry" ] && [ -d "$work/old/mine-0123456789abcdef" ] && pass || fail "not the old dataset was removed: $(ls "$work/old")"
    expect 0 "tokenized $text" "${train[@]}" --data-path "$text" "${own[@]}" --data-cache-path "$work/old"
fi

# Killed at some moment of building: the next run has the same losses.
rm -rf "$cache"
RANDOM=7
for ((i = 0; i < 4; i++)); do
    in_background "$work/killed" "${train[@]}" --data-path "$text" "${own[@]}"
    pid=$!
    within 900 test -d "$cache"
    sleep "0.0$((RANDOM % 10))"
    kill -9 $pid
    wait $pid 2>/dev/null
done
expect 0 "iteration        2/" "${train[@]}" --data-path "$text" "${own[@]}"
losses "$work/out" >"$work/losses"
expect_same "$work/first" "$work/losses" "losses after kills"

# Two runs at once: one builds, the other waits for it.
rm -rf "$cache"
for i in 1 2; do "${train[@]}" --data-path "$text" "${own[@]}" >"$work/at_once$i" 2>&1 & pids[i]=$!; done
for i in 1 2; do
    end_of "${pids[i]}"
    [ "$code" = 0 ] && pass || { fail "run $i at once: exit code $code"; cat "$work/at_once$i"; }
    losses "$work/at_once$i" >"$work/losses"
    expect_same "$work/first" "$work/losses" "losses of run $i at once"
done
[ "$(cat "$work"/at_once? | grep -c "^tokenized")" = 1 ] && pass || fail "not tokenized once"
[ -z "$(find "$cache" -name '*.lock')" ] && pass || fail "locks were left"
finish
