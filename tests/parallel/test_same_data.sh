#!/usr/bin/env bash
# Ranks on machines with their own copies of the data: one whose copy differs from rank 0's is refused by name before
# training begins, and one that has read other rows is refused before the next checkpoint is saved. Here two working
# folders stand in for two machines.
# tier: all
# beside: ranks
# cost: 30
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
mpirun --version 2>/dev/null | grep -q "Open MPI" || { echo "skipped: not Open MPI"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }

tokenizer=(--tokenizer-type NullTokenizer --vocab-size 1000)
# corpus FIRST: five hundred documents of numbers.
corpus() {
    awk -v first="$1" 'BEGIN { for (i = 0; i < 500; i++) { printf "{\"text\": \""
        for (k = 0; k < 20 + i % 7; k++) printf "%d ", (first + i * 31 + k * 7) % 900; print "\"}" } }'
}
mkdir "$work/a" "$work/b"
for machine in a b; do
    corpus 1 >"$work/$machine/text.jsonl"
    expect 0 "" "$BEVATRON" preprocess --input "$work/$machine/text.jsonl" --output-prefix "$work/$machine/data" \
        "${tokenizer[@]}" --append-eod --workers 1
done

export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_mpi_yield_when_idle=1
[ "$(id -u)" = 0 ] && export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
train=("$BEVATRON" train --data-path data_text_document "${tokenizer[@]}" --num-layers 2 --hidden-size 32
    --num-attention-heads 4 --seq-length 16 --micro-batch-size 1 --global-batch-size 2 --lr 1e-3 --train-iters 2
    --log-interval 1 --eval-iters 0 --threads 1 --data-cache-path "$work/cache" --distributed-timeout-minutes 3)
# both FLAGS…: a rank in each folder.
both() {
    mpirun --oversubscribe --bind-to none -n 1 -wdir "$work/a" "${train[@]}" "$@" : -n 1 -wdir "$work/b" "${train[@]}" "$@"
}

for layout in "" "--tensor-model-parallel-size 2" "--pipeline-model-parallel-size 2"; do
    # shellcheck disable=SC2086
    expect 0 "iteration        2/" both $layout
done
# Only the first token differs.
printf '\002' | dd of="$work/b/data_text_document.bin" bs=1 seek=0 conv=notrunc status=none
expect 215 "rank 1: data_text_document.bin is another file than rank 0's, of the same size" both --tensor-model-parallel-size 2
[ "$(grep -c "another file" "$work/out")" = 1 ] && pass || fail "one rank says it"
# More documents.
(corpus 1; corpus 2) >"$work/b/text.jsonl"
expect 0 "" "$BEVATRON" preprocess --input "$work/b/text.jsonl" --output-prefix "$work/b/data" "${tokenizer[@]}" --restart \
    --append-eod --workers 1
for layout in "" "--pipeline-model-parallel-size 2"; do
    # shellcheck disable=SC2086
    expect 215 "rank 1: data_text_document.idx is another file than rank 0's: it has " both $layout
done
rm "$work/b/data_text_document.bin"
cp "$work/a/data_text_document.idx" "$work/b/"
expect 215 "rank 1: data_text_document.bin cannot be read here, but can by rank 0" both --tensor-model-parallel-size 2

# One token in the middle of a larger file.
(for i in $(seq 200); do corpus "$i"; done) >"$work/a/text.jsonl"
expect 0 "" "$BEVATRON" preprocess --input "$work/a/text.jsonl" --output-prefix "$work/a/data" "${tokenizer[@]}" --restart \
    --append-eod --workers 1
cp "$work/a"/data_text_document.* "$work/b/"
expect 0 "iteration        2/" both --tensor-model-parallel-size 2
size=$(stat -c %s "$work/a/data_text_document.bin")
printf '\377\001' | dd of="$work/b/data_text_document.bin" bs=2 seek=$((size / 4 + 4321)) conv=notrunc status=none
expect 215 "rank 1: data_text_document.bin is another file than rank 0's, of the same size" both --tensor-model-parallel-size 2

# In a file too large to be read completely: a stretch longer than two of the parts that are checked.
parts=()
for _ in 1 2 3 4 5 6 7 8; do parts+=("$work/a/data_text_document"); done
expect 0 "" "$BEVATRON" dataset merge "${parts[@]}" --output-prefix "$work/a/large"
cp "$work/a/large".* "$work/b/"
size=$(stat -c %s "$work/a/large.bin")
[ "$size" -gt $((32 << 20)) ] && pass || fail "large.bin has only $size bytes"
for at in $((size / 3)) $((size * 5 / 7)); do
    cp "$work/a/large.bin" "$work/b/large.bin"
    expect 0 "iteration        2/" both --tensor-model-parallel-size 2 --data-path large
    head -c $((size / 512)) /dev/zero | dd of="$work/b/large.bin" bs=65536 seek="$at" oflag=seek_bytes conv=notrunc status=none
    expect 215 "rank 1: large.bin is another file than rank 0's, of the same size" both --tensor-model-parallel-size 2 \
        --data-path large
done

# A change after the start is noticed before it gets into a checkpoint, on ranks that share rows.
for layout in "--tensor-model-parallel-size 2" "--pipeline-model-parallel-size 2" "--context-parallel-size 2"; do
    cp "$work/a/data_text_document.bin" "$work/b/"
    # shellcheck disable=SC2086
    in_background "$work/out" both $layout --train-iters 1000000 --save "$work/run" --save-interval 200
    launcher=$!
    await_text "successfully saved"
    head -c "$(stat -c %s "$work/b/data_text_document.bin")" /dev/zero |
        dd of="$work/b/data_text_document.bin" conv=notrunc status=none
    saved=$(cat "$work/run/latest_checkpointed_iteration.txt")
    wait "$launcher"
    code=$?
    [ "$code" = 215 ] && pass || fail "exit code $code instead of 215 after the data has changed ($layout)"
    grep -q "rank 1: it read other training data than rank 0" "$work/out" && pass ||
        fail "the rank is named ($layout)"
    [ "$(cat "$work/run/latest_checkpointed_iteration.txt")" -le $((saved + 200)) ] && pass || fail "saved nevertheless ($layout)"
    rm -r "$work/run"
done
finish
