#!/bin/bash
# bevatron dataset inspect, verify, peek and merge on small datasets written here byte by byte, intact and damaged.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh" || exit
bevatron=$BEVATRON

hexadecimal() {
    printf "$(printf '%s' "$1" | sed 's/ //g; s/../\\x&/g')"
}

# Documents [5 6 7 99], [], [8 9 99] as uint16.
write_example() {
    hexadecimal '0500 0600 0700 6300 0800 0900 6300' >"$1.bin"
    hexadecimal '4d4d494449445800000100000000000000 08 0200000000000000 0400000000000000 04000000 03000000
        0000000000000000 0800000000000000 0000000000000000 0100000000000000 0100000000000000 0200000000000000' |
        tr -d '\n' >"$1.idx"
}

cd "$work" || exit 1
mkdir parts
write_example parts/a
write_example parts/b
[ "$(wc -c <parts/a.idx)" -eq 90 ] || fail "the example has $(wc -c <parts/a.idx) bytes"

expect 0 'documents   3 (1 empty)' "$bevatron" dataset inspect parts/a
expect 0 'sequences   2, 3 to 4 tokens, 3.5 on average' "$bevatron" dataset inspect parts/a
expect 0 '"prefix":"parts/b","dtype":"uint16","documents":3,"empty_documents":1,"sequences":2,"tokens":7' \
    "$bevatron" dataset inspect --json parts/a parts/b
expect 0 'parts/a: whole, 3 documents, 7 tokens' "$bevatron" dataset verify parts/a
expect 215 'is 99, beyond the vocabulary of 99' "$bevatron" dataset verify --vocab-size 99 parts/a
expect 0 '=== document 0, 4 tokens
5 6 7 99
=== document 1, 0 tokens

=== document 2, 3 tokens
8 9 99' "$bevatron" dataset peek parts/a
expect 0 '=== document 2, 3 tokens, the first of them:
8 9' "$bevatron" dataset peek parts/a --document 2 --count 9 --max-tokens 2
expect 0 '{"document":2,"tokens":3,"ids":[8,9,99],"text":"8 9 99"}' \
    "$bevatron" dataset peek --json --document 2 --tokenizer-type NullTokenizer --vocab-size 100 parts/a
expect 1 'parts/a has 3 documents' "$bevatron" dataset peek parts/a --document 3

expect 0 'merged 2 datasets into both: 6 documents, 14 tokens (uint16)' \
    "$bevatron" dataset merge --input parts --output-prefix both
cat parts/a.bin parts/b.bin | cmp - both.bin || fail "both.bin is not the parts"
expect 0 'both: whole, 6 documents, 14 tokens' "$bevatron" dataset verify both
expect 0 'merged 3 datasets' "$bevatron" dataset merge both parts/a both --output-prefix more
expect 0 '5 6 7 99' "$bevatron" dataset peek more --document 6 --count 1
expect 2 'the dataset both exists; give another --output-prefix, or remove its .bin, .idx and .sha256 first' "$bevatron" dataset merge both parts/a --output-prefix both
expect 2 'not both' "$bevatron" dataset merge both --input parts --output-prefix x
expect 2 'nothing to merge' "$bevatron" dataset merge --output-prefix x
expect 2 'output-prefix' "$bevatron" dataset merge parts/a
rm parts/b.idx
expect 1 'parts/b.idx does not exist' "$bevatron" dataset merge --input parts --output-prefix x
[ ! -e x.bin ] && [ ! -e x.idx ] || fail "a failed merge left files"
[ -z "$(find . -name '*.tmp*' -o -name '*.spill*')" ] || fail "temporary files stayed"

# Checksums: what we write has them, and one changed token or boundary is found; what others write has none.
expect 0 'both: whole, 6 documents, 14 tokens, SHA-256 equal' "$bevatron" dataset verify both
sha256sum --quiet -c both.sha256 && pass || fail "sha256sum does not read both.sha256"
expect 0 'parts/a: whole, 3 documents, 7 tokens (no .sha256 file' "$bevatron" dataset verify parts/a
for ending in bin idx; do
    cp both.bin flipped.bin && cp both.idx flipped.idx && cp both.sha256 flipped.sha256
    # Token 5 becomes 4; the boundary after the first document moves to the next, which is empty.
    [ $ending = bin ] && printf '\4' | dd of=flipped.bin bs=1 seek=0 conv=notrunc 2>/dev/null
    [ $ending = idx ] && printf '\2' | dd of=flipped.idx bs=1 seek=98 conv=notrunc 2>/dev/null
    expect 215 "flipped.$ending has the SHA-256" "$bevatron" dataset verify flipped
    expect 215 '"is_whole":false' "$bevatron" dataset verify --json flipped
done
echo nonsense >flipped.sha256
expect 215 'flipped.sha256 has no line of 64 hexadecimal digits for the .bin file' "$bevatron" dataset verify flipped
rm flipped.*

# Damage, each kind with its exit code; the other datasets of the command line are still checked.
truncate -s 13 parts/a.bin
expect 215 'parts/a.bin: 13 bytes, but parts/a.idx describes 14: the file is truncated' "$bevatron" dataset inspect parts/a
expect 215 'both: whole' "$bevatron" dataset verify parts/a both
expect 215 '"is_whole":false' "$bevatron" dataset verify --json parts/a
truncate -s 60 more.idx
expect 215 'more.idx' "$bevatron" dataset peek more
: >both.idx
expect 215 'both.idx: 0 bytes' "$bevatron" dataset inspect both
expect 1 'none.idx does not exist' "$bevatron" dataset inspect none
expect 2 'PREFIX' "$bevatron" dataset inspect
expect 2 'there is no command "dataset frobnicate"' "$bevatron" dataset frobnicate
expect 2 'usage: bevatron dataset' "$bevatron" dataset
expect 0 'joins datasets into one' "$bevatron" dataset --help
expect 0 '--vocab-size' "$bevatron" dataset verify --help
expect 2 '--vocab-size' "$bevatron" dataset verify --vocab-sise 5 both

finish
