# For the rows of the table of faults (run.sh): a small model on four ranks, and one line of results per case.
# Sourced; needs $BEVATRON and $results, the CSV that lines are added to. FAULTS_DEVICE=cuda: the ranks share one GPU, over
# MPI through the host, since NCCL refuses that.
set -u
: "${BEVATRON:?the program under test}" "${results:?the file of results}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work

ranks=4
device=${FAULTS_DEVICE:-cpu} machine="$(nproc) cores of $(lscpu | sed -n 's/^Model name: *//p' | head -n 1)"
on_device=(--device cpu)
if [ "$device" = cuda ]; then
    # The same bits again need deterministic kernels. Runs with faults do without CUDA graphs, so the others do, too.
    on_device=(--device cuda --distributed-backend mpi --deterministic-mode --no-cuda-graph)
    machine="$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1), $machine"
fi
model=(--mock-data --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 97
    --make-vocab-size-divisible-by 1 --tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 8 --lr 1e-3
    --log-interval 1 --eval-iters 0 --threads 1 "${on_device[@]}" --train-iters 12 --ckpt-writers 4 --use-distributed-optimizer --allow-injected-faults)
train=("$BEVATRON" train --nproc "$ranks" "${model[@]}")
launch=("$BEVATRON" launch local -n "$ranks" "${model[@]}" --save-interval 3)

# has_flag NAME: whether the program has it.
has_flag() { grep -q -- "\`$1" <<<"$flags"; }
flags=$("$BEVATRON" help flags --markdown)
# limit NAME VALUE: the words, if the program has the flag.
limit() { has_flag "$1" && echo "$1 $2"; }

now() { date +%s.%3N; }
minus() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1f", a - b }'; }
at_most() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a <= b) }'; }

# report ROW CASE RESULT [DETECT RESTART CODE MESSAGE]: one line of the CSV. RESULT: pass, fail, or "not run".
report() {
    local message=${7:-}
    message=$(tr -d '\r' <<<"$message" | tr '"\n|' "'  " | sed -E "s/  */ /g; s/ *\$//; s/^\[rank [0-9]+\] //; s#$work/##g" | cut -c1-300)
    printf '%s,"%s",%s,%s,%s,%s,"%s",%s,"%s"\n' "$1" "${2//\"/\"\"}" "$3" "${4:-}" "${5:-}" "${6:-}" "$message" "$(date +%F)" "$machine" >>"$results"
    printf '%3s  %-8s %-58s %s\n' "$1" "$3" "$2" "${6:+code $6}${4:+, noticed after $4 s}${5:+, back after $5 s}"
}

# The line of the log that says what failed: the last error, or the first warning.
said() {
    grep -aE "error: |fatal: " "$work/log" | grep -v "injecting the fault\|the last [0-9]* collectives" | head -n 1 | sed 's/^bevatron: //' | grep . ||
        grep -aE "warning: " "$work/log" | grep -v "injecting the fault" | head -n 1
}

# When the last fault of a run has fired; empty if none has.
fired() { tail -n 1 "$1/injected-faults.txt" 2>/dev/null | cut -d' ' -f1; }

# back_after RUN TIME: seconds from the fault to the first iteration that the next start completed.
back_after() {
    awk -v from="$2" 'match($0, /"time":[0-9.]+/) { t = substr($0, RSTART + 7, RLENGTH - 7) + 0
        if (/"kind":"run"/ && t > from) is_new = 1
        if (/"kind":"train"/ && is_new && !done) { printf "%.1f", t - from; done = 1 } }' "$1/metrics.jsonl" 2>/dev/null
}

# run_to_end COMMAND…: with a limit of $limit_s seconds, 90 by default; sets $code and $ended, output in $work/log.
run_to_end() {
    timeout -k 5 "${limit_s:-90}" "$@" >"$work/log" 2>&1 </dev/null
    code=$?
    ended=$(now)
}

# same_tensors A B: two checkpoints have the same weights and moments, to the bit.
same_tensors() {
    local file
    for file in "$1"/*.safetensors; do
        cmp -s "$file" "$2/$(basename "$file")" || return 1
    done
}
same_weights() { same_tensors "$work/plain/iter_0000012" "$1/iter_0000012"; }

# survives ROW CASE FLAGS…: a supervised run with these faults ends with the weights of one without, and the restart is
# timed from the fault.
survives() {
    local row=$1 case=$2 result=fail when detect= back= text
    shift 2
    rm -rf "$work/run"
    run_to_end "${launch[@]}" --save "$work/run" "$@"
    when=$(fired "$work/run")
    [ -n "$when" ] && back=$(back_after "$work/run" "$when")
    text=$(grep -a "starting again" "$work/log" | head -n 1)
    [ "$code" = 0 ] && [ -n "$when" ] && same_weights "$work/run" && result=pass
    report "$row" "$case" "$result" "$detect" "$back" "$code" "${text:-$(said)}"
}

# ends ROW CASE CODES SECONDS TEXT FLAGS…: an unsupervised run ends with one of these codes at most SECONDS after the
# fault, and TEXT is in its log.
ends() {
    local row=$1 case=$2 codes=$3 most=$4 text=$5 result=fail when detect=
    shift 5
    rm -rf "$work/run"
    run_to_end "${train[@]}" --save "$work/run" --save-interval 3 "$@"
    when=$(fired "$work/run")
    [ -n "$when" ] && detect=$(minus "$ended" "$when")
    [[ " $codes " == *" $code "* ]] && [ -n "$detect" ] && at_most "$detect" "$most" && grep -aqE -- "$text" "$work/log" && result=pass
    report "$row" "$case" "$result" "$detect" "" "$code" "$(said)"
}

# checks ROW CASE COMMAND…: whether a command or function succeeds; it may set $note.
checks() {
    local row=$1 case=$2 result=fail
    shift 2
    note= code=
    "$@" && result=pass
    report "$row" "$case" "$result" "" "" "$code" "$note"
}

# tests ROW CASE REGEX: tests of the suite.
tests() {
    local row=$1 case=$2 result=pass
    ctest --test-dir "${BEVATRON_TESTS:-$(dirname "$BEVATRON")}" -R "$3" --output-on-failure >"$work/log" 2>&1 || result=fail
    grep -q "No tests were found" "$work/log" && result=fail
    note=$(grep -aE "tests passed|tests failed" "$work/log" | head -n 1)
    [ "$result" = pass ] && grep -qE "\*\*\*Skipped" "$work/log" && ! grep -q " Passed " "$work/log" && result="not run"
    report "$row" "$case" "$result" "" "" "" "ctest -R $3: $note"
}

# waits SECONDS COMMAND…: until it succeeds.
waits() {
    local i most=$(($1 * 5))
    shift
    for ((i = 0; i < most; i++)); do
        "$@" && return
        sleep 0.2
    done
    return 1
}

# For machines without it: pgrep -f -- PATTERN.
command -v pgrep >/dev/null || pgrep() {
    local process
    for process in /proc/[0-9]*; do
        tr '\0' ' ' 2>/dev/null <"$process/cmdline" | grep -qE -- "${!#}" && echo "${process#/proc/}"
    done
}
# Processes of runs of this script that are still there.
left_over() { pgrep -f -- "$work/run" | grep -vx "$$"; }
