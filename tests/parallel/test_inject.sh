#!/usr/bin/env bash
# --inject on several ranks: every phase is reached, a fault fires once although the run is restarted, and what kinds
# do is seen from outside.
# tier: all
# cost: 12
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
needs_parts MPI

model=(--mock-data --num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 50
    --tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --log-interval 1 --eval-iters 1
    --eval-interval 4 --threads 1 --device cpu --ckpt-writers 2)
train() { "$BEVATRON" train "${model[@]}" --train-iters 8 "$@"; }

# ---- the command line ----

expect 2 "--inject needs --allow-injected-faults" train --inject kill
expect 2 'character 6: "rnak" is not a key; did you mean "rank"' train --inject kill:rnak=1 --allow-injected-faults
expect 0 "stuck-fsync" "$BEVATRON" train --inject list

# ---- phases ----

# reached RUN PHASE…: a run of two ranks, with more flags in $flags, comes to these phases.
flags=()
reached() {
    local run=$1 phase faults=()
    shift
    for phase in "$@"; do faults+=(--inject "slow:rank=1:seconds=0:phase=$phase" --inject "slow:seconds=0:phase=$phase"); done
    expect 0 "injecting the fault slow" train --nproc 2 --save "$run" --save-interval 4 \
        --allow-injected-faults "${faults[@]}" "${flags[@]}"
    for phase in "$@"; do
        grep -q " rank 1 iteration [0-9]* fault slow:rank=1:seconds=0:phase=$phase$" "$run/injected-faults.txt" &&
            grep -q " rank 0 iteration [0-9]* fault slow:seconds=0:phase=$phase$" "$run/injected-faults.txt" && pass ||
            fail "phase $phase is not reached"
    done
    grep -q "did not fire" "$work/out" && fail "some did not fire" || pass
}

flags=(--use-distributed-optimizer)
expect 0 "" train --nproc 2 --save "$work/plain" "${flags[@]}"
reached "$work/data" rendezvous step data forward backward gradients allreduce allgather reducescatter agree optimizer \
    weights evaluate save write fsync
same() { for file in "$work"/plain/iter_0000008/*.safetensors; do expect_same "$file" "$work/$1/iter_0000008/${file##*/}" "weights of $1"; done; }
same data
flags=(--load "$work/data" --train-iters 12 --override-opt_param-scheduler)
reached "$work/data" load
flags=(--pipeline-model-parallel-size 2)
expect 0 "" train --nproc 2 --save "$work/stages" "${flags[@]}" --allow-injected-faults --inject slow:seconds=0:phase=send \
    --inject slow:rank=1:seconds=0:phase=receive --inject slow:seconds=0:phase=rename --inject slow:phase=alltoall
[ "$(wc -l <"$work/stages/injected-faults.txt")" = 3 ] && pass || fail "send, receive and rename"
grep -q "the injected fault slow:phase=alltoall did not fire" "$work/out" && pass || fail "it is told what did not fire"

# ---- a fault fires once, and the restarted run ends with the same weights ----

supervised() { "$BEVATRON" launch local -n 2 "${model[@]}" --train-iters 8 --use-distributed-optimizer --save-interval 2 "$@"; }
expect 0 "starting again from iteration 4" supervised --save "$work/killed" --allow-injected-faults \
    --inject kill:rank=1:step=6:phase=reducescatter --inject slow:rank=0:step=6-7
[ "$(grep -c "injecting the fault kill" "$work/out")" = 1 ] && pass || fail "it fires once"
grep -q "rank 1, iteration 6, phase reducescatter: injecting the fault" "$work/out" && pass || fail "its place is told"
same killed
expect 217 "failed 3 times before its first iteration without a new checkpoint" supervised --save "$work/again" --max-restarts 9 \
    --allow-injected-faults --inject kill:rank=1:step=5:every-start

# ---- connections ----

# MPI ends the ranks with a code of its own, which alone tells nobody anything.
if mpirun --version 2>&1 | grep -q "Open MPI"; then
    OMPI_MCA_btl=tcp,self expect 195 "lost its connection to another rank" train --nproc 2 --allow-injected-faults --inject reset:rank=1:step=3:phase=backward
    grep -qE "MPI ended rank [01] \(process [0-9]+\) on .* with code 195" "$work/out" && pass || fail "the rank is named"
fi

# ---- numbers ----

expect 213 "gradient norm nan" train --nproc 2 --allow-injected-faults --inject nan:rank=1:step=3
expect 218 "is not the same on all" train --nproc 2 --allow-injected-faults --inject flip:rank=1:step=3 --check-replicas 1
grep -q "iteration        4/" "$work/out" && fail "it is found late" || pass

# ---- files ----

expect 0 "" train --save "$work/full" --save-interval 4 --exit-interval 4
train --save "$work/full" --load "$work/full" --allow-injected-faults --inject enospc:step=8:times=all \
    --last-save-minutes 0 >"$work/out" 2>&1
grep -q "No space left on device" "$work/out" && pass || fail "no space left"
expect 0 "" "$BEVATRON" checkpoint verify "$work/full/iter_0000004"
finish
