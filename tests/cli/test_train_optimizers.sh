#!/usr/bin/env bash
# Runs with every optimizer, with narrow moments and with states in host memory: one that was stopped and resumed equals an
# uninterrupted one, bit for bit; another optimizer's state is refused, and flags that do not fit.
# cost: 8
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/cli/train.sh || exit

# With SGD, whose state is different: stopped and resumed in bf16, and refused by a run with Adam, which can take its
# weights.
sgd=(--optimizer sgd --sgd-momentum 0.8 --bf16 --lr 0.1 --train-iters 6 --threads 1 --save-interval 3)
expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${sgd[@]}" --save "$work/sgd"
expect 0 "exiting program" "$BEVATRON" train "${model[@]}" "${sgd[@]}" --save "$work/sgd2" --exit-interval 3
expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${sgd[@]}" --load "$work/sgd2" --save "$work/sgd2"
expect_same_state "$work/sgd/iter_0000006" "$work/sgd2/iter_0000006" "stop and resume with SGD"
grep -aq '"momentum_buffer.decoder.final_layernorm.weight"' "$work/sgd/iter_0000006/optimizer.safetensors" && pass || fail "SGD's state"
expect 1 "--optimizer is sgd there and adam here" "$BEVATRON" train "${model[@]}" "${sgd[@]}" --optimizer adam --load "$work/sgd"
expect 0 "iteration        1/       1" "$BEVATRON" train "${model[@]}" --train-iters 1 --lr-warmup-iters 0 --load "$work/sgd" --finetune

# With Muon for matrices and Adam for the rest.
muon=(--optimizer muon --muon-nesterov --muon-extra-scale-factor 0.2 --bf16 --lr 1e-2 --train-iters 6 --threads 1 --save-interval 3)
expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${muon[@]}" --save "$work/muon"
expect 0 "exiting program" "$BEVATRON" train "${model[@]}" "${muon[@]}" --save "$work/muon2" --exit-interval 3
expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${muon[@]}" --load "$work/muon2" --save "$work/muon2"
expect_same_state "$work/muon/iter_0000006" "$work/muon2/iter_0000006" "stop and resume with Muon"
for name in momentum_buffer.decoder.layers.0.mlp.linear_fc1.weight exp_avg_sq.embedding.word_embeddings.weight \
    exp_avg.embedding.position_embeddings.weight exp_avg.decoder.final_layernorm.weight; do
    grep -aq "\"$name\"" "$work/muon/iter_0000006/optimizer.safetensors" && pass || fail "Muon's state lacks $name"
done
expect 0 "--muon-use-syrk tunes the speed" "$BEVATRON" train "${model[@]}" "${muon[@]}" --muon-use-syrk --dry-run

# With Lion, alone and for what Muon leaves.
for flags in "--optimizer lion" "--optimizer muon --muon-scalar-optimizer lion"; do
    read -ra lion <<<"$flags --lion-beta1 0.9 --bf16 --lr 1e-3 --train-iters 6 --threads 1 --save-interval 3"
    rm -rf "$work/lion" "$work/lion2"
    expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${lion[@]}" --save "$work/lion"
    expect 0 "exiting program" "$BEVATRON" train "${model[@]}" "${lion[@]}" --save "$work/lion2" --exit-interval 3
    expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${lion[@]}" --load "$work/lion2" --save "$work/lion2"
    expect_same_state "$work/lion/iter_0000006" "$work/lion2/iter_0000006" "stop and resume with $flags"
    grep -aq '"exp_avg_sq' "$work/lion/iter_0000006/optimizer.safetensors" && fail "Lion has a second moment" || pass
done
expect 1 "muon-scalar-optimizer is lion there and adam here" "$BEVATRON" train "${model[@]}" "${lion[@]}" \
    --muon-scalar-optimizer adam --load "$work/lion"
expect 1 "--optimizer is muon there and lion here" "$BEVATRON" train "${model[@]}" --optimizer lion --bf16 --train-iters 6 --load "$work/lion"

# With second moments of Muon, and with Adam's moments in 16 and 8 bits, which fp32 ones become and come from.
for flags in "--optimizer adaptive_muon --bf16" "--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16" \
    "--exp-avg-dtype fp8 --exp-avg-sq-dtype fp8 --bf16" \
    "--optimizer muon --bf16 --disable-bias-linear --qk-clip --qk-clip-threshold 1e-3" \
    "--optimizer adaptive_muon --adaptive-muon-moment2-method normuon --muon-scalar-optimizer lion"; do
    read -ra other <<<"$flags --lr 1e-3 --train-iters 6 --threads 1 --save-interval 3"
    rm -rf "$work/other" "$work/other2"
    expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${other[@]}" --save "$work/other"
    expect 0 "exiting program" "$BEVATRON" train "${model[@]}" "${other[@]}" --save "$work/other2" --exit-interval 3
    expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${other[@]}" --load "$work/other2" --save "$work/other2"
    expect_same_state "$work/other/iter_0000006" "$work/other2/iter_0000006" "stop and resume with $flags"
    [ "${other[0]}" = --optimizer ] || { rm -rf "$work/narrow" && mv "$work/other" "$work/narrow"; }
done
# States in host memory, all of them or some, change no bit; a run resumes with or without them.
for flags in "--bf16" "--fp16 --initial-loss-scale 1024 --ema-decay 0.9 --exp-avg-dtype fp8" \
    "--optimizer muon --bf16 --qk-clip --qk-clip-threshold 1e-3" "--optimizer adaptive_muon --ema-decay 0.9"; do
    read -ra other2 <<<"$flags --lr 1e-3 --train-iters 6 --threads 1 --save-interval 3"
    rm -rf "$work/here" "$work/hosted"
    expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${other2[@]}" --save "$work/here"
    expect 0 "optimizer states in host memory" "$BEVATRON" train "${model[@]}" "${other2[@]}" --save "$work/hosted" \
        --optimizer-cpu-offload --optimizer-offload-fraction 0.5 --exit-interval 3
    expect 0 "saves no memory on a CPU" "$BEVATRON" train "${model[@]}" "${other2[@]}" --load "$work/hosted" --save "$work/hosted" \
        --optimizer-cpu-offload
    expect_same_state "$work/here/iter_0000006" "$work/hosted/iter_0000006" "states in host memory with $flags"
done
expect 0 "--qk-clip-alpha has no effect without --qk-clip" "$BEVATRON" train "${model[@]}" --qk-clip-alpha 0.3 --train-iters 8 --dry-run
expect 1 "adaptive-muon-moment2-method is normuon there and adamuon here" "$BEVATRON" train "${model[@]}" "${other[@]}" \
    --adaptive-muon-moment2-method adamuon --load "$work/other"
expect 0 "--exp-avg-dtype has no effect with --optimizer lion" "$BEVATRON" train "${model[@]}" --optimizer lion --exp-avg-dtype fp8 \
    --train-iters 8 --dry-run
expect 0 "iteration        7/       7" "$BEVATRON" train "${model[@]}" --lr 1e-3 --train-iters 7 --threads 1 --load "$work/narrow" \
    --override-opt_param-scheduler
expect 0 "iteration        7/       7" "$BEVATRON" train "${model[@]}" --exp-avg-dtype bf16 --lr 1e-3 --train-iters 7 --threads 1 \
    --load "$work/narrow" --override-opt_param-scheduler
expect 0 "read back: flags, shapes and all elements" "$BEVATRON" checkpoint convert --input "$work/narrow" \
    --output "$work/narrow_there" --to megatron --no-tokenizer
expect 0 "iteration        7/       7" "$BEVATRON" train "${model[@]}" --lr 1e-3 --train-iters 7 --threads 1 --load "$work/narrow_there" \
    --override-opt_param-scheduler
expect 0 "warning: --exp-avg-sq-dtype fp16: moments of 16 bits are in bf16 here" "$BEVATRON" train "${model[@]}" --exp-avg-sq-dtype fp16 \
    --lr 1e-3 --train-iters 6 --threads 1
expect 0 "saved checkpoint" "$BEVATRON" train "${model[@]}" --ema-decay 0.9 --lr 1e-3 --train-iters 6 --threads 1 --save "$work/mean"
expect 0 "is not converted; bevatron checkpoint average --ema exports it" "$BEVATRON" checkpoint convert --input "$work/mean" \
    --output "$work/mean_there" --to megatron --no-tokenizer
finish
