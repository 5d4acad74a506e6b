#!/usr/bin/env bash
# Passes of two micro-batches that go beside each other (--overlap-moe-expert-parallel-comm) give the same bits as one
# after the other, on layouts of 2, 4 and 8 ranks; runs resume with and without it, and a rank that is killed between
# the two passes ends the job. What cannot work is refused. tests/step/test_pairs.c shows that exchanges are under way
# while the other pass computes.
# tier: all
# label: slow
# cost: 12
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
needs_parts MPI

overlap=--overlap-moe-expert-parallel-comm
model=(--mock-data --vocab-size 97 --tokenizer-type NullTokenizer --num-layers 4 --hidden-size 24 --num-attention-heads 4 --seq-length 16
    --micro-batch-size 1 --lr 1e-3 --adam-eps 1e-4 --train-iters 4 --log-interval 1 --eval-iters 1 --device cpu --threads 1
    --hidden-dropout 0.1 --num-experts 8 --moe-layer-freq "[0]+[1]*3" --moe-ffn-hidden-size 20
    --moe-router-load-balancing-type aux_loss seq_aux_loss --moe-aux-loss-coeff 1e-2 1e-3 --moe-z-loss-coeff 1e-3)
train() { local ranks=$1; shift; bash tests/parallel/mpirun.sh "$ranks" "$BEVATRON" train "${model[@]}" "$@"; }
files_same() { for file in "$1"/iter_0000004/*.safetensors; do expect_same "$file" "$2/iter_0000004/${file##*/}" "$3"; done; }

# same RANKS FLAGS…: the weights and optimizer states after 4 iterations, with and without.
same() {
    rm -rf "$work/alone" "$work/beside"
    expect 0 "saved checkpoint" train "$@" --save "$work/alone" --save-interval 4
    expect 0 "saved checkpoint" train "$@" $overlap --save "$work/beside" --save-interval 4
    files_same "$work/alone" "$work/beside" "$*"
}

# Biases, dropout and three losses; three micro-batches, so that a pass goes alone at each end.
same 2 --global-batch-size 6 --expert-model-parallel-size 2
# One micro-batch has none beside it.
same 2 --global-batch-size 2 --expert-model-parallel-size 2
# Shared experts, multi-token prediction, and a sharded optimizer whose sums and gathers go beside the passes.
same 2 --global-batch-size 8 --expert-model-parallel-size 2 --bf16 --disable-bias-linear --moe-shared-expert-intermediate-size 12 \
    --mtp-num-layers 2 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --ddp-num-buckets 5
# Experts computed again, whose rows go to other ranks twice more.
same 2 --global-batch-size 6 --expert-model-parallel-size 2 --recompute-granularity selective --recompute-modules moe
# Whole layers computed again, tokens dropped, tensor and sequence parallelism, and experts in fp8.
same 4 --global-batch-size 6 --expert-model-parallel-size 2 --tensor-model-parallel-size 2 --sequence-parallel --bf16 --fp8-format hybrid \
    --seq-length 32 --hidden-size 32 --moe-ffn-hidden-size 32 --moe-expert-capacity-factor 0.7 --recompute-granularity full \
    --recompute-method uniform --recompute-num-layers 1
# Two stages of two chunks; the last group of micro-batches is not full.
same 4 --global-batch-size 10 --expert-model-parallel-size 2 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 \
    --microbatch-group-size-per-virtual-pipeline-stage 3
same 8 --global-batch-size 16 --expert-model-parallel-size 4 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 \
    --context-parallel-size 2 --use-distributed-optimizer --overlap-grad-reduce

# A run goes on with and without it.
resumed=(--global-batch-size 6 --expert-model-parallel-size 2)
expect 0 "saved checkpoint" train 2 "${resumed[@]}" --save "$work/whole" --save-interval 4
expect 0 "saved checkpoint" train 2 "${resumed[@]}" $overlap --save "$work/parts" --save-interval 2 --exit-interval 2
expect 0 "iteration        4/       4" train 2 "${resumed[@]}" --load "$work/parts" --save "$work/parts" --save-interval 4
files_same "$work/whole" "$work/parts" "resumed without it"

# A rank dies while rows of both passes are under way, and the run is started again.
expect 0 "starting again from iteration 2" "$BEVATRON" launch local -n 2 "${model[@]}" "${resumed[@]}" $overlap --save "$work/killed" \
    --save-interval 2 --allow-injected-faults --inject kill:rank=1:step=3:phase=alltoall
files_same "$work/whole" "$work/killed" "killed and started again"
# Gradients that a faulty device computes are found, as without it.
expect 0 "" train 2 "${resumed[@]}" $overlap --replay-check 2 --save "$work/checked"

refuse() { expect 2 "$1" "$BEVATRON" train "${model[@]}" --global-batch-size 8 $overlap "${@:2}"; }
refuse "needs --expert-model-parallel-size, ranks that share out the experts"
refuse "needs the interleaved schedule; give --num-virtual-stages-per-pipeline-rank" --nproc 4 --expert-model-parallel-size 2 \
    --pipeline-model-parallel-size 2
refuse "needs the interleaved schedule" --nproc 4 --expert-model-parallel-size 2 --pipeline-model-parallel-size 2 --pipeline-schedule zero-bubble
refuse "does not work with --cpu-offloading" --nproc 2 --expert-model-parallel-size 2 --recompute-granularity full \
    --recompute-method uniform --recompute-num-layers 1 --cpu-offloading
expect 2 "overlap-moe-expert-parallel-comm needs --num-experts" "$BEVATRON" train --mock-data --vocab-size 97 --tokenizer-type NullTokenizer \
    --num-layers 2 --hidden-size 24 --num-attention-heads 4 --seq-length 16 --micro-batch-size 1 --lr 1e-3 --train-iters 1 $overlap
finish
