#!/usr/bin/env bash
# A file system that is slower than the deadline of collectives ends no run: who waits for files waits without one,
# whatever is slow: the tensors, the manifest, the removal of an old checkpoint.
# beside: others
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }
slow=$(dirname "$BEVATRON")/tests/libslow_files.so
[ -f "$slow" ] || { echo "skipped: no $slow"; exit 77; }

train=(bash tests/parallel/mpirun.sh 2 env LD_PRELOAD="$slow" "$BEVATRON" train --mock-data --num-layers 2 --hidden-size 32
    --num-attention-heads 4 --seq-length 16 --vocab-size 97 --make-vocab-size-divisible-by 1 --tokenizer-type
    NullTokenizer --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --log-interval 1 --eval-iters 0 --threads 1
    --tensor-model-parallel-size 2 --distributed-timeout-minutes 0.05 --train-iters 2 --save-interval 1 --ckpt-writers 2
    --keep-last 1)

export SLOW_SECONDS=4
for case in SLOW_WRITES=model-0 SLOW_WRITES=manifest.json SLOW_REMOVALS=/model- "SLOW_WRITES=manifest.json --async-save" \
    "SLOW_REMOVALS=/model- --async-save"; do
    read -r what mode <<<"$case"
    # shellcheck disable=SC2086
    expect 0 "successfully saved checkpoint from iteration       2" env "$what" "${train[@]}" --save "$work/run" $mode
    [ "$(find "$work/run" -name 'iter_*' | wc -l)" = 1 ] && pass || fail "the old checkpoint is removed ($case)"
    rm -r "$work/run"
done
finish
