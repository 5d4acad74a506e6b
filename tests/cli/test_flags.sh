#!/usr/bin/env bash
# Flags that users know from elsewhere: names of other programs are answered with ours, Python's numbers and a quoted
# --split are accepted, every problem is listed, flags without an effect get a warning, and the list of arguments is
# short unless requested.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
model=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --device cpu --threads 1)
run=("$BEVATRON" train "${model[@]}" --micro-batch-size 1 --lr 1e-3 --train-iters 2 --eval-iters 0 --log-interval 1)
mock=("${run[@]}" --mock-data --vocab-size 50)

expect 2 "unknown flag --learning-rate; use --lr" "${run[@]}" --learning-rate 1
expect 2 "unknown flag --max-tokens; use --max-new-tokens" "$BEVATRON" generate --max-tokens 3
# What other commands take as a flag and these as an argument.
expect 2 "unknown flag --input; leave it out: \`bevatron checkpoint inspect PATH…\`" "$BEVATRON" checkpoint inspect --input run
expect 2 "unknown flag --data-path; leave it out: \`bevatron dataset inspect PREFIX…\`" "$BEVATRON" dataset inspect --data-path x
expect 2 "unknown flag --num-proc; use --workers" "$BEVATRON" preprocess --num-proc 3
printf 'learning_rate: 1\n' >"$work/trainer.yaml"
expect 2 "trainer.yaml:1: unknown flag --learning_rate; use --lr" "${run[@]}" --config "$work/trainer.yaml"
# A file of another program is answered key by key, to its end.
{
    echo '{'
    for key in learning_rate num_train_epochs max_steps warmup_steps output_dir save_steps eval_steps logging_steps dtype dropout \
        block_size grad_clip n_layer n_head n_embd; do echo "\"$key\": 1,"; done
    echo '"max_grad_norm": 1}'
} >"$work/trainer.json"
expect 2 "16 problems with the flags" "${run[@]}" --config "$work/trainer.json"
grep -q "trainer.json:17: unknown flag --max_grad_norm; use --clip-grad" "$work/out" && pass || fail "the last key is not answered"
unknown=()
for i in $(seq 30); do unknown+=("--qqqqqqqq$i"); done
expect 2 "30 problems with the flags:" "${run[@]}" "${unknown[@]}"
[ "$(grep -c "unknown flag --qqqqqqqq" "$work/out")" = 30 ] && pass || fail "not all problems are listed"

# Numbers and booleans as in Python programs; this run is short because 1_0 is 10.
expect 0 "iteration       10/      10" "${mock[@]}" --train-iters 1_0 --lr 1_000e-6 --bf16 False --log-interval 1_0

# Warnings; one of each.
expect 0 "warning: --num-query-groups 1 has no effect without --group-query-attention" "${mock[@]}" --num-query-groups 1
expect 0 "warning: --openai-gelu has no effect, as in Megatron core" "${mock[@]}" --openai-gelu --no-bias-gelu-fusion
expect 0 "warning: --onnx-safe has no effect, as in Megatron core" "${mock[@]}" --onnx-safe True
expect 0 "note: --openai-gelu changes nothing here: the activation is gelu_tanh" "${mock[@]}" --openai-gelu
"$BEVATRON" train "${mock[@]:2}" --openai-gelu --no-bias-gelu-fusion --use-legacy-models >"$work/out" 2>&1 &&
    ! grep -q "openai-gelu has no" "$work/out" && pass || fail "--openai-gelu in a legacy model"

# Heads of any width on a CPU.
expect 0 "iteration        2/       2" "${mock[@]}" --hidden-size 514 --kv-channels 300 --position-embedding-type rope

# A small dataset, whose parts may be empty.
for i in 1 2 3 4 5 6 7 8; do echo "{\"text\": \"the quick brown fox number $i jumps over the lazy dog and runs away again\"}"; done >"$work/t.jsonl"
"$BEVATRON" tokenizer train --input "$work/t.jsonl" --vocab-size 280 --output-prefix "$work/t" >"$work/out" 2>&1 || fail "tokenizer train"
tokenizer=(--vocab-file "$work/t-vocab.json" --merge-file "$work/t-merges.txt")
"$BEVATRON" preprocess --input "$work/t.jsonl" --output-prefix "$work/d" --append-eod "${tokenizer[@]}" >"$work/out" 2>&1 || fail "preprocess"
data=("${run[@]}" "${tokenizer[@]}" --eval-iters 1 --eval-interval 1)
expect 0 "note: --split '99,1,0' leaves none of the 8 sequences of $work/d_text_document for validation" "${data[@]}" \
    --data-path "$work/d_text_document" --split "'99,1,0'"
expect 0 "iteration        2/       2" "${data[@]}" --data-path "$work/d_text_document" --split "'60,40,0'"
expect 0 "warning: --vocab-size 100 has no effect: the tokenizer has 280 tokens" "${data[@]}" \
    --data-path "$work/d_text_document" --vocab-size 100
# Missing or empty validation data is found before the index of the training data is built.
echo '{"text": ""}' | "$BEVATRON" preprocess --input - --output-prefix "$work/none" "${tokenizer[@]}" >"$work/out" 2>&1 || fail "preprocess nothing"
for valid in none_text_document missing_text_document; do
    own=(--train-data-path "$work/d_text_document" --valid-data-path "$work/$valid" --data-cache-path "$work/own")
    "${data[@]}" "${own[@]}" >"$work/out" 2>&1 && fail "validation on $valid"
    grep -q "$valid" "$work/out" && ! grep -q "building the sample index" "$work/out" && [ -z "$(ls -A "$work/own" 2>/dev/null)" ] && pass ||
        fail "$valid is found too late"
done
expect 215 "none_text_document has no sequences, but the valid split needs some" "${data[@]}" --train-data-path "$work/d_text_document" \
    --valid-data-path "$work/none_text_document"
# So is a split that leaves nothing to train on, before the index of the validation data is built.
expect 215 "there are no training samples: --split 0,100,0 leaves none for training" "${data[@]}" --data-path "$work/d_text_document" \
    --split 0,100,0 --data-cache-path "$work/own"
! grep -q "building the sample index" "$work/out" && pass || fail "an index is built for a run that cannot start"
expect 215 "no data is given for training; give --train-data-path" "${data[@]}" --valid-data-path "$work/d_text_document"
expect 1 "s3://b/d is in S3, not a dataset here; copy its .bin and .idx files" "${data[@]}" --data-path s3://b/d
expect 2 "--data-path: the weight of B is missing" "${data[@]}" --data-path 1 A B

# Arguments: a log has those given and derived, with the flag all of them, a terminal none.
expect 0 "more have their defaults; --log-arguments lists them" "${mock[@]}"
grep -qE "^  ffn_hidden_size \.+ 64$" "$work/out" && ! grep -q "^  adam_beta1 " "$work/out" && pass || fail "the short list of arguments"
expect 0 "number of parameters" "${mock[@]}" --dry-run
# A preset knows the vocabulary of its model, where neither data nor a tokenizer say it; the tokenizer of another machine
# need not be guessed if the padded size is given.
expect 0 "559214592" "$BEVATRON" train --preset bloom-560m --dry-run
expect 0 "a vocabulary of 250880 tokens" "$BEVATRON" train --preset bloom-560m --dry-run
# The padded size is enough, in a plan too.
expect 0 "a vocabulary of 1000 tokens" "$BEVATRON" train --preset cpu-3m --dry-run --padded-vocab-size 1000
expect 0 "padded_vocab_size ............................... 1000" "$BEVATRON" train --preset cpu-3m --dry-run --padded-vocab-size 1000 --log-arguments
expect 0 "number of parameters" "$BEVATRON" plan --preset cpu-3m --padded-vocab-size 1000
elsewhere=(--tokenizer-type HuggingFaceTokenizer --tokenizer-model "$work/elsewhere/tokenizer.json")
expect 0 "assuming the published vocabulary, padded to 250880" "$BEVATRON" train --preset bloom-560m --dry-run "${elsewhere[@]}"
expect 0 "number of parameters" "$BEVATRON" train --preset cpu-3m --dry-run "${elsewhere[@]}" --padded-vocab-size 1000
grep -q "assuming" "$work/out" && fail "a vocabulary is assumed beside --padded-vocab-size" || pass
[ "$(sed -n '/- arguments -/,/end of arguments/p' "$work/out" | wc -l)" -lt 40 ] && pass || fail "the list of a dry run is long"
expect 0 "end of arguments" "${mock[@]}" --log-arguments
grep -qE "^  adam_beta1 \.+ 0.9$" "$work/out" && ! grep -q "have their defaults" "$work/out" && pass || fail "the whole list of arguments"
expect 0 "1 or 0 for all tokens" "$BEVATRON" generate --help

finish
