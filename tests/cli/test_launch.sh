#!/usr/bin/env bash
# launch: flags of both kinds on one line, sbatch driven through a stand-in that records what it gets, failures said
# clearly, and a local run that is started again.
# tier: all
# cost: 15
. tests/cli/common.sh || exit
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
expect 2 "one process with many threads" "$BEVATRON" launch slurm --dry-run --nodes 2 preprocess --input x
slurm=("$BEVATRON" launch slurm --dry-run)
prepare=(preprocess --input "$work/a.jsonl" --output-prefix "$work/b")
has() { grep -q -- "$1" "$work/out" && pass || fail "no $1 in the script"; }
has_not() { grep -q -- "$1" "$work/out" && fail "$1 in the script" || pass; }
expect 2 "did you mean --input" "${slurm[@]}" preprocess --inpt "$work/a.jsonl" --output-prefix b
expect 0 "usage: bevatron" "${slurm[@]}" preprocess --help
has_not "#SBATCH"
expect 2 "--array-chain is for train" "${slurm[@]}" --array-chain 3 "${prepare[@]}"

# Commands that do not exist are refused, those of several ranks have one per GPU, and each has its own help.
expect 2 "there is no command \"dataset frobnicate\"" "${slurm[@]}" dataset frobnicate
expect 2 "there is no command \"bench matmull\"; did you mean matmul?" "${slurm[@]}" bench matmull
expect 2 "bench needs a command" "${slurm[@]}" bench
expect 2 "there is no command \"extract pdf\"" "${slurm[@]}" extract pdf
expect 2 "there is no command \"getdata\" on Slurm" "${slurm[@]}" getdata --url https://example.com/a --to "$work"
has_not "#SBATCH"
for command in "bench collectives" preflight "evaluate --load run"; do
    expect 0 " ${command%% --*}" "${slurm[@]}" --machine p4d.24xlarge --nodes 2 $command
    has "#SBATCH --ntasks-per-node=8" && has "--mpi=" && has "-lt 0 \]"
done
for command in "generate --load run" "bench matmul" "dataset inspect a" "checkpoint verify a" "tokenizer train --input x" "extract wiki --input x"; do
    expect 0 " ${command%% --*}" "${slurm[@]}" --machine p4d.24xlarge $command
    has "#SBATCH --ntasks-per-node=1"
done
expect 0 "#SBATCH --ntasks-per-node=2" "${slurm[@]}" --ntasks-per-node 2 generate --load run
for command in "bench collectives" "bench matmul" preflight evaluate generate "dataset inspect"; do
    expect 0 "usage: bevatron $command" "${slurm[@]}" $command --help
    has_not "#SBATCH"
done

for command in evaluate generate preflight "bench matmul" "bench step" "bench collectives"; do
    expect 2 "unknown flag --frobx; \`bevatron $command --help-all\` lists all flags; options of sbatch go into --sbatch" "${slurm[@]}" $command --frobx
    expect 2 "unknown flag --frobx" "$BEVATRON" launch kubernetes --dry-run --image i --claim c $command --frobx
done
expect 0 "bench collectives" "${slurm[@]}" bench collectives -b 8 -e 32M -f 2 -g 1
echo 'load: ${RUN}' >"$work/evaluate.yaml"
expect 0 "export RUN=" env RUN=/fsx/run "${slurm[@]}" evaluate --config "$work/evaluate.yaml"
expect 0 "--config /in/the/image.yaml" "${slurm[@]}" --container-image i evaluate --config /in/the/image.yaml

# Options of sbatch, in a flag or after "--"; what the script sets itself is refused.
expect 0 "#SBATCH --exclude=node7" "${slurm[@]}" --sbatch "--mem=0 --exclude=node7" --sbatch=--nice "${model[@]}" --train-iters 5 -- -w 'a b' --mail-type=END
for line in "--mem=0" "--nice" '-w "a b"' "--mail-type=END"; do has "^#SBATCH $line$"; done
grep -qE '^ +(--mem|-w|--mail)' "$work/out" && fail "options of sbatch went to train" || pass
expect 0 "#SBATCH --mem=0" "${slurm[@]}" bench matmul -- --mem=0
expect 2 "--nodes=2 cannot be passed to sbatch: give --nodes" "${slurm[@]}" "${model[@]}" --train-iters 5 -- --nodes=2
expect 2 "is not an option of sbatch" "${slurm[@]}" --sbatch mem=0 "${model[@]}" --train-iters 5
expect 0 "#SBATCH --mem=0" "${slurm[@]}" dataset inspect -- -odd-name -- --mem=0
grep -qE '^ +-odd-name|-- -odd-name' "$work/out" && has_not "#SBATCH -o" && pass || fail "the first -- was taken for the last"
expect 2 "nothing follows the last \"--\"" "${slurm[@]}" "${model[@]}" --train-iters 5 --
expect 2 "unknown flag --mem; \`bevatron train --help-all\` lists all flags; options of sbatch go into --sbatch \"…\" or after --" "${slurm[@]}" --mem=0 "${model[@]}" --train-iters 5
expect 2 "flags begin with two dashes; options of sbatch go into --sbatch" "${slurm[@]}" "${model[@]}" --train-iters 5 -w a
expect 2 "options of sbatch go into --sbatch" "${slurm[@]}" "${prepare[@]}" --mem=0
expect 2 "there is no command \"frobnicate\" to launch; there are train, preprocess, extract, evaluate, generate, preflight, bench, tokenizer, dataset, checkpoint" "${slurm[@]}" --nodes 2 frobnicate --input x
expect 2 "there is no command \"preproces\" to launch; did you mean preprocess?" "${slurm[@]}" preproces --input x
expect 2 "there is no command \"frobnicate\" to launch" "$BEVATRON" launch kubernetes --dry-run --image i frobnicate
expect 2 "a flag overrides the file; write --num_layers=24" "${slurm[@]}" model.num_layers=24
expect 0 "    --container-mount-home" "${slurm[@]}" --container-image i --container-mount-home "${model[@]}" --train-iters 5
expect 2 "--container-mount-home needs --container-image" "${slurm[@]}" --container-mount-home "${model[@]}" --train-iters 5
expect 2 "--container-mounts needs --container-image" "${slurm[@]}" --container-mounts /fsx:/fsx "${model[@]}" --train-iters 5

# Every attempt draws a token of its own for its ranks.
expect 0 "export BEVATRON_JOB_TOKEN" "${slurm[@]}" "${model[@]}" --train-iters 5
line=$(grep 'BEVATRON_JOB_TOKEN=' "$work/out")
token=$(eval "$line" && echo "$BEVATRON_JOB_TOKEN") && [[ $token =~ ^[0-9a-f]{32}$ ]] && [ "$token" != "$(eval "$line" && echo "$BEVATRON_JOB_TOKEN")" ] && pass || fail "token $token"

# The job's name is one of files.
for name in ../../evil a/b .hidden -x "" $'a\tb'; do
    expect 2 "cannot be a job name" "$BEVATRON" launch slurm --logs "$work/deep/logs" --job-name="$name" "${model[@]}" --train-iters 5
done
[ -e "$work/deep" ] && fail "a refused job left files" || pass

# What goes on where it stopped is warned and put back; what would start over is not.
expect 0 "$work/b.unfinished/journal" "${slurm[@]}" --max-requeues 7 "${prepare[@]}"
has "#SBATCH --signal=B:USR1@180" && has "max-restarts 7 --restart-window-minutes 60" && has "scontrol requeue"
expect 0 "" "${slurm[@]}" "${prepare[@]}" --restart
has_not "#SBATCH --signal=" && has_not "scontrol requeue" && has_not "launch decide"
expect 0 "" "${slurm[@]}" tokenizer train --input x
has_not "#SBATCH --signal=" && has_not "scontrol requeue" && has_not "launch decide"
expect 2 "without --save would start over" "${slurm[@]}" --max-requeues 7 "${model[@]}" --train-iters 5
expect 2 "this command would start over" "${slurm[@]}" --max-requeues 7 "${prepare[@]}" --restart
expect 0 "launch decide" "${slurm[@]}" --max-requeues 0 "${model[@]}" --train-iters 5
has_not "scontrol requeue"

expect 0 "launch decide" "${slurm[@]}" "${model[@]}" --train-iters 5 --save "$work/run" --save-fallback "$work/spare"
has "--save $work/run --save-fallback $work/spare --max-restarts"

# A warning has room in the time limit.
for limit in 10 10:00 0:10:00 0-0:10; do
    expect 2 "which is 600 s: the job would stop as soon as it starts; give 539 or less" \
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
stand_in "echo \"\$@\" >$work/arguments; echo 4711"
expect 0 "job 4711" "${submit[@]}"
grep -qE "^--parsable $work/logs/train-.*\.sbatch$" "$work/arguments" && pass || fail "sbatch got $(cat "$work/arguments")"
grep -qxF "log: $work/logs/train-4711.log" "$work/out" && pass || fail "the log's path was not printed"
head -n 1 "$work"/logs/train-*.sbatch | grep -q '^#!/bin/bash$' && pass || fail "the script was not kept"
[ "$(stat -c %a "$work"/logs/train-*.sbatch | sort -u)" = 600 ] && pass || fail "others can read the script, which has the values of --export"
# Data that does not exist here is told before the job is queued, unless another job may make it.
lacking=(--data-path "$work/none.jsonl" --tokenizer-type auto --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --micro-batch-size 1 --lr 1e-3 --train-iters 5)
expect 0 "warning: on this machine: $work/none.jsonl does not exist; check the path; the job will fail if its machines lack it, too" "${submit[@]:0:7}" "${lacking[@]}"
grep -q "job 4711" "$work/out" && pass || fail "the job was not submitted"
expect 0 "job 4711" "${submit[@]:0:7}" --after 4710 "${lacking[@]}"
has_not "does not exist"
# --watch waits in the queue, copies the log as it grows, and has the job's exit code. squeue's answers are recorded.
states() { printf '%s\n' "$@" >"$work/states"; }
printf '#!/bin/sh\necho "$@" >%s/asked\nsed -i -e "1w %s/state" -e "\$!{1d}" %s/states; cat %s/state\n' "$work" "$work" "$work" "$work" >"$work/bin/squeue"
chmod +x "$work/bin/squeue"
watch() { # CODE TEXT LOG STATES…
    printf '%s' "$3" >"$work/logs/train-4711.log"
    states "${@:4}"
    expect "$1" "$2" "${submit[@]}" --watch
}
watch 0 "job 4711 has ended: COMPLETED" $'a first line\nand a last one\n' "PENDING 0 Resources" "RUNNING 0 None" "COMPLETED 0 None"
has_not "Slurm does not answer"
grep -q "job 4711 waits in the queue: Resources" "$work/out" && pass || fail "not said why the job waits"
[ "$(grep -cE "^(a first line|and a last one)$" "$work/out")" = 2 ] && pass || fail "the log was not copied, or twice"
watch 217 "job 4711 has ended: FAILED, NonZeroExitCode" "x" "FAILED 55552 NonZeroExitCode"
watch 143 "job 4711 has ended: CANCELLED" "x" "CANCELLED 15 None"
grep -q clusters "$work/asked" && fail "squeue was asked for another cluster: $(cat "$work/asked")" || pass
# The cluster that SBATCH_CLUSTERS, SLURM_CLUSTERS or --clusters sent the job to is the one that is asked.
stand_in "echo '4711;west'"
watch 217 "job 4711 has ended: FAILED" "x" "FAILED 55552 NonZeroExitCode"
grep -q -- "--clusters=west" "$work/asked" && pass || fail "squeue was asked: $(cat "$work/asked")"
states "COMPLETED 0 None"
expect 0 "to save and stop: scancel --clusters=west --batch --signal=USR2 4711" "${submit[@]}" --watch --save "$work/west" --save-interval 5 -- --clusters=west
expect 0 "#SBATCH --clusters=west" "${slurm[@]}" --watch --sbatch --clusters=west "${model[@]}" --train-iters 5
has "^unset SLURM_CLUSTERS$"
stand_in "echo 4711"
rm "$work/logs/train-4711.log"
states "COMPLETED 0 None"
expect 0 "the job's log cannot be read here" "${submit[@]}" --watch
# A job that waits for one that failed is cancelled by Slurm (tests/parallel/test_slurm.sh).
states "PENDING 0 Dependency" "CANCELLED 0 DependencyNeverSatisfied"
expect 1 "the job did not start, because job 4710 of --after did not succeed" env PATH="$work/bin:$PATH" "$BEVATRON" launch slurm --logs "$work/logs" \
    --after 4710 --watch "${model[@]}" --train-iters 5
has_not "cannot be read here"
states "PENDING 0 Resources" "CANCELLED 0 None"
expect 1 "the job was cancelled before it started" "${submit[@]}" --watch
for after in "" abc 1,afterany:2; do
    expect 2 "is not the number of a job" "${slurm[@]}" --after="$after" "${model[@]}" --train-iters 5
done
expect 0 "#SBATCH --kill-on-invalid-dep=yes" "${slurm[@]}" --after 17:18_1 "${model[@]}" --train-iters 5
# Two jobs within a second have two scripts.
rm "$work"/logs/train-*.sbatch
for _ in 1 2 3; do expect 0 "job 4711" "${submit[@]}"; done
[ "$(find "$work/logs" -name 'train-*.sbatch' | wc -l)" = 3 ] && pass || fail "a script was written over: $(ls "$work/logs")"

# A resumed run whose steps outlast KillWait is told before it starts how to stop it.
printf '#!/bin/sh\necho "KillWait                = 30 sec"\n' >"$work/bin/scontrol"
chmod +x "$work/bin/scontrol"
mkdir -p "$work/slow"
for ms in 29000 31000; do
    printf '{"kind":"train","time":1,"iteration":1,"train_iters":9,"losses":{"lm loss":1},"elapsed_ms":%s}\n' $ms >"$work/slow/metrics.jsonl"
    expect 0 "to save and stop: scancel --batch --signal=USR2 4711" "${submit[@]}" --save "$work/slow" --save-interval 5
    [ $ms = 29000 ] && has_not "will not save" || has "plain .scancel 4711. will not save: a step of this run took 31 s.* 30 s (KillWait)"
done

# So is a run that has measured its steps; one that has the time says nothing.
for wait in 0.000001 3000; do
    expect 0 "successfully saved" env SLURM_JOB_ID=17 BEVATRON_KILL_WAIT=$wait "$BEVATRON" train "${model[@]}" --train-iters 4 --save "$work/stop$wait"
    [ $wait = 3000 ] && has_not "would not save" || has "scancel 17. would not save: finishing a step takes .* run .scancel --batch --signal=USR2 17."
done

# What sbatch of Slurm 22.05.8 says, recorded.
refuses() { stand_in "printf 'sbatch: error: $1\\n' >&2; exit ${3-1}" && expect 1 "sbatch rejected the job: $2" "${submit[@]}"; }
refuses 'invalid partition specified: gpu\nsbatch: error: Batch job submission failed: Invalid partition name specified' \
    "invalid partition specified: gpu; Batch job submission failed: Invalid partition name specified; \`sinfo -s\` lists"
refuses 'Batch job submission failed: Requested reservation is invalid' \
    "Batch job submission failed: Requested reservation is invalid; \`scontrol show reservation\`"
refuses 'Invalid generic resource (gres) specification' "Invalid generic resource (gres) specification; that partition has no such GPUs"
refuses 'Memory specification can not be satisfied\nsbatch: error: Batch job submission failed: Requested node configuration is not available' \
    "Memory specification can not be satisfied; Batch job submission failed: Requested node configuration is not available; no node"
refuses 'Batch job submission failed: Unable to contact slurm controller (connect failure)' \
    "Batch job submission failed: Unable to contact slurm controller (connect failure); run this on a node of the cluster"
refuses 'Invalid --time specification' "Invalid --time specification" 255
refuses 'resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\nsbatch: error: fetch_config: DNS SRV lookup failed\nsbatch: fatal: Could not establish a configuration source' \
    "resolve_ctls_from_dns_srv: res_nsearch error: Unknown host; fetch_config: DNS SRV lookup failed; Could not establish a configuration source; run this on a node of the cluster"
stand_in "printf 'sbatch: unrecognized option %s\nTry \"sbatch --help\" for more information\n' \"'--container-image=x'\" >&2; exit 255"
expect 1 "needs the Slurm plugin Pyxis" "${submit[@]}"
stand_in "printf 'sbatch: unrecognized option %s\n' \"'--nonsense'\" >&2; exit 255"
expect 1 "against \`sbatch --help\`" "${submit[@]}" -- --nonsense
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
    in_background "$work/out" "$BEVATRON" launch local "${model[@]}" --train-iters $iterations --save "$work/run" --save-interval 20
    launcher=$!
    within 900 [ -d "$work/run/iter_0000020" ]
    pkill -9 -f "bevatron train .*$work/run"
    wait "$launcher"
    code=$?
    grep -q "failed with code 137" "$work/out" && break
done
[ "$code" = 0 ] && pass || fail "a run that was killed once did not end well"
grep -qE "failed with code 137 .*; starting again from iteration" "$work/out" && pass || fail "the killed run was not started again"
[ -d "$work/run/iter_$(printf %07d $iterations)" ] && pass || fail "the killed run did not come to its end"
expect 217 "the run did not start in 5 attempts; giving up" env PATH=/nonexistent "$BEVATRON" launch local -n 2 "${model[@]}" \
    --global-batch-size 2 --train-iters 5 --save "$work/nowhere" --save-interval 5
# What will be the same the next time is not tried again.
expect 213 "with a loss scale of 1e+30" "$BEVATRON" launch local "${model[@]}" --train-iters 5 --fp16 --loss-scale 1e30
grep -q "starting again" "$work/out" && fail "a run that is not finite was started again" || pass
expect 2 "did you mean" "$BEVATRON" launch local "${model[@]}" --train-iterss 5
expect 2 "launch local runs train only" "$BEVATRON" launch local preprocess --input x
finish
