#!/usr/bin/env bash
# launch: flags of both kinds on one line, sbatch driven through a stand-in that records what it gets, failures said
# clearly, and a local run that is started again.
. tests/cli/common.sh
model=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 50
    --tokenizer-type NullTokenizer --micro-batch-size 1 --lr 1e-3 --log-interval 1 --eval-iters 0 --threads 1)

# --dry-run prints, whatever the order of the flags, and submits nothing.
expect 0 "#SBATCH --nodes=3" "$BEVATRON" launch slurm "${model[@]}" --nodes 3 --train-iters 5 --dry-run
expect 0 "    --train-iters 5" "$BEVATRON" launch slurm --nodes=3 --dry-run train "${model[@]}" --train-iters 5
grep -q -- "--nodes 3\|--dry-run" "$work/out" && fail "flags of launch went to train" || pass
expect 0 "--load $work/run" "$BEVATRON" launch slurm --dry-run "${model[@]}" --train-iters 5 --save "$work/run" --save-interval 5
expect 0 " preprocess" "$BEVATRON" launch slurm --dry-run preprocess --input "$work/a.jsonl" --output-prefix b
expect 0 "usage:" "$BEVATRON" launch --help
expect 0 "--array-chain" "$BEVATRON" launch slurm --help
expect 2 "there is no command \"launch moon\"" "$BEVATRON" launch moon

# What train would refuse is refused before it is submitted.
expect 2 "no-such-flag" "$BEVATRON" launch slurm --dry-run "${model[@]}" --train-iters 5 --no-such-flag
expect 2 "p99.large" "$BEVATRON" launch slurm --dry-run --machine p99.large "${model[@]}" --train-iters 5
expect 2 "needs --save" "$BEVATRON" launch slurm --dry-run --array-chain 3 "${model[@]}" --train-iters 5
expect 2 "sbatch's --partition" "$BEVATRON" launch slurm --dry-run --partition 'a b' "${model[@]}" --train-iters 5
expect 2 "one process with many threads" "$BEVATRON" launch slurm --dry-run --nodes 2 preprocess --input x

# sbatch by a stand-in.
mkdir "$work/bin"
stand_in() { printf '#!/bin/sh\n%s\n' "$1" >"$work/bin/sbatch" && chmod +x "$work/bin/sbatch"; }
submit=(env PATH="$work/bin:$PATH" "$BEVATRON" launch slurm --logs "$work/logs" "${model[@]}" --train-iters 5)
stand_in "echo \"\$@\" >$work/arguments; echo '4711;cluster'"
expect 0 "job 4711" "${submit[@]}"
grep -qE "^--parsable $work/logs/train-.*\.sbatch$" "$work/arguments" && pass || fail "sbatch got $(cat "$work/arguments")"
head -n 1 "$work"/logs/train-*.sbatch | grep -q '^#!/bin/bash$' && pass || fail "the script was not kept"
# What sbatch of Slurm 22.05.8 says, recorded.
refuses() { stand_in "printf 'sbatch: error: $1\\n' >&2; exit ${3-1}" && expect 1 "sbatch refused the job: $2" "${submit[@]}"; }
refuses 'invalid partition specified: gpu\nsbatch: error: Batch job submission failed: Invalid partition name specified' \
    "invalid partition specified: gpu; Batch job submission failed: Invalid partition name specified; \`sinfo -s\` lists"
refuses 'Batch job submission failed: Requested reservation is invalid' \
    "Batch job submission failed: Requested reservation is invalid; \`scontrol show reservation\`"
refuses 'Invalid generic resource (gres) specification' "Invalid generic resource (gres) specification; that partition has no such GPUs"
refuses 'Memory specification can not be satisfied\nsbatch: error: Batch job submission failed: Requested node configuration is not available' \
    "Memory specification can not be satisfied; Batch job submission failed: Requested node configuration is not available; no machine"
refuses 'Batch job submission failed: Unable to contact slurm controller (connect failure)' \
    "Batch job submission failed: Unable to contact slurm controller (connect failure); run this on a machine of the cluster"
refuses 'Invalid --time specification' "Invalid --time specification" 255
stand_in "printf 'sbatch: unrecognized option %s\nTry \"sbatch --help\" for more information\n' \"'--container-image=x'\" >&2; exit 255"
expect 1 "does not know Pyxis" "${submit[@]}"
stand_in "echo 'welcome to the cluster'"
expect 1 "is not a job number" "${submit[@]}"
rm "$work/bin/sbatch"
if ! command -v sbatch >/dev/null; then
    expect 1 "no program \"sbatch\"" "${submit[@]}"
fi

# A local run that is killed once goes on from its checkpoint; one that never gets anywhere is given up.
"$BEVATRON" launch local "${model[@]}" --train-iters 4000 --save "$work/run" --save-interval 20 >"$work/out" 2>&1 &
launcher=$!
for _ in $(seq 300); do [ -d "$work/run/iter_0000020" ] && break; sleep 0.02; done
pkill -9 -f "bevatron train .*$work/run" && pass || fail "no run to kill"
wait "$launcher" && pass || fail "a run that was killed once did not end well"
grep -q "failed with code 137; starting again from iteration" "$work/out" && pass || fail "the killed run was not started again"
[ -d "$work/run/iter_0004000" ] && pass || fail "the killed run did not come to its end"
expect 217 "got no further than iteration" env PATH=/nonexistent "$BEVATRON" launch local -n 2 "${model[@]}" \
    --global-batch-size 2 --train-iters 5 --save "$work/nowhere" --save-interval 5
expect 2 "did you mean" "$BEVATRON" launch local "${model[@]}" --train-iterss 5
expect 2 "launch local starts train" "$BEVATRON" launch local preprocess --input x
finish
