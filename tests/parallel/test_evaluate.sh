#!/usr/bin/env bash
# Evaluation on several ranks: every layout that trains a GPT, a BERT and a T5 gives the loss of one rank, including a
# pipeline; all ranks verify the checkpoint; what a pipeline cannot do is refused with the alternative.
# tier: all
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/parallel/layouts.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$BEVATRON" version | grep -q "MPI *yes" || { echo "skipped: built without MPI"; exit 77; }

printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' one two three four five six ten . , '=' '@' - e{1..20} >"$work/vocab.txt"
for i in $(seq 60); do
    printf '{"text": "%s"}\n' "$(printf 'One two three four e%d five six. Five e%d ten three. ' {1..9} | head -c $((150 + 3 * i)))"
done >"$work/data.jsonl"
tokenizer=(--tokenizer-type BertWordPieceLowerCase --vocab-file "$work/vocab.txt")
expect 0 "" "$BEVATRON" preprocess --input "$work/data.jsonl" --output-prefix "$work/data" "${tokenizer[@]}"
expect 0 "" "$BEVATRON" preprocess --input "$work/data.jsonl" --output-prefix "$work/cut" "${tokenizer[@]}" --split-sentences

# evaluate LAYOUT FLAGS…: the result of all ranks, in $work/out.
evaluate() {
    layout "$1"
    expect 0 '"loss"' bash tests/parallel/mpirun.sh "$ranks" "$BEVATRON" evaluate --load "$work/run" --micro-batch-size 2 \
        --threads 1 --json "${flags[@]}" "${@:2}"
}
number() { sed -nE "s/.*\"$1\": ?([0-9.e+-]+).*/\1/p" "$work/out"; }

for name in gpt bert t5; do
    rm -rf "$work/run"
    data=$work/data_text_document
    case $name in
    gpt) model=(--num-layers 4) ;;
    bert) model=(--num-layers 4 --model bert --num-token-types 2) data=$work/cut_text_sentence ;;
    t5) model=(--num-layers 2 --model t5 --decoder-seq-length 16 --vocab-extra-ids 8) data=$work/cut_text_sentence ;;
    esac
    expect 0 "iteration        3/" "$BEVATRON" train "${tokenizer[@]}" "${model[@]}" --data-path "$data" --hidden-size 32 \
        --num-attention-heads 4 --seq-length 32 --micro-batch-size 4 --lr 1e-3 --train-iters 3 --eval-iters 0 --split 1,0,0 \
        --log-interval 1 --threads 1 --save "$work/run" --save-interval 3
    evaluate "" --data-path "$data"
    want="$(number loss) $(number tokens) $(number samples)"
    for line in "pp=2" "pp=4" "pp=2 dp=2" "tp=2 sp=yes pp=2" "cp=2 pp=2"; do
        evaluate "$line" --data-path "$data"
        echo "$want $(number loss) $(number tokens) $(number samples)" | awk '{ d = $1 - $4; d = d < 0 ? -d : d
            exit !(NF == 6 && d <= 1e-5 * $1 && $2 == $5 && $3 == $6) }' && pass ||
            fail "$name with $line: $(number loss) $(number tokens) $(number samples), one rank has $want"
    done
    [ "$name" = gpt ] || continue
    evaluate "pp=2" --data-path "$data" --decoder-first-pipeline-num-layers 1
    evaluate "pp=2" --text "$work/data.jsonl"
    # Damage that one of the ranks finds.
    file=$work/run/iter_0000003/model.safetensors
    cp "$file" "$work/copy"
    printf '\377' | dd of="$file" bs=1 seek=5000 conv=notrunc status=none
    expect 216 "model.safetensors has the right size but not the SHA-256" bash tests/parallel/mpirun.sh 2 "$BEVATRON" \
        evaluate --load "$work/run" --data-path "$data" --micro-batch-size 2
    expect 216 "model.safetensors has the right size but not the SHA-256" "$BEVATRON" generate --load "$work/run" --prompt one
    cp "$work/copy" "$file"
done
finish
