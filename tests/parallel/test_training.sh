#!/usr/bin/env bash
# What scripts of tests/cli show on one rank, on two: moving averages, experts made of a dense model, other programs' models,
# command lines of Megatron's forks.
# tier: all
# cost: 20
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
needs_parts MPI
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
# ---- moving averages ----

model=(--mock-data --vocab-size 97 --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 17
    --max-position-embeddings 20 --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --lr-warmup-iters 0 --log-interval 1
    --eval-interval 3 --eval-iters 2 --device cpu --threads 1 --train-iters 6 --save-interval 3)
# The last loss on a set of the output.
evaluated() { # [SET]
    grep -o "${1:-validation} set | lm loss value: [0-9.E+-]*" "$work/out" | tail -1
}
expect 0 "iteration        6/" bash tests/parallel/mpirun.sh 2 "$BEVATRON" train "${model[@]}" --ema-decay 0.7 --eval-with-ema \
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --ddp-bucket-size 3000 --save "$work/two"
two=$(evaluated)
rm -rf "$work/used"
expect 0 "iteration        6/" "$BEVATRON" train "${model[@]}" --ema-decay 0.7 --eval-with-ema --save "$work/used"
one=$(evaluated)
[ -n "$one" ] && awk -v a="${one##* }" -v b="${two##* }" 'BEGIN { d = (a - b) / a; exit d * d > 1e-10 }' && pass ||
    fail "two ranks evaluate $two, one $one"
# Averaged on two ranks, resumed on one.
expect 0 "iteration        7/" "$BEVATRON" train "${model[@]}" --ema-decay 0.7 --eval-with-ema --load "$work/two" --train-iters 7 \
    --override-opt_param-scheduler

# ---- experts: the first loss is that of the dense model, where two ranks split every expert ----

base=(--mock-data --vocab-size 97 --num-layers 3 --hidden-size 24 --num-attention-heads 4 --seq-length 16
    --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --train-iters 6 --log-interval 1 --eval-iters 1 --device cpu --threads 1)
dense=("${base[@]}" --ffn-hidden-size 40 --swiglu)
first_loss() { sed -n 's/.*iteration        1\/.*lm loss: \([^ ]*\) .*/\1/p' "$work/out"; }
expect 0 "saved checkpoint" "$BEVATRON" train "${dense[@]}" --save "$work/dense" --save-interval 6
expect 0 "iteration        6/       6" "$BEVATRON" train "${dense[@]}" --load "$work/dense" --finetune
of_dense=$(first_loss)
up=("${dense[@]}" --num-experts 4 --load "$work/dense" --moe-use-upcycling)
expect 0 "iteration        6/       6" "$BEVATRON" train "${up[@]}" --nproc 2 --tensor-model-parallel-size 2
awk -v a="$(first_loss)" -v b="$of_dense" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < 1e-10) }' && pass || fail "the loss of experts on two ranks is $(first_loss), not $of_dense"

# ---- other programs' models: ranks that share layers take their part of every expert, stages read their own layers ----

mixtral=(--mock-data --micro-batch-size 2 --global-batch-size 2 --seq-length 9 --lr 1e-3 --train-iters 2 --log-interval 1 --eval-iters 0
    --device cpu --threads 1 --load tests/golden/foreign/mixtral --use-checkpoint-args --moe-aux-loss-coeff 1e-2)
expect 0 "load_balancing_loss: 1." "$BEVATRON" train "${mixtral[@]}" --save "$work/alone" --save-interval 2
expect 0 "saved checkpoint" "$BEVATRON" train "${mixtral[@]}" --nproc 2 --tensor-model-parallel-size 2 --save "$work/shared" --save-interval 2
"$(dirname "$BEVATRON")/tests/compare_weights" "$work/alone/iter_0000002" "$work/shared/iter_0000002" 1e-4 >"$work/out" 2>&1 && pass ||
    fail "ranks that share the layers of a mixtral"
foreign=tests/golden/foreign
mock=(--mock-data --micro-batch-size 2 --seq-length 9 --lr 1e-3 --log-interval 1 --eval-iters 0 --device cpu --threads 1)
for folder in megatron_dist_llama gpt2; do
    expect 0 "iteration        1/       1" "$BEVATRON" train "${mock[@]}" --load $foreign/$folder --use-checkpoint-args --train-iters 1
    sed -n 's/.*lm loss: \([0-9.]*\).*/\1/p' "$work/out" | cut -c1-5 >"$work/loss.alone"
    stages=(--pipeline-model-parallel-size 2 --decoder-last-pipeline-num-layers 1)
    expect 0 "iteration        1/       1" "$BEVATRON" train "${mock[@]}" --load $foreign/$folder --use-checkpoint-args --train-iters 1 \
        --nproc 2 --global-batch-size 2 "${stages[@]}"
    sed -n 's/.*lm loss: \([0-9.]*\).*/\1/p' "$work/out" | cut -c1-5 >"$work/loss.stages"
    expect_same "$work/loss.alone" "$work/loss.stages" "the loss of $folder in two stages"
done

# ---- Megatron's forks ----

run=(--mock-data --vocab-size 97 --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16
    --max-position-embeddings 16 --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --min-lr 1e-5
    --lr-decay-style cosine --log-interval 1 --eval-interval 100 --eval-iters 0 --threads 1 --save-interval 100)
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
expect 0 "iteration        1/" "$BEVATRON" train "${run[@]}" --fp16 --train-iters 1 "${deepspeed[@]}" --nproc 2
[ "$(grep -c "counts instead of --clip-grad" "$work/out")" = 1 ] && pass || fail "a note is not said once"
same_losses() {  # A B COUNT WHAT: up to rounding
    paste "$1" "$2" | awk -v count="$3" '{ d = ($1 - $2) / $1; if (d * d > 1e-12) exit 1 } END { exit NR != count }' &&
        pass || fail "$4: $(paste "$1" "$2")"
}
expect 0 "validation loss" "$BEVATRON" train "${run[@]}" --train-iters 4 --eval-interval 2 --eval-iters 3 --eval-global-batch-size 8
expect 0 "Evaluating on 24 samples" "$BEVATRON" train "${run[@]}" --train-iters 4 --eval-interval 2 --eval-iters 3 \
    --eval-global-batch-size 8 --eval-micro-batch-size 4 --nproc 2
expect 2 "is not a multiple of --micro-batch-size × data-parallel ranks = 2 × 2" "$BEVATRON" train "${run[@]}" \
    --train-iters 4 --eval-global-batch-size 6 --nproc 2
for i in $(seq 60); do
    printf '{"text": "def f%d(x): return x + %d if größe else naïve(数, %d)"}\n' "$i" "$i" "$((i * 7))"
done >"$work/code.jsonl"
tokenizer=(--tokenizer-type PretrainedFromHF --tokenizer-name-or-path tests/golden/fim/tokenizer.json)
expect 0 "" "$BEVATRON" preprocess --input "$work/code.jsonl" --output-prefix "$work/code" --append-eod \
    --tokenizer-type HuggingFaceTokenizer --tokenizer-model tests/golden/fim/tokenizer.json
fim=("$BEVATRON" train "${run[@]:3}" --data-path "$work/code_text_document" "${tokenizer[@]}" --split 1 --hidden-dropout 0
    --attention-dropout 0 --train-iters 4 --fim-data --fim-rate 0.7 --fim-spm-rate 0.4)
train_losses() {
    grep -o "lm loss: [^ ]*" "$work/out" | cut -d' ' -f3
}
expect 0 "iteration        4/" "${fim[@]}" --save "$work/fim1"
train_losses >"$work/fim1.losses"
expect 0 "iteration        4/" "${fim[@]}" --nproc 2
train_losses >"$work/fim2.losses"
same_losses "$work/fim1.losses" "$work/fim2.losses" 4 "two ranks with --fim-data"
finish
