#!/usr/bin/env bash
# bevatron preprocess, killed at any moment: the same command resumes it, and the files are those of a run that was
# never stopped. Other flags or inputs are an error, --restart starts over, nothing appears early. Kills at every single
# file operation: tests/data/test_preprocess_resume.c.
# tier: all
# label: slow
# cost: 20
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit

has() { "$BEVATRON" version | grep -q "$1 *yes"; }
null=(--tokenizer-type NullTokenizer --vocab-size 60000)
# 60,000 documents in files of every kind, some documents empty, some equal.
awk 'BEGIN { for (i = 0; i < 60000; i++) {
    printf "{\"id\": %d, \"text\": \"", i
    n = i % 7 ? i * 7919 % 40 : 0
    for (j = 0; j < n; j++) printf "%d ", (i % 500 * 31 + j * 17) % 60000
    print "\"}" } }' >"$work/all.jsonl"
mkdir "$work/in"
split -l 10000 --additional-suffix=.jsonl "$work/all.jsonl" "$work/in/p"
if has ZLIB && command -v gzip >/dev/null; then gzip -q "$work/in/pac.jsonl" "$work/in/pad.jsonl"; fi
if has ZSTD && command -v zstd >/dev/null; then zstd -q --rm "$work/in/pae.jsonl"; fi
if has LZMA && command -v xz >/dev/null; then xz -q "$work/in/paf.jsonl"; fi

# A plain list of words, so that the background process is the program itself and not a shell.
run=("$BEVATRON" preprocess --input "$work/in" --output-prefix "$work/out" --append-eod --workers 3 --chunk-bytes 20000
    --journal-interval 0 "${null[@]}")

sums() { cat "$work/out_text_document.bin" "$work/out_text_document.idx" | sha256sum; }

# until_done SEED FLAGS…: runs it and kills it until it finishes, each time after a random part of the tokens and some
# milliseconds, so that a slow machine needs no more runs than a fast one; counts the kills in $kills, and the resumed runs
# in $continued.
written() { cat "$work"/out.unfinished/data.*.bin 2>/dev/null | wc -c; }
until_done() {
    local seed=$1 pid enough
    shift
    RANDOM=$seed
    for ((tries = 0; tries < 200; tries++)); do
        # If it is killed before it opens them, they must not hold the previous run's output.
        : >"$work/out.txt" >"$work/out"
        enough=$(($(written) + RANDOM * part / 32768))
        "${run[@]}" "$@" >"$work/out.txt" 2>"$work/out" &
        pid=$!
        until [ "$(written)" -gt "$enough" ] || has_gone "$pid"; do sleep 0.002; done
        sleep "0.0$((RANDOM % 30))"
        if kill -9 "$pid" 2>/dev/null; then
            wait "$pid" 2>/dev/null
            [ $? = 137 ] && kills=$((kills + 1))
            [ ! -e "$work/out_text_document.idx" ] || [ -e "$work/out_text_document.bin" ] || fail ".idx without .bin"
        else
            wait "$pid"
        fi
        grep -q "resuming a run" "$work/out" && continued=$((continued + 1))
        grep -q "^wrote" "$work/out.txt" && return 0
        grep -q "exists; give another --output-prefix" "$work/out" && return 0  # killed after its last file had its name
    done
    return 1
}

expect 0 "60000 documents" "${run[@]}"
expected=$(sums)
part=$(($(stat -c %s "$work/out_text_document.bin") / 3))
kills=0
continued=0
for seed in $(seq 1 40); do
    rm -f "$work"/out_text_document.*
    until_done "$seed" || { fail "no end with seed $seed"; break; }
    [ "$(sums)" = "$expected" ] && pass || fail "other bytes after kills with seed $seed"
    [ ! -e "$work/out.unfinished" ] && pass || fail "left after seed $seed: $(ls "$work/out.unfinished")"
    [ "$kills" -ge 6 ] && [ "$continued" -ge 3 ] && break
done
echo "$kills kills, $continued continued"
[ "$kills" -ge 6 ] && pass || fail "only $kills kills"
[ "$continued" -ge 1 ] && pass || fail "no run was continued"

# The same for a run that drops and reorders documents at its end.
rm -f "$work"/out_text_document.*
expect 0 "duplicates left out" "${run[@]}" --dedup exact --shuffle --seed 7
expected=$(sums)
rm -f "$work"/out_text_document.*
until_done 99 --dedup exact --shuffle --seed 7 || fail "no end with --shuffle"
[ "$(sums)" = "$expected" ] && pass || fail "other bytes after kills, --dedup --shuffle"
rm -f "$work"/out_text_document.*
expect 0 "60000 documents" "${run[@]}" --partitions 7
expected=$(sums)
rm -f "$work"/out_text_document.*
until_done 7 --partitions 7 || fail "no end with --partitions"
[ "$(sums)" = "$expected" ] && pass || fail "other bytes after kills, --partitions"
rm -f "$work"/out_text_document.*

# The reference for all of these.
"$BEVATRON" preprocess --input "$work/in" --output-prefix "$work/whole" --append-eod "${null[@]}" >"$work/out" 2>&1

# stopped_by SIGNALS: sends them to a run that is in the middle; its exit code is in $code. A run that was finished by then,
# or was publishing its files, is started again, as many times as needed.
stopped_by() {
    local pid signal
    for _ in $(seq 100); do
        rm -rf "$work/out.unfinished" "$work"/out_text_document.*
        in_background "$work/out" "${run[@]}"
        pid=$!
        until [ -e "$work/out.unfinished/journal" ] || ! kill -0 "$pid" 2>/dev/null; do sleep 0.002; done
        for signal in $1; do kill "-$signal" "$pid" 2>/dev/null; done
        wait "$pid" 2>/dev/null
        code=$?
        [ "$code" != 0 ] && [ -e "$work/out.unfinished/journal" ] && [ ! -e "$work/out_text_document.bin" ] && return
    done
    false
}

if stopped_by KILL; then
    expect 2 "--append-eod" "$BEVATRON" preprocess --input "$work/in" --output-prefix "$work/out" "${null[@]}"
    expect 2 "holds a run with other settings" "${run[@]}" --invalid-utf8 replace
    expect 2 "--partitions 3" "${run[@]}" --partitions 3
    touch -d "2020-01-01" "$work/in/paa.jsonl"
    expect 2 "paa.jsonl" "${run[@]}"
    expect 0 "60000 documents" "${run[@]}" --restart
    expect_same "$work/out_text_document.idx" "$work/whole_text_document.idx" "index after --restart"
else
    fail "no journal to look at, or published before the end"
fi
if stopped_by KILL; then
    printf 'x' | dd of="$work/out.unfinished/journal" bs=1 seek=30 conv=notrunc 2>/dev/null
    expect 1 "its checksum is wrong" "${run[@]}"
    rm -rf "$work/out.unfinished"
else
    fail "no second journal to look at"
fi
# Two processes with one output.
mkfifo "$work/pipe"
"$BEVATRON" preprocess --input - --output-prefix "$work/out" "${null[@]}" <"$work/pipe" >/dev/null 2>&1 &
pid=$!
exec 3>"$work/pipe"
within 900 [ -e "$work/out.unfinished/settings" ]
expect 1 "another process is writing to" "${run[@]}"
exec 3>&-
wait "$pid"

# A signal keeps finished work; the same command resumes it. A scheduler's warning may come twice, and the exit code
# asks for another run.
for signal in TERM "USR1 USR1"; do
    stopped_by "$signal" || fail "no run was stopped by SIG$signal"
    [ "$code" = "$([ "$signal" = TERM ] && echo 143 || echo 210)" ] && pass || fail "exit code $code after SIG$signal"
    grep -q "the same command resumes it" "$work/out" && pass || fail "nothing said about what is kept"
    expect 0 "resuming a run" "${run[@]}"
    expect_same "$work/out_text_document.bin" "$work/whole_text_document.bin" "tokens after SIG$signal"
    expect_same "$work/out_text_document.idx" "$work/whole_text_document.idx" "index after SIG$signal"
done

# A bad line stops a run; --skip-bad-lines resumes it.
sed '59990s/.*/broken/' "$work/all.jsonl" >"$work/bad.jsonl"
bad=("$BEVATRON" preprocess --input "$work/bad.jsonl" --output-prefix "$work/bad" --chunk-bytes 20000 --journal-interval 0 --workers 2 "${null[@]}")
expect 215 "bad.jsonl:59990: not a valid JSON line" "${bad[@]}"
expect 0 "resuming a run" "${bad[@]}" --skip-bad-lines
grep -q "59999 documents" "$work/out" && pass || fail "documents of a continued run"
grep -q "bad.jsonl:59990: not a valid JSON line" "$work/bad_bad_lines.txt" && pass || fail "the list of bad lines"

finish
