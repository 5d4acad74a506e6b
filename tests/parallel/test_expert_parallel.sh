#!/usr/bin/env bash
# Experts that data-parallel ranks share out: biases, capacities and Hugging Face's experts give the weights of one
# rank, a run resumes to the bit, evaluation does not depend on it, and what cannot work is refused. tests/layouts has
# the layouts, test_layout_checkpoints.sh checkpoints that change them.
# tier: all
# label: slow
# cost: 8
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }

model=(--mock-data --vocab-size 97 --tokenizer-type NullTokenizer --num-layers 3 --hidden-size 24 --num-attention-heads 4 --seq-length 16
    --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --adam-eps 1e-4 --train-iters 6 --log-interval 1 --eval-iters 1 --device cpu
    --threads 1 --hidden-dropout 0.1 --num-experts 4 --moe-layer-freq "[0]+[1]*2" --moe-ffn-hidden-size 20
    --moe-router-load-balancing-type aux_loss seq_aux_loss --moe-aux-loss-coeff 1e-2 1e-3 --moe-z-loss-coeff 1e-3)

# same NAME RANKS FLAGS…: after 6 iterations the weights are those of $work/NAME, which one rank made, and the losses too.
same() {
    rm -rf "$work/shared"
    expect 0 "saved checkpoint" bash tests/parallel/mpirun.sh "$2" "$BEVATRON" train "${model[@]}" "${@:3}" --save "$work/shared" --save-interval 6
    "$(dirname "$BEVATRON")/tests/compare_weights" "$work/$1/iter_0000006" "$work/shared/iter_0000006" 1e-5 >"$work/out" 2>&1 && pass ||
        fail "$1 on $2 ranks with ${*:3}: $(head -n 3 "$work/out")"
}

# Experts with biases, each with a row of its own on one of the ranks.
expect 0 "saved checkpoint" "$BEVATRON" train "${model[@]}" --save "$work/biases" --save-interval 6
same biases 2 --expert-model-parallel-size 2
same biases 4 --expert-model-parallel-size 2 --tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer
same biases 4 --expert-model-parallel-size 4 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --ddp-num-buckets 7
# Tensor-parallel ranks that do not split the same expert bring their own rows.
same biases 4 --expert-model-parallel-size 2 --tensor-model-parallel-size 4 --sequence-parallel --expert-tensor-parallel-size 2

# Each expert is a matrix for Muon, whole on every layout. Shared out, its ranks update their own. Its biases are not.
muon=(--optimizer muon --muon-fp32-matmul-prec high)
expect 0 "saved checkpoint" "$BEVATRON" train "${model[@]}" "${muon[@]}" --save "$work/muon" --save-interval 6
same muon 2 "${muon[@]}" --expert-model-parallel-size 2
same muon 4 "${muon[@]}" --expert-model-parallel-size 2 --tensor-model-parallel-size 4 --sequence-parallel --expert-tensor-parallel-size 2
same muon 4 "${muon[@]}" --expert-model-parallel-size 2 --use-distributed-optimizer
muon=(--optimizer adaptive_muon --adaptive-muon-moment2-method normuon "${muon[@]:2}")
expect 0 "saved checkpoint" "$BEVATRON" train "${model[@]}" "${muon[@]}" --save "$work/normuon" --save-interval 6
same normuon 4 "${muon[@]}" --expert-model-parallel-size 2 --tensor-model-parallel-size 2
# Which tokens are dropped is decided before they are sent, for all ranks that have tokens of a sequence.
for drop in "--moe-expert-capacity-factor 0.7" "--moe-expert-capacity-factor 0.1 --moe-token-drop-policy position --moe-pad-expert-input-to-capacity"; do
    expect 0 "saved checkpoint" "$BEVATRON" train "${model[@]}" $drop --save "$work/dropped" --save-interval 6
    same dropped 2 --expert-model-parallel-size 2 $drop
    same dropped 4 --tensor-model-parallel-size 2 --sequence-parallel --expert-tensor-parallel-size 1 --context-parallel-size 2 \
        --expert-model-parallel-size 4 $drop
    rm -rf "$work/dropped"
done

# Interrupted and resumed, the bits are the same.
shared=(--nproc 2 --expert-model-parallel-size 2 --use-distributed-optimizer)
expect 0 "saved checkpoint" "$BEVATRON" train "${model[@]}" "${shared[@]}" --save "$work/whole" --save-interval 6
expect 0 "saved checkpoint" "$BEVATRON" train "${model[@]}" "${shared[@]}" --save "$work/parts" --save-interval 3 --exit-interval 3
expect 0 "iteration        6/       6" "$BEVATRON" train "${model[@]}" "${shared[@]}" --load "$work/parts" --save "$work/parts" --save-interval 6
for file in model optimizer; do
    cmp -s "$work/whole/iter_0000006/$file.safetensors" "$work/parts/iter_0000006/$file.safetensors" && pass || fail "$file differs"
done

# An evaluation whose last batch some ranks have no samples for.
for _ in $(seq 30); do printf 'the cat sat on the mat and a dog ran to the cat. '; done >"$work/text.txt"
expect 0 "" "$BEVATRON" tokenizer train --input "$work/text.txt" --vocab-size 270 --output-prefix "$work/t"
expect 0 "saved checkpoint" "$BEVATRON" train "${model[@]}" --tokenizer-type GPT2BPETokenizer --vocab-size 270 --vocab-file "$work/t-vocab.json" \
    --merge-file "$work/t-merges.txt" --save "$work/text" --save-interval 6
for ranks in 1 2; do
    expect 0 '"loss"' bash tests/parallel/mpirun.sh $ranks "$BEVATRON" evaluate --load "$work/text" --text "$work/text.txt" --micro-batch-size 3 \
        --device cpu --json --expert-model-parallel-size $ranks
    sed -nE 's/.*"loss": ?([0-9.]+).*/\1/p' "$work/out" >>"$work/loss"
done
awk '{ l[NR] = $1 } END { d = l[1] - l[2]; exit !(NR == 2 && l[1] > 0 && d * d < 1e-12) }' "$work/loss" && pass || fail "losses $(cat "$work/loss")"
# All ranks that share out experts write one text, that of one rank; more copies of the model are refused.
write() { bash tests/parallel/mpirun.sh "$1" "$BEVATRON" generate --load "$work/text" --device cpu --threads 1 --max-new-tokens 20 "${@:2}" 2>"$work/out"; }
for prompt in "--prompt the --greedy" "--prompt cat --temperature 0.9 --num-samples 2" "--top-k 5"; do
    # shellcheck disable=SC2086
    printf 'a dog\n\nthe mat\n' | write 1 $prompt >"$work/one"
    for layout in "2 --expert-model-parallel-size 2" "4 --expert-model-parallel-size 2 --tensor-model-parallel-size 2" \
        "4 --expert-model-parallel-size 2 --pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 1"; do
        # shellcheck disable=SC2086
        printf 'a dog\n\nthe mat\n' | write $layout $prompt >"$work/several"
        expect_same "$work/one" "$work/several" "text of $layout with $prompt"
    done
done
write 4 --expert-model-parallel-size 2 --prompt a && fail "two copies of a model write" || pass
grep -q "would hold the whole model 2 times, but text is written by one; start 2" "$work/out" && pass || fail "copies: $(cat "$work/out")"
expect 2 "or make it 1" "$BEVATRON" generate --load "$work/text" --prompt "the cat" --device cpu --expert-model-parallel-size 2
expect 0 "" "$BEVATRON" generate --load "$work/whole" --tokenizer-type NullTokenizer --prompt "1 2 3" --max-new-tokens 4 --device cpu

# Each rank loads its experts of a Mixtral.
mixtral=(--mock-data --micro-batch-size 1 --global-batch-size 2 --seq-length 9 --lr 1e-3 --adam-eps 1e-4 --train-iters 2 --log-interval 1
    --eval-iters 0 --device cpu --threads 1 --load tests/golden/foreign/mixtral --use-checkpoint-args --moe-aux-loss-coeff 1e-2)
expect 0 "saved checkpoint" "$BEVATRON" train "${mixtral[@]}" --save "$work/alone" --save-interval 2
expect 0 "saved checkpoint" "$BEVATRON" train "${mixtral[@]}" --nproc 2 --expert-model-parallel-size 2 --save "$work/two" --save-interval 2
"$(dirname "$BEVATRON")/tests/compare_weights" "$work/alone/iter_0000002" "$work/two/iter_0000002" 1e-5 >"$work/out" 2>&1 && pass ||
    fail "ranks that share out the experts of a mixtral: $(head -n 3 "$work/out")"

# Of 4 experts of 2 layers, a rank holds 2. A plan counts what the ranks send each other.
expect 0 "one rank of the 2 that one copy of the model needs" "$BEVATRON" train "${model[@]}" --expert-model-parallel-size 2 --dry-run
expect 0 "tokens/s" "$BEVATRON" plan "${model[@]}" --expert-model-parallel-size 2 --nproc 4 --machine p4d.24xlarge
finish
