#!/usr/bin/env bash
# Input that is not lines of text, in every command that reads lines: each says what the file is and what to do, with
# the same exit code, in bounded memory.
# cost: 5
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit

null=(--tokenizer-type NullTokenizer --vocab-size 1000)
preprocess=("$BEVATRON" preprocess --output-prefix "$work/p" --workers 2 "${null[@]}" --input)
train=("$BEVATRON" tokenizer train --vocab-size 300 --output-prefix "$work/t" --workers 2 --input)
import=("$BEVATRON" dataset import --output-prefix "$work/i" --workers 2 --eos-id 2 "${null[@]}" --text)
dictionary=("$BEVATRON" tokenizer dictionary --output "$work/dict.txt" --input)
extract=("$BEVATRON" extract wiki --output "$work/o.jsonl" --input)

# everywhere CODE TEXT FILE
everywhere() {
    local command
    for command in preprocess train import dictionary extract; do
        local -n words=$command
        expect "$1" "$2" "${words[@]}" "$3"
    done
}

for i in $(seq 3000); do echo "{\"text\": \"$((i % 1000)) $((i * 7 % 1000))\"}"; done >"$work/a.jsonl"
tar cf "$work/a.tar" -C "$work" a.jsonl
expect 215 "a.tar is a tar archive; unpack it with \`tar xf $work/a.tar\`" "${import[@]}" "$work/a.tar"
expect 0 "3000 documents" "${preprocess[@]}" "$work/a.tar" --output-prefix "$work/tar"
if grep -q "ZLIB *yes" <<<"$("$BEVATRON" version)"; then
    gzip -c "$work/a.tar" >"$work/a.tgz"
    expect 215 "a.tgz is a tar archive; unpack it with \`tar xf $work/a.tgz\`" "${extract[@]}" "$work/a.tgz"
    expect 0 "3000 documents" "${preprocess[@]}" "$work/a.tgz" --output-prefix "$work/tgz"
    # A flipped byte of the compressed data is reported as damage, not as bad UTF-8 or bad JSON.
    gzip -nc "$work/a.jsonl" >"$work/flip.jsonl.gz"
    printf '\x55' | dd of="$work/flip.jsonl.gz" bs=1 seek=2000 conv=notrunc 2>/dev/null
    for n in 1 3; do
        expect 215 "flip.jsonl.gz: gzip data is damaged near byte" "${preprocess[@]}" "$work/flip.jsonl.gz" --workers "$n"
    done
    expect 215 "flip.jsonl.gz: gzip data is damaged near byte" "${train[@]}" "$work/flip.jsonl.gz"
    # The same on standard input if that is a file; a pipe may be damaged, unless its checksum has already come.
    "${preprocess[@]}" - <"$work/flip.jsonl.gz" >"$work/out" 2>&1
    grep -q "gzip data is damaged near byte" "$work/out" && pass || fail "damage of a file on standard input"
    "${preprocess[@]}" - < <(cat "$work/flip.jsonl.gz") >"$work/out" 2>&1
    grep -q "gzip data is damaged near byte\|the input may be damaged; check it with .gzip -t FILE" "$work/out" && pass || fail "damage of a pipe"
fi
iconv -f utf-8 -t utf-16le "$work/a.jsonl" >"$work/wide.jsonl"
everywhere 215 "iconv -f utf-16le -t utf-8 $work/wide.jsonl" "$work/wide.jsonl"
everywhere 215 "not text: it begins with zero bytes" /dev/zero
for address in gs://bucket/a.jsonl hf://datasets/a.jsonl; do
    everywhere 1 "$address is " "$address"
done
everywhere 1 'gcloud storage cp gs://b/a.jsonl .' gs://b/a.jsonl
expect 1 'aws s3 cp s3://b/a.bin . && aws s3 cp s3://b/a.idx .' "$BEVATRON" dataset inspect s3://b/a

# Names of datasets and pages: every command, train with its --data-path too, says how to get the data.
hub="hf download roneneldan/TinyStories --repo-type dataset --local-dir roneneldan/TinyStories"
trained=("$BEVATRON" train --preset cpu-3m --tokenizer-type auto --device cpu --data-path)
for name in hf://datasets/roneneldan/TinyStories https://huggingface.co/datasets/roneneldan/TinyStories \
    https://huggingface.co/datasets/roneneldan/TinyStories/viewer roneneldan/TinyStories; do
    everywhere 1 "\`$hub\`" "$name"
    expect 1 "\`$hub\`" "${trained[@]}" "$name"
done
expect 1 "hf download a/b data/x.jsonl --repo-type dataset --local-dir a/b" "${trained[@]}" hf://datasets/a/b/data/x.jsonl
everywhere 1 "https://raw.githubusercontent.com/karpathy/char-rnn/master/input.txt" https://github.com/karpathy/char-rnn/blob/master/input.txt
expect 1 "https://raw.githubusercontent.com/karpathy/char-rnn/master/input.txt" "${trained[@]}" https://github.com/karpathy/char-rnn/blob/master/input.txt
expect 1 "copy it: \`gcloud storage cp gs://b/a.jsonl .\`" "${trained[@]}" gs://b/a.jsonl
# A path that is only misspelt is no dataset of the hub.
mkdir "$work/data"
for name in "$work/data/corpus" data/corpus.jsonl corpus; do
    expect 1 "check the path" "${trained[@]}" "$name"
    grep -q "Hugging Face" "$work/out" && fail "$name is taken for a name of Hugging Face" || pass
done
# Models, wherever they are loaded from.
for name in gpt2 meta-llama/Llama-3.1-8B; do
    get="if it is a model of Hugging Face, download it: \`hf download $name --local-dir $name\`"
    expect 216 "$get" "$BEVATRON" generate --load "$name" --prompt x --device cpu
    expect 216 "$get" "$BEVATRON" evaluate --load "$name" --text "$work/a.jsonl" --device cpu
    expect 216 "$get" "$BEVATRON" checkpoint convert --input "$name" --output "$work/model"
    expect 1 "$get" "$BEVATRON" checkpoint inspect "$name"
    expect 216 "$get" "$BEVATRON" train --preset cpu-3m --mock-data --vocab-size 300 --train-iters 1 --lr 1e-3 --micro-batch-size 1 \
        --device cpu --load "$name" --save "$work/run"
done
expect 1 "hf download gpt2 tokenizer.json tokenizer_config.json --local-dir gpt2" "$BEVATRON" tokenizer inspect \
    --tokenizer-type HuggingFaceTokenizer --tokenizer-model gpt2
# Pages of old models and datasets have no organization, and words of the site after the name.
for page in gpt2 gpt2/tree/main gpt2?library=transformers distilbert-base-uncased/blob/main/config.json; do
    name=${page%%[/?]*}
    expect 2 "\`hf download $name --local-dir $name\`" "$BEVATRON" generate --load "https://huggingface.co/$page" --prompt x --device cpu
done
for page in imdb imdb/viewer imdb/tree/main; do
    expect 1 "\`hf download imdb --repo-type dataset --local-dir imdb\`" "${trained[@]}" "https://huggingface.co/datasets/$page"
done
for page in docs/transformers gpt2/resolve/main/config.json; do
    expect 2 "download it first" "$BEVATRON" generate --load "https://huggingface.co/$page" --prompt x --device cpu
    grep -q "hf download" "$work/out" && fail "$page is taken for a model" || pass
done

# A stream without line ends: no command waits for one, or keeps more than its limit.
# endless COMMAND…: reads from a pipe whose line never ends.
endless() {
    yes 12345 | tr -d '\n' | timeout 300 "$@" >"$work/out" 2>&1
    local code=${PIPESTATUS[2]}
    if [ "$code" = 215 ] && grep -q "longer than 100000 bytes" "$work/out"; then pass; else fail "exit code $code: $*"; fi
}
limit=(--max-line-bytes 100000)
for command in preprocess train import dictionary; do
    declare -n words=$command
    endless "${words[@]}" - "${limit[@]}"
done
endless "$BEVATRON" tokenizer encode "${null[@]}" "${limit[@]}"
for way in encode decode; do
    endless "$BEVATRON" tokenizer "$way" "${null[@]}" --lines "${limit[@]}"
done

# JSON in another shape, and bad JSON: one exit code.
printf '{\n  "text": "1"\n}\n' >"$work/pretty.json"
printf '{"text": "1"}\n{"text": "2\n' >"$work/cut.jsonl"
for command in preprocess train; do
    declare -n words=$command
    expect 215 "pretty.json:1: this is pretty-printed JSON, not JSON Lines; write one object per line: \`jq -c ." "${words[@]}" "$work/pretty.json"
    expect 215 "cut.jsonl:2: not a valid JSON line" "${words[@]}" "$work/cut.jsonl"
done
for way in encode decode; do
    echo '"1' | "$BEVATRON" tokenizer "$way" "${null[@]}" --json-lines >"$work/out" 2>&1
    [ "${PIPESTATUS[1]}" = 215 ] && pass || fail "exit code of bad JSON in tokenizer $way"
done
expect 215 "cut.jsonl is not valid JSON" "$BEVATRON" tokenizer inspect --vocab-file "$work/cut.jsonl" --merge-file tests/golden/bpe/merges.txt

finish
