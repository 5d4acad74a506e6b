#!/usr/bin/env bash
# bevatron preprocess with lines of 2 GB in bounded memory, and on a full disk.
# tier: all
# label: slow
# cost: 10
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit

has() { "$BEVATRON" version | grep -q "$1 *yes"; }
null=(--tokenizer-type NullTokenizer --vocab-size 1000)
mkdir "$work/in"
for i in $(seq 2000); do echo "{\"text\": \"$((i % 1000)) $((i * 7 % 1000))\"}"; done >"$work/in/b.jsonl"
cp "$work/in/b.jsonl" "$work/in/a.jsonl"
awk 'BEGIN { for (i = 0; i < 22000; i++) print "{\"text\": \"" i * 7 % 1000 "\"}" }' >"$work/more.jsonl"

# A line of 2 GB, plain (a hole) and compressed, in 1 GiB of address space: an error, or one bad line among good ones.
if ! is_sanitized && (ulimit -v 1048576 && "$BEVATRON" version) >/dev/null 2>&1; then
    { cat "$work/in/a.jsonl"; } >"$work/long.jsonl"
    truncate -s 2147483648 "$work/long.jsonl"
    { echo; cat "$work/in/b.jsonl"; } >>"$work/long.jsonl"
    long=(bash -c 'ulimit -v 1048576; exec "$@"' long "$BEVATRON" preprocess --workers 2 --output-prefix "$work/x" "${null[@]}")
    expect 215 "long.jsonl:2001: the line is longer than 67108864 bytes" "${long[@]}" --input "$work/long.jsonl"
    rm -rf "$work"/x*
    expect 0 "4000 documents" "${long[@]}" --input "$work/long.jsonl" --skip-bad-lines
    rm -f "$work"/x*
    if has ZSTD && command -v zstd >/dev/null; then
        zstd -q -1 "$work/long.jsonl" -o "$work/long.zst"
        rm "$work/long.jsonl"
        expect 0 "4000 documents" "${long[@]}" --input "$work/long.zst" --skip-bad-lines
    fi
    rm -rf "$work"/x* "$work"/long*
fi

# A full disk.
if [ "$(id -u)" = 0 ] && mkdir "$work/small" && mount -t tmpfs -o size=64k tmpfs "$work/small" 2>/dev/null; then
    cat "$work/more.jsonl" "$work/more.jsonl" >"$work/twice.jsonl"
    expect 1 "No space left on device; free some space" "$BEVATRON" preprocess --input "$work/twice.jsonl" --output-prefix "$work/small/x" "${null[@]}"
    [ -z "$(find "$work/small" -name '*_document*')" ] && pass || fail "published on a full disk"
    umount "$work/small"
fi
finish
