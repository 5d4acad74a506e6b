#!/usr/bin/env bash
# The script of launch slurm decides with the program itself whether its job is requeued. Stand-ins play Slurm: srun
# runs one real rank, or fails as it is told; scontrol records that the job is requeued, and the script is run again.
# tier: all
# cost: 12
. tests/cli/common.sh || exit
model=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 50
    --tokenizer-type NullTokenizer --micro-batch-size 1 --lr 1e-3 --log-interval 1 --eval-iters 0 --threads 1)
mkdir "$work/bin"
stand_in() { printf '#!/bin/bash\n%s\n' "$2" >"$work/bin/$1" && chmod +x "$work/bin/$1"; }
stand_in scontrol "[ \"\$1\" = requeue ] && echo \"\$2\" >>$work/requeued; exit 0"
stand_in scancel 'exit 0'
stand_in sleep '[ "$1" != 45 ] || exec /bin/sleep 45'
stand_in tail '[[ "$*" == *-F* ]] || exec /usr/bin/tail "$@"'
# The attempt's number decides what happens: $work/plan has a line for each.
stand_in srun "echo x >>$work/attempts
step=\$(sed -n \"\$(wc -l <$work/attempts)p\" $work/plan)
while [[ \$1 == --* ]]; do [[ \$1 == --output=* ]] && log=\${1#--output=}; shift; done
exec >>\"\${log/\\%t/0}\" 2>&1
eval \"\$step\""

# job NAME FLAGS…: writes the script and runs it as long as it is requeued; its exit code.
job() {
    local name=$1 code
    shift
    rm -f "$work/attempts" "$work/requeued"
    "$BEVATRON" launch slurm --dry-run --shared --logs "$work/logs-$name" "$@" >"$work/$name.sh" 2>"$work/out" || return
    while :; do
        : >"$work/requeued"
        PATH=$work/bin:$PATH SLURM_JOB_ID=5 bash "$work/$name.sh" >>"$work/log-$name" 2>&1
        code=$?
        [ -s "$work/requeued" ] || return $code
        echo requeued >>"$work/log-$name"
    done
}
# ran NAME CODE ATTEMPTS REQUEUES: how the job ended.
ran() {
    local name=$1 code=$2 attempts requeues
    attempts=$(wc -l <"$work/attempts")
    requeues=$(grep -c '^requeued$' "$work/log-$name")
    [ "$code" = "$3" ] && [ "$attempts $requeues" = "$4 $5" ] && pass ||
        { cp "$work/log-$name" "$work/out"; fail "$name: code $code, $attempts attempts, $requeues requeues"; }
    grep -q "iteration -1" "$work/log-$name" && fail "$name speaks of iteration -1" || pass
}
said() { grep -qF "$2" "$work/log-$1" && pass || { cp "$work/log-$1" "$work/out"; fail "$1 does not say \"$2\""; }; }
# What rank 0 tells while it runs, and then it dies: iterations, the code.
reach() { echo "\"\$@\" --exit-interval $1; exit $2"; }

# Failures at different places, with checkpoints between them, whatever their codes; then the run is done.
{
    reach 2 1
    reach 4 134
    reach 6 135
    reach 8 195
    reach 10 139
    echo '"$@"'
} >"$work/plan"
job unlike "${model[@]}" --train-iters 12 --save "$work/unlike"
ran unlike $? 0 6 5
said unlike "the run failed with code 134 at iteration 5; starting again from iteration 4 (restart 2 of 10 within 60 minutes)"

# A start that is lost is repeated in the same allocation, and counts as nothing.
{
    echo 'exit 1'
    echo 'exit 255'
    reach 2 210
    echo '"$@"'
} >"$work/plan"
job lost --max-requeues 1 "${model[@]}" --train-iters 4 --save "$work/lost"
ran lost $? 0 4 1
said lost "the run ended with code 255 before its ranks connected; starting it again"

# The same failure again and again: repeated once here, once in another allocation, then given up.
for _ in 1 2 3 4; do echo '"$@" --load no-such-folder --exit-on-missing-checkpoint; exit 1'; done >"$work/plan"
job stuck "${model[@]}" --train-iters 4 --save "$work/stuck"
ran stuck $? 217 3 1
said stuck "failed 3 times before its first iteration without a new checkpoint"

# Too often within the window; older failures are forgotten.
for i in 2 4 6 8; do reach $i 137; done >"$work/plan"
job often --max-requeues 2 "${model[@]}" --train-iters 8 --save "$work/often"
ran often $? 137 3 2
said often "after 2 restarts within 60 minutes; giving up"
job forgiven --max-requeues 2 --restart-window-minutes 0.0001 "${model[@]}" --train-iters 8 --save "$work/forgiven"
ran forgiven $? 0 5 4

# Codes that say that another attempt would not help.
echo 'exit 2' >"$work/plan"
job usage "${model[@]}" --train-iters 4 --save "$work/usage"
ran usage $? 2 1 0
# A NaN is --nan-policy's, inside the run: when that gives up, so does the job, as launch local does.
nan='--allow-injected-faults --inject nan:step=2'
echo '"$@" '"$nan" >"$work/plan"
job nan "${model[@]}" --train-iters 4 --save "$work/nan"
ran nan $? 213 1 0
echo '"$@" --nan-policy rewind-and-skip '"$nan" >"$work/plan"
job nan-skip "${model[@]}" --train-iters 4 --save "$work/nan-skip"
ran nan-skip $? 0 1 0

# Ranks that complete nothing: the step is ended with code 212, and the job requeued. srun kills them when it is told to end.
{
    echo 'trap "kill -9 \$rank; exit 137" TERM; "$@" --allow-injected-faults --inject stop:step=3 & rank=$!; wait $rank'
    echo '"$@"'
} >"$work/plan"
# A busy machine may take as long to start the rank: then the limit is longer.
for minutes in 0.1 1; do
    rm -rf "$work/hang" "$work/logs-hang" "$work/log-hang"
    job hang --progress-timeout-minutes $minutes "${model[@]}" --train-iters 4 --save "$work/hang" --save-interval 2
    code=$?
    [ "$code $(wc -l <"$work/attempts")" = "0 2" ] && break
done
ran hang $code 0 2 1
said hang "s after iteration 2; ending it (--progress-timeout-minutes)"
said hang "the run failed with code 212 at iteration 3; starting again from iteration 2"
"$BEVATRON" launch slurm --dry-run --progress-timeout-minutes 0 "${model[@]}" --train-iters 4 >"$work/out" 2>&1
grep -q "launch progress" "$work/out" && fail "a limit of 0 is one" || pass

# Pods of a JobSet, as Kubernetes restarts them: after every code but those of the policy.
cat >"$work/pod" <<END
#!/bin/bash
[ "\$1" = launch ] && exec "$BEVATRON" "\$@"
echo x >>"$work/attempts"
step=\$(sed -n "\$(wc -l <"$work/attempts")p" "$work/plan")
set -- "$BEVATRON" "\$@"
eval "\$step"
END
chmod +x "$work/pod"
# The words of a manifest's command, which comes before that of its probe.
words_of() { sed '/livenessProbe:/,$d' "$1" | sed -n '/^ *command:$/,/^ *[a-zA-Z]*:/p' | sed -n 's/^ *- "\(.*\)"$/\1/p'; }
pods() {
    local name=$1 code words
    shift
    rm -f "$work/attempts"
    "$BEVATRON" launch kubernetes --image registry/bevatron:1 --dry-run --rehearse --claim c --mount "$work" --nproc 1 --binary "$work/pod" "$@" \
        >"$work/$name.yaml" 2>"$work/out" || return
    mapfile -t words < <(words_of "$work/$name.yaml")
    while :; do
        env JOB_COMPLETION_INDEX=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 BEVATRON_NODES=1 "${words[@]}" >>"$work/log-$name" 2>&1
        code=$?
        case $code in 0 | 2 | 213 | 214 | 215 | 216 | 217) return $code ;; esac
        echo requeued >>"$work/log-$name"
    done
}
{
    reach 2 1
    reach 4 134
    echo 'kill -9 $$'
    echo '"$@"'
} >"$work/plan"
pods pod-unlike "${model[@]}" --train-iters 6 --save "$work/pod-unlike"
ran pod-unlike $? 0 4 3
for _ in 1 2 3 4; do echo '"$@" --load no-such-folder --exit-on-missing-checkpoint; exit 1'; done >"$work/plan"
pods pod-stuck "${model[@]}" --train-iters 4 --save "$work/pod-stuck"
ran pod-stuck $? 217 3 2
grep -q "maxRestarts: 1000000" "$work/pod-stuck.yaml" && pass || fail "Kubernetes counts, too"
for i in 2 4 6 8; do reach $i 137; done >"$work/plan"
pods pod-often --max-restarts 2 "${model[@]}" --train-iters 8 --save "$work/pod-often"
ran pod-often $? 217 3 2
# A pod that is told to stop saves, and that is not a failure.
: >"$work/log-pod-told"
echo 'exec "$@"' >"$work/plan"
pods pod-told "${model[@]}" --train-iters 1 --save "$work/pod-told"
mapfile -t words < <(words_of "$work/pod-told.yaml")
rm -rf "$work/pod-told" "$work/attempts"
in_background "$work/log" "${words[@]}" --train-iters 1000000
pod=$!
await_text "iteration        3/" "$work/log" || fail "the pod does not start"
kill "$pod"
wait "$pod"
[ $? = 210 ] && pass || fail "a pod that was told to stop: $(tail -n 3 "$work/log")"
grep -q '"times":\[\]' "$work/pod-told/restarts.json" && pass || fail "being stopped counts as a failure: $(cat "$work/pod-told/restarts.json")"

# The command itself.
expect 2 "give --state" "$BEVATRON" launch decide
expect 2 "a command after -- has its own" "$BEVATRON" launch decide --state "$work/s" --exit-code 1 -- true
expect 0 "ran" "$BEVATRON" launch decide --state "$work/s" --save "$work/none" -- echo ran
expect 2 "cannot start no-such-program" "$BEVATRON" launch decide --state "$work/s" -- no-such-program
expect 0 "for job scripts" "$BEVATRON" launch --help
expect 0 "requeue 0" "$BEVATRON" launch decide --state "$work/new.json" --save "$work/none" --exit-code 1
expect 0 "end 1" "$BEVATRON" launch decide --state "$work/new.json" --exit-code 1
finish
