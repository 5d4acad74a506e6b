#!/usr/bin/env bash
# Flags of the model, most of them Megatron's, that change what is trained, or how, on layouts of ranks: a separate
# learning rate for the input embedding and the output layer, gains stored as their distance from 1, squared ReLU, norms
# of queries and keys, parallel residuals, multipliers, layers without positions, norms of outputs, of all heads and
# with gains by head.
# Losses and weights equal those of one rank. Gradients summed in bf16 differ only by rounding.
# tier: all
# label: slow
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/parallel/layouts.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }

layers=4
plain=("${training[@]}")
rates=(--decoupled-lr 4e-3 --decoupled-min-lr 1e-4 --min-lr 1e-5 --lr-decay-style cosine --lr-warmup-iters 3)
training+=("${rates[@]}" --apply-layernorm-1p)
own() { grep -c "learning rate: .* decoupled learning rate: " "$work/out"; }
for family in gpt llama bert t5; do
    run_first $family
    [ "$(own)" = 20 ] && pass || fail "$family: $(own) lines have both rates"
done
# Tied embeddings on two stages, and split over ranks; embedding and output layer separate; buckets across all
# parameters.
run_same gpt "pp=2 tp=2"
run_same gpt "dp=4 zero=yes"
run_same llama "pp=2 dp=2 zero=yes"
run_same llama "tp=2 sp=yes cp=2"
run_same bert "dp=2 tp=2 zero=yes"
run_same t5 "pp=2 dp=2"
rm -rf "$work/gpt.saved"
training=("${plain[@]}" --squared-relu --apply-layernorm-1p)
run_first gpt
run_same gpt "tp=2 dp=2 zero=yes sp=yes re=full"
rm -rf "$work/gpt.saved"
training=("${plain[@]}" --parallel-residual)
run_first gpt
run_same gpt "tp=2 dp=2 zero=yes sp=yes"
rm -rf "$work/gpt.saved"
training=("${plain[@]}" --parallel-residual --parallel-residual-one-norm)
run_first gpt
run_same gpt "pp=2 tp=2 re=full sp=yes"
rm -rf "$work/llama.saved"
training=("${plain[@]}" --qk-layernorm --embedding-multiplier 3 --residual-multiplier 0.5 --logits-scaling 2 --no-rope-freq 3)
run_first llama
run_same llama "tp=2 dp=2 zero=yes sp=yes"
run_same llama "pp=2 cp=2 re=full"
run_same llama "tp=4 re=selective"
rm -rf "$work/llama.saved"
# Norms of small results would enlarge rounding.
training=("${plain[@]}" --norm-placement output --qk-layernorm --qk-layernorm-all-heads --init-method-std 0.3)
run_first llama
run_same llama "tp=2 pp=2 sp=yes re=full"

rm -rf "$work/llama.saved"
training=("${plain[@]}" --qk-layernorm --qk-layernorm-per-head)
run_first llama
run_same llama "tp=2 pp=2 sp=yes re=full"

# rounded FLAGS…: losses of 20 iterations of four ranks in bf16 go to $work/half.
rounded() {
    expect 0 "iteration       20/" bash tests/parallel/mpirun.sh 4 "$BEVATRON" train "${plain[@]}" --num-layers 4 --bf16 "$@"
    losses "$work/out" >"$work/half"
    [ "$(wc -l <"$work/half")" = 20 ] && pass || fail "$*: $(wc -l <"$work/half") losses"
}
rounded
mv "$work/half" "$work/exact"
for how in "" "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --ddp-num-buckets 7"; do
    # shellcheck disable=SC2086
    rounded --grad-reduce-in-bf16 --check-replicas 5 $how
    paste "$work/exact" "$work/half" | awk '{ d = ($2 - $4) / $2; if (d * d > 1e-5) bad = 1; if (d != 0) other = 1 }
        END { exit bad || !other }' && pass || fail "$how: losses with gradients summed in bf16"
done
finish
