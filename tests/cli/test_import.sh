#!/bin/bash
# bevatron dataset import: fairseq's datasets of tests/golden/import from the command line, with the dictionary beside
# them.
source tests/cli/common.sh || exit
needs_parts LZMA
golden=tests/golden/import

expect 0 "10 sequences" "$BEVATRON" dataset import $golden/mmap_u16 --output-prefix "$work/a"
expect 0 "documents   3" "$BEVATRON" dataset inspect "$work/a"
expect_same $golden/dict.txt "$work/a.dict.txt" "the dictionary is kept"
expect 0 "" "$BEVATRON" dataset verify "$work/a" --vocab-size 20
expect 0 '"dictionary_size":20' "$BEVATRON" dataset import $golden/torchnet_i32 --output-prefix "$work/b" --json
expect_same "$work/a.bin" "$work/b.bin" "both formats give the same tokens"
expect_same "$work/a.idx" "$work/b.idx" "both formats give the same index"
expect 0 "word1 word2 word3" "$BEVATRON" dataset peek "$work/a" --document 0 --tokenizer-type FairseqTokenizer \
    --tokenizer-model "$work/a.dict.txt"

mkdir "$work/alone"
cp $golden/mmap_u32.bin $golden/mmap_u32.idx "$work/alone"
expect 0 "no dictionary was found" "$BEVATRON" dataset import "$work/alone/mmap_u32" --output-prefix "$work/c"
expect 2 "the dataset $work/c exists; give another --output-prefix, or remove its .bin, .idx and .sha256 first" \
    "$BEVATRON" dataset import "$work/alone/mmap_u32" --output-prefix "$work/c"
expect 0 "10 documents" "$BEVATRON" dataset import "$work/alone/mmap_u32" --output-prefix "$work/c2" --documents lines
[ -e "$work/c.dict.txt" ] && fail "a dictionary came from nowhere"

# Text gives the same as fairseq would.
sed 's/\b2$//; s/[0-9][0-9]*/word&/g' $golden/expected.txt | awk '{ for (i = 1; i <= NF; i++) $i = "word" substr($i, 5) - 4 } 1' >"$work/text"
xz -k "$work/text" 2>/dev/null || cp "$work/text" "$work/text.xz"
fairseq=(--tokenizer-type FairseqTokenizer --tokenizer-model $golden/dict.txt)
expect 0 "10 sequences" "$BEVATRON" dataset import --text "$work/text.xz" --output-prefix "$work/e" "${fairseq[@]}" --workers 2
expect_same "$work/a.bin" "$work/e.bin" "text gives the same tokens"
expect_same "$work/a.idx" "$work/e.idx" "text gives the same index"
expect_same $golden/dict.txt "$work/e.dict.txt" "the dictionary of the text is kept"
printf 'word1\nword2 \377\n' >"$work/bad"
expect 215 "line 2" "$BEVATRON" dataset import --text "$work/bad" --output-prefix "$work/d" "${fairseq[@]}"
expect 2 "give only one of a fairseq dataset" "$BEVATRON" dataset import $golden/mmap_u16 --text "$work/text" --output-prefix "$work/d"

# Errors leave nothing.
expect 215 "beyond the dictionary" "$BEVATRON" dataset import "$work/alone/mmap_u32" --output-prefix "$work/d" \
    --dictionary $golden/dict.txt
expect 1 "does not exist" "$BEVATRON" dataset import "$work/nothing" --output-prefix "$work/d"
expect 1 "none.txt" "$BEVATRON" dataset import $golden/mmap_u16 --output-prefix "$work/d" --dictionary "$work/none.txt"
head -c 30 $golden/mmap_u16.bin >"$work/alone/cut.bin"
cp $golden/mmap_u16.idx "$work/alone/cut.idx"
expect 215 "cut.idx" "$BEVATRON" dataset import "$work/alone/cut" --output-prefix "$work/d"
expect 2 "--output-prefix" "$BEVATRON" dataset import $golden/mmap_u16
expect 2 "nothing to import" "$BEVATRON" dataset import --output-prefix "$work/d"
# Text ends with the end token of the tokenizer's vocabulary, whatever fairseq's id means there.
printf 'one\n\ntwo\n' >"$work/text"
bpe=(--vocab-file tests/golden/bpe/vocab.json --merge-file tests/golden/bpe/merges.txt)
expect 0 "2 documents" "$BEVATRON" dataset import --text "$work/text" --output-prefix "$work/gpt" "${bpe[@]}"
"$BEVATRON" dataset peek "$work/gpt" >"$work/ids"
grep -q ' 599 599$' "$work/ids" && grep -q ' 599$' "$work/ids" && ! grep -q ' 2$' "$work/ids" && pass || fail "the end of lines in GPT-2's vocabulary"
grep -q "^# tokenizer 600 [0-9a-f]*$" "$work/gpt.sha256" && pass || fail "the tokenizer is not recorded"
expect 0 "2 documents" "$BEVATRON" dataset import --text "$work/text" --output-prefix "$work/gpt7" "${bpe[@]}" --eos-id 7
"$BEVATRON" dataset peek "$work/gpt7" | grep -q ' 7 7$' && pass || fail "the end of lines that was asked for"
# Shards of llm.c are one stream: a document may continue in the next, and the delimiter that begins documents there
# ends them here.
expect 0 "4 documents, 4 sequences, 12 tokens (uint16)" "$BEVATRON" dataset import --llmc "$golden/llmc_[12].bin" --output-prefix "$work/llmc"
"$BEVATRON" dataset peek "$work/llmc" --count 4 | grep -v === | tr '\n' ' ' >"$work/ids"
grep -q '11 12 13 50256 *21 22 23 24 50256 *50256 *31 50256' "$work/ids" && pass || fail "the tokens of llm.c's shards: $(cat "$work/ids")"
expect 0 "12 tokens (int32)" "$BEVATRON" dataset import --llmc $golden/llmc_wide.bin --output-prefix "$work/wide"
"$BEVATRON" dataset peek "$work/wide" | grep -q '70011 70012 70013 128000' && pass || fail "the tokens of a wide shard"
expect 0 "2 documents" "$BEVATRON" dataset import --llmc $golden/llmc_1.bin --output-prefix "$work/llmc13" --eos-id 13
expect 215 "another vocabulary" "$BEVATRON" dataset import --llmc $golden/llmc_1.bin $golden/llmc_wide.bin --output-prefix "$work/d"
expect 2 "with --llmc" "$BEVATRON" dataset import $golden/llmc_1.bin --output-prefix "$work/d"
head -c 1030 $golden/llmc_1.bin >"$work/cut"
expect 215 "the file is truncated" "$BEVATRON" dataset import --llmc "$work/cut" --output-prefix "$work/d"
expect 215 "not an llm.c shard" "$BEVATRON" dataset import --llmc $golden/mmap_u16.idx --output-prefix "$work/d"
{ printf '\212\330\064\001\001\000\000\000'; head -c 1100 /dev/zero; } >"$work/questions"
expect 215 "several answers" "$BEVATRON" dataset import --llmc "$work/questions" --output-prefix "$work/d"
for file in "$work"/d*; do
    [ -e "$file" ] && fail "$file was left behind"
done
finish
