#!/usr/bin/env bash
# Command lines of Megatron's own scripts: a published one of a Llama on H100s runs unchanged except for its size;
# learning rates of the input embedding and the output layer are logged, resumed and guarded; gains stored as their
# distance from 1 are exported to Hugging Face as gains; flags without an effect here are noted, those without a
# replacement refused with a remedy.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit

# The model is smaller than the script's, and its fp8 matmuls need a GPU.
expect 0 "| decoupled learning rate: " "$BEVATRON" train --num-layers 2 --hidden-size 64 --ffn-hidden-size 96 \
    --num-attention-heads 4 --group-query-attention --num-query-groups 2 --kv-channels 16 --seq-length 32 \
    --max-position-embeddings 32 --position-embedding-type rope --rotary-base 1000000 --rotary-percent 1.0 \
    --attention-dropout 0.0 --hidden-dropout 0.0 --swiglu --normalization RMSNorm --init-method-std 0.0134 \
    --attention-backend fused --apply-layernorm-1p --untie-embeddings-and-output-weights --disable-bias-linear \
    --micro-batch-size 1 --global-batch-size 4 --train-samples 16 --lr-decay-samples 15 --lr-warmup-samples 4 \
    --lr 0.00015 --min-lr 0.00001 --decoupled-lr 5.0e-4 --decoupled-min-lr 4.5e-5 --lr-decay-style cosine \
    --clip-grad 1.0 --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 --bf16 --grad-reduce-in-bf16 \
    --cross-entropy-loss-fusion --calculate-per-token-loss --manual-gc --empty-unused-memory-level 1 \
    --exit-duration-in-mins 235 --fp8-param-gather --tensor-model-parallel-size 1 --context-parallel-size 1 \
    --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --mock-data \
    --tokenizer-type NullTokenizer --vocab-size 128 --data-cache-path "$work/cache" --tiktoken-pattern v2 \
    --split '99,1,0' --no-create-attention-mask-in-dataloader --no-mmap-bin-files --num-workers 1 --log-interval 1 \
    --eval-iters 1 --eval-interval 100 --save-interval 1000 --log-throughput --profile --profile-step-start 4 \
    --profile-step-end 6 --ckpt-format torch_dist --distributed-timeout-minutes 60 --save "$work/script" \
    --load "$work/script" --tensorboard-dir "$work/board"
grep -q "iteration        4/       4 " "$work/out" && pass || fail "the script's run has another length"
grep -q "note: --fp8-param-gather reduces a precision that bevatron keeps" "$work/out" && pass || fail "no note about --fp8-param-gather"
grep -q "note: each of --[a-z-]*, --.*; ignored" "$work/out" && pass || fail "notes with the same reason are not one line"
grep -q '"decoupled_learning_rate":' "$work/script/metrics.jsonl" && pass || fail "metrics.jsonl lacks the second rate"
grep -qa "decoupled-learning-rate" "$work"/board/* && pass || fail "TensorBoard lacks the second rate"

run=(--mock-data --vocab-size 97 --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16
    --micro-batch-size 2 --lr 1e-3 --lr-decay-style linear --log-interval 1 --eval-iters 0 --threads 2)
rates=(--decoupled-lr 5e-3 --decoupled-min-lr 1e-3)
# Stopped and resumed: the bits of an uninterrupted run. The rates are those of the schedule between both ends.
expect 0 "iteration        8/" "$BEVATRON" train "${run[@]}" "${rates[@]}" --train-iters 8 --save "$work/a" --save-interval 8
grep -q "learning rate: 5.000000E-04 | decoupled learning rate: 3.000000E-03 |" "$work/out" && pass ||
    fail "rates half way: $(grep -o "learning rate: .* global" "$work/out")"
expect 0 "exiting program at iteration 4" "$BEVATRON" train "${run[@]}" "${rates[@]}" --train-iters 8 --save "$work/b" \
    --save-interval 4 --exit-interval 4
expect 2 "decoupled_lr is 0.005 there and 0 here" "$BEVATRON" train "${run[@]}" --train-iters 8 --load "$work/b"
expect 0 "iteration        8/" "$BEVATRON" train "${run[@]}" "${rates[@]}" --train-iters 8 --load "$work/b" \
    --save "$work/b" --save-interval 8
for file in model optimizer; do
    expect_same "$work/a/iter_0000008/$file.safetensors" "$work/b/iter_0000008/$file.safetensors" "stop and resume with two rates"
done

# Gains trained around 1 are the same model elsewhere.
expect 0 "iteration        8/" "$BEVATRON" train "${run[@]}" --train-iters 8 --apply-layernorm-1p --squared-relu \
    --save "$work/c" --save-interval 8 --hidden-dropout 0 --attention-dropout 0
expect 0 "" "$BEVATRON" checkpoint convert --input "$work/c" --output "$work/hf" --to huggingface
grep -q '"activation_function": "relu2"' "$work/hf/config.json" && pass || fail "the square of ReLU is not in config.json"
evaluate=("$BEVATRON" train "${run[@]}" --train-iters 8 --skip-train --eval-iters 4)
expect 0 "validation loss" "${evaluate[@]}" --apply-layernorm-1p --squared-relu --load "$work/c"
grep -o "lm loss value: .*" "$work/out" >"$work/ours"
expect 0 "validation loss" "${evaluate[@]}" --squared-relu --load "$work/hf"
grep -o "lm loss value: .*" "$work/out" >"$work/theirs"
expect_same "$work/ours" "$work/theirs" "loss of the converted model"
# How gains are stored is not part of the model: a run that starts from its weights may store them differently. A
# resumed run may not.
loss_is() {  # FLAG…: the model that these flags load has the loss in $work/ours
    expect 0 "validation loss" "${evaluate[@]}" "$@"
    grep -o "lm loss value: .*" "$work/out" >"$work/theirs"
    expect_same "$work/ours" "$work/theirs" "loss with $*"
}
expect 0 "" "$BEVATRON" checkpoint convert --input "$work/hf" --output "$work/whole" --to bevatron
loss_is --activation squared_relu --load "$work/whole"
for folder in hf whole; do
    loss_is --activation squared_relu --apply-layernorm-1p --load "$work/$folder"
    loss_is --activation squared_relu --apply-layernorm-1p --load "$work/$folder" --finetune
    loss_is --activation squared_relu --apply-layernorm-1p --pretrained-checkpoint "$work/$folder"
    loss_is --use-checkpoint-args --apply-layernorm-1p --load "$work/$folder"
done
loss_is --squared-relu --load "$work/c" --finetune
loss_is --squared-relu --load "$work/c" --no-load-optim
loss_is --squared-relu --pretrained-checkpoint "$work/c"
expect 1 "apply-layernorm-1p is true there and false here" "$BEVATRON" train "${run[@]}" --train-iters 8 --load "$work/c" --squared-relu

# With norms of queries and keys it is a Qwen3 there.
llama=(--swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear --hidden-dropout 0
    --attention-dropout 0 --kv-channels 16 --group-query-attention --num-query-groups 2)
expect 0 "iteration        8/" "$BEVATRON" train "${run[@]}" "${llama[@]}" --train-iters 8 --qk-layernorm \
    --apply-layernorm-1p --save "$work/d" --save-interval 8
expect 0 "" "$BEVATRON" checkpoint convert --input "$work/d" --output "$work/qwen3"
grep -q '"model_type": "qwen3"' "$work/qwen3/config.json" && pass || fail "norms of heads are not a qwen3"
expect 0 "validation loss" "${evaluate[@]}" "${llama[@]}" --qk-layernorm --apply-layernorm-1p --load "$work/d"
grep -o "lm loss value: .*" "$work/out" >"$work/ours"
expect 0 "validation loss" "${evaluate[@]}" "${llama[@]}" --qk-layernorm --load "$work/qwen3"
grep -o "lm loss value: .*" "$work/out" >"$work/theirs"
expect_same "$work/ours" "$work/theirs" "loss of the converted qwen3"
expect 1 "llama has no --qk-layernorm true" "$BEVATRON" checkpoint convert --input "$work/d" --output "$work/llama" --family llama

# Megatron's T5 is not one of Hugging Face's: the error names what differs, and no families of another kind.
expect 0 "iteration        1/" "$BEVATRON" train "${run[@]}" --train-iters 1 --model t5 --save "$work/t5" --save-interval 1
expect 1 "nearest: t5 has no --normalization LayerNorm; to export one, train it from a --preset" "$BEVATRON" checkpoint \
    convert --input "$work/t5" --output "$work/t5-hf"
grep -q "gpt2 has no" "$work/out" && fail "a T5 is compared with a GPT-2" || pass
expect 0 "iteration        1/" "$BEVATRON" train --preset t5-small "${run[@]}" --train-iters 1 --save "$work/small" --save-interval 1
expect 0 "huggingface" "$BEVATRON" checkpoint convert --input "$work/small" --output "$work/t5-hf"

# Noted and refused.
expect 0 "--cpu-offloading has no effect without --recompute-granularity full" "$BEVATRON" train "${run[@]}" \
    --train-iters 1 --cpu-offloading
expect 0 "note: each of --offload-modules, --num-distributed-optimizer-instances tunes the speed or memory" "$BEVATRON" train "${run[@]}" --train-iters 1 \
    --offload-modules core_attn --num-distributed-optimizer-instances 2
expect 0 "--main-grads-dtype reduces a precision that bevatron keeps" "$BEVATRON" train "${run[@]}" --train-iters 1 --main-grads-dtype bf16
expect 0 "--grad-reduce-in-bf16 has no effect without --bf16" "$BEVATRON" train "${run[@]}" --train-iters 1 --grad-reduce-in-bf16
# The name of Megatron's script says which model it trains; a command line without it does not silently become a GPT.
expect 2 "give --model bert instead of the script" "$BEVATRON" train examples/bert/pretrain_bert.py "${run[@]}" --train-iters 1
expect 2 "give --model t5 instead of the script" "$BEVATRON" launch slurm --dry-run pretrain_t5.py "${run[@]}" --train-iters 1
expect 2 "--nproc-per-node is a torchrun flag" "$BEVATRON" train --nproc_per_node 8 --master_addr localhost "${run[@]}" --train-iters 1
expect 0 "--mask-prob has no effect in a GPT" "$BEVATRON" train "${run[@]}" --train-iters 1 --mask-prob 0.15 --model gpt
expect 0 "iteration        1/" "$BEVATRON" train "${run[@]}" --train-iters 1 --mask-prob 0.15 --model bert --bert-no-binary-head
grep -q "this is a GPT" "$work/out" && fail "a BERT is no GPT" || pass
expect 0 "--vocab-extra-ids is usual for a BERT or a T5" "$BEVATRON" train "${run[@]}" --train-iters 1 --vocab-extra-ids 3
expect 0 "iteration        1/" "$BEVATRON" train "${run[@]}" --train-iters 1 --vocab-extra-ids 3 --model gpt
grep -q "this is a GPT" "$work/out" && fail "a warning about a model that was chosen" || pass
# How tokens reach experts changes no numbers.
expect 0 "--moe-flex-dispatcher-backend, --moe-shared-expert-overlap tunes the speed or memory" "$BEVATRON" train "${run[@]}" --train-iters 1 \
    --num-experts 2 --disable-bias-linear --moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep \
    --moe-shared-expert-intermediate-size 32 --moe-shared-expert-overlap --moe-layer-recompute --trust-remote-code
expect 0 "--recompute-modules mla_up_proj has no effect without --multi-latent-attention" "$BEVATRON" train "${run[@]}" --train-iters 1 \
    --recompute-granularity selective --recompute-modules mla_up_proj layernorm
finish
