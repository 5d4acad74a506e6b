#!/usr/bin/env bash
# launch: flags of both kinds on one line, sbatch driven through a stand-in that records what it gets, failures said
# clearly, and a local run that is started again.
# cost: 15
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
slurm=("$BEVATRON" launch slurm --dry-run)
prepare=(preprocess --input "$work/a.jsonl" --output-prefix "$work/b")
has() { grep -q -- "$1" "$work/out" && pass || fail "no $1 in the script"; }
has_not() { grep -q -- "$1" "$work/out" && fail "$1 in the script" || pass; }
expect 2 "did you mean --input" "${slurm[@]}" preprocess --inpt "$work/a.jsonl" --output-prefix b
expect 0 "usage: bevatron" "${slurm[@]}" preprocess --help
has_not "#SBATCH"
expect 2 "--array-chain is for train" "${slurm[@]}" --array-chain 3 "${prepare[@]}"

# The job's name is one of files.
for name in ../../evil a/b .hidden -x "" $'a\tb'; do
    expect 2 "cannot be the name of a job" "$BEVATRON" launch slurm --logs "$work/deep/logs" --job-name="$name" "${model[@]}" --train-iters 5
done
[ -e "$work/deep" ] && fail "a refused job left files" || pass

# What goes on where it stopped is warned and put back; what would begin anew is not.
expect 0 "$work/b.unfinished/journal" "${slurm[@]}" --max-requeues 7 "${prepare[@]}"
has "#SBATCH --signal=B:USR1@180" && has "-lt 7 \]"
expect 0 "-lt 0 ]" "${slurm[@]}" "${prepare[@]}" --restart
has_not "--signal="
expect 0 "-lt 0 ]" "${slurm[@]}" tokenizer train --input x
has_not "--signal="
expect 2 "without --save would begin anew" "${slurm[@]}" --max-requeues 7 "${model[@]}" --train-iters 5
expect 2 "this command would begin anew" "${slurm[@]}" --max-requeues 7 "${prepare[@]}" --restart
expect 0 "-lt 0 ]" "${slurm[@]}" --max-requeues 0 "${model[@]}" --train-iters 5

# A warning has room in the time limit.
for limit in 10 10:00 0:10:00 0-0:10; do
    expect 2 "which is 600 s: the job would be stopped as soon as it begins; give 539 or less" \
        "${slurm[@]}" --time "$limit" --signal-seconds 86400 "${model[@]}" --train-iters 5
    expect 0 "USR1@539" "${slurm[@]}" --time "$limit" --signal-seconds 539 "${model[@]}" --train-iters 5
    has_not "Slurm may warn"
done
expect 0 "note: --time 3 is short: the ranks are warned 45 s before its end" "${slurm[@]}" --time 3 "${model[@]}" --train-iters 5
has "USR1@45"
expect 0 "Slurm may warn 60 s early" "${slurm[@]}" --time 1 --signal-seconds 50 "${model[@]}" --train-iters 5
for limit in 1-00 2-0:0:1 UNLIMITED 300 5; do
    expect 0 "USR1@180" "${slurm[@]}" --time "$limit" "${model[@]}" --train-iters 5
done

# GPUs that Slurm is not asked for have ranks all the same; a preparation on such a machine is still one process.
expect 0 "#SBATCH --ntasks-per-node=8" "${slurm[@]}" --machine p4d.24xlarge --gpus-per-node 0 "${model[@]}" --train-iters 5 --global-batch-size 8
has_not "#SBATCH --gpus-per-node" && has "--cpu-bind=none"
expect 0 "#SBATCH --ntasks-per-node=1" "${slurm[@]}" --machine p4d.24xlarge "${prepare[@]}"

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
refuses 'resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\nsbatch: error: fetch_config: DNS SRV lookup failed\nsbatch: fatal: Could not establish a configuration source' \
    "resolve_ctls_from_dns_srv: res_nsearch error: Unknown host; fetch_config: DNS SRV lookup failed; Could not establish a configuration source; run this on a machine of the cluster"
stand_in "printf 'sbatch: unrecognized option %s\nTry \"sbatch --help\" for more information\n' \"'--container-image=x'\" >&2; exit 255"
expect 1 "does not know Pyxis" "${submit[@]}"
stand_in "echo 'welcome to the cluster'"
expect 1 "is not a job number" "${submit[@]}"
rm "$work/bin/sbatch"
if ! command -v sbatch >/dev/null; then
    expect 1 "no program \"sbatch\"" "${submit[@]}"
fi

# A local run that is killed once goes on from its checkpoint; one that never gets anywhere is given up.
# A run that had come to its end before it could be killed is a longer one the next time.
for iterations in 4000 16000 64000; do
    rm -rf "$work/run"
    "$BEVATRON" launch local "${model[@]}" --train-iters $iterations --save "$work/run" --save-interval 20 >"$work/out" 2>&1 &
    launcher=$!
    within 900 [ -d "$work/run/iter_0000020" ]
    pkill -9 -f "bevatron train .*$work/run"
    wait "$launcher"
    code=$?
    grep -q "failed with code 137" "$work/out" && break
done
[ "$code" = 0 ] && pass || fail "a run that was killed once did not end well"
grep -q "failed with code 137; starting again from iteration" "$work/out" && pass || fail "the killed run was not started again"
[ -d "$work/run/iter_$(printf %07d $iterations)" ] && pass || fail "the killed run did not come to its end"
expect 217 "got no further than iteration" env PATH=/nonexistent "$BEVATRON" launch local -n 2 "${model[@]}" \
    --global-batch-size 2 --train-iters 5 --save "$work/nowhere" --save-interval 5
# What will be the same the next time is not tried again.
expect 213 "with a loss scale of 1e+30" "$BEVATRON" launch local "${model[@]}" --train-iters 5 --fp16 --loss-scale 1e30
grep -q "starting again" "$work/out" && fail "a run that is not finite was started again" || pass
expect 2 "did you mean" "$BEVATRON" launch local "${model[@]}" --train-iterss 5
expect 2 "launch local starts train" "$BEVATRON" launch local preprocess --input x
finish
