#!/usr/bin/env bash
# Command lines of Megatron's forks: a script of Megatron-DeepSpeed with its configuration file trains the same bits as
# Megatron's flags; runs that end by tokens or by files; batch sizes of evaluations; samples with the middle at the end.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit

run=(--mock-data --vocab-size 97 --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16
    --max-position-embeddings 16 --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --min-lr 1e-5
    --lr-decay-style cosine --log-interval 1 --eval-interval 100 --eval-iters 0 --threads 1 --save-interval 100)
same_weights() {  # A B WHAT
    expect_same "$work/$1/model.safetensors" "$work/$2/model.safetensors" "$3"
}

# DeepSpeed clips and scales as its file says, not as the flags do.
cat >"$work/ds.json" <<'END'
{"train_batch_size": 4, "train_micro_batch_size_per_gpu": 2, "steps_per_print": 10, "gradient_clipping": 0.01,
 "zero_optimization": {"stage": 1, "allgather_bucket_size": 5e8}, "wall_clock_breakdown": false,
 "fp16": {"enabled": true, "loss_scale": 0, "loss_scale_window": 2, "hysteresis": 1, "min_loss_scale": 1,
          "initial_scale_power": 6}}
END
deepspeed=(--deepspeed --deepspeed_config "$work/ds.json" --zero-stage=1 --deepspeed-activation-checkpointing
    --checkpoint-activations --no-pipeline-parallel --clip-grad 1.0 --loss-scale 12 --use-mpi
    --abort-on-unmet-fused-kernel-constraints --log-optimizer-states-to-tensorboard)
expect 0 "gradient_clipping 0.01 counts instead of --clip-grad 1, as in DeepSpeed" "$BEVATRON" train "${run[@]}" --fp16 \
    --train-samples 24 --train-tokens 160 --lr-decay-tokens 320 --lr-warmup-tokens 64 "${deepspeed[@]}" --save "$work/ds"
grep -q "loss_scale 0 counts instead of --loss-scale 12" "$work/out" && pass || fail "the file's loss scale is not noted"
# 160 tokens are 10 samples: the third batch of 4 is the last.
grep -q "iteration        3/       6 " "$work/out" && pass || fail "--train-tokens ends elsewhere"
grep -q "iteration        4/" "$work/out" && fail "--train-tokens does not end the run" || pass
expect 0 "exiting program at iteration 3" "$BEVATRON" train "${run[@]}" --fp16 --train-samples 24 --lr-decay-samples 20 \
    --lr-warmup-samples 4 --clip-grad 0.01 --initial-loss-scale 64 --loss-scale-window 2 --hysteresis 1 \
    --use-distributed-optimizer --recompute-granularity full --recompute-method uniform --exit-interval 3 --save "$work/mega"
same_weights ds/iter_0000003 mega/iter_0000003 "Megatron-DeepSpeed's script and Megatron's"
# The run ends with its decay, though there are more samples.
expect 0 "iteration        3/       6" "$BEVATRON" train "${run[@]}" --train-samples 24 --train-tokens 162 --lr-decay-tokens 162 --min-lr 0
grep -q "the learning rate is 0" "$work/out" && fail "a warning of a rate of 0 that the run does not reach" || pass
# A learning rate that is chosen takes a warmup in tokens as it is.
expect 0 "iteration        1/" "$BEVATRON" train "${run[@]:0:17}" --threads 1 --eval-iters 0 --log-interval 1 --train-iters 1 \
    --lr-decay-tokens 320 --lr-warmup-tokens 32
expect 2 "fp16 enabled and bf16 disabled, but the flags say --bf16" "$BEVATRON" train "${run[@]}" --bf16 --train-iters 1 "${deepspeed[@]}"
expect 1 "cannot open $work/none.json" "$BEVATRON" train "${run[@]}" --train-iters 1 --deepspeed --deepspeed_config "$work/none.json"
expect 0 "deepspeed_config" "$BEVATRON" train --dry-run "${run[@]}" --fp16 --train-iters 1 "${deepspeed[@]}"
expect 0 "" "$BEVATRON" plan "${run[@]}" --fp16 --train-iters 1 "${deepspeed[@]}" --machine p4d.24xlarge --nproc 2

# A file ends a run after a checkpoint, and keeps it from starting again.
touch "$work/stop"
expect 0 "exiting program, as the file of --kill-switch-path asks" "$BEVATRON" train "${run[@]}" --train-iters 5 \
    --kill-switch-path "$work/stop" --save "$work/killed"
grep -q "iteration        1/" "$work/out" && fail "a run starts in spite of its kill switch" || pass
rm "$work/stop"
# Without --save there is no checkpoint, and the file stays.
mkdir "$work/triggers"
touch "$work/triggers/save"
expect 0 "the folder $work/nowhere of --trigger-path does not exist; create it" "$BEVATRON" train "${run[@]}" --train-iters 1 \
    --trigger-path "$work/nowhere"
expect 2 "is not a folder; give the folder for the files save and exit" "$BEVATRON" train "${run[@]}" --train-iters 1 \
    --trigger-path "$work/ds.json"
expect 0 "the file save of --trigger-path has no effect without --save" "$BEVATRON" train "${run[@]}" --train-iters 3 \
    --trigger-path "$work/triggers"

# Evaluations of their own size: the same samples in other batches.
losses() {
    grep -o "lm loss value: [^ ]*" "$work/out" | cut -d' ' -f4
}
same_losses() {  # A B COUNT WHAT: up to rounding
    paste "$1" "$2" | awk -v count="$3" '{ d = ($1 - $2) / $1; if (d * d > 1e-12) exit 1 } END { exit NR != count }' &&
        pass || fail "$4: $(paste "$1" "$2")"
}
expect 0 "validation loss" "$BEVATRON" train "${run[@]}" --train-iters 4 --eval-interval 2 --eval-iters 3 --eval-global-batch-size 8
losses >"$work/eight"
expect 0 "validation loss" "$BEVATRON" train "${run[@]}" --train-iters 4 --eval-interval 2 --eval-iters 6
losses >"$work/four"
same_losses "$work/eight" "$work/four" 4 "losses of evaluations with other batches"
# Fill in the middle: stopped and resumed, the same weights; another rate, others.
for i in $(seq 60); do
    printf '{"text": "def f%d(x): return x + %d if größe else naïve(数, %d)"}\n' "$i" "$i" "$((i * 7))"
done >"$work/code.jsonl"
tokenizer=(--tokenizer-type PretrainedFromHF --tokenizer-name-or-path tests/golden/fim/tokenizer.json)
expect 0 "" "$BEVATRON" preprocess --input "$work/code.jsonl" --output-prefix "$work/code" --append-eod \
    --tokenizer-type HuggingFaceTokenizer --tokenizer-model tests/golden/fim/tokenizer.json
fim=("$BEVATRON" train "${run[@]:3}" --data-path "$work/code_text_document" "${tokenizer[@]}" --split 1 --hidden-dropout 0
    --attention-dropout 0 --train-iters 4 --fim-data --fim-rate 0.7 --fim-spm-rate 0.4)
expect 0 "iteration        4/" "${fim[@]}" --save "$work/fim1"
expect 0 "exiting program at iteration 2" "${fim[@]}" --save "$work/fim3" --exit-interval 2
expect 0 "iteration        4/" "${fim[@]}" --save "$work/fim3" --load "$work/fim3"
same_weights fim1/iter_0000004 fim3/iter_0000004 "fill in the middle, stopped and resumed"
expect 0 "--fim-rate is 0.7 there and 0.2 here" "${fim[@]}" --load "$work/fim3" --train-iters 5 --fim-rate 0.2 \
    --override-opt_param-scheduler
expect 0 "iteration        4/" "${fim[@]}" --fim-rate 0 --save "$work/plain"
cmp -s "$work/plain/iter_0000004/model.safetensors" "$work/fim1/iter_0000004/model.safetensors" && fail "--fim-data has no effect" || pass
expect 2 "--fim-suffix-token <s> is not a token of this tokenizer" "${fim[@]}" --fim-suffix-token "<s>"
expect 0 "iteration        4/" "${fim[@]}" --fim-split-sample "<file_sep>" --fim-fragment-rate 0.5 --fim-no-prefix "def f1"

# Pai-Megatron-Patch's tokenizers: of the folder of --load, with a row for each token of the model and those of
# --extra-vocab-size. Megatron-DeepSpeed's HFTokenizer pads the tokens of the model.
tokens=330
pai=("$BEVATRON" train --dry-run --mock-data "${run[@]:3}" --train-iters 1 --load tests/golden/fim)
rows() {  # FIRST: rows of the embedding in the dry run
    grep -o "word_embeddings.weight *([0-9]*" "$work/out" | grep -o "[0-9]*$"
}
expect 0 "--patch-tokenizer-type means --tokenizer-type HuggingFaceTokenizer" "${pai[@]}" --patch-tokenizer-type LLamaTokenizer --extra-vocab-size 37
[ "$(rows)" = $((tokens + 37)) ] && pass || fail "$(rows) rows for $tokens tokens and 37"
expect 0 "parameters" "${pai[@]}" --tokenizer-type HFTokenizer --tokenizer-model tests/golden/fim --make-vocab-size-divisible-by 1000
[ "$(rows)" = $(((tokens + 999) / 1000 * 1000)) ] && pass || fail "$(rows) rows for HFTokenizer"
expect 0 "assuming the published vocabulary, padded to 151936 tokens" "${pai[@]}" --load "$work/none" --patch-tokenizer-type Qwen2Tokenizer --extra-vocab-size 293
expect 0 "assuming the published vocabulary, padded to 129280 tokens" "${pai[@]}" --tokenizer-type HuggingFaceTokenizer --tokenizer-model deepseek-ai/DeepSeek-V3

# Megatron's hybrid models name the layers; those of attention, MLPs and experts are the GPT that they describe.
gpt=("$BEVATRON" train --mock-data --vocab-size 97 "${run[@]:5}" --train-iters 2)
expect 0 "iteration        2/" "${gpt[@]}" --num-layers 2 --save "$work/gpt"
expect 0 "iteration        2/" "${gpt[@]}" --num-layers 4 --hybrid-layer-pattern "*-*-" --save "$work/hybrid"
same_weights gpt/iter_0000002 hybrid/iter_0000002 "the pattern *-*-"
moe=("${gpt[@]}" --num-experts 4 --moe-router-topk 2 --position-embedding-type rope)
expect 0 "iteration        2/" "${moe[@]}" --num-layers 3 --moe-layer-freq "[0,1,1]" --mtp-num-layers 1 --save "$work/gpt_moe"
expect 0 "iteration        2/" "${moe[@]}" --hybrid-override-pattern "*-*E*E/*E" --save "$work/hybrid_moe"
same_weights gpt_moe/iter_0000002 hybrid_moe/iter_0000002 "the pattern *-*E*E/*E"
expect 0 "stage 1 of 2: a rank holds" "${gpt[@]}" --hybrid-layer-pattern "*-|*-*-" --pipeline-model-parallel-size 2 --dry-run
grep -q "pipeline_model_parallel_layout .* Et|ttL" "$work/out" && pass || fail "the pattern's stages are others"

# BigCode's scripts have no --fim-data.
expect 0 "--fim-rate has no effect without --fim-data" "$BEVATRON" train "${run[@]}" --train-iters 1 --fim-rate 0.5

# A tokenizer that was moved, or is used with another end of documents, is the checkpoint's; one with another token is not.
mkdir "$work/moved"
cp tests/golden/fim/tokenizer.json "$work/moved"
sed 's/"<file_sep>"/"<file_end>"/' tests/golden/fim/tokenizer.json >"$work/moved/other.json"
expect 0 "iteration        1/" "${fim[@]}" --eod-token "<other>" --train-iters 1 --save "$work/ended"
ended=("$BEVATRON" evaluate --load "$work/ended" --data-path "$work/code_text_document")
for more in "$work/moved" "$work/moved --eod-token <|endoftext|>" "$work/moved --tokenizer-type PretrainedFromHF"; do
    # shellcheck disable=SC2086
    expect 0 "loss " "${ended[@]}" --tokenizer-model $more
    grep -q "the tokenizer is not" "$work/out" && fail "a warning with --tokenizer-model $more" || pass
done
expect 0 "the tokenizer is not the one of $work/ended/iter_0000001" "${ended[@]}" --tokenizer-model "$work/moved/other.json" --allow-changed-data

# Parts of datasets, as BigScience names them: the same samples as Megatron's flags for the same documents.
for name in a b; do
    for document in $(seq 40); do echo "{\"text\": \"$(seq -s' ' $((document % 7)) $((document % 7 + 30)))\"}"; done >"$work/$name.jsonl"
    expect 0 "" "$BEVATRON" preprocess --input "$work/$name.jsonl" --output-prefix "$work/$name" --tokenizer-type NullTokenizer --vocab-size 96
done
a=$work/a_text_document b=$work/b_text_document
parts=("${run[@]:1}" --train-iters 3 --eval-iters 2 --eval-interval 2 --tokenizer-type NullTokenizer)
parts[1]=96
lines() { grep -o "lm loss[^|]*" "$work/out" >"$work/$1"; }
expect 0 "iteration        3/" "$BEVATRON" train "${parts[@]}" --data-path "$a" --split 80,20,0
lines shares
expect 0 "iteration        3/" "$BEVATRON" train "${parts[@]}" --train-weighted-split-paths "train: 1 0:0.8 $a" \
    --valid-weighted-split-paths "valid: 1 0.8:1 $a"
lines parts
[ "$(wc -l <"$work/parts")" -ge 5 ] && pass || fail "there are few losses"
expect_same "$work/parts" "$work/shares" "losses of parts and of --split"
expect 0 "iteration        3/" "$BEVATRON" train "${parts[@]}" --train-data-path 0.3 "$a" 0.7 "$b" --valid-data-path "$b"
lines whole
grep -h "^ validation\|validation loss" "$work/out" >"$work/of_b"
echo "\"train: 0.3 0:1 $a, 0.7 0:1 $b\"" >"$work/train.txt"
echo "\"first: 1 0:1 $b\" \"second: 2 0:1 $a, 1 0:0.5 $b\"" >"$work/valid.txt"
expect 0 "validation loss at iteration 2 on validation second set | lm loss" "$BEVATRON" train "${parts[@]}" --tensorboard-dir "$work/board" \
    --train-weighted-split-paths-path "$work/train.txt" --valid-weighted-split-paths-path "$work/valid.txt" --metrics-file "$work/groups.jsonl"
grep -v "validation second set" "$work/out" | grep -o "lm loss[^|]*" >"$work/first"
expect_same "$work/first" "$work/whole" "losses of a blend of parts, with two validation sets"
[ "$(grep -c '"set": *"validation second"' "$work/groups.jsonl")" = 2 ] && pass || fail "metrics of the second set"
grep -aq "lm loss validation second" "$work"/board/* && pass || fail "no curve of the second set"
expect 2 "training has one group of datasets, not 2" "$BEVATRON" train "${parts[@]}" --train-weighted-split-paths-path "$work/valid.txt"
expect 2 "START:END is not a part" "$BEVATRON" train "${parts[@]}" --train-weighted-split-paths "t: 1 1:0 $a"

finish
