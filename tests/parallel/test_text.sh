#!/usr/bin/env bash
# Text as data of several ranks: rank 0 tokenizes while the others wait, and the losses equal those of one rank. A rank
# that cannot see rank 0's cache makes its own; text that differs is refused. Two working folders stand in for two
# machines.
# tier: all
# beside: ranks
# cost: 20
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
mpirun --version 2>/dev/null | grep -q "Open MPI" || { echo "skipped: not Open MPI"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_mpi_yield_when_idle=1
[ "$(id -u)" = 0 ] && export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# corpus FIRST: three hundred lines.
corpus() {
    awk -v first="$1" 'BEGIN { split("the a one black white cat dog ran sat slept home away under over", w, " ")
        for (i = 0; i < 300; i++) { printf "{\"text\": \""
            for (k = 0; k < 9; k++) printf "%s ", w[(first + i * 5 + k * (i % 3 + 1)) % 14 + 1]; print "\"}" } }'
}
mkdir "$work/a" "$work/b"
corpus 1 >"$work/a/text.jsonl"
cp "$work/a/text.jsonl" "$work/b/text.jsonl"
flags=(--data-path text.jsonl --tokenizer-type auto --vocab-size 300 --num-layers 2 --hidden-size 32 --num-attention-heads 4
    --seq-length 16 --eval-iters 0 --threads 1 --distributed-timeout-minutes 3)
given=(--micro-batch-size 1 --global-batch-size 2 --lr 1e-3 --train-iters 3 --log-interval 1)
losses() { grep -o "iteration  .*lm loss: [^|]*" "$1" | sed 's/elapsed[^|]*|//'; }
one() { (cd "$work/a" && "$BEVATRON" train "${flags[@]}" "$@"); }
two() { (cd "$work/a" && mpirun --oversubscribe --bind-to none -n 2 "$BEVATRON" train "${flags[@]}" "$@"); }
# both FLAGS…: a rank in each folder.
both() {
    mpirun --oversubscribe --bind-to none -n 1 -wdir "$work/a" "$BEVATRON" train "${flags[@]}" "$@" : -n 1 -wdir "$work/b" "$BEVATRON" train "${flags[@]}" "$@"
}

expect 0 "tokenized text.jsonl" two "${given[@]}"
[ "$(grep -c "tokenized text.jsonl" "$work/out")" = 1 ] && pass || fail "tokenized more than once"
losses "$work/out" >"$work/two"
expect 0 "iteration        3/" one "${given[@]}"
grep -q "tokenized" "$work/out" && fail "one rank does not use what two made" || pass
[ "$(sed 's/.*lm loss: //; s/E.*//' "$work/two" | cut -c1-5)" = "$(losses "$work/out" | sed 's/.*lm loss: //; s/E.*//' | cut -c1-5)" ] &&
    pass || fail "the losses of one rank and two differ"
# A rank with its own folder makes its own cache; what it reads is compared with rank 0's. (The first rank of a machine
# also builds the sample index; this one is not the first, so a run in its folder does that.)
(cd "$work/b" && "$BEVATRON" train "${flags[@]}" "${given[@]}") >"$work/out" 2>&1 || fail "one rank in the other folder"
rm "$work"/b/.bevatron-cache/text.jsonl-*/manifest.json
expect 0 "iteration        3/" both "${given[@]}"
[ "$(find "$work/b/.bevatron-cache/" -path '*text.jsonl-*' -name manifest.json | wc -l)" = 1 ] && pass || fail "no cache of its own"
losses "$work/out" >"$work/both"
expect_same "$work/two" "$work/both" "losses with a cache each"
corpus 2 >"$work/b/text.jsonl"
rm -r "$work/b/.bevatron-cache"
expect 215 "is another file than rank 0's" both "${given[@]}" --vocab-file "$(echo "$work"/a/.bevatron-cache/tokenizer-*/vocab.json)" \
    --merge-file "$(echo "$work"/a/.bevatron-cache/tokenizer-*/merges.txt)" --tokenizer-type GPT2BPETokenizer
# All ranks choose the same.
expect 0 "chosen for this run:" two --train-iters 2
# An error of rank 0 ends all ranks, and is printed once.
printf '{"text": 3}\n' >>"$work/a/text.jsonl"
expect 215 "text.jsonl:301: " two "${given[@]}"
[ "$(grep -c "text.jsonl:301" "$work/out")" = 1 ] && pass || fail "said more than once"
finish
