#!/usr/bin/env bash
# Several ranks on one GPU: NCCL refuses them, so they talk over MPI through the host, and everything else is what a
# cluster runs. Each layout's losses must be those of one rank on the same GPU within one part in ten thousand:
#   bench/gpu_ranks.sh [BUILD_FOLDER]        (build/gpu by default, built where it is not)
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build/gpu}
[ -x "$build/bevatron" ] || {
    cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DBEVATRON_CUDA=ON "-DBEVATRON_CUDA_ARCHS=${GPU_CHECK_ARCHS:-90}" >/dev/null &&
        cmake --build "$build" -j "$(nproc)" --target bevatron test_comm_nccl >/dev/null || exit 1
}
export BEVATRON=$PWD/$build/bevatron
. tests/cli/common.sh
. tests/parallel/layouts.sh
training+=(--device cuda)

# losses MODEL LAYOUT: of 20 steps, into $work/log.
losses() {
    model_flags "$1"
    layout "$2"
    expect 0 "iteration       20/" bash tests/parallel/mpirun.sh "$ranks" "$BEVATRON" train "${training[@]}" "${model[@]}" \
        "${flags[@]}"
    grep -oE "lm loss: [^|]*" "$work/out" >"$work/log"
}
"$build/tests/test_comm_nccl" && pass || fail "NCCL with one rank"
for name in gpt llama; do
    losses $name ""
    cp "$work/log" "$work/one"
    for with in "tp=2 sp=yes" "pp=2 vp=2" "pp=4" "pp=2 zb=yes" "dp=2 zero=yes" "cp=2" "tp=2 pp=2 re=full" "tp=2 dp=2 zero=yes"; do
        losses $name "$with"
        paste -d' ' "$work/one" "$work/log" | awk -v what="$name $with" '{
                d = $3 / $6 - 1; d = d < 0 ? -d : d; most = d > most ? d : most
            } END { printf "%-30s largest relative difference of a loss %.2g\n", what, most; exit !(NR >= 20 && most < 1e-4) }' &&
            pass || fail "$name with $with"
    done
done
finish
