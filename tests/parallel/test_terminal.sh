#!/usr/bin/env bash
# Ctrl-C on a terminal, for ranks of --nproc and under launch local: the answer comes at once and once, the run saves; a
# second one quits without saving. The first rank draws the view. Samples of ranks that share a model are those of one.
# tier: all
# cost: 25
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }
terminal=$(dirname "$BEVATRON")/tests/terminal
slow=$(dirname "$BEVATRON")/tests/libslow_files.so
export TERM=xterm LC_ALL=C.UTF-8
model=(--mock-data --tokenizer-type NullTokenizer --vocab-size 32 --make-vocab-size-divisible-by 1 --num-layers 2 --hidden-size 16
    --num-attention-heads 2 --seq-length 8 --max-position-embeddings 16 --micro-batch-size 1 --global-batch-size 2 --lr 1e-3 --eval-iters 0
    --device cpu --threads 1)
endless=("${model[@]}" --train-iters 1000000000 --log-interval 1000000)

# The first Ctrl-C.
once() {
    "$terminal" 80x24 "$work/screen" -w ETA -w $'\033[J' -s "$work/view" -t '\003' -- "$BEVATRON" "$@" "${endless[@]}" --save "$work/run" \
        >"$work/out" 2>&1 </dev/null
    code=$?
    cp "$work/screen" "$work/out"
    [ "$code" = 210 ] && pass || fail "exit code $code instead of 210: $*"
    [ "$(tr -d '\n' <"$work/screen" | grep -cE 'finishing iteration [0-9]+, then saving; press Ctrl-C again to quit without saving')" = 1 ] &&
        pass || fail "the answer to Ctrl-C: $*"
    grep -qE "iteration [0-9]+  saved" "$work/screen" && pass || fail "no checkpoint: $*"
    grep -q "tokens/s" "$work/view" && pass || fail "no view: $*"
}
# The second one, while the checkpoint is written, which takes ten minutes here.
twice() {
    SLOW_WRITES=model.safe SLOW_SECONDS=600 LD_PRELOAD="$slow" "$terminal" 80x24 "$work/screen" -w ETA -t '\003' \
        -w "saving the checkpoint: " -t '\003' -- "$BEVATRON" "$@" "${endless[@]}" --save "$work/quit" >"$work/out" 2>&1 </dev/null
    code=$?
    cp "$work/screen" "$work/out"
    [ "$code" = 130 ] && pass || fail "exit code $code instead of 130 after the second Ctrl-C: $*"
    [ -f "$work/quit/latest_checkpointed_iteration.txt" ] && fail "a checkpoint after the second Ctrl-C: $*" || pass
}
case_of() {
    once "$@"
    twice "$@"
}
beside single case_of train
beside launch case_of launch local
beside nproc case_of train --nproc 2
gather

# samples FILE RANKS FLAGS…: the lines of kind sample, without their times.
samples() {
    local file=$1 ranks=$2
    shift 2
    rm -rf "$work/sampled"
    expect 0 "sample at iteration 4" bash tests/parallel/mpirun.sh "$ranks" "$BEVATRON" train "${model[@]}" --train-iters 4 --init-method-std 0.5 \
        --save "$work/sampled" --sample-interval 2 --sample-prompt "1 2 3" --sample-tokens 20 "$@"
    sed -nE 's/("kind":"sample"),"time":[0-9.]+/\1/p' "$work/sampled/metrics.jsonl" >"$file"
}
samples "$work/one" 1
for layout in "--tensor-model-parallel-size 2 --sequence-parallel" "--pipeline-model-parallel-size 2" \
    "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather"; do
    # shellcheck disable=SC2086
    samples "$work/two" 2 $layout
    [ "$(wc -l <"$work/two")" = 2 ] && expect_same "$work/one" "$work/two" "samples with $layout"
done
finish
