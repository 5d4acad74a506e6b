#!/bin/bash
# GPT-2 of 8 billion parameters on 16 p4d.24xlarge: the steps of 1-gpt2-8b.md, one after the other. Without WHERE it
# rehearses them on this machine: the job is printed, the memory is computed on paper, and a model with the same flags but
# few layers is trained on the dataset that 0-ultracluster.sh made.
# usage: examples/recipes/1-gpt2-8b.sh FOLDER                   rehearses; FOLDER as given to 0-ultracluster.sh
#        WHERE=head examples/recipes/1-gpt2-8b.sh /lustre       on the head node; `bevatron help files` prints the folder
#                                                               of examples there
# What the environment may say:
#   NODES=16 PARTITION=gpu    where the job runs
#   MACHINE=p4d.24xlarge      the type of the nodes; empty: their CPUs, with RANKS ranks on each
#   FLAGS="--train-iters 9"   flags of train that override those of the file
#   CHECKS="--file-size 8"    flags of preflight
set -euo pipefail
folder=${1:?usage: 1-gpt2-8b.sh FOLDER}
where=${WHERE:-rehearsal}
nodes=${NODES:-16}
partition=${PARTITION:-gpu}
machine=${MACHINE-p4d.24xlarge}
ranks=${RANKS:-8}
read -r -a flags <<<"${FLAGS:-}"
read -r -a checks <<<"${CHECKS:-}"
bevatron=${BEVATRON:-bevatron}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mkdir -p "$folder"
folder=$(cd "$folder" && pwd) # jobs need whole paths
config=$here/examples/aws/gpt2-8b-p4d.yaml
files=(--data-path "$folder/data/my-gpt2_text_document" --vocab-file "$folder/data/gpt2/gpt2-vocab.json" --merge-file "$folder/data/gpt2/gpt2-merges.txt"
    --save "$folder/checkpoint" --load "$folder/checkpoint" --tensorboard-dir "$folder/logs" "${flags[@]}")

step() { printf '\n== %s\n' "$*"; }
run() {
    printf '+ %s\n' "$*"
    "$@"
}

step "1. Will it fit? On paper, for all ranks of $nodes machines"
run "$bevatron" train --config "$config" "${files[@]}" --nproc $((ranks * nodes)) --dry-run

if [ -n "$machine" ]; then kind=(--machine "$machine"); else kind=(--ntasks-per-node "$ranks"); fi
job=(--nodes "$nodes" --partition "$partition" "${kind[@]}" --config "$config" "${files[@]}")
if [ "$where" = head ]; then
    step "2. The machines: GPUs, EFA, disks, data"
    run srun --nodes "$nodes" --ntasks-per-node "$ranks" --partition "$partition" --mpi=pmix "$bevatron" preflight ${machine:+--machine "$machine"} \
        "${checks[@]}" --config "$config" "${files[@]}"
    step "3. The job"
    run "$bevatron" launch slurm --logs "$folder/logs" "${job[@]}"
    step "4. Its progress, once the job runs"
    echo "$bevatron board --logdir $folder/logs --text"
    exit
fi
step "3. The job, as Slurm would get it"
run "$bevatron" launch slurm "${job[@]}" --dry-run >"$folder/train.sbatch"
grep '^#SBATCH' "$folder/train.sbatch"
step "The same flags with two layers, two ranks and a few steps, here"
small=(--config "$config" "${files[@]}" --model-parallel-size 2 --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32
    --max-position-embeddings 32 --batch-size 2 --train-iters 10 --log-interval 5 --save-interval 5 --eval-iters 1 --fp16=false)
run "$bevatron" train "${small[@]}" --nproc 2
step "4. Its progress"
run "$bevatron" board --logdir "$folder" --text --height 8 --width 70
step "5. It resumes where it stopped"
run "$bevatron" train "${small[@]}" --train-iters 15 --nproc 2
ls "$folder/logs"
