#!/usr/bin/env bash
# Bad input: a clear message that names the problem and the remedy, the documented exit code, nothing half-written.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit

# A tokenizer and a dataset to damage.
printf '{"text": "the cat sat on the mat and the cat ate"}\n{"text": ""}\n{"text": "a dog ran to the cat"}\n' >"$work/a.jsonl"
for _ in $(seq 40); do cat "$work/a.jsonl"; done >"$work/text.jsonl"
expect 0 "" "$BEVATRON" tokenizer train --input "$work/text.jsonl" --vocab-size 280 --output-prefix "$work/t"
tokenizer=(--vocab-file "$work/t-vocab.json" --merge-file "$work/t-merges.txt")
expect 0 "" "$BEVATRON" preprocess --input "$work/text.jsonl" --output-prefix "$work/d" "${tokenizer[@]}" --append-eod
prefix=$work/d_text_document
train=("$BEVATRON" train "${tokenizer[@]}" --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8
    --max-position-embeddings 8 --micro-batch-size 2 --train-iters 4 --lr 1e-3 --log-interval 1 --eval-interval 10
    --eval-iters 0 --split 1 --device cpu)
expect 0 "iteration        4/       4" "${train[@]}" --data-path "$prefix" --save "$work/run" --save-interval 4

# Flags.
expect 2 "did you mean --num-layers" "${train[@]}" --num-layer 2
expect 2 "--num-layers" "${train[@]}" --num-layers minus
expect 2 "no command" "$BEVATRON" trian
expect 2 "no help on \"nosuch\"" "$BEVATRON" help nosuch
expect 2 "no help on \"trian\"; did you mean train?" "$BEVATRON" help trian
expect 2 "did you mean presets?" "$BEVATRON" help preset
expect 2 "generate takes only flags; did you mean --load run?" "$BEVATRON" generate run
expect 2 "evaluate takes only flags; did you mean --text notes.txt?" "$BEVATRON" evaluate notes.txt
expect 2 "the folder of a checkpoint is the value of --load" "$BEVATRON" evaluate "$work"
expect 2 "tokenizer train takes only flags; did you mean --input books.jsonl?" "$BEVATRON" tokenizer train books.jsonl
expect 2 "did you mean collectives?" "$BEVATRON" bench colectives
expect 0 "--output-prefix" "$BEVATRON" help preprocess
expect 0 "Joins datasets" "$BEVATRON" help dataset merge
expect 0 "recompute_granularity" "${train[@]}" --data-path "$prefix" --checkpoint-activations --dry-run
grep -q "has no effect without" "$work/out" && fail "--checkpoint-activations is said to lack the granularity it implies"
expect 0 "note: --tensorboard-queue-size has no effect" "${train[@]}" --data-path "$prefix" --tensorboard-queue-size 5 --dry-run
expect 2 "--fp16 does not work with --bf16" "${train[@]}" --data-path "$prefix" --fp16 --bf16
expect 2 "--qk-l2-norm" "${train[@]}" --data-path "$prefix" --qk-l2-norm
expect 0 "iteration        4/       4" "${train[@]}" --data-path "$prefix" --bf16

# Files.
expect 1 "$work/none.idx" "${train[@]}" --data-path "$work/none"
expect 1 "$work/none.json" "${train[@]}" --data-path "$prefix" --vocab-file "$work/none.json"
expect 1 "$work/none.jsonl" "$BEVATRON" preprocess --input "$work/none.jsonl" --output-prefix "$work/x" "${tokenizer[@]}"

# spoil SUFFIX COMMAND…: a copy of the dataset with one file changed by the command (file in $1) must be refused.
spoil() {
    local suffix=$1 name=$2 text=$3
    shift 3
    rm -rf "$work"/spoilt*
    cp "$prefix.bin" "$work/spoilt.bin"
    cp "$prefix.idx" "$work/spoilt.idx"
    "$@" "$work/spoilt.$suffix"
    expect 215 "$text" "${train[@]}" --data-path "$work/spoilt"
    grep -qF "$work/spoilt" "$work/out" || fail "$name: the message does not name the file"
}
empty() { : >"$1"; }
truncate_one() { truncate -s -1 "$1"; }
grow() { printf x >>"$1"; }
# flip BYTE FILE: inverts one byte.
flip() {
    local byte
    byte=$(od -An -tu1 -j "$1" -N 1 "$2")
    printf "\\x$(printf %x $((255 - byte)))" | dd of="$2" bs=1 seek="$1" conv=notrunc status=none
}
flip_magic() { flip 0 "$1"; }
flip_version() { flip 9 "$1"; }
flip_dtype() { flip 17 "$1"; }
flip_count() { flip 18 "$1"; }
spoil idx "empty index" "" empty
spoil idx "truncated index" "" truncate_one
spoil idx "magic" "" flip_magic
spoil idx "version" "" flip_version
spoil idx "dtype" "" flip_dtype
spoil idx "count" "" flip_count
spoil bin "truncated tokens" "" truncate_one
spoil bin "empty tokens" "" empty

# Ids beyond the vocabulary: a dataset of another tokenizer.
printf '1 2 3 4 5 6 7 8 9 10 11 12 13 14 500 501 502 503\n' | sed 's/.*/{"text": "&"}/' >"$work/ids.jsonl"
expect 0 "" "$BEVATRON" preprocess --input "$work/ids.jsonl" --output-prefix "$work/ids" --tokenizer-type NullTokenizer \
    --vocab-size 1000
expect 215 "beyond the vocabulary of 280" "${train[@]}" --data-path "$work/ids_text_document"

# Tokenizer files that disagree.
sed 's/"the": *[0-9]*, *//; s/"\\u0120the": *[0-9]*, *//; s/"Ġthe": *[0-9]*, *//' "$work/t-vocab.json" >"$work/less.json"
cmp -s "$work/less.json" "$work/t-vocab.json" && fail "the vocabulary was not changed"
expect 1 "merges" "${train[@]}" --data-path "$prefix" --vocab-file "$work/less.json"
expect 0 "" "$BEVATRON" tokenizer train --input "$work/text.jsonl" --vocab-size 270 --output-prefix "$work/small"
expect 1 "no merge of $work/small-merges.txt makes the token" "$BEVATRON" preprocess --input "$work/text.jsonl" \
    --output-prefix "$work/mixed" --vocab-file "$work/t-vocab.json" --merge-file "$work/small-merges.txt"

# Files that users pass by mistake: what they are, and what to do.
printf '<!DOCTYPE html>\n<html><body>404 Not Found</body></html>\n' >"$work/page"
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 7\n' >"$work/pointer"
printf '\xef\xbb\xbf' | cat - "$work/t-merges.txt" >"$work/marked.txt"
: >"$work/nothing.json"
expect 215 "it is a web page: download the file itself" "$BEVATRON" tokenizer inspect --vocab-file "$work/page" --merge-file "$work/t-merges.txt"
expect 1 "it is a web page: download the file itself" "$BEVATRON" tokenizer inspect --vocab-file "$work/t-vocab.json" --merge-file "$work/page"
expect 1 "git lfs pull" "$BEVATRON" tokenizer inspect --tokenizer-type Llama2Tokenizer --tokenizer-model "$work/pointer"
expect 215 "git lfs pull" "$BEVATRON" tokenizer inspect --tokenizer-type HuggingFaceTokenizer --tokenizer-model "$work/pointer"
expect 1 "byte order mark" "$BEVATRON" tokenizer inspect --vocab-file "$work/t-vocab.json" --merge-file "$work/marked.txt"
expect 215 "it is empty: copy or download it again" "$BEVATRON" tokenizer inspect --vocab-file "$work/nothing.json" --merge-file "$work/t-merges.txt"
head -c 300 "$work/t-vocab.json" >"$work/cut.json"
expect 215 "so it may be truncated: copy or download it again" "$BEVATRON" tokenizer inspect --vocab-file "$work/cut.json" --merge-file "$work/t-merges.txt"
mkdir "$work/hub"
cp tests/golden/foreign/gpt2/config.json "$work/hub/config.json"
cp "$work/pointer" "$work/hub/model.safetensors"
expect 1 "cannot read $work/hub/model.safetensors" "$BEVATRON" checkpoint inspect "$work/hub"
grep -q "git lfs pull" "$work/out" && ! grep -q "cannot use .*config.json" "$work/out" && pass || fail "a pointer of Git LFS"
rm "$work/hub/config.json"
expect 1 "no config.json" "$BEVATRON" checkpoint inspect "$work/hub"
# A vocabulary passed as a configuration: reported at once, whatever its length.
expect 2 "12 keys are unknown and none is a flag" "${train[@]}" --config "$work/t-vocab.json"

# Bad lines.
printf '{"text": "fine"}\n{"text": "broken\n' >"$work/bad.jsonl"
expect 215 "bad.jsonl" "$BEVATRON" preprocess --input "$work/bad.jsonl" --output-prefix "$work/bad" "${tokenizer[@]}"
grep -qE "line 2|:2" "$work/out" && pass || fail "the line is not named"
[ ! -e "$work/bad_text_document.bin" ] && [ ! -e "$work/bad_text_document.idx" ] && pass || fail "half-written output"
printf '{"text": "caf\xe9"}\n' >"$work/latin.jsonl"
expect 215 "latin.jsonl" "$BEVATRON" preprocess --input "$work/latin.jsonl" --output-prefix "$work/latin" "${tokenizer[@]}"
ls "$work" | grep -q "tmp" && fail "temporary files are left: $(ls "$work" | grep tmp)"

# Checkpoints.
expect 1 "num_layers" "${train[@]}" --data-path "$prefix" --num-layers 2 --load "$work/run"
expect 216 "$work/nowhere" "$BEVATRON" generate --load "$work/nowhere" --prompt x
cp -r "$work/run" "$work/damaged"
flip 3000 "$work/damaged/iter_0000004/model.safetensors"
expect 216 "model.safetensors" "$BEVATRON" generate --load "$work/damaged" --prompt x
expect 216 "model.safetensors" "${train[@]}" --data-path "$prefix" --load "$work/damaged"
rm "$work/damaged/iter_0000004/model.safetensors"
expect 216 "model.safetensors is missing, but the manifest lists a file of that name" "$BEVATRON" checkpoint verify "$work/damaged"
mkdir "$work/damaged/iter_0000004/model.safetensors"
expect 216 "model.safetensors is a folder" "$BEVATRON" checkpoint verify "$work/damaged"
expect 0 "cat" "$BEVATRON" generate --load "$work/run" --prompt "the cat" --max-new-tokens 3
# A prompt on standard input that never ends.
yes cat | tr -d '\n' | timeout 300 "$BEVATRON" generate --load "$work/run" --max-new-tokens 3 >"$work/out" 2>&1
[ "${PIPESTATUS[2]}" = 215 ] && grep -q "a prompt on standard input is longer than" "$work/out" && pass || fail "an endless prompt"
expect 216 "is the folder of one iteration; give its parent folder and the iteration: --load $(realpath "$work")/run --ckpt-step 4" \
    "$BEVATRON" generate --load "$work/run/iter_0000004" --prompt x
expect 216 "is the folder of one iteration" "${train[@]}" --data-path "$prefix" --load "$work/run/iter_0000004/"
expect 216 "text.jsonl is a file" "${train[@]}" --data-path "$prefix" --load "$work/text.jsonl"
mkdir "$work/nothing"
expect 216 "$work/nothing is not a checkpoint" "$BEVATRON" checkpoint verify "$work/nothing"
expect 1 "$work/nothing is not a checkpoint" "$BEVATRON" checkpoint inspect "$work/nothing"
expect 0 "iteration        6/       6" "$BEVATRON" train --config "$work/run/iter_0000004/config.json" --load "$work/run" \
    --save "$work/again" --train-iters 6 --lr-decay-iters 6 --override-opt_param-scheduler
grep -q "has no effect in a GPT" "$work/out" && fail "notes about flags that nobody gave" || pass

# evaluate and generate have the flags of a model, not those of its training.
for flag in --lr --save --train-iters --log-interval --tensorboard-dir --eval-iters; do
    expect 2 "$flag is a flag of train, not of evaluate" "$BEVATRON" evaluate --load "$work/run" --data-path "$prefix" "$flag" 1
    expect 2 "$flag is a flag of train, not of generate" "$BEVATRON" generate --load "$work/run" --prompt x "$flag" 1
    "$BEVATRON" generate --help-all | grep -q -- "$flag " && fail "generate --help-all lists $flag"
done
# Flags that come from the checkpoint are not in their short help.
for command in evaluate generate; do
    expect 0 "  --load DIR " "$BEVATRON" $command --help
    grep -q -- "--num-layers" "$work/out" && fail "$command --help begins with the model's flags" || pass
    expect 0 "  --num-layers N " "$BEVATRON" $command --help-all
done
expect 2 "--data-path is a flag of train" "$BEVATRON" generate --load "$work/run" --data-path "$prefix"
expect 0 "perplexity" "$BEVATRON" evaluate --load "$work/run" --data-path "$prefix" --micro-batch-size 2
grep -q "969" "$work/out" && fail "evaluate speaks of a split that it does not make"
: >"$work/empty.txt"
expect 215 "$work/empty.txt has 0 tokens" "$BEVATRON" evaluate --load "$work/run" --text "$work/empty.txt"

# Failing to write results is reported.
if [ -w /dev/full ]; then
    lost() {
        "$@" >/dev/full 2>"$work/out"
        code=$?
        [ "$code" = 1 ] && grep -q "standard output" "$work/out" && pass || fail "exit code $code with a full stdout: $*"
    }
    lost "$BEVATRON" version
    lost "$BEVATRON" help flags
    lost "$BEVATRON" train --help
    lost "$BEVATRON" dataset peek "$prefix" "${tokenizer[@]}"
    lost "$BEVATRON" checkpoint inspect "$work/run"
    lost "$BEVATRON" evaluate --load "$work/run" --data-path "$prefix"
    lost "$BEVATRON" generate --load "$work/run" --prompt "the cat" --max-new-tokens 3
fi

# Not enough memory: what is missing, and flags that were measured to suffice. A limit on the address space stands in
# for a small machine.
if ! is_sanitized && (ulimit -v 6000000 && "$BEVATRON" version) >/dev/null 2>&1; then
    large=(bash -c 'ulimit -v 6000000; exec "$@"' large "${train[@]}" --data-path "$prefix" --num-layers 8 --hidden-size 512
        --num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 --threads 1)
    expect 214 "no room for the activations, " "${large[@]}" --micro-batch-size 64
    grep -q "the step needs .* GB (weights .* GB are free; it would fit with --.* GB.: cannot allocate" "$work/out" && pass ||
        fail "the error says no way out"
    expect 214 " GB; give a smaller --optimizer-offload-fraction, or split" "${large[@]}" \
        --hidden-size 2048 --seq-length 16 --micro-batch-size 1 --bf16 --optimizer-cpu-offload
    expect 214 "it would not fit in any of the layouts that were tried, on up to 1024 ranks" "${large[@]}" --micro-batch-size 1 --hidden-size 131072 --num-attention-heads 1024
fi

# A save folder that cannot be written, or is full: a file size limit stands in for a full disk.
: >"$work/file"
expect 1 "$work/file" "${train[@]}" --data-path "$prefix" --save "$work/file/run" --save-interval 2
(ulimit -f 8; trap '' XFSZ; exec "${train[@]}" --data-path "$prefix" --save "$work/full" --save-interval 2 --metrics-file "$work/m.jsonl") >"$work/out" 2>&1
code=$?
[ "$code" = 1 ] && pass || fail "exit code $code instead of 1 with a full disk"
[ -z "$(ls "$work/full" 2>/dev/null)" ] && pass || fail "a full disk left: $(ls "$work/full")"

# A damaged checkpoint: the remedy once, and the others, not itself.
expect 0 "iteration        4/       4" "${train[@]}" --data-path "$prefix" --save "$work/half" --save-interval 2
truncate -s -1 "$work/half/iter_0000004/model.safetensors"
expect 216 "truncated, changed or replaced: restore it from a copy, or load another with --ckpt-step (others: 2)" "$BEVATRON" \
    generate --load "$work/half" --prompt x
expect 0 "" "$BEVATRON" generate --load "$work/half" --ckpt-step 2 --prompt x --max-new-tokens 2
finish
