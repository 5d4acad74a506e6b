#!/usr/bin/env bash
# examples/recipes/3-roberta.sh on a real Slurm cluster on this machine, from text to a model for Hugging Face: two
# nodes, two ranks each, a small model; otherwise the flags are those of the example.
# tier: all
# label: slow
# beside: ranks
# cost: 30
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
export OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_mpi_yield_when_idle=1
export CLUSTER_FILE=$work/roberta.yaml LUSTRE=$work/lustre PARTITION=all MACHINE='' RANKS=2 LARGEST=1K
export FLAGS="--num-layers 2 --hidden-size 32 --ffn-hidden-size 64 --num-attention-heads 4 --tokens-per-sample 32 --micro-batch-size 2 --global-batch-size 8
    --train-iters 10 --log-interval 5 --eval-interval 5 --eval-iters 1 --save-interval 5 --device cpu --threads 1"
FLAGS=${FLAGS//$'\n'/ }
mkdir -p "$LUSTRE/wikitext-103"
# Lines of words with titles and empty lines, as in WikiText.
for split in train valid test; do
    awk -v seed="${#split}" 'BEGIN { srand(seed); for (i = 0; i < 300; i++) { if (i % 10 == 0) { print ""; print " = Title " i % 7 " = "; print ""; continue }
        line = ""; for (k = 0; k < 12; k++) line = line " w" int(rand() * rand() * 90); print line " . " } }' >"$LUSTRE/wikitext-103/wiki.$split.tokens"
done
walk=(bash examples/recipes/3-roberta.sh)
expect 2 "there is no step" "${walk[@]}" nothing
expect 2 "LUSTRE=/lustre" "${walk[@]}"
expect 0 "InstanceType: \"p4d.24xlarge\"" "${walk[@]}" cluster
expect 0 "wiki.train.tokens" "${walk[@]}" data
expect 0 "4 ranks, mpi" "${walk[@]}" network
grep -Eq "^all_reduce +8 " "$work/out" && grep -Eq "^all_reduce +1024 .* 0$" "$work/out" && pass || fail "the network was not measured"
expect 0 "test" "${walk[@]}" prepare
grep -Eq "^w0 [0-9]+$" "$LUSTRE/data/wikitext-103/dict.txt" && pass || fail "no dictionary of words"
expect 0 '"num_updates": "10"' "${walk[@]}" train
expect 0 "huggingface" "${walk[@]}" result
symbols=$(($(wc -l <"$LUSTRE/data/wikitext-103/dict.txt") + 4))
grep -q "\"<mask>\": *$symbols" "$LUSTRE/roberta/tokenizer.json" && pass || fail "the mask does not follow the dictionary"

# The job resumes where it stopped when it gets more iterations.
expect 0 '"num_updates": "15"' env FLAGS="$FLAGS --train-iters 15" "${walk[@]}" train
grep -q '"num_updates": "5"' "$work/out" && fail "the second job started over" || pass
# A job that fails ends the walk with its code.
rm -r "$LUSTRE"/checkpoints/iter_*
expect 216 "has ended: FAILED" env FLAGS="$FLAGS --train-iters 20" "${walk[@]}" train result
finish
