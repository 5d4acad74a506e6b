#!/usr/bin/env bash
# Mixtures of experts in the program: what is logged, checkpoints that resume to the bit, and what is refused.
# cost: 4
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit

base=(--mock-data --vocab-size 97 --num-layers 3 --hidden-size 24 --num-attention-heads 4 --seq-length 16
    --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --train-iters 6 --log-interval 1 --eval-iters 1 --device cpu --threads 1)
model=("${base[@]}" --num-experts 4 --moe-layer-freq "[0]+[1]*2" --moe-ffn-hidden-size 20 --swiglu --disable-bias-linear)
losses=(--moe-router-load-balancing-type aux_loss seq_aux_loss --moe-aux-loss-coeff 1e-2 1e-3 --moe-z-loss-coeff 1e-3)

# Without coefficients there are no losses to log; with them they stand beside the loss, and are no part of it.
expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}"
grep -q "load_balancing_loss\|z_loss" "$work/out" && fail "losses without coefficients are logged" || pass
first=$(sed -n 's/.*iteration        1\/.*lm loss: \([^ ]*\) .*/\1/p' "$work/out")
expect 0 " | z_loss: 1." "$BEVATRON" train "${model[@]}" "${losses[@]}" \
    --save "$work/whole" --save-interval 6 --tensorboard-dir "$work/board" --prometheus-textfile "$work/run.prom"
grep -q "lm loss: [^|]*| load_balancing_loss: 1[^|]*| seq_load_balancing_loss: 1" "$work/out" && pass || fail "losses of routers"
grep -q "iteration        1/.*lm loss: $first " "$work/out" && pass || fail "the losses of routers are part of the loss"
grep -q '"z_loss": *1\.' "$work/whole/metrics.jsonl" && pass || fail "metrics.jsonl has no z_loss"
grep -q "seq_load_balancing_loss" "$work"/board/* && pass || fail "the event file has no seq_load_balancing_loss"
# Tokens of experts: in the metrics by layer, not in the line.
grep -q '"expert_balance": *1[0-9.]*, *"idle_experts": *0, *"expert_balance_of_layer": *{"1": *1[0-9.]*, *"2": *1' "$work/whole/metrics.jsonl" &&
    pass || fail "metrics.jsonl has no balance of experts"
grep -q "expert-balance/layer-2" "$work"/board/* && grep -q "idle-experts vs samples" "$work"/board/* && pass || fail "the event file has no balance of experts"
grep -q "^bevatron_expert_balance.* 1\." "$work/run.prom" && grep -q "^bevatron_idle_experts.* 0$" "$work/run.prom" && pass || fail "Prometheus gets no balance of experts"
grep -q "expert.balance" "$work/out" && fail "the line is not Megatron's" || pass
expect 0 "expert balance 1." "$BEVATRON" board --logdir "$work/whole" --text --no-cache
grep -qx " *expert balance" "$work/out" && pass || fail "board --text draws no balance of experts"
expect 0 "" "$BEVATRON" board --logdir "$work/whole" --export "$work/report.html" --no-cache
grep -q '"expert balance of layer 2"' "$work/report.html" && pass || fail "the exported page has no balance of experts"
grep -q "validation.*load_balancing" "$work/out" && fail "evaluations have losses of routers" || pass

# A loss needs a coefficient, whose default is 0 as in Megatron.
expect 0 "seq_aux_loss has no effect without --moe-aux-loss-coeff" "$BEVATRON" train "${model[@]}" --moe-router-load-balancing-type seq_aux_loss \
    --moe-token-drop-policy position --dry-run
grep -q "moe-token-drop-policy has no effect without --moe-expert-capacity-factor" "$work/out" && pass || fail "a policy without a capacity"
expect 0 "1e-2 has no effect with --moe-router-load-balancing-type none" "$BEVATRON" train "${model[@]}" --moe-router-load-balancing-type none \
    --moe-aux-loss-coeff 1e-2 --dry-run
expect 0 "number of parameters" "$BEVATRON" train "${model[@]}" "${losses[@]}" --dry-run
grep -q "has no effect" "$work/out" && fail "losses with coefficients are said to have no effect" || pass

# Interrupted and resumed, the bits are the same.
expect 0 "saved checkpoint" "$BEVATRON" train "${model[@]}" "${losses[@]}" --save "$work/parts" --save-interval 3 --exit-interval 3
expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${losses[@]}" --load "$work/parts" --save "$work/parts" --save-interval 6
for file in model optimizer; do
    cmp -s "$work/whole/iter_0000006/$file.safetensors" "$work/parts/iter_0000006/$file.safetensors" && pass || fail "$file differs"
done
expect 1 "moe-router-topk is 2 there and 3 here" "$BEVATRON" train "${model[@]}" --moe-router-topk 3 --load "$work/parts"
expect 0 "--moe-z-loss-coeff is 0.001 there" "$BEVATRON" train "${model[@]}" --load "$work/parts" --ckpt-step 3

# A bias that balances experts is part of the model and of what a run resumes with; a run in bf16 keeps it in fp32.
biased=(--moe-router-score-function sigmoid --moe-router-enable-expert-bias --moe-router-bias-update-rate 0.01 --bf16)
expect 0 "saved checkpoint" "$BEVATRON" train "${model[@]}" "${biased[@]}" --save "$work/bias" --save-interval 6
expect 0 "saved checkpoint" "$BEVATRON" train "${model[@]}" "${biased[@]}" --save "$work/halves" --save-interval 3 --exit-interval 3
expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${biased[@]}" --load "$work/halves" --save "$work/halves" --save-interval 6
for file in model optimizer; do
    cmp -s "$work/bias/iter_0000006/$file.safetensors" "$work/halves/iter_0000006/$file.safetensors" && pass || fail "$file with a bias differs"
done
expect 0 "decoder.layers.2.mlp.router.expert_bias" "$BEVATRON" checkpoint inspect --tensors "$work/bias"
grep -q "router.expert_bias.*\(F32\|fp32\)" "$work/out" && pass || fail "the bias is not in fp32"
expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${biased[@]}" --load "$work/whole" --finetune --moe-router-bias-update-rate 0
expect 1 "moe-router-enable-expert-bias is true there and false here" "$BEVATRON" train "${model[@]}" --moe-router-score-function sigmoid --bf16 --load "$work/bias"
expect 0 "" "$BEVATRON" checkpoint convert --input "$work/bias" --output "$work/bias_copy" --to bevatron
cmp -s "$work/bias/iter_0000006/model.safetensors" "$work/bias_copy/iter_0000006/model.safetensors" && pass || fail "a copy of a model with a bias differs"
expect 1 "no Hugging Face family can express this model" "$BEVATRON" checkpoint convert --input "$work/bias" --output "$work/other" --to huggingface

# A run resumes with the loads of experts that the loss over the global batch needs, to the bit.
global=(--moe-router-load-balancing-type aux_loss global_aux_loss --moe-aux-loss-coeff 1e-2 0.5 --moe-input-jitter-eps 0.1)
expect 0 "| global_load_balancing_loss: 1" "$BEVATRON" train "${model[@]}" "${global[@]}" --save "$work/global" --save-interval 3
cp -r "$work/global" "$work/second"
rm -r "$work/second/iter_0000006"
echo 3 >"$work/second/latest_checkpointed_iteration.txt"
expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${global[@]}" --load "$work/second" --save "$work/second" --save-interval 3
for file in model optimizer; do
    cmp -s "$work/global/iter_0000006/$file.safetensors" "$work/second/iter_0000006/$file.safetensors" && pass || fail "$file with a global loss differs"
done
expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" --moe-router-load-balancing-type sinkhorn --moe-router-topk 1 --save "$work/sinkhorn" --save-interval 6

# A dense checkpoint becomes experts: the first loss is the dense model's.
dense=("${base[@]}" --ffn-hidden-size 40 --swiglu)
first_loss() { sed -n 's/.*iteration        1\/.*lm loss: \([^ ]*\) .*/\1/p' "$work/out"; }
expect 0 "saved checkpoint" "$BEVATRON" train "${dense[@]}" --save "$work/dense" --save-interval 6
expect 0 "iteration        6/       6" "$BEVATRON" train "${dense[@]}" --load "$work/dense" --finetune
of_dense=$(first_loss)
up=("${dense[@]}" --num-experts 4 --load "$work/dense" --moe-use-upcycling)
expect 0 "saved checkpoint" "$BEVATRON" train "${up[@]}" --save "$work/up" --save-interval 6
[ -n "$of_dense" ] && [ "$(first_loss)" = "$of_dense" ] && pass || fail "the loss of experts is $(first_loss), not $of_dense"
expect 2 "holds checkpoints of another run" "$BEVATRON" train "${up[@]}" --save "$work/up"
expect 1 "ffn-hidden-size is 40 there and 44 here" "$BEVATRON" train "${up[@]}" --ffn-hidden-size 44
expect 1 "num-experts is 4 there" "$BEVATRON" train "${up[@]}" --load "$work/up"
# With --pretrained-checkpoint the same command starts and resumes, to the bit; nothing to start from is no new model.
again=("${up[@]}" --pretrained-checkpoint "$work/dense" --load "$work/again" --save "$work/again")
expect 0 "saved checkpoint" "$BEVATRON" train "${again[@]}" --save-interval 3 --exit-interval 3
[ "$(first_loss)" = "$of_dense" ] && pass || fail "the loss of experts is $(first_loss), not $of_dense"
expect 0 "at iteration 3" "$BEVATRON" train "${again[@]}" --save-interval 6
cmp -s "$work/up/iter_0000006/model.safetensors" "$work/again/iter_0000006/model.safetensors" && pass || fail "experts that are resumed differ"
expect 1 "no checkpoint in $work/nothing" "$BEVATRON" train "${up[@]}" --load "$work/nothing"
expect 1 "bevatron checkpoint convert --to bevatron" "$BEVATRON" train "${up[@]}" --load tests/golden/foreign/llama

# Evaluation drops no token: the loss does not depend on how samples share batches, nor on the padding of the last one.
for _ in $(seq 30); do printf 'the cat sat on the mat and a dog ran to the cat. '; done >"$work/text.txt"
expect 0 "" "$BEVATRON" tokenizer train --input "$work/text.txt" --vocab-size 270 --output-prefix "$work/t"
expect 0 "saved checkpoint" "$BEVATRON" train "${model[@]}" --vocab-size 270 --vocab-file "$work/t-vocab.json" --merge-file "$work/t-merges.txt" \
    --lr 3e-2 --moe-expert-capacity-factor 0.5 --moe-pad-expert-input-to-capacity "${biased[@]:0:3}" --save "$work/capacity" --save-interval 6
for rows in 3 16; do
    expect 0 '"loss"' "$BEVATRON" evaluate --load "$work/capacity" --text "$work/text.txt" --micro-batch-size $rows --device cpu --json
    sed -nE 's/.*"loss": ?([0-9.]+).*/\1/p' "$work/out" >>"$work/loss"
done
awk '{ l[NR] = $1 } END { d = l[1] - l[2]; exit !(NR == 2 && l[1] > 0 && d * d < 1e-12) }' "$work/loss" && pass || fail "losses $(cat "$work/loss")"

# Recomputed modules give the same bits.
for modules in "" "mlp moe_act" "moe" "shared_experts core_attn"; do
    expect 0 "saved checkpoint" "$BEVATRON" train "${model[@]}" --disable-bias-linear --moe-shared-expert-intermediate-size 8 --moe-shared-expert-gate \
        ${modules:+--recompute-granularity selective --recompute-modules $modules} --save "$work/modules" --save-interval 6
    sha256sum <"$work/modules/iter_0000006/model.safetensors" >>"$work/bits"
    rm -rf "$work/modules"
done
[ "$(uniq "$work/bits" | wc -l)" = 1 ] && [ "$(wc -l <"$work/bits")" = 4 ] && pass || fail "recomputed modules: $(cat "$work/bits")"

# Of the 4 experts of 2 layers, 3 × 24 × 20 parameters each, a token meets 2.
expect 0 "number of parameters: 27024" "$BEVATRON" train "${model[@]}" --dry-run
grep -qx "of which a token meets: 21264" "$work/out" && pass || fail "active parameters"
expect 0 "read back" "$BEVATRON" checkpoint convert --input "$work/parts" --output "$work/copy" --to bevatron
expect 1 "no Hugging Face family can express this model" "$BEVATRON" checkpoint convert --input "$work/parts" --output "$work/other" --to huggingface
# Nor is one that differs from a Llama by its experts alone written as a Llama.
expect 0 "saved checkpoint" "$BEVATRON" train "${model[@]}" --model llama --save "$work/llama" --save-interval 6
for to in huggingface gguf; do
    expect 1 "nearest: mixtral has no --moe-layer-freq [0]+[1]*2" "$BEVATRON" checkpoint convert --input "$work/llama" --output "$work/other" --to $to
done
[ ! -e "$work/other" ] && pass || fail "nothing is left of a model that was not written"

# Hugging Face's experts are loaded, trained and written back.
mixtral=(--mock-data --micro-batch-size 2 --global-batch-size 2 --seq-length 9 --lr 1e-3 --train-iters 2 --log-interval 1 --eval-iters 0
    --device cpu --threads 1 --load tests/golden/foreign/mixtral --use-checkpoint-args --moe-aux-loss-coeff 1e-2)
expect 0 "load_balancing_loss: 1." "$BEVATRON" train "${mixtral[@]}" --save "$work/alone" --save-interval 2
expect 0 "read back" "$BEVATRON" checkpoint convert --input "$work/alone" --output "$work/hf" --to huggingface
grep -q '"model_type": "mixtral"' "$work/hf/config.json" && grep -q '"router_aux_loss_coef": 0.02' "$work/hf/config.json" &&
    grep -q '"num_local_experts": 4' "$work/hf/config.json" && pass || fail "the configuration of a mixtral"
# A capacity is not part of the model: the family has none, and a run may go on without it.
expect 0 "saved checkpoint" "$BEVATRON" train "${mixtral[@]}" --moe-expert-capacity-factor 0.5 --save "$work/capped" --save-interval 2
expect 0 "read back" "$BEVATRON" checkpoint convert --input "$work/capped" --output "$work/uncapped" --to huggingface
expect 0 "--moe-expert-capacity-factor is 0.5 there and 2 here" "$BEVATRON" train "${mixtral[@]}" --load "$work/capped" --train-iters 3 \
    --override-opt_param-scheduler --moe-expert-capacity-factor 2
expect 0 "number of parameters: 46702792704" "$BEVATRON" train --preset mixtral-8x7b --vocab-size 32000 --dry-run --device cpu
grep -qx "of which a token meets: 12879925248" "$work/out" && pass || fail "active parameters of Mixtral 8x7B"
# A capacity limits the places of rows too.
memory_of() { sed -n 's/^memory of a rank: .*activations \([0-9.]*\),.*/\1/p' "$work/out"; }
whole=$(memory_of)
expect 0 "memory of a rank" "$BEVATRON" train --preset mixtral-8x7b --vocab-size 32000 --dry-run --device cuda --moe-expert-capacity-factor 0.5
awk -v a="$(memory_of)" -v b="$whole" 'BEGIN { exit !(a > 0 && a < 0.8 * b) }' && pass || fail "activations of $(memory_of) GB with a capacity, $whole without"
for flag in "--moe-router-topk 3" "--expert-tensor-parallel-size 2" "--moe-upcycling-granularity 2"; do
    expect 0 "${flag% *} has no effect without --num-experts" "$BEVATRON" train --preset gpt2-124m $flag --dry-run
done
expect 0 "--moe-router-group-best has no effect" "$BEVATRON" train "${model[@]}" --moe-router-group-best 1 --dry-run
expect 0 "has no effect without --moe-use-upcycling" "$BEVATRON" train "${model[@]}" --moe-upcycling-granularity 2 --dry-run
finish
