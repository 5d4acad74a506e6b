#!/usr/bin/env bash
# --lr-mult and --wd-mult: the weights of two ranks are those of one, with AdamW and with Muon, wherever
# parameters and their updates are. On one rank they are compared with flags that do the same: another --lr, and
# --decoupled-lr; and a run resumes to the bit, in every precision, with the factors that it had.
# tier: all
# label: slow
# cost: 12
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/parallel/layouts.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }

layers=2
usual=("${training[@]}")
factors=(--lr-mult '*.linear_*.weight=0.5' --lr-mult '*.bias=2' 'decoder.layers.[01].mlp.*=0' --wd-mult '*norm.weight=1'
    '*.linear_proj.weight=0')
training=("${usual[@]}" --weight-decay 0.3 "${factors[@]}")
run_first gpt
run_same gpt "dp=2 zero=yes"
run_same gpt "tp=2 sp=yes"
run_same gpt "pp=2"
# Without factors they are other weights.
training=("${usual[@]}" --weight-decay 0.3)
run gpt "dp=2"
"$COMPARE_WEIGHTS" "$work/gpt.saved/iter_0000020" "$work/saved/iter_0000020" 1e-3 >/dev/null 2>&1 && fail "factors changed nothing" || pass
training=("${usual[@]}" --weight-decay 0.3 "${factors[@]:0:2}" --wd-mult 'decoder.layers.0.*=0.5' --optimizer muon
    --muon-extra-scale-factor 0.2 --muon-fp32-matmul-prec high)
run_first llama
run_same llama "dp=2 zero=yes"
run_same llama "tp=2"

# On one rank.
one=("$BEVATRON" train "${usual[@]}" --num-layers 2 --train-iters 6 --save-interval 3 --weight-decay 0.2 --lr-warmup-iters 0)
for i in "${!one[@]}"; do [ "${one[i]}" = --no-save-optim ] && unset "one[i]"; done
same_state() { # A B WHAT
    expect_same "$work/$1/iter_0000006/model.safetensors" "$work/$2/iter_0000006/model.safetensors" "$3"
    expect_same "$work/$1/iter_0000006/optimizer.safetensors" "$work/$2/iter_0000006/optimizer.safetensors" "$3: states"
}
for optimizer in adam sgd lion muon adaptive_muon; do
    rm -rf "$work"/{a,b}
    expect 0 "iteration        6/" "${one[@]}" --optimizer $optimizer --save "$work/a"
    expect 0 "iteration        6/" "${one[@]}" --optimizer $optimizer --lr 4e-3 --weight-decay 0.4 --save "$work/b" \
        --lr-mult '*=0.25' --wd-mult '*.weight=0.5' '*norm.*=0'
    same_state a b "a quarter of four times the rate with $optimizer"
done
rm -rf "$work"/{a,b}
expect 0 "iteration        6/" "${one[@]}" --decoupled-lr 5e-4 --save "$work/a"
expect 0 "iteration        6/" "${one[@]}" --lr-mult '*word_embeddings.weight=0.5' --save "$work/b"
same_state a b "--decoupled-lr"
for precision in --bf16 "--fp16 --initial-loss-scale 1024" "--bf16 --exp-avg-dtype fp8 --exp-avg-sq-dtype fp8"; do
    read -ra flags <<<"$precision"
    rm -rf "$work"/{a,b}
    expect 0 "iteration        6/" "${one[@]}" "${flags[@]}" "${factors[@]}" --save "$work/a"
    expect 0 "exiting program" "${one[@]}" "${flags[@]}" "${factors[@]}" --save "$work/b" --exit-interval 3
    expect 0 "iteration        6/" "${one[@]}" "${flags[@]}" "${factors[@]}" --load "$work/b" --save "$work/b"
    same_state a b "a resumed run in $precision"
done
expect 2 "=0 there and None here, wd_mult is *norm.weight=1" "${one[@]}" --bf16 --load "$work/b"
expect 2 "matches no parameter; did you mean linear_fc1.weight?" "${one[@]}" --lr-mult '*.linear_fc3.weight=2'
expect 2 "this model has no norms of queries and keys" "${one[@]}" --apply-wd-to-qk-layernorm
expect 2 "is not PATTERN=FACTOR" "${one[@]}" --wd-mult '*.bias'
# From a file, shown and listed.
printf 'lr-mult: ["*.bias=2", "embedding.*=0.5"]\napply-wd-to-qk-layernorm: true\nqk-layernorm: true\n' >"$work/flags.yaml"
expect 0 "(98, 32)  lr × 0.5, weight decay × 1" "${one[@]}" --config "$work/flags.yaml" --dry-run
grep -q "q_layernorm.weight .*lr × 1, weight decay × 1" "$work/out" && pass || fail "decay of the queries' norm"
grep -q "lr_mult .*\['\*.bias=2', 'embedding.\*=0.5'\]" "$work/out" && pass || fail "the arguments lack --lr-mult"
finish
