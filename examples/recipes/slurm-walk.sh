# What 2-megatron.sh and 4-gpt3-opt.sh have in common; they source it with their own arguments, FOLDER [STEP…], after
# all_steps is set. It goes to FOLDER and sets here, steps, program, scale, cluster and single; `stop` ends the walk.
# shellcheck shell=bash
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=${1:?FOLDER, one that all machines share}
shift
steps=" ${*:-$all_steps} "
program=${BEVATRON:-bevatron}
scale=${SCALE:-small}
read -ra cluster <<<"${CLUSTER:---nodes 2 --ntasks-per-node 2 --shared}"
mkdir -p "$folder"
cd "$folder"
# Commands of one process take no nodes and ranks.
read -ra single <<<"$(sed -E 's/--(nodes|ntasks-per-node)[ =][0-9]+//g' <<<"${cluster[*]}")"

stop() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}
step() {
    [[ $steps == *" $1 "* ]] || return 1
    echo "== $1. $2"
}
# The pages of docs as documents, an object on each line.
pages() {
    local folder
    folder=$("$program" help files | sed -n 's/^docs //p')
    awk 'NF { gsub(/[\\"\t]/, ""); text = text " " $0 } NR % 4 == 0 && text { print "{\"text\": \"" text "\"}"; text = "" }' "$folder"/*.md
}
# has_ended JOB: false also if Slurm does not answer.
has_ended() {
    local answer
    answer=$(squeue --noheader --jobs="$1" 2>&1) && [ -z "$answer" ] || [[ $answer == *"Invalid job id"* ]]
}
