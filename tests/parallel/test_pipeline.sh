#!/usr/bin/env bash
# The program with pipelines: losses, evaluation and saved weights of a GPT, a Llama, a BERT and a T5 with dropout equal
# those of one rank, with every schedule (tests/layouts tests the training step itself); stages may be uneven; an
# overflow counts on all stages; a split that is not possible is refused before anything starts.
# tier: all
# label: slow
# cost: 8
# parts: 3
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }
. tests/parallel/layouts.sh || exit

few() {
    local name=$1
    shift
    run_first "$name"
    for line in "$@"; do run_same "$name" "$line"; done
}
# is_part K: whether the cases of part K run here.
is_part() { [ "${BEVATRON_TEST_PART:-$1/}" = "$1/${BEVATRON_TEST_PART#*/}" ]; }

is_part 1 && few gpt "pp=2 vp=4 dp=2 zero=yes" "pp=2 tp=2 sp=yes re=selective"
is_part 2 && few llama "pp=8 re=full"
is_part 2 && few bert "pp=2 dp=2 zb=yes"
is_part 3 && few t5 "pp=4 vp=2"
is_part 3 && few umt5 "pp=2 tp=2 re=full" "dp=2 zero=yes cp=2"

# A tied table with more rows than stages sum at once.
losses_of_large_table() {
    bash tests/parallel/mpirun.sh "$1" "$BEVATRON" train --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 \
        --max-position-embeddings 16 --vocab-size 150000 --micro-batch-size 1 --global-batch-size 2 --mock-data \
        --tokenizer-type NullTokenizer --train-iters 3 --lr 1e-2 --log-interval 1 --eval-iters 0 --device cpu \
        --pipeline-model-parallel-size "$1" 2>&1 | grep -o "lm loss: [0-9.E+]* \|grad norm: [0-9.]*"
}
large_table() {
    losses_of_large_table 1 >"$work/one"
    losses_of_large_table 2 >"$work/two"
    [ "$(wc -l <"$work/one")" = 6 ] && cmp "$work/one" "$work/two" && pass || fail "a large table on two stages"
}
is_part 3 && large_table

# Uneven stages, an encoder on one stage of three, and groups larger than the number of stages.
uneven() {
    local name=$1 ranks=$2
    shift 2
    model_flags "$name"
    rm -rf "$work/saved"
    expect 0 "iteration       20/" bash tests/parallel/mpirun.sh "$ranks" "$BEVATRON" train "${training[@]}" "${model[@]}" \
        --save "$work/saved" --pipeline-model-parallel-size "$@"
    "$COMPARE_WEIGHTS" "$work/$name.saved/iter_0000020" "$work/saved/iter_0000020" 1e-5 >"$work/out" 2>&1 && pass ||
        fail "$name with $*: weights differ"
}
is_part 1 && uneven gpt 3 3 --decoder-first-pipeline-num-layers 1 --decoder-last-pipeline-num-layers 3
is_part 1 && uneven gpt 2 2 --num-layers-per-virtual-pipeline-stage 1 --microbatch-group-size-per-virtual-pipeline-stage 4
# Ends that count as layers: the first chunk has only the embedding, the last one only the head.
ends=(--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split)
is_part 1 && uneven gpt 2 2 "${ends[@]}" --num-virtual-stages-per-pipeline-rank 5
is_part 2 && uneven bert 2 2 "${ends[@]}" --num-virtual-stages-per-pipeline-rank 5
# A list of what each chunk has, one of them nothing.
is_part 1 && uneven gpt 2 2 --pipeline-model-parallel-layout "Et*3|(t)*4||tL"
is_part 3 && uneven t5 3 3 --pipeline-model-parallel-split-rank 1

if is_part 2; then
    # In 16 bits the gradients of a tied embedding are summed in another order, and clipping spreads that: the first
    # losses are otherwise the same.
    for precision in --bf16 --fp16; do
        half=("${training[@]}" --num-layers 8 $precision --initial-loss-scale 1024 --train-iters 5)
        expect 0 "iteration        5/" "$BEVATRON" train "${half[@]}"
        losses "$work/out" >"$work/one"
        expect 0 "iteration        5/" bash tests/parallel/mpirun.sh 2 "$BEVATRON" train "${half[@]}" --pipeline-model-parallel-size 2
        losses "$work/out" | paste -d' ' "$work/one" - |
            awk '{ d = $2 - $4; bad = bad || d * d > 1e-6 } END { exit bad || NR != 5 }' && pass || fail "$precision on two stages"
    done
fi

if is_part 3; then
    # An overflow on one stage is an overflow of the step: all skip it.
    expect 0 "number of skipped iterations:   1" bash tests/parallel/mpirun.sh 2 "$BEVATRON" train "${training[@]}" --num-layers 8 \
        --fp16 --initial-loss-scale 1e30 --train-iters 3 --pipeline-model-parallel-size 2

    # What each stage would hold: two layers, and at the ends the embedding (97 tokens and the end of text) with
    # positions or a norm.
    dry=("$BEVATRON" train "${training[@]}" --num-layers 8 --dry-run --pipeline-model-parallel-size 4)
    expect 0 "stage 0 of 4: a rank holds 29568 parameters" "${dry[@]}"
    expect 0 "stage 3 of 4: a rank holds 28608 parameters" "${dry[@]}"

    refuse() { expect 2 "$1" bash tests/parallel/mpirun.sh 4 "$BEVATRON" train "${training[@]}" "${@:2}"; }
    refuse "numbers of stages that work are 1, 2, 3, 6" --num-layers 6 --pipeline-model-parallel-size 4
    refuse "numbers of stages that work are 1, 2" --num-layers 2 --pipeline-model-parallel-size 4
    refuse "make it 8" --num-layers 8 --pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 \
        --global-batch-size 6
fi
finish
