#!/usr/bin/env bash
# Times two programs beside each other, in turns, to show that a change made nothing slower:
#   bench/before_after.sh OLD NEW [PATTERN]     (programs built from two commits; only the rows whose name matches)
# Rows: training steps on the CPU and, if there is one, on the GPU (the models of bench/gpu.sh and bench/gpu_mixtures.sh),
# preprocess, and start-up. Each row prints the median of both, the ratio new/old, and the spread of OLD (its fastest and slowest turn
# beside its median), below which a ratio says nothing. CPU rows count processor time, so other programs matter less.
# From the environment: ROUNDS=5 (turns of each program), GPU_STEPS=20.
set -u
[ $# -ge 2 ] && [ -x "$1" ] && [ -x "$2" ] || { echo "usage: bench/before_after.sh OLD NEW [PATTERN]" >&2; exit 2; }
old=$(realpath "$1") new=$(realpath "$2") pattern=${3:-.} rounds=${ROUNDS:-5}
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
exec 3>&2
export OMP_NUM_THREADS=1 TIMEFORMAT='%U %S'

# processor PROGRAM ARGUMENTS…: seconds of processor time.
processor() {
    { time "$@" >"$work/log" 2>&1 || { tail -n 3 "$work/log" >&3; echo "failed" >>"$work/failed"; }; } 2>&1 |
        awk 'NF == 2 { print $1 + $2 }'
}

# Many starts, so that one can be measured.
starts() {
    local i
    for ((i = 0; i < 20; i++)); do "$@" || return 1; done
}

# step PROGRAM FLAGS…: the median step, in seconds, as the program itself measured it.
step() {
    "$1" bench step "${@:2}" --algorithm-cache "$work/algorithms.$(basename "$1")" >"$work/log" 2>&1 ||
        { tail -n 3 "$work/log" >&2; echo failed >>"$work/failed"; }
    grep -oE '"median_s": [0-9.e-]+' "$work/log" | cut -d' ' -f2
}

# row NAME KIND ARGUMENTS…
row() {
    local name=$1 kind=$2 turn
    shift 2
    grep -qE -e "$pattern" <<<"$name" || return 0
    : >"$work/old"
    : >"$work/new"
    for ((turn = 0; turn < rounds; turn++)); do
        case $kind in
            starts) processor starts "$old" "$@" >>"$work/old"; processor starts "$new" "$@" >>"$work/new" ;;
            *) $kind "$old" "$@" >>"$work/old"; $kind "$new" "$@" >>"$work/new" ;;
        esac
    done
    sort -g "$work/old" -o "$work/old"
    sort -g "$work/new" -o "$work/new"
    paste "$work/old" "$work/new" | awk -v name="$name" '
        { a[NR] = $1; b[NR] = $2 }
        END {
            m = int((NR + 1) / 2)
            if (a[m] <= 0 || b[m] <= 0) { printf "%-28s failed\n", name; exit }
            printf "%-28s %10.4f s %10.4f s  ratio %.3f  (old %.3f to %.3f)\n", name, a[m], b[m], b[m] / a[m], a[1] / a[m], a[NR] / a[m]
        }'
}

if printf '%s\n' "preprocess, numbers" "preprocess, BPE" | grep -qE -e "$pattern"; then
    awk 'BEGIN { for (i = 0; i < 400000; i++) { printf "{\"text\": \""; for (k = 0; k < 60; k++) printf "%d ", (i * 7 + k * k) % 900; print "\"}" } }' \
        >"$work/numbers.jsonl"
    awk 'BEGIN { srand(1); for (i = 0; i < 60000; i++) { printf "{\"text\": \""; for (k = 0; k < 60; k++) { n = 2 + int(6 * rand()); while (n--) printf "%c", 97 + int(26 * rand() * rand()); printf " " } print "\"}" } }' \
        >"$work/words.jsonl"
    "$old" tokenizer train --input "$work/words.jsonl" --vocab-size 2000 --output-prefix "$work/bpe" >"$work/log" 2>&1 || cat "$work/log" >&2
fi
small=(--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 --micro-batch-size 2 --vocab-size 4000 --device cpu --threads 1)
printf "%-28s %12s %12s\n" "" old new
row "start-up, version" starts version
row "start-up, dry run" starts train --preset gpt2-124m --mock-data --vocab-size 50257 --train-iters 10 --lr 1e-3 \
    --micro-batch-size 1 --global-batch-size 1 --dry-run --device cpu
row "preprocess, numbers" processor preprocess --input "$work/numbers.jsonl" --restart --output-prefix "$work/out" --tokenizer-type NullTokenizer \
    --vocab-size 1000 --workers 2
row "preprocess, BPE" processor preprocess --input "$work/words.jsonl" --restart --output-prefix "$work/out" --vocab-file "$work/bpe-vocab.json" \
    --merge-file "$work/bpe-merges.txt" --tokenizer-type GPT2BPETokenizer --workers 2 --append-eod
row "CPU step, gpt fp32" processor bench step "${small[@]}" --steps 12
row "CPU step, gpt bf16" processor bench step "${small[@]}" --steps 6 --bf16
row "CPU step, llama fp32" processor bench step --model llama "${small[@]}" --steps 12
row "CPU step, bert fp32" processor bench step --model bert "${small[@]}" --steps 12
if nvidia-smi >/dev/null 2>&1; then
    steps=${GPU_STEPS:-20}
    while read -r name _; do
        read -ra flags < <(bench/gpu.sh flags "$name")
        row "GPU step, $name" step "${flags[@]}" --steps "$steps"
        row "GPU step, $name, fp8" step "${flags[@]}" --fp8-format hybrid --steps "$steps"
        read -ra flags < <(GPU_DROPOUT=0.1 bench/gpu.sh flags "$name")
        row "GPU step, $name, dropout" step "${flags[@]}" --steps "$steps"
    done < <(bench/gpu.sh list)
    while read -r name _; do
        read -ra flags < <(bench/gpu_mixtures.sh flags "$name")
        row "GPU step, $name" step "${flags[@]}" --steps "$steps"
        row "GPU step, $name, fp8" step "${flags[@]}" --fp8-format hybrid --steps "$steps"
    done < <(bench/gpu_mixtures.sh list)
fi
[ ! -s "$work/failed" ]
