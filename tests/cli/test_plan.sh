#!/usr/bin/env bash
# bevatron plan: memory, time and cost of runs of any size, in a moment; what cannot be is refused with a remedy.
# cost: 4
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
llama=(--preset llama2-7b --micro-batch-size 1 --bf16 --use-distributed-optimizer)
expect 0 "fits into the 80 GiB of H100 GPUs" "$BEVATRON" plan "${llama[@]}" --machine p5.48xlarge --nodes 4 \
    --global-batch-size 512 --recompute-granularity full --tokens 2e12
grep -qE '^2e[+]12 tokens take [0-9.]+ days without interruptions, [0-9.]+ with saves and failures; these cost [$][0-9]+ [(]4 × p5.48xlarge at' "$work/out" &&
    pass || fail "no days and dollars"
expect 0 "DOES NOT FIT into the 40 GiB of A100 GPUs" "$BEVATRON" plan "${llama[@]}" --machine p4d.24xlarge --nproc 1 \
    --global-batch-size 1
# A trillion parameters on 3,072 GPUs.
expect 0 '"ranks": 3072' "$BEVATRON" plan --num-layers 128 --hidden-size 25600 --num-attention-heads 160 --seq-length 2048 \
    --max-position-embeddings 2048 --vocab-size 51200 --mock-data --lr 1e-4 --train-iters 1 --bf16 --micro-batch-size 1 \
    --global-batch-size 3072 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 64 --nproc 3072 \
    --recompute-granularity full --machine p4de.24xlarge --json
grep -q '"parameters": 10[01][0-9]\{10\},' "$work/out" && pass || fail "not a trillion parameters"
# 128 layers of Llama 3 405B on 16,384.
expect 0 '"ranks": 16384' "$BEVATRON" plan --preset llama3.1-405b --num-layers 128 --seq-length 8192 --bf16 \
    --micro-batch-size 1 --global-batch-size 2048 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 \
    --sequence-parallel --use-distributed-optimizer --nproc 16384 --machine p5.48xlarge --json
expect 0 "parameters" "$BEVATRON" plan --preset mixtral-8x7b --vocab-size 32000 --gpus 8 --bf16
expect 2 "did you mean p5.48xlarge? \`bevatron plan --machine x\` lists the known machines" "$BEVATRON" plan "${llama[@]}" --machine p9.48xlarge
expect 2 "did you mean p5.48xlarge" "$BEVATRON" plan "${llama[@]}" --machine h100
expect 2 "did you mean p5.48xlarge" "$BEVATRON" plan "${llama[@]}" --machine h100x
expect 2 "did you mean p6e-gb200.36xlarge" "$BEVATRON" plan "${llama[@]}" --machine NVIDIA-GB200
expect 2 "give --nodes 2" "$BEVATRON" plan "${llama[@]}" --nproc 16 --nodes 1
expect 2 "nearest: --tensor-model-parallel-size 1 or --num-attention-heads 8" "$BEVATRON" plan --num-layers 2 --hidden-size 56 --num-attention-heads 7 \
    --seq-length 16 --max-position-embeddings 16 --vocab-size 50 --mock-data --lr 1e-4 --train-iters 1 \
    --micro-batch-size 1 --tensor-model-parallel-size 2 --nproc 2
expect 0 "the 256 GiB of a c6i.32xlarge" "$BEVATRON" plan "${llama[@]}" --machine c6i.32xlarge --nodes 1
# A machine of one's own: a table as a file, changed.
expect 0 "matmul-tflops: 690" "$BEVATRON" plan --machine p5en.48xlarge --print-hardware
sed 's/^gpu-gib: 141 /gpu-gib: 13 /' "$work/out" >"$work/mine.yaml"
expect 0 "DOES NOT FIT into the 13 GiB of H200 GPUs; --search looks for a layout that does" "$BEVATRON" plan "${llama[@]}" --hardware "$work/mine.yaml" --nodes 1
echo "gpu-gb: 3" >>"$work/mine.yaml"
expect 2 "mine.yaml:$(wc -l <"$work/mine.yaml"): unknown flag --gpu-gb; did you mean --gpu-gib?" "$BEVATRON" plan "${llama[@]}" --hardware "$work/mine.yaml"
# Speeds that were measured: a plan of the step that was timed says what it took.
tiny=(--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2 --vocab-size 256)
"$BEVATRON" bench matmul --device cpu --threads 1 "${tiny[@]}" --dtype fp32 --rounds 1 --json >"$work/matmul.json"
"$BEVATRON" bench step --device cpu --threads 1 "${tiny[@]}" --steps 2 >"$work/step.json"
printf '%s\n' '{"operation": "all_reduce", "ranks": 2, "hosts": 2, "bytes": 1024, "us": 20}' \
    '{"operation": "all_reduce", "ranks": 2, "hosts": 2, "bytes": 1048576, "us": 1020}' >"$work/collectives.json"
"$BEVATRON" plan --machine c6i.32xlarge --calibrate "$work/matmul.json" "$work/collectives.json" "$work/step.json" \
    >"$work/mine.yaml" 2>"$work/found"
grep -q '^network-gigabytes: 1.04' "$work/mine.yaml" && pass || fail "not 512 KiB in 500 µs: $(cat "$work/mine.yaml")"
grep -q "^source: 'measured: 15 matmuls, 2 collectives, 1 steps" "$work/mine.yaml" && pass || fail "no source of the speeds"
grep -q '^1 steps: .* planned [+-]0.0 %' "$work/found" && pass || fail "not fitted: $(cat "$work/found")"
measured=$(grep -o '"step_s": [0-9.]*' "$work/step.json")
expect 0 '"step_seconds"' "$BEVATRON" plan "${tiny[@]}" --max-position-embeddings 1024 --make-vocab-size-divisible-by 128 \
    --hidden-dropout 0 --attention-dropout 0 --mock-data --lr 1e-4 --train-iters 1 --global-batch-size 2 --nproc 1 \
    --hardware "$work/mine.yaml" --json
planned=$(grep -o '"step_seconds": [0-9.e-]*' "$work/out")
awk -v a="${measured#*: }" -v b="${planned#*: }" 'BEGIN { exit !(b > 0.98 * a && b < 1.02 * a) }' && pass ||
    fail "planned $planned, measured $measured"
sed -i 's/"hosts": 2/"hosts": 1/' "$work/collectives.json"
expect 0 "the network between machines was not measured" "$BEVATRON" plan --machine c6i.32xlarge --calibrate "$work/collectives.json"
echo '{"operation": "all_reduce", "ranks": 2, "bytes": 1024}' >"$work/collectives.json"
expect 1 'collectives.json:1: the key "us" is missing' "$BEVATRON" plan --calibrate "$work/collectives.json"
echo '{"operation": "all_reduce", "ranks": 2, "bytes": 1e308, "us": 1}' >"$work/collectives.json"
expect 2 'collectives.json:1: "bytes" is 1e+308; it must be from' "$BEVATRON" plan --calibrate "$work/collectives.json"
# What bench prints of all three kinds, of two ranks here: the link is theirs, the network stays.
"$BEVATRON" bench collectives -g 2 --device cpu --operation all_reduce -e 64K -n 2 --json >"$work/collectives.json" 2>"$work/err"
expect 0 "network-gigabytes: 5.5 " "$BEVATRON" plan --machine c6i.32xlarge --calibrate "$work/matmul.json" "$work/step.json" "$work/collectives.json"
grep -q "^source: 'measured: 15 matmuls, 4 collectives, 1 steps" "$work/out" && pass || fail "not all kinds: $(cat "$work/out")"
# Files that are no results.
bad() {
    printf '%s\n' "note: a line that is not JSON" "$2" >"$work/bad.json"
    expect "$3" "bad.json:2: $1" "$BEVATRON" plan --calibrate "$work/matmul.json" "$work/bad.json"
}
bad "the line is not valid JSON" '{"dtype": "fp32", "m": 1' 215
bad "is not a line of bench matmul --json, bench collectives --json or bench step" '{"layer": 1}' 2
bad 'found no "flags", which say what was timed' '{"step_s": 1}' 2
bad '"ms" is -1; it must be from' '{"dtype": "fp32", "m": 1, "n": 1, "k": 1, "times": 1, "ms": -1}' 2
bad '"dtype" is "int8"; it must be fp32, tf32, bf16, fp16 or fp8' '{"dtype": "int8", "m": 1, "n": 1, "k": 1, "times": 1, "ms": 1}' 2
bad "flags:1: --num-layers takes a whole number" '{"step_s": 1, "flags": {"num-layers": "x"}}' 2
bad '"operation" is "all-reduce"; it must be all_reduce, all_gather, reduce_scatter, all_to_all, broadcast or sendrecv' \
    '{"operation": "all-reduce", "ranks": 2, "bytes": 1024, "us": 20}' 2
bad 'the key "operation" holds a number, expected a string' '{"operation": 1, "ranks": 2, "bytes": 1024, "us": 20}' 1
bad '"hosts" is 4; it must be from 0, if it is not known, to "ranks", 2' '{"operation": "all_reduce", "ranks": 2, "hosts": 4, "bytes": 1024, "us": 20}' 2
bad '"ranks" is 0; it must be from 1 to 16777216' '{"operation": "all_reduce", "ranks": 0, "bytes": 1024, "us": 20}' 2
printf '%s\n' '{"operation": "sendrecv", "ranks": 2, "hosts": 1, "bytes": 1024, "us": 20}' \
    '{"operation": "sendrecv", "ranks": 2, "hosts": 1, "bytes": 2048, "us": 20}' \
    '{"operation": "all_reduce", "ranks": 1, "hosts": 1, "bytes": 1024, "us": 20}' >"$work/skipped.json"
expect 0 "skipped 2 results of sendrecv: plans take the speed of links from collectives" "$BEVATRON" plan --machine c6i.32xlarge \
    --calibrate "$work/matmul.json" "$work/skipped.json"
grep -q "skipped 1 result of collectives of one rank" "$work/out" && pass || fail "a rank alone: $(cat "$work/out")"
expect 2 "or bench step that set a speed" "$BEVATRON" plan --machine c6i.32xlarge --calibrate "$work/skipped.json"
echo '{"dtype": "tf32", "m": 1, "n": 1, "k": 1, "times": 1, "ms": 1}' >"$work/tf32.json"
expect 0 "matmuls in tf32 are left out" "$BEVATRON" plan --machine c6i.32xlarge --calibrate "$work/matmul.json" "$work/tf32.json"
echo 'nothing' >"$work/collectives.json"
expect 2 "found no results of bench matmul" "$BEVATRON" plan --calibrate "$work/collectives.json"
expect 0 "a step of " "$BEVATRON" plan "${llama[@]}" --nproc 8 --epochs 2
expect 0 "8 ranks on 4 × p5.48xlarge" "$BEVATRON" plan "${llama[@]}" --nproc 8 --nodes 4 --tokens 1e9
expect 0 "1 rank on 1 × p5.48xlarge: 1 data-parallel replica of 1 stage, 1 micro-batch" "$BEVATRON" plan "${llama[@]}" --nproc 1 --global-batch-size 1
# Failures that leave no time for training.
never=(--nproc 8 --tokens 1e9 --failures-per-day 1e6)
expect 0 "days without interruptions; the run never finishes at this rate of failures" "$BEVATRON" plan "${llama[@]}" "${never[@]}"
expect 0 '"days_with_interruptions": null' "$BEVATRON" plan "${llama[@]}" "${never[@]}" --json
grep -q '"dollars": null' "$work/out" && pass || fail "dollars of a run without an end"
# Many layers, collectives and micro-batches.
expect 0 "waiting for tensor parallelism" "$BEVATRON" plan --preset llama2-70b --nodes 1 --tensor-model-parallel-size 8 \
    --sequence-parallel --micro-batch-size 1 --global-batch-size 512 --bf16
expect 0 "takes" "$BEVATRON" plan --preset llama2-7b --nproc 8 --pipeline-model-parallel-size 4 --micro-batch-size 1 \
    --global-batch-size 16 --bf16 --timeline "$work/step.svg" --trace "$work/step.json"
grep -q '<g id="stage-3"' "$work/step.svg" && grep -q '"name":"backward"' "$work/step.json" && pass || fail "no timeline"
expect 1 "nowhere/step.svg" "$BEVATRON" plan "${llama[@]}" --nproc 8 --timeline "$work/nowhere/step.svg"

# Experts in fp8 are trained on H100 and H200, and planned for other trainers elsewhere.
experts=(--preset qwen3-30b-a3b --mock-data --lr 1e-3 --train-iters 1 --bf16 --micro-batch-size 4 --vocab-size 151936
    --global-batch-size 64 --expert-model-parallel-size 8 --nproc 8)
step() { sed -n 's/^  "step_seconds": \([0-9.]*\),*/\1/p' "$1"; }
"$BEVATRON" plan "${experts[@]}" --machine dgx-b200 --json >"$work/bf16.json" 2>/dev/null
expect 0 "the plan is that of another trainer" "$BEVATRON" plan "${experts[@]}" --machine dgx-b200 --fp8-format hybrid
"$BEVATRON" plan "${experts[@]}" --machine dgx-b200 --fp8-format hybrid --json >"$work/fp8.json" 2>/dev/null
"$BEVATRON" plan "${experts[@]}" --machine dgx-b200 --overlap-moe-expert-parallel-comm --json >"$work/hidden.json" 2>/dev/null
awk -v a="$(step "$work/bf16.json")" -v b="$(step "$work/fp8.json")" -v c="$(step "$work/hidden.json")" \
    'BEGIN { exit !(b > 0 && c > 0 && b < a && c < a) }' && pass || fail "fp8 or hidden exchanges do not save time"
"$BEVATRON" plan "${experts[@]}" --machine dgx-h200 --json >"$work/bf16.json" 2>/dev/null
"$BEVATRON" plan "${experts[@]}" --machine dgx-h200 --fp8-format hybrid --json >"$work/fp8.json" 2>"$work/fp8.log"
awk -v a="$(step "$work/bf16.json")" -v b="$(step "$work/fp8.json")" 'BEGIN { exit !(b > 0 && b < a) }' &&
    ! grep -q "another trainer" "$work/fp8.log" && pass || fail "experts in fp8 on an H200: $(cat "$work/fp8.log")"
expect 2 "give --fp8-format hybrid --fp8-recipe delayed" "$BEVATRON" plan "${experts[@]}" --machine dgx-h200 --fp8-format e4m3 --fp8-recipe mxfp8
expect 2 "give a --machine with H100 or H200 GPUs" "$BEVATRON" plan "${experts[@]:0:7}" --vocab-size 151936 --global-batch-size 64 --search \
    --gpus 8 --machine dgx-b200 --bf16 --fp8-format hybrid
expect 2 "has no fp8" "$BEVATRON" plan "${experts[@]}" --machine dgx-a100 --fp8-format hybrid
expect 0 "the plan is that of another trainer" "$BEVATRON" plan --preset gpt-oss-20b --bf16 --micro-batch-size 1 --nproc 8 \
    --machine dgx-b200 --fp8-format e4m3 --fp8-recipe mxfp8
expect 2 "a dgx-h100 has no mxfp8 matmuls; give --fp8-format hybrid --fp8-recipe delayed" "$BEVATRON" plan "${llama[@]}" --nproc 8 \
    --machine dgx-h100 --fp8-format e4m3 --fp8-recipe mxfp8
expect 2 "--fp8-format e4m3 needs --fp8-recipe blockwise or mxfp8" "$BEVATRON" plan "${experts[@]}" --machine dgx-b200 --fp8-format e4m3
expect 2 "needs multiples of 16, but --hidden-size is 72" "$BEVATRON" plan --num-layers 2 --hidden-size 72 --num-attention-heads 6 \
    --seq-length 64 --max-position-embeddings 64 --vocab-size 1000 --micro-batch-size 1 --num-experts 4 --bf16 --mock-data \
    --lr 1e-3 --train-iters 1 --nproc 8 --machine dgx-h100 --fp8-format hybrid

# Measured beside planned, once a run is warm; nothing is said without a machine that is known.
small=(--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --vocab-size 50
    --mock-data --lr 1e-3 --train-iters 20 --micro-batch-size 2 --global-batch-size 4 --log-interval 10 --eval-iters 0)
compared="measured at iteration 20: [0-9]+ tokens/s, planned for c6i.32xlarge: [0-9]+ [(][-+][0-9.]+ %[)]; a step takes"
expect 0 "measured at iteration 20" "$BEVATRON" train "${small[@]}" --machine c6i.32xlarge --save "$work/compared"
grep -qE "$compared.*computing" "$work/out" && pass || fail "no comparison in the log"
grep -qE " iteration +[0-9]+/.*planned" "$work/out" && fail "Megatron's line has changed" || pass
metrics=$work/compared/metrics.jsonl
grep -q '"kind":"run".*"planned_ms":' "$metrics" && grep -q '"kind":"train".*"planned_tokens_per_second":' "$metrics" &&
    grep -q '"event":"planned"' "$metrics" && pass || fail "no plan in metrics.jsonl"
expect 0 "tokens/s (planned " "$BEVATRON" board --text --logdir "$work/compared"
# The checkpoint is as large as planned, but for names and shapes.
planned=$("$BEVATRON" plan "${small[@]}" --nproc 1 --json 2>/dev/null | sed -n 's/^  "checkpoint_bytes": \([0-9]*\).*/\1/p')
saved=$(du -bc "$work"/compared/iter_*/*.safetensors | tail -1 | cut -f1)
[ "$saved" -ge "${planned:-0}" ] && [ "$saved" -lt $((planned * 11 / 10)) ] && pass || fail "a checkpoint of $saved bytes, planned $planned"
planned=$("$BEVATRON" plan "${small[@]}" --optimizer muon --nproc 1 --json 2>/dev/null | sed -n 's/^  "checkpoint_bytes": \([0-9]*\).*/\1/p')
"$BEVATRON" train "${small[@]}" --optimizer muon --save "$work/muon" >"$work/out" 2>&1
saved=$(du -bc "$work"/muon/iter_*/*.safetensors | tail -1 | cut -f1)
[ "$saved" -ge "${planned:-0}" ] && [ "$saved" -lt $((planned * 12 / 10)) ] && pass || fail "Muon: a checkpoint of $saved bytes, planned $planned"
# Nothing is said of a machine with GPUs on CPUs.
expect 0 "iteration       20/" "$BEVATRON" train "${small[@]}" --machine p5.48xlarge
grep -q "planned for" "$work/out" && fail "a plan of GPUs for a run on CPUs" || pass
echo "matmul-tflops: 1e-307" >"$work/slow.yaml"
expect 2 "matmul-tflops" "$BEVATRON" plan "${small[@]}" --hardware "$work/slow.yaml"
expect 0 "iteration       20/" "$BEVATRON" train "${small[@]}"
grep -q planned "$work/out" && fail "a plan for an unknown machine" || pass
expect 2 "known machines" "$BEVATRON" train "${small[@]}" --machine p9.48xlarge
# A plan without a precision is slow and large: the reader must not take it for that of the usual run.
# The precision is what train would choose: open without a micro-batch, fp32 with one.
expect 0 "planned in bf16, which train chooses" "$BEVATRON" plan --preset gpt2-124m --machine p5.48xlarge --nproc 1
grep -q "weights 0.25," "$work/out" && pass || fail "a plan in bf16"
expect 0 "planned in fp16, which train chooses" "$BEVATRON" plan --preset gpt2-124m --machine p3.16xlarge --nproc 1
for fp32 in "--micro-batch-size 1" "--bf16=false"; do
    # shellcheck disable=SC2086
    expect 0 "so this is a run in fp32; give --bf16" "$BEVATRON" plan --preset gpt2-124m --machine p5.48xlarge --nproc 1 $fp32
    grep -q "weights 0.50," "$work/out" && pass || fail "a plan in fp32 with $fp32"
done
# Latent attention of DeepSeek-V3 in fp8 is planned, and faster than in bf16. With mla_up_proj each token and layer of the 24
# keeps 65,536 numbers less (queries of 128 x 192, keys of as many, values of 128 x 128), and 64 more that heads share.
latent=(--hidden-size 7168 --num-layers 24 --num-attention-heads 128 --ffn-hidden-size 2048 --multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512
    --qk-layernorm --swiglu --disable-bias-linear --normalization RMSNorm --position-embedding-type rope --seq-length 1024 --max-position-embeddings 1024
    --vocab-size 1000 --attention-dropout 0 --hidden-dropout 0 --micro-batch-size 1 --global-batch-size 2 --bf16 --nproc 1 --machine p5.48xlarge
    --untie-embeddings-and-output-weights --json --recompute-granularity selective)
# planned KEY FLAGS…
planned() {
    "$BEVATRON" plan "${latent[@]}" "${@:2}" 2>&1 | tee "$work/out" | grep -oE "\"$1\": [0-9.e+]+" | head -n 1 | cut -d' ' -f 2
}
less=$(($(planned activations --recompute-modules core_attn) - $(planned activations --recompute-modules core_attn mla_up_proj)))
[ "$less" -eq $((24 * 1024 * 2 * (65536 - 64))) ] && pass || fail "mla_up_proj saves $less bytes: $(tail -n 2 "$work/out")"
awk -v half="$(planned step_seconds --global-batch-size 64)" -v eighth="$(planned step_seconds --global-batch-size 64 --fp8-format hybrid)" 'BEGIN { exit !(eighth > 0 && eighth < 0.9 * half) }' &&
    pass || fail "fp8 is planned no faster: $(tail -n 2 "$work/out")"
expect 0 "a step of" "$BEVATRON" plan --preset deepseek-v3 --machine p5.48xlarge --nodes 64 --bf16 --fp8-format hybrid --micro-batch-size 1 \
    --global-batch-size 2048 --expert-model-parallel-size 64 --pipeline-model-parallel-size 8 --pipeline-model-parallel-layout "Et*7|(t*8|)*6t*6L"
finish
