#!/usr/bin/env bash
# bevatron plan --search: proposals with reasons, a file that train takes, and the nearest value for what cannot be.
# cost: 6
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit

# A large model on few GPUs, with little to search.
large=(--preset llama2-70b --global-batch-size 32 --bf16 --micro-batch-size 1 --recompute-granularity selective)
expect 0 "1 with one change:" "$BEVATRON" plan --search "${large[@]}" --gpus 32 --machine p5.48xlarge --tokens 2e12
grep -q '^ 1 .* selective .* bf16 ' "$work/out" && grep -q -- '^   --tensor-model-parallel-size .*--use-distributed-optimizer' "$work/out" &&
    pass || fail "no proposal with its flags"
grep -qE '^1\. [0-9.]+ % faster than 2: [0-9.]+ m?s less ' "$work/out" && pass || fail "no reason"
grep -qE 'does not fit: a rank of stage [0-9]+ needs [0-9.]+ GB, [0-9.]+ GB too much' "$work/out" && pass || fail "nothing is too large"
grep -q 'data parallelism alone: does not fit' "$work/out" && pass || fail "data parallelism alone is not refused"
expect 2 "no layout fits: the smallest needs" "$BEVATRON" plan --search "${large[@]}" --gpus 8 --machine p4d.24xlarge
expect 2 "more than c6i.32xlarge machines have; take about --gpus 8, or a" "$BEVATRON" plan --search "${large[@]}" --gpus 4 --machine c6i.32xlarge
echo "gpu-gib: 1" >"$work/mine.yaml"
expect 2 "gpus need at least 2 GiB of memory each" "$BEVATRON" plan --search "${large[@]}" --gpus 8 --hardware "$work/mine.yaml"
expect 0 '"ranked_by": "cost"' "$BEVATRON" plan --search "${large[@]}" --num-layers 16 --tensor-model-parallel-size 8 --gpus 32 --rank-by cost \
    --machine p5.48xlarge,p4de.24xlarge --json
grep -q '"machine": "p4de.24xlarge"' "$work/out" && grep -q '"machine": "p5.48xlarge"' "$work/out" && pass || fail "a machine is missing"
# The best of a slower machine and precision is compared with the first, never called faster by a negative share.
expect 0 " ms on p4d.24xlarge instead of " "$BEVATRON" plan --search --num-layers 8 --hidden-size 4096 \
    --num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 --vocab-size 1280 --global-batch-size 64 --micro-batch-size 1 \
    --context-parallel-size 1 --recompute-granularity selective --gpus 8 --machine p4d.24xlarge,p5.48xlarge --tokens 20B
grep -q "^6. against 1: +.* ms on p4d.24xlarge instead of .* ms on p5.48xlarge" "$work/out" && pass || fail "a slower machine"
grep -q -- "-[0-9.]* % \(faster\|slower\)" "$work/out" && fail "a negative share" || pass

# What it writes, train takes.
tiny=(--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --vocab-size 128
    --mock-data --lr 1e-3 --train-iters 2 --global-batch-size 4 --eval-iters 0 --log-interval 1 --sample-prompt "it's" "a, b")
expect 0 "wrote the flags of the best layout to" "$BEVATRON" plan --search "${tiny[@]}" --gpus 1 --write "$work/run.yaml"
expect 0 "iteration        2/       2" "$BEVATRON" train --config "$work/run.yaml" --device cpu
# Both streams in one file: every line is whole, in the order in which it was said.
both=("$BEVATRON" plan --search "${tiny[@]}" --gpus 1 --write "$work/run.yaml")
"${both[@]}" >"$work/both" 2>&1
"${both[@]}" >"$work/results" 2>"$work/messages"
grep -vxF -f <(cat "$work/results" "$work/messages") "$work/both" | grep -v "^searching " >"$work/out"
[ ! -s "$work/out" ] && [ "$(tail -n 1 "$work/both")" = "$(tail -n 1 "$work/messages")" ] && pass || fail "torn lines"
expect 0 "1 × p5.48xlarge" "$BEVATRON" plan --search "${tiny[@]}" --tensor-model-parallel-size 2 --gpus 2 --write "$work/run.yaml"
expect 0 "iteration        2/       2" "$BEVATRON" train --nproc 2 --config "$work/run.yaml" --device cpu

# A model for an amount of compute; its file is a run.
expect 0 "6 N D = budget" "$BEVATRON" plan --budget 2e17FLOP --gpus 8 --write "$work/run.yaml"
grep -qE 'start it with: bevatron train --config [^ ]*/run.yaml; add --data-path' "$work/out" && pass || fail "a run without data"
grep -qE '^  optimal +3.* 2[0-9]\.' "$work/out" && grep -qE 'tokens take [0-9.]+ days .* and cost [$]' "$work/out" && pass || fail "no size, days or dollars"
grep -q "^model: 'llama'" "$work/run.yaml" && pass || fail "the family is lost"
expect 0 "number of parameters: 3" "$BEVATRON" train --config "$work/run.yaml" --mock-data --dry-run --nproc 8
expect 0 '"law": "Hoffmann et al. 2022' "$BEVATRON" plan --budget 2e17FLOP --gpus 8 --json
grep -q '"extrapolates": true' "$work/out" && pass || fail "the law is not said to be an extrapolation"
# Tokens are those of the model that is chosen, here 8.5 times the optimal size; the precision is among its flags.
expect 0 "note: this shape has 8.48 times the optimal parameters" "$BEVATRON" plan --budget 1e15FLOP --gpus 8 --micro-batch-size 2 \
    --lr 1e-3 --lr-warmup-iters 100 --num-virtual-stages-per-pipeline-rank 2
grep -q "^8.421e+06 tokens take" "$work/out" && pass || fail "not 1e15 / 6 / 1.979e7 tokens"
grep -q -- "^   --model llama .* --train-iters 257 --bf16$" "$work/out" && pass || fail "flags without a precision"
grep -q "fitted to runs of about 6e18 to 3e21 FLOP" "$work/out" && pass || fail "no range of the law"
for machine in c6i.32xlarge g4dn.xlarge; do
    expect 2 "× $machine, and a plan has 16777216 ranks at most; give --gpus" "$BEVATRON" plan --budget 1e30FLOP --machine $machine
done
expect 0 "--train-iters 257 --fp16" "$BEVATRON" plan --budget 1e15FLOP --gpus 8 --micro-batch-size 2 --machine p3dn.24xlarge
expect 2 "a p3dn.24xlarge has no bf16: its V100 GPUs are too old; give --fp16" "$BEVATRON" plan --budget 1e15FLOP --gpus 8 --bf16 \
    --machine p5.48xlarge,p3dn.24xlarge
expect 2 "a g4dn.xlarge has no bf16" "$BEVATRON" plan "${tiny[@]}" --bf16 --machine g4dn.xlarge
expect 2 "leave out --num-layers" "$BEVATRON" plan --budget 2e17FLOP --num-layers 3

# Nonsense.
expect 2 "nearest: --gpus 1" "$BEVATRON" plan --search "${tiny[@]}" --gpus 0
expect 2 "nearest: --gpus 1" "$BEVATRON" plan "${tiny[@]}" --gpus 0
expect 2 "nearest: --global-batch-size 7 or --gpus 8" "$BEVATRON" plan --search "${tiny[@]}" --gpus 7
expect 0 "on 8 GPUs" "$BEVATRON" plan --search "${tiny[@]}" --gpus 8
expect 2 "or --gpus 32" "$BEVATRON" plan --search "${tiny[@]}" --gpus 1024
expect 2 "or --gpus 32" "$BEVATRON" plan --search "${tiny[@]}" --gpus 1000000
expect 2 "nearest: --nproc 1" "$BEVATRON" plan "${tiny[@]}" --nproc 0
expect 2 "nearest: --nodes 1" "$BEVATRON" plan "${tiny[@]}" --nodes 0
# Data is not needed where the vocabulary is known.
shape=(--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 128)
expect 0 "a vocabulary of 128 tokens" "$BEVATRON" plan "${shape[@]}" --gpus 1
expect 0 "TP 2: not tried, because its ranks would be on 2 machines" "$BEVATRON" plan --search "${shape[@]}" --gpus 2 \
    --global-batch-size 4 --machine c6i.32xlarge
expect 2 "did you mean p5.48xlarge" "$BEVATRON" plan --search "${tiny[@]}" --machine p5.48xlarg,p4d.24xlarge
expect 2 "nearest: --pipeline-model-parallel-size 2 or --num-layers 3" "$BEVATRON" plan --search "${tiny[@]}" --gpus 3 \
    --pipeline-model-parallel-size 3
expect 2 '--gpus takes a whole number, from 1 to 16777216, not "-1"; nearest: --gpus 1' "$BEVATRON" plan "${tiny[@]}" --gpus -1
expect 2 'not "1e3"; nearest: --gpus 1000' "$BEVATRON" plan "${tiny[@]}" --gpus 1e3
expect 2 'not "-5"; nearest: --tokens 0' "$BEVATRON" plan "${tiny[@]}" --tokens -5
expect 2 "did you mean p5.48xlarge?" "$BEVATRON" plan "${tiny[@]}" --machine p5
expect 2 "did you mean qwen3-30b-a3b?" "$BEVATRON" plan --preset qwen3-30b
expect 2 "did you mean llama2-7b?" "$BEVATRON" plan --preset lama2-7b
expect 2 "nearest: --global-batch-size 65 or --gpus 16" "$BEVATRON" plan --search --preset llama2-7b --global-batch-size 64 --gpus 13
# Flags without an effect.
expect 2 "--search does not use --timeline; give it to a plan" "$BEVATRON" plan --search "${tiny[@]}" --timeline "$work/step.svg"
expect 2 "--budget does not use --trace" "$BEVATRON" plan --budget 2e17FLOP --trace "$work/step.json"
expect 2 "--budget does not use --print-hardware" "$BEVATRON" plan --budget 2e17FLOP --print-hardware
expect 2 "--search does not use --failures-per-day" "$BEVATRON" plan --search "${tiny[@]}" --failures-per-day 1
expect 2 "--search does not use --tp-comm-overlap" "$BEVATRON" plan --search "${tiny[@]}" --tp-comm-overlap
expect 2 "--budget chooses the number of tokens; leave out --tokens" "$BEVATRON" plan --budget 2e17FLOP --tokens 1e9
expect 2 "--gpus 8 and --nproc 4 mean the same" "$BEVATRON" plan "${tiny[@]}" --gpus 8 --nproc 4
expect 2 "--gpus and --nodes both say how many GPUs are used" "$BEVATRON" plan "${tiny[@]}" --gpus 8 --nodes 1
expect 2 "--nproc and --nodes both say how many GPUs are used" "$BEVATRON" plan --search "${tiny[@]}" --nproc 8 --nodes 1
expect 2 "--write needs --search or --budget" "$BEVATRON" plan "${tiny[@]}" --write "$work/run.yaml"
expect 2 "names several machines, which --search compares" "$BEVATRON" plan "${tiny[@]}" --machine p5.48xlarge,p4d.24xlarge
expect 2 "--search needs --global-batch-size, the samples of an update; 1024 are" "$BEVATRON" plan --search --preset llama2-7b --gpus 8
finish
