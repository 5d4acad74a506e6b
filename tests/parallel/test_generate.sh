#!/usr/bin/env bash
# Text by ranks that share a model by tensor or pipeline parallelism: a GPT, a Llama with fewer keys than queries and a
# T5 write the same as one rank, once, also for lines of standard input, which only the first rank has, and with a
# vocabulary that does not divide evenly. Ranks that would have nothing to do are refused.
# tier: all
# cost: 12
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }
base=(--mock-data --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 97
    --make-vocab-size-divisible-by 1 --tokenizer-type NullTokenizer --micro-batch-size 2 --global-batch-size 4 --lr 1e-2
    --init-method-std 0.5 --train-iters 4 --save-interval 4 --eval-iters 0 --threads 1)
llama=(--swiglu --normalization RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights
    --disable-bias-linear --group-query-attention --num-query-groups 2)

# write LAYOUT FILE FLAGS…: standard output of the ranks of LAYOUT, tensor x pipeline, for --prompt or for this
# function's standard input.
write() {
    local tensor=${1%x*} pipeline=${1#*x} ranks file=$2
    ranks=$((tensor * pipeline))
    shift 2
    bash tests/parallel/mpirun.sh "$ranks" "$BEVATRON" generate --threads 1 --tensor-model-parallel-size "$tensor" \
        --pipeline-model-parallel-size "$pipeline" \
        --decoder-start-token 5 --max-new-tokens 40 "$@" >"$file" 2>"$work/out" || fail "$ranks ranks: $*"
}

for model in gpt llama t5; do
    flags=("${base[@]}")
    layouts=(2x1 4x1 1x2 2x2)
    [ $model = llama ] && flags+=("${llama[@]}")
    [ $model = t5 ] && layouts=(2x1 4x1) && flags+=(--model t5 --decoder-seq-length 8 --position-embedding-type relative)
    expect 0 "iteration" "$BEVATRON" train "${flags[@]}" --save "$work/$model"
    write 1x1 "$work/greedy" --load "$work/$model" --prompt "1 2 3" --greedy
    write 1x1 "$work/drawn" --load "$work/$model" --prompt "8 9" --num-samples 2 --temperature 0.8
    printf '4 5\n\n6\n' | write 1x1 "$work/lines" --load "$work/$model" --top-k 5
    [ "$(wc -l <"$work/lines")" = 3 ] && pass || fail "$model: three lines for three lines"
    for ranks in "${layouts[@]}"; do
        write "$ranks" "$work/text" --load "$work/$model" --prompt "1 2 3" --greedy
        expect_same "$work/greedy" "$work/text" "$model: the likeliest text on $ranks ranks"
        write "$ranks" "$work/text" --load "$work/$model" --prompt "8 9" --num-samples 2 --temperature 0.8
        expect_same "$work/drawn" "$work/text" "$model: drawn texts on $ranks ranks"
        printf '4 5\n\n6\n' | write "$ranks" "$work/text" --load "$work/$model" --top-k 5
        expect_same "$work/lines" "$work/text" "$model: lines on $ranks ranks"
    done
done

printf '{"text": "1 2 3"}\n{"text": "9 8 7 6"}\n' >"$work/cloze.jsonl"
expect 0 "texts 2" "$BEVATRON" evaluate --load "$work/gpt" --cloze "$work/cloze.jsonl" --threads 1
grep "texts 2" "$work/out" >"$work/one"
expect 0 "$(cat "$work/one")" bash tests/parallel/mpirun.sh 2 "$BEVATRON" evaluate --load "$work/gpt" \
    --cloze "$work/cloze.jsonl" --threads 1 --tensor-model-parallel-size 2

# The last words of texts, with a pipeline too; stages of different sizes; more tokens than the model has positions.
expect 0 "$(cat "$work/one")" bash tests/parallel/mpirun.sh 2 "$BEVATRON" evaluate --load "$work/gpt" \
    --cloze "$work/cloze.jsonl" --threads 1 --pipeline-model-parallel-size 2
expect 0 "iteration" "$BEVATRON" train "${base[@]}" --num-layers 5 --bf16 --save "$work/deep"
write 1x1 "$work/greedy" --load "$work/deep" --prompt "1 2 3 4 5 6 7 8 9" --greedy --bf16
for layout in "1x2 --decoder-first-pipeline-num-layers 3" "1x4 --decoder-last-pipeline-num-layers 2"; do
    read -r ranks stages <<<"$layout"
    # shellcheck disable=SC2086
    write "$ranks" "$work/text" --load "$work/deep" --prompt "1 2 3 4 5 6 7 8 9" --greedy --bf16 $stages
    expect_same "$work/greedy" "$work/text" "stages of different sizes ($layout)"
done

refuse() { expect 2 "$2" bash tests/parallel/mpirun.sh "$1" "$BEVATRON" generate --load "$work/gpt" --prompt 1 "${@:3}"; }
refuse 2 "start 1, or let more ranks share it"
refuse 4 "start 2, or let more ranks share it" --tensor-model-parallel-size 2
refuse 2 "leave out --context-parallel-size" --context-parallel-size 2
refuse 2 "leave out --sequence-parallel" --tensor-model-parallel-size 2 --sequence-parallel
refuse 3 "3 pipeline stages" --pipeline-model-parallel-size 3
expect 2 "leave out --pipeline-model-parallel-size" bash tests/parallel/mpirun.sh 2 "$BEVATRON" generate --load "$work/t5" \
    --prompt 1 --decoder-start-token 5 --pipeline-model-parallel-size 2
refuse 2 "leave out --sequence-parallel" --tensor-model-parallel-size 2 --sequence-parallel
[ "$(grep -c "leave out --sequence-parallel" "$work/out")" = 1 ] && pass || fail "said by one rank"
finish
