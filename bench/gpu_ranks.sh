#!/usr/bin/env bash
# Several ranks on one GPU: first over MPI through the host, then over NCCL, as on a cluster. NCCL refuses ranks of one
# machine that share a GPU, so each says it is a machine of its own (NCCL_HOSTID), and they talk over sockets. Each
# layout's losses must be those of one rank on the same GPU within one part in ten thousand, and a rank that is suspended
# or killed must end the others:
#   bench/gpu_ranks.sh [BUILD_FOLDER [mpi|half|nccl]]        (build/gpu by default, built where it is not; all)
# "half" is a pass over MPI in bf16, without dropout and with lengths that make attention cuDNN's, on fewer layouts; ranks add
# up rounded sums there, so losses are to be within one part in a thousand.
# GPU_RANKS_FLAGS are given to all runs, GPU_RANKS_MODELS are trained instead of gpt and llama, GPU_RANKS_LAYOUTS ("tp=2|cp=2
# graph=no") instead of the layouts below; GPU_RANKS_PARTS are the parts of the pass over NCCL (tests layouts stops). A run
# that takes longer than GPU_RANKS_SECONDS (120) is ended, and the next one begins; with --distributed-timeout-minutes in the
# flags it says before what it waits for.
# Processes take turns on a GPU by time slices of milliseconds, and a collective needs several: the pass over NCCL has
# small batches, and both run much faster where NVIDIA's MPS can be started.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build/gpu}
[ -x "$build/bevatron" ] || {
    cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DBEVATRON_CUDA=ON "-DBEVATRON_CUDA_ARCHS=${GPU_CHECK_ARCHS:-$(bench/gpu_arch.sh)}" >/dev/null &&
        cmake --build "$build" -j "$(nproc)" --target bevatron test_comm_nccl test_step_ranks_replay >/dev/null || exit 1
}
export BEVATRON=$PWD/$build/bevatron
. tests/cli/common.sh
. tests/parallel/layouts.sh
# shellcheck disable=SC2206
training+=(--device cuda ${GPU_RANKS_FLAGS:-})
# shellcheck disable=SC2206
models=(${GPU_RANKS_MODELS:-gpt llama})
# Those whose passes are recorded over NCCL also launched call by call.
IFS='|' read -ra layouts <<<"${GPU_RANKS_LAYOUTS:-tp=2|tp=2 graph=no|tp=2 sp=yes|pp=2|pp=2 vp=2|pp=4|pp=2 zb=yes|dp=2|\
dp=2 graph=no|dp=2 zero=yes|cp=2|cp=2 graph=no|cp=2 zero=yes|tp=2 pp=2 re=full|tp=2 dp=2 zero=yes}"
limit=(timeout -k 5 "${GPU_RANKS_SECONDS:-120}")

if [ -z "${CUDA_MPS_PIPE_DIRECTORY:-}" ] && command -v nvidia-cuda-mps-control >/dev/null; then
    export CUDA_MPS_PIPE_DIRECTORY=$work/mps CUDA_MPS_LOG_DIRECTORY=$work/mps
    export CUDA_DEVICE_MAX_CONNECTIONS=16  # its clients share what there is
    mkdir -p "$work/mps"
    nvidia-cuda-mps-control -d && mps=yes
    # In some containers the daemon starts but serves no client; then it is useless.
    timeout 20 "$build/tests/test_comm_nccl" one_rank >/dev/null 2>&1 || {
        [ -z "${mps:-}" ] || echo quit | timeout 10 nvidia-cuda-mps-control >/dev/null
        unset mps CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
    }
fi
echo "kernels of several processes $([ -n "${CUDA_MPS_PIPE_DIRECTORY:-}" ] && echo "run side by side (MPS)" || echo "take turns")"

# mpi RANKS PROGRAM…, nccl RANKS PROGRAM…
mpi() { "${limit[@]}" bash tests/parallel/mpirun.sh "$@"; }
nccl() {
    local ranks=$1
    shift
    NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_MAX_NCHANNELS=1 \
        "${limit[@]}" bash tests/parallel/mpirun.sh "$ranks" bash -c 'NCCL_HOSTID=$0-$OMPI_COMM_WORLD_RANK exec "$@"' "rank-$$" "$@"
}

# losses CARRIER MODEL LAYOUT: of all steps, into $work/log.
losses() {
    local carrier=$1 more=() last
    printf -v last "iteration %8d/" "$iterations"
    model_flags "$2"
    layout "$3"
    [ "$ranks" = 1 ] || more=(--distributed-backend "$carrier")
    case " $3 " in *" graph=no "*) more+=(--no-cuda-graph) ;; esac
    expect 0 "$last" "$carrier" "$ranks" "$BEVATRON" train "${training[@]}" "${model[@]}" "${flags[@]}" "${more[@]}"
    grep -oE "lm loss: [^|]*" "$work/out" >"$work/log"
}

# all_layouts CARRIER ITERATIONS BATCH MODEL…
all_layouts() {
    local carrier=$1 name with start bound=${bound:-1e-4}
    iterations=$2
    training+=(--train-iters "$2" --global-batch-size "$3")
    shift 3
    for name in "$@"; do
        losses "$carrier" "$name" ""
        cp "$work/log" "$work/one"
        for with in "${layouts[@]}"; do
            start=$SECONDS
            losses "$carrier" "$name" "$with"
            paste -d' ' "$work/one" "$work/log" | awk -v what="$carrier $name $with" -v least="$iterations" \
                -v took=$((SECONDS - start)) -v bound="$bound" '{
                    d = $3 / $6 - 1; d = d < 0 ? -d : d; most = d > most ? d : most
                } END {
                    printf "%-34s %3d s, largest relative difference of a loss %.2g\n", what, took, most
                    exit !(NR >= least && most < bound)
                }' && pass || fail "$carrier $name with $with"
        done
    done
}

# stopped SIGNAL CODES TEXT: of two ranks one gets the signal after some steps; the other says why it ends. Without MPS,
# which stops serving all clients when one of them is killed.
stopped() {
    local launcher victim watchdog code
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
    model_flags gpt
    : >"$work/out"
    nccl 2 "$BEVATRON" train "${training[@]}" "${model[@]}" --tensor-model-parallel-size 2 --distributed-backend nccl \
        --train-iters 1000000 --distributed-timeout-minutes 0.1 --save "$work/hung" --save-interval 1000000 >"$work/out" 2>&1 &
    launcher=$!
    for _ in $(seq 300); do grep -q "iteration        3/" "$work/out" && break; sleep 0.1; done
    victim=$(for process in $(pgrep -f "^$BEVATRON train"); do
        tr '\0' '\n' <"/proc/$process/environ" | grep -qx "NCCL_HOSTID=rank-$$-1" && echo "$process"
    done)
    kill "-$1" "$victim"
    (sleep 40 && kill -9 "$victim") >/dev/null 2>&1 &
    watchdog=$!
    wait "$launcher"
    code=$?
    kill "$watchdog" 2>/dev/null
    kill -9 "$victim" 2>/dev/null
    [[ " $2 " == *" $code "* ]] && grep -qE "$3" "$work/out" && pass || fail "code $code after a rank got SIG$1"
    grep -hE "$3" "$work/out" | head -n 1
}

case ${2:-mpi} in mpi)
    "$build/tests/test_comm_nccl" && pass || fail "NCCL with one rank"
    all_layouts mpi 20 16 "${models[@]}" ;;
esac
# A rank of two along the sequence has two pieces of 128 tokens.
half() {
    local training=("${training[@]}" --bf16 --attention-dropout 0 --hidden-dropout 0 --seq-length 512 --hidden-size 256
        --num-attention-heads 8 --ffn-hidden-size 512 --adam-eps 1e-8 --lr 3e-4) layouts bound=1e-3
    IFS='|' read -ra layouts <<<"${GPU_RANKS_LAYOUTS:-tp=2 sp=yes|pp=2 vp=2|dp=2 zero=yes|cp=2|tp=2 pp=2 re=full}"
    all_layouts mpi 20 4 "$@"
}
case ${2:-half} in half) half ${GPU_RANKS_MODELS:-gpt} ;; esac
wanted() { [[ " ${GPU_RANKS_PARTS:-tests layouts stops} " == *" $1 "* ]]; }
case ${2:-nccl} in nccl)
    if wanted tests; then
        for ranks in 2 4; do
            nccl $ranks "$build/tests/test_comm_nccl" && pass || fail "NCCL with $ranks ranks"
        done
        nccl 2 "$build/tests/test_step_ranks_replay" && pass || fail "recordings of two ranks"
    fi
    wanted layouts && all_layouts nccl 6 4 "${models[@]}"
    [ -z "${mps:-}" ] || echo quit | nvidia-cuda-mps-control
    unset mps
    if wanted stops; then
        stopped STOP 212 'collective "[a-z ]+" in group "[a-z ]+" .* lost or stuck: rank 1 on '
        stopped KILL "137 211" 'NCCL has failed in group|exited on signal 9'
    fi ;;
esac
[ -z "${mps:-}" ] || echo quit | nvidia-cuda-mps-control
finish
