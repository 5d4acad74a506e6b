#!/usr/bin/env bash
# The recipes for Slurm, examples/recipes/2-megatron.sh and examples/recipes/4-gpt3-opt.sh, from text to models on a
# real Slurm cluster on this machine; their full-size commands are only planned.
# label: slow
# beside: ranks
# cost: 120
# parts: 2
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
if ! command -v slurmctld >/dev/null && ! [ -x /usr/sbin/slurmctld ]; then
    echo "SKIP no Slurm on this machine; apt install slurm-wlm munge, or make test-slurm"
    exit 77
fi
needs_parts MPI
settings=$(bash tests/parallel/slurm_cluster.sh up "$work/slurm") || { echo "FAIL no cluster"; exit 1; }
eval "$settings"
trap 'scancel -u "$(id -un)" 2>/dev/null; bash tests/parallel/slurm_cluster.sh down "$work/slurm"; rm -rf "$work" 2>/dev/null || { sleep 1; rm -rf "$work"; }' EXIT
# Both nodes are this host: they must not share memory segments, and waiting ranks must let others run.
export BEVATRON OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_mpi_yield_when_idle=1

# is_part K: whether the cases of part K run here.
is_part() { [ "${BEVATRON_TEST_PART:-$1/}" = "$1/${BEVATRON_TEST_PART#*/}" ]; }
has() { grep -qE -- "$1" "$work/out" && pass || fail "no \"$1\" in the walk: $(tail -n 20 "$work/out")"; }
at() { [ "$(cat "$work/$1/latest_checkpointed_iteration.txt" 2>/dev/null)" = "$2" ] && pass || fail "$1 is not at iteration $2"; }

if is_part 1; then
    bash examples/recipes/2-megatron.sh "$work/megatron" >"$work/out" 2>&1 && pass || fail "the walk along Megatron's recipe stopped: $(tail -n 20 "$work/out")"
    for run in gpt bert t5 llama; do at "megatron/$run-run" 6; done
    [ "$(grep -c 'has ended: COMPLETED' "$work/out")" = 12 ] && pass || fail "not twelve jobs completed"
    has "all_reduce +262144 " && has "^loss [0-9.]+ \| perplexity" && has "Slurm job [0-9]+; log $work/megatron/logs/train-"
    SCALE=full TEXT='/fsx/*.xz' CLUSTER="--dry-run --nodes 2 --machine p4de.24xlarge" \
        bash examples/recipes/2-megatron.sh "$work/full" 3 4 5 6 7 8 >"$work/planned" 2>&1 && pass || fail "not in full: $(grep error "$work/planned")"
    [ -s "$work/megatron/llama-hf/config.json" ] && pass || fail "no model for Hugging Face"
fi

if is_part 2; then
    bash examples/recipes/4-gpt3-opt.sh "$work/opt" >"$work/out" 2>&1 && pass || fail "the walk along the recipe of GPT-3 and OPT stopped: $(tail -n 20 "$work/out")"
    at opt/opt 6
    SCALE=full IMAGE=/fsx/image CLUSTER="--dry-run --nodes 2 --machine p4de.24xlarge" \
        bash examples/recipes/4-gpt3-opt.sh "$work/full" 4 6 >"$work/planned" 2>&1 && pass || fail "not in full: $(grep error "$work/planned")"
    has "nemo-gpt3-175b, [0-9]+ ranks: (memory|ranks of stage)" && has "log: $work/opt/logs/gpt3-126m-[0-9]+.log"
    [ "$(grep -c 'has ended: COMPLETED' "$work/out")" = 3 ] && pass || fail "not three followed jobs completed"
    has "stopped after a checkpoint: iteration 4, then ([5-9]|[0-9]{2,})" && has "ended with code 210"
    has "Slurm jobs [0-9]+_1, [0-9]+_2, [0-9]+_3; log $work/opt/logs/opt-"
fi
finish
