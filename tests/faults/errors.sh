#!/usr/bin/env bash
# errors.sh FOLDER [CASE…]: one system call fails once, each in turn, of a run that resumes, an evaluation, a conversion,
# a preprocessing and one that continues what a kill has interrupted (resume evaluate convert preprocess interrupted),
# and of one of two ranks that resume (rank0 rank1). The command must do its work as without the error, or stop with a
# message and leave nothing; it must never take an error for damage, or another checkpoint than the latest.
# Writes FOLDER/errors.csv; STRIDE=7 takes every seventh call, FIRST=30 begins there, ERRORS="5 24" takes only these errno.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
folder=${1:?folder}
shift
BEVATRON=$(realpath "${BEVATRON:-build/release/bevatron}")
killer=$(dirname "$BEVATRON")/tests/kill_at_call
[ -x "$killer" ] || { echo "test-syscalls: $killer is not built"; exit 1; }
mkdir -p "$folder" || exit 1
work=$(realpath "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT
results=$folder/errors.csv
echo "case,errno,calls,failed calls,done,stopped,wrong" >"$results"
# EIO EMFILE ESTALE
read -ra errors <<<"${ERRORS:-5 24 116}"

model=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 50 --tokenizer-type NullTokenizer
    --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --lr-decay-iters 9 --log-interval 1 --eval-iters 0 --threads 1 --device cpu)
for i in $(seq 40); do echo "{\"text\": \"$i $((i * 7 % 50)) 3\"}"; done >"$work/text.jsonl"
echo "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24" >"$work/text.txt"
null=(--tokenizer-type NullTokenizer --vocab-size 50)
"$BEVATRON" train "${model[@]}" --train-iters 6 --save "$work/base" --save-interval 3 >"$work/log" 2>&1 &&
    "$BEVATRON" checkpoint convert --input "$work/base" --output "$work/expected" --no-tokenizer >>"$work/log" 2>&1
"$BEVATRON" preprocess --input "$work/text.jsonl" --output-prefix "$work/expected-data" "${null[@]}" >>"$work/log" 2>&1
"$BEVATRON" evaluate --load "$work/base" --text "$work/text.txt" "${null[@]}" --device cpu --json >"$work/loss" 2>>"$work/log"
[ -e "$work/expected/model.safetensors" ] && [ -e "$work/expected-data_text_document.bin" ] && [ -s "$work/loss" ] ||
    { echo "test-syscalls: the commands fail without errors"; tail -n 5 "$work/log"; exit 1; }

# Each case: prepare, the command, whether its work is done (exit 0), and whether a stop (another code) left nothing.
prepare() {
    rm -rf "$work/at" && mkdir "$work/at" && cp -r "$work/base" "$work/at/run" && cp "$work/text.jsonl" "$work/at/"
    [ "$1" != interrupted ] || cp -r "$work/interrupted/"* "$work/at/"
}
command_of() {
    case $1 in
    resume | rank?) command=("$BEVATRON" train "${model[@]}" --train-iters 7 --save "$work/at/run" --load "$work/at/run" --save-interval 100) ;;
    evaluate) command=("$BEVATRON" evaluate --load "$work/at/run" --text "$work/text.txt" "${null[@]}" --device cpu --json) ;;
    convert) command=("$BEVATRON" checkpoint convert --input "$work/at/run" --output "$work/at/out" --no-tokenizer) ;;
    preprocess | interrupted) command=("$BEVATRON" preprocess --input "$work/at/text.jsonl" --output-prefix "$work/at/data" "${null[@]}") ;;
    esac
}
is_done() {
    case $1 in
    resume | rank?) grep -q "loaded checkpoint from .* at iteration 6" "$work/out" && [ -e "$work/at/run/iter_0000007" ] ;;
    evaluate) grep -qxFf "$work/loss" "$work/out" ;;
    convert) cmp -s "$work/at/out/model.safetensors" "$work/expected/model.safetensors" && cmp -s "$work/at/out/config.json" "$work/expected/config.json" ;;
    preprocess | interrupted) cmp -s "$work/at/data_text_document.bin" "$work/expected-data_text_document.bin" && cmp -s "$work/at/data_text_document.idx" "$work/expected-data_text_document.idx" ;;
    esac
}
# A stop says why, and the next attempt does the work.
is_stopped_well() {
    grep -q "error: " "$work/out" || return 1
    case $1 in
    convert) [ ! -e "$work/at/out" ] || return 1 ;;
    preprocess | interrupted) [ ! -e "$work/at/data_text_document.idx" ] || is_done preprocess || return 1 ;;
    esac
    "${command[@]}" >"$work/out" 2>&1 && is_done "$1"
}
# under_killer NAME WHICH: the command, under the killer in one process.
under_killer() {
    local under=("$killer" "$work/at/" "" "$2" "$work/count")
    case $1 in
    rank?) timeout -k 5 300 bash tests/parallel/mpirun.sh 2 bash -c 'rank=$0 n=$1; shift
        [ "$OMPI_COMM_WORLD_RANK" = "$rank" ] || shift "$n"
        exec "$@"' "${1#rank}" "${#under[@]}" "${under[@]}" "${command[@]}" ;;
    *) timeout -k 5 300 "${under[@]}" "${command[@]}" ;;
    esac >"$work/out" 2>&1 </dev/null
}
# What a preprocessing leaves that is killed after two thirds of its calls.
interrupt() {
    command_of preprocess
    prepare preprocess
    rm -f "$work/count"
    under_killer preprocess 0
    local calls
    calls=$(cat "$work/count") || return 1
    prepare preprocess
    under_killer preprocess "$((calls * 2 / 3))" && return 1
    rm -rf "$work/at/run" && cp -r "$work/at" "$work/interrupted"
}

failures=0
every_call() {
    local name=$1 error=$2 n calls=0 failed=0 ended=0 stopped=0 wrong=0
    command_of "$name"
    [ "$name" != interrupted ] || [ -e "$work/interrupted" ] || interrupt || { echo "test-syscalls: cannot interrupt"; exit 1; }
    for ((n = ${FIRST:-1}; ; n += ${STRIDE:-1})); do
        prepare "$name"
        rm -f "$work/count"
        under_killer "$name" "$error:$n"
        local code=$?
        [ -s "$work/count" ] || { echo "test-syscalls: cannot trace"; exit 77; }
        calls=$(cat "$work/count")
        [ "$n" -le "$calls" ] || break
        failed=$((failed + 1))
        cp "$work/out" "$work/first"
        if grep -qE "FALLING BACK|is damaged|starts from random weights|not a regular file|was truncated" "$work/out"; then
            reason="takes an error for an answer"
        elif [ "$code" = 0 ] && is_done "$name"; then
            reason=
            ended=$((ended + 1))
        elif [ "$code" = 0 ]; then
            reason="ends well without its work"
        elif is_stopped_well "$name"; then
            reason=
            stopped=$((stopped + 1))
        else
            reason="stops badly ($code)"
        fi
        if [ -n "$reason" ]; then
            wrong=$((wrong + 1))
            echo "FAIL $name, errno $error at call $n of $calls: $reason: $(grep -aE 'error|warning' "$work/first" | tail -n 2 | cut -c 1-300 | tr '\n' ' ')"
        fi
    done
    echo "$name,$error,$calls,$failed,$ended,$stopped,$wrong" >>"$results"
    echo "$name, errno $error: $calls calls, $failed failed: $ended times done, $stopped times stopped, $wrong wrong"
    failures=$((failures + wrong))
}

[ $# -gt 0 ] || set -- resume evaluate convert preprocess interrupted rank0 rank1
for name; do
    for error in "${errors[@]}"; do
        every_call "$name" "$error"
    done
done
[ "$failures" = 0 ]
