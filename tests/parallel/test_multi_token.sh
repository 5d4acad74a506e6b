#!/usr/bin/env bash
# Multi-token prediction in whole runs: a run that is resumed on other layouts has the losses of one rank, at every
# depth and in validation; resumed on the same one, it has its bits. Text does not depend on it, formats without a place
# for it get the rest, and Megatron-LM's folder brings it back. tests/layouts has the layouts of steps.
# tier: all
# label: slow
# cost: 6
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }

model=(--model llama --mock-data --vocab-size 97 --tokenizer-type NullTokenizer --num-layers 4 --hidden-size 24 --num-attention-heads 4
    --ffn-hidden-size 32 --seq-length 16 --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --adam-eps 1e-4 --train-iters 6 --log-interval 1
    --eval-interval 3 --eval-iters 1 --device cpu --threads 1 --hidden-dropout 0.1 --mtp-num-layers 2 --mtp-loss-scaling-factor 0.5)

# numbers: the losses of the last three iterations and of the validations in $work/out.
numbers() {
    grep -E "iteration +[456]/|validation loss at iteration 6 \|" "$work/out" | grep -oE "(lm|mtp_[12]) loss( value)?: [0-9.E+-]+"
}
# same RANKS FLAGS…: resumed at iteration 3, the losses are those of one rank.
same() {
    expect 0 "iteration        6/       6" bash tests/parallel/mpirun.sh "$1" "$BEVATRON" train "${model[@]}" --load "$work/run" --ckpt-step 3 "${@:2}"
    numbers >"$work/now"
    paste -d' ' "$work/numbers" "$work/now" | awk '{ n = NF / 2; d = $n - $NF; bad = bad || d * d > 1e-10 * $n * $n || $1 != $(n + 1); rows++ }
        END { exit bad || rows != 12 }' && pass || fail "$1 ranks with ${*:2}: $(paste "$work/numbers" "$work/now")"
}

expect 0 "mtp_2 loss: " "$BEVATRON" train "${model[@]}" --save "$work/run" --save-interval 3
numbers >"$work/numbers"
same 2 --pipeline-model-parallel-size 2 --pipeline-schedule zero-bubble --recompute-granularity full --logits-at-once 9
same 2 --context-parallel-size 2 --use-distributed-optimizer
same 4 --tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --logits-at-once 11

# On the same layout, the bits are those of the run that was not interrupted.
expect 0 "saved checkpoint" "$BEVATRON" train "${model[@]}" --load "$work/run" --ckpt-step 3 --save "$work/again" --save-interval 6
for file in model optimizer; do
    cmp -s "$work/run/iter_0000006/$file.safetensors" "$work/again/iter_0000006/$file.safetensors" && pass || fail "$file differs"
done

# Text is that of the model without it. Other formats.
text() { expect 0 "" "$BEVATRON" generate --load "$1" --tokenizer-type NullTokenizer --vocab-size 97 --prompt "1 2 3" --max-new-tokens 9 --greedy --device cpu; }
text "$work/run"
cp "$work/out" "$work/text"
expect 0 "is left out: the target has no place for it" "$BEVATRON" checkpoint convert --input "$work/run" --output "$work/hf"
expect 0 "megatron" "$BEVATRON" checkpoint convert --input "$work/run" --output "$work/megatron" --to megatron
expect 0 "bevatron" "$BEVATRON" checkpoint convert --input "$work/megatron" --output "$work/back" --to bevatron
for folder in hf megatron back; do
    text "$work/$folder"
    cmp -s <(tail -n 1 "$work/text") <(tail -n 1 "$work/out") && pass || fail "text of $folder: $(cat "$work/out")"
done
"$(dirname "$BEVATRON")/tests/compare_weights" "$work/run/iter_0000006" "$work/back/iter_0000006" 0 >"$work/out" 2>&1 && pass ||
    fail "back from megatron: $(head -n 3 "$work/out")"

# DeepSeek-V3 has it in layers behind the last one, with copies of the embedding and of the output layer.
deepseek=(--model gpt --normalization RMSNorm --norm-epsilon 1e-6 --swiglu --disable-bias-linear --position-embedding-type rope
    --multi-latent-attention --q-lora-rank 10 --kv-lora-rank 8 --qk-head-dim 6 --qk-pos-emb-head-dim 4 --v-head-dim 6 --qk-layernorm
    --untie-embeddings-and-output-weights --num-experts 4 --moe-ffn-hidden-size 8 --moe-layer-freq "[0]+[1]*3" --moe-router-topk 2
    --moe-router-score-function sigmoid --moe-router-enable-expert-bias --moe-router-topk-scaling-factor 2.5
    --moe-shared-expert-intermediate-size 8 --hidden-dropout 0)
expect 0 "saved checkpoint" "$BEVATRON" train "${model[@]}" "${deepseek[@]}" --train-iters 2 --save "$work/deep" --save-interval 2
expect 0 "huggingface" "$BEVATRON" checkpoint convert --input "$work/deep" --output "$work/deep_hf"
expect 0 "bevatron" "$BEVATRON" checkpoint convert --input "$work/deep_hf" --output "$work/deep_back"
"$(dirname "$BEVATRON")/tests/compare_weights" "$work/deep/iter_0000002" "$work/deep_back/iter_0000000" 0 >"$work/out" 2>&1 && pass ||
    fail "back from deepseek_v3: $(head -n 3 "$work/out")"
for name in 4.enorm 5.hnorm 4.eh_proj 5.shared_head.norm 4.embed_tokens 5.shared_head.head 4.self_attn.kv_b_proj 5.mlp.experts.3.down_proj; do
    grep -aq "\"model.layers.$name.weight\"" "$work/deep_hf/model.safetensors" && pass || fail "no $name"
done
grep -q '"num_nextn_predict_layers": *2' "$work/deep_hf/config.json" && pass || fail "config.json: $(cat "$work/deep_hf/config.json")"
# GLM-4.5 names them the same.
glm=(--model gpt --normalization RMSNorm --swiglu --disable-bias-linear --position-embedding-type rope --rotary-percent 0.67 --add-qkv-bias
    --untie-embeddings-and-output-weights --num-experts 4 --moe-ffn-hidden-size 8 --moe-layer-freq "[0]+[1]*3" --moe-router-topk 2
    --moe-router-score-function sigmoid --moe-router-enable-expert-bias --moe-shared-expert-intermediate-size 16 --hidden-dropout 0)
expect 0 "saved checkpoint" "$BEVATRON" train "${model[@]}" "${glm[@]}" --train-iters 2 --save "$work/glm" --save-interval 2
expect 0 "huggingface" "$BEVATRON" checkpoint convert --input "$work/glm" --output "$work/glm_hf"
grep -q '"model_type": *"glm4_moe"' "$work/glm_hf/config.json" && pass || fail "config.json: $(cat "$work/glm_hf/config.json")"
expect 0 "bevatron" "$BEVATRON" checkpoint convert --input "$work/glm_hf" --output "$work/glm_back"
"$(dirname "$BEVATRON")/tests/compare_weights" "$work/glm/iter_0000002" "$work/glm_back/iter_0000000" 0 >"$work/out" 2>&1 && pass ||
    fail "back from glm4_moe: $(head -n 3 "$work/out")"
# What others save of it often lacks these layers.
sed -i 's/model.layers.4.eh_proj/model.layers.9.eh_proj/' "$work/deep_hf/model.safetensors"
expect 0 "no file has them" "$BEVATRON" checkpoint convert --input "$work/deep_hf" --output "$work/deep_less"

seq -s ' ' 1 40 >"$work/text.txt"
expect 0 '"mtp_2_loss":' "$BEVATRON" evaluate --load "$work/run" --text "$work/text.txt" --device cpu --json
expect 1 "mtp_num_layers" "$BEVATRON" train "${model[@]}" --mtp-num-layers 1 --load "$work/run"
expect 0 "mtp.layers.0.eh_proj.weight" "$BEVATRON" train "${model[@]}" --dry-run
expect 0 "tokens/s" "$BEVATRON" plan "${model[@]}" --nproc 4 --pipeline-model-parallel-size 2 --machine p4d.24xlarge
finish
