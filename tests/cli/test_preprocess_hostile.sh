#!/usr/bin/env bash
# bevatron preprocess with hostile input: every case is a clear error that names file and line or byte, or is handled as
# in Python; nothing is published after an error. Bounded memory and full disks: test_preprocess_large.sh.
# cost: 5
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit

has() { "$BEVATRON" version | grep -q "$1 *yes"; }
null=(--tokenizer-type NullTokenizer --vocab-size 1000)
pre=("$BEVATRON" preprocess --output-prefix "$work/x" --workers 3 --chunk-bytes 4096)

# refused CODE TEXT ARGUMENTS…: an error, and nothing published.
refused() {
    local code=$1 text=$2
    shift 2
    expect "$code" "$text" "${pre[@]}" "$@"
    [ -z "$(find "$work" -maxdepth 1 -name 'x*_document*' -o -maxdepth 1 -name 'x*_sentence*')" ] || fail "published: $*"
    rm -rf "$work"/x.unfinished
}

mkdir "$work/in"
for i in $(seq 2000); do echo "{\"text\": \"$((i % 1000)) $((i * 7 % 1000))\"}"; done >"$work/in/b.jsonl"
cp "$work/in/b.jsonl" "$work/in/a.jsonl"

# An unreadable file in the middle is noticed before any work is done.
ln -s nowhere "$work/in/aa.jsonl"
refused 1 "in/aa.jsonl" --input "$work/in/*" "${null[@]}"
rm "$work/in/aa.jsonl"
if [ "$(id -u)" != 0 ]; then
    cp "$work/in/a.jsonl" "$work/in/aa.jsonl"
    chmod 000 "$work/in/aa.jsonl"
    refused 1 "in/aa.jsonl: Permission denied" --input "$work/in/*" "${null[@]}"
    rm -f "$work/in/aa.jsonl"
fi

# Truncated and damaged compressed files, alone and between others, with one worker and with several.
damage() {
    local file=$1 size half
    size=$(stat -c %s "$file")
    half=$((size / 2))
    for keep in $((size - 1)) $((size - 9)) "$half" 20; do
        head -c "$keep" "$file" >"$work/in/aa.jsonl.cut"
        for n in 1 4; do
            refused 215 "in/aa.jsonl.cut" --workers "$n" --input "$work/in/a.jsonl" "$work/in/aa.jsonl.cut" "$work/in/b.jsonl" "${null[@]}"
        done
    done
    cp "$file" "$work/in/aa.jsonl.cut"
    printf 'XYZXYZ' | dd of="$work/in/aa.jsonl.cut" bs=1 seek="$half" conv=notrunc 2>/dev/null
    refused 215 "in/aa.jsonl.cut" --input "$work/in/aa.jsonl.cut" "$work/in/b.jsonl" "${null[@]}"
    rm "$work/in/aa.jsonl.cut"
}
{ cat "$work/in/a.jsonl"; awk 'BEGIN { srand(3); for (i = 0; i < 20000; i++) print "{\"text\": \"" int(rand() * 1000) "\"}" }'; } >"$work/more.jsonl"
# whole FILE: a compressed copy gives the same bytes as the plain file, for any number of workers.
whole() {
    for n in 1 2 5; do
        "${pre[@]}" --workers "$n" --input "$1" --output-prefix "$work/packed" --restart "${null[@]}" >"$work/out" 2>&1 || fail "$1"
        expect_same "$work/plain_text_document.bin" "$work/packed_text_document.bin" "tokens of $1 with $n workers"
        expect_same "$work/plain_text_document.idx" "$work/packed_text_document.idx" "index of $1 with $n workers"
    done
}
"${pre[@]}" --input "$work/more.jsonl" --output-prefix "$work/plain" "${null[@]}" >"$work/out" 2>&1 || fail "plain input"
for codec in "gzip ZLIB gz" "bzip2 BZIP2 bz2" "xz LZMA xz" "zstd ZSTD zst"; do
    read -r program feature ending <<<"$codec"
    has "$feature" && command -v "$program" >/dev/null || continue
    "$program" -q -c "$work/more.jsonl" >"$work/more.$ending"
    whole "$work/more.$ending"
    damage "$work/more.$ending"
done
# Several blocks and frames, which several threads decompress.
if has LZMA && command -v xz >/dev/null; then
    xz -q -T2 --block-size=30000 -c "$work/more.jsonl" >"$work/blocks.xz"
    whole "$work/blocks.xz"
    damage "$work/blocks.xz"
fi
if has ZSTD && command -v zstd >/dev/null; then
    split -b 50000 "$work/more.jsonl" "$work/frame."
    for part in "$work"/frame.*; do
        # A skippable frame of five bytes before each, as in pzstd and seekable files.
        printf '\x51\x2a\x4d\x18\x05\x00\x00\x00zzzzz'
        zstd -q -c "$part"
    done >"$work/frames.zst"
    whole "$work/frames.zst"
    damage "$work/frames.zst"
fi
# Several compressed files at a time: the order stays.
if has ZLIB && command -v gzip >/dev/null; then
    mkdir "$work/many"
    split -l 1500 --additional-suffix=.jsonl "$work/more.jsonl" "$work/many/p"
    find "$work/many" -name 'p*[acegikmoqsuwy].jsonl' -exec gzip -q {} +
    whole "$work/many"
    head -c 100 "$(find "$work/many" -name '*.gz' | sort | tail -n 1)" >"$work/many/pal.jsonl.gz"
    refused 215 "many/pal.jsonl.gz" --input "$work/many" "${null[@]}"
fi

# What follows a complete bzip2 stream is not reported as truncation; the first bytes of a compressed file are.
if has BZIP2 && command -v bzip2 >/dev/null; then
    { bzip2 -c "$work/in/a.jsonl"; echo garbage; } >"$work/garbage.jsonl.bz2"
    refused 215 "bzip2 data is damaged near byte" --workers 1 --input "$work/garbage.jsonl.bz2" "${null[@]}"
    refused 215 "bzip2 data is damaged near byte" --workers 2 --input "$work/garbage.jsonl.bz2" "${null[@]}"
    printf 'BZh9' >"$work/begun.jsonl.bz2"
    refused 215 "begun.jsonl.bz2 is truncated: it ends at byte 4" --input "$work/begun.jsonl.bz2" "${null[@]}"
fi
printf '\3757z' >"$work/begun.jsonl.xz"
refused 215 "begun.jsonl.xz is truncated: it ends at byte 3" --input "$work/begun.jsonl.xz" "${null[@]}"

# If no line is good, the list of bad ones is kept.
printf '{"text": 5}\n{"text"\n' >"$work/none.jsonl"
expect 215 "no documents, only bad lines, listed in $work/none_bad_lines.txt" "${pre[@]}" --skip-bad-lines --input "$work/none.jsonl" \
    --output-prefix "$work/none" "${null[@]}"
[ "$(wc -l <"$work/none_bad_lines.txt")" = 2 ] && [ ! -e "$work/none.unfinished" ] && pass || fail "list of nothing but bad lines"

# bad TEXT LINE: the line is an error that says TEXT, in the middle of good ones; --skip-bad-lines lists it.
bad() {
    { cat "$work/in/a.jsonl"; printf "$2"; echo; cat "$work/in/b.jsonl"; } >"$work/bad.jsonl"
    refused 215 "bad.jsonl:2001: $1" --input "$work/bad.jsonl" "${null[@]}"
    expect 0 "4000 documents" "${pre[@]}" --skip-bad-lines --input "$work/bad.jsonl" --output-prefix "$work/skip" "${null[@]}"
    grep -q "bad.jsonl:2001: $1" "$work/skip_bad_lines.txt" && pass || fail "list of bad lines: $1"
    rm -f "$work"/skip*
}
bad "not a valid JSON line" '{"text": "1 2"'
bad "the object has no member" '{"test": "1 2"}'
bad "not a valid JSON line" '{"text": "1\0002"}'
bad "not a valid JSON line" '\000'
bad 'the member "text" holds a lone surrogate' '{"text": "1 \\ud800"}'
bad "not a valid JSON line" '{"text": "1 \377"}'
printf '{"text": "1 \377"}\n' >"$work/bad.jsonl"
refused 215 "--skip-bad-lines, or have such bytes replaced by U+FFFD with --invalid-utf8 replace" --input "$work/bad.jsonl" "${null[@]}"
bad 'valid JSON, but "text" is a number, not a string' '{"text": 5}'
bad 'valid JSON, but "text" is null, not a string' '{"text": null}'
bad 'valid JSON, but "text" is an array of something else than strings' '{"text": ["1", 2]}'
bad "not a valid JSON line" '{"text": null'
bad "not a valid JSON line: byte 905 of 100020: arrays and objects nested more than 900 levels deep" "{\"x\": $(head -c 100000 /dev/zero | tr '\0' '['), \"text\": \"1\"}"
bad "byte" '{"text": "1 two"}'
# We accept what Python accepts: the last of equal keys, NaN, any order.
echo '{"text": "1", "x": NaN, "y": {"text": "7"}, "text": "2 3"}' >"$work/odd.jsonl"
expect 0 "1 documents, 2 tokens" "${pre[@]}" --input "$work/odd.jsonl" --output-prefix "$work/odd" --restart "${null[@]}"
# Values nested 800 deep beside the text are accepted too.
echo "{\"x\": $(head -c 800 /dev/zero | tr '\0' '[')$(head -c 800 /dev/zero | tr '\0' ']'), \"text\": \"1\"}" >"$work/odd.jsonl"
expect 0 "1 documents, 1 tokens" "${pre[@]}" --input "$work/odd.jsonl" --output-prefix "$work/odd" --restart "${null[@]}"

# A tokenizer's files truncated anywhere.
golden=tests/golden/bpe
for file in vocab.json merges.txt; do
    size=$(stat -c %s "$golden/$file")
    for i in $(seq 0 12); do
        rm -rf "$work/cut" && mkdir "$work/cut" && cp "$golden/vocab.json" "$golden/merges.txt" "$work/cut"
        head -c $((size * i / 13)) "$golden/$file" >"$work/cut/$file"
        "${pre[@]}" --input "$work/in/a.jsonl" --vocab-file "$work/cut/vocab.json" --merge-file "$work/cut/merges.txt" >"$work/out" 2>&1
        code=$?
        grep -q "$work/cut" "$work/out" && [ "$code" != 0 ] && pass || fail "$file cut at $((size * i / 13)) of $size: exit code $code"
        [ -z "$(find "$work" -maxdepth 1 -name 'x*')" ] && pass || fail "$file cut at $((size * i / 13)): something was written"
        rm -rf "$work"/x*
    done
done
finish
