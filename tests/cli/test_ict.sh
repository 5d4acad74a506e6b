#!/usr/bin/env bash
# ICT from text to retrieval: sentences and titles become blocks; two towers initialized from a BERT learn to find a
# sentence's block; a run that was stopped and resumed equals an uninterrupted one bit for bit; evaluate gives the loss,
# and how often the block is found among all of them; invalid combinations are refused.
# tier: all
# cost: 20
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
needs_parts UTF8PROC

# Each document is about one animal and one colour, which its title names.
{
    printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' .
    for w in red green blue black white pink cat dog bird fish horse cow sees likes finds takes hides the a here there; do
        printf '%s\n' "$w"
    done
} >"$work/vocab.txt"
awk 'BEGIN {
    srand(7)
    split("red green blue black white pink", colour); split("cat dog bird fish horse cow", noun)
    split("sees likes finds takes hides", verb); split("here there", place)
    for (d = 0; d < 180; d++) {
        c = colour[1 + d % 6]; n = noun[1 + int(d / 6) % 6]; text = ""
        sentences = 2 + int(rand() * 6)
        for (s = 0; s < sentences; s++)
            text = text (s ? " " : "") "The " c " " n " " verb[1 + int(rand() * 5)] " the " c " " \
                noun[1 + int(rand() * 6)] " " place[1 + int(rand() * 2)] "."
        printf "{\"text\": \"%s\", \"title\": \"The %s %s\"}\n", text, c, n
    }
}' >"$work/text.jsonl"
tokenizer=(--tokenizer-type BertWordPieceLowerCase --vocab-file "$work/vocab.txt")
expect 0 "" "$BEVATRON" preprocess --input "$work/text.jsonl" --output-prefix "$work/wiki" --json-keys text title \
    --split-sentences "${tokenizer[@]}"
text=$work/wiki_text_sentence titles=$work/wiki_title_sentence
size=(--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 40 --micro-batch-size 24 --global-batch-size 24
    --lr 3e-3 --lr-warmup-iters 2 --log-interval 10 --eval-iters 1 --eval-interval 30 --train-iters 60 --device cpu
    --threads 2 --hidden-dropout 0.02 --attention-dropout 0.02 --split 80,20,0 --make-vocab-size-divisible-by 8
    --init-method-std 0.1)
data=("${tokenizer[@]}" --data-path "$text")
ict=(--model ict --titles-data-path "$titles" --query-in-block-prob 0.1 --retriever-score-scaling
    --retriever-report-topk-accuracies 1 5 --biencoder-projection-dim 16)

expect 0 "validation loss" "$BEVATRON" train --model bert "${size[@]}" "${data[@]}" --train-iters 20 --save "$work/bert"

# With Megatron's names, from the BERT.
expect 0 "top5_acc value" "$BEVATRON" train "${size[@]}" "${data[@]}" "${ict[@]}" --bert-load "$work/bert" \
    --save "$work/a" --save-interval 30
grep -q "successfully loaded the BERT of $work/bert into both towers" "$work/out" && pass || fail "the BERT is not loaded"
grep -Eq "iteration +60/.*\| loss: [0-9.E+-]+ \| top1_acc: [0-9.E+-]+ \| top5_acc: [0-9.E+-]+ \|" "$work/out" && pass ||
    fail "the log has no loss and accuracies under Megatron's names"
found=$(grep -Eo "top5_acc: [^ ]*" "$work/out" | tail -n 1 | cut -d' ' -f2)
awk -v found="$found" 'BEGIN { exit !(found > 75) }' && pass || fail "only $found percent of 24 blocks are among the best 5"
grep -q '"top1_acc":' "$work/a/metrics.jsonl" && pass || fail "metrics.jsonl has no accuracies"
[ -d "$text/cache/ICTDataset_indices" ] && pass || fail "no cache of ICT's samples"

expect 0 "query_model.encoder.layers.0.mlp.linear_fc1.weight" "$BEVATRON" checkpoint inspect --tensors "$work/a"
expect 0 "context_model.projection_enc.bias" "$BEVATRON" checkpoint inspect --tensors "$work/a"

# Stopped and resumed, bit for bit. --bert-load stays on the command line and is not read again.
expect 0 "iteration       30" "$BEVATRON" train "${size[@]}" "${data[@]}" "${ict[@]}" --bert-load "$work/bert" \
    --save "$work/b" --save-interval 30 --exit-interval 30
expect 0 "iteration       60" "$BEVATRON" train "${size[@]}" "${data[@]}" "${ict[@]}" --bert-load "$work/bert" \
    --save "$work/b" --load "$work/b"
grep -q "successfully loaded the BERT" "$work/out" && fail "the BERT is loaded into a resumed run" || pass
for file in model.safetensors optimizer.safetensors; do
    cmp -s "$work/a/iter_0000060/$file" "$work/b/iter_0000060/$file" && pass || fail "resumed: $file differs"
done

# The flags of the model come from the checkpoint. The loss is computed over whole batches, retrieval over all blocks.
evaluate=("$BEVATRON" evaluate --load "$work/a" --data-path "$text" --titles-data-path "$titles" --device cpu)
expect 0 "| samples 240" "${evaluate[@]}" --micro-batch-size 16
expect 0 '"top3_acc":' "${evaluate[@]}" --micro-batch-size 16 --retriever-report-topk-accuracies 3 --json
expect 0 "blocks 242 | queries 242 | top1_acc" "${evaluate[@]}" --micro-batch-size 16 --retrieval
grep -Eq "top1_acc [0-9.]+ \| top5_acc [0-9.]+ \| top20_acc [0-9.]+ \| top100_acc" "$work/out" && pass || fail "not the usual numbers"
awk '/^blocks/ { exit !($14 > 30 && $17 > 80) }' "$work/out" && pass || fail "few of 242 blocks are found: $(tail -n 1 "$work/out")"
# The batch size changes nothing: every block is compared with every query.
grep blocks "$work/out" >"$work/first"
expect 0 "blocks" "${evaluate[@]}" --micro-batch-size 7 --retrieval
grep blocks "$work/out" >"$work/second"
expect_same "$work/first" "$work/second" "retrieval in other batches"
# If all are returned, every block is found.
expect 0 "queries 10 | top242_acc 100.0000" "${evaluate[@]}" --micro-batch-size 16 --retrieval --max-samples 10 \
    --retriever-report-topk-accuracies 242
expect 215 "a batch of all ranks has 4096" "${evaluate[@]}" --micro-batch-size 4096

# One tower, without titles, and documents of one sentence.
expect 0 "iteration        5" "$BEVATRON" train "${size[@]}" "${data[@]}" --model ict --use-one-sent-docs --train-iters 5 \
    --biencoder-shared-query-context-model --save "$work/s" --log-interval 1
expect 0 "shared_model.encoder.final_layernorm.weight" "$BEVATRON" checkpoint inspect --tensors "$work/s"

refuse() { expect 2 "$1" "$BEVATRON" train "${size[@]}" "${data[@]}" "${@:2}"; }
refuse "not verified in fp8" "${ict[@]}" --fp8-format hybrid --bf16
refuse "has no output layer" "${ict[@]}" --untie-embeddings-and-output-weights
refuse "takes numbers from 1 to 999999999, not \"many\"" "${ict[@]}" --retriever-report-topk-accuracies many
refuse "takes at most 8 numbers" "${ict[@]}" --retriever-report-topk-accuracies 1 2 3 4 5 6 7 8 9
refuse "belongs to --model ict" --model bert --query-in-block-prob 0.2
refuse "give --model ict" --titles-data-path "$titles"
refuse "not of a blend of 2" "${ict[@]}" --data-path 1 "$text" 1 "$text"
expect 2 "give --model ict instead of the script" "$BEVATRON" train pretrain_ict.py "${size[@]}"
expect 2 "embeds text and does not generate any" "$BEVATRON" generate --load "$work/a" --prompt "the cat" --device cpu
expect 2 "has no model class in Hugging Face" "$BEVATRON" checkpoint convert --input "$work/a" --output "$work/hf"
expect 2 "searches the embeddings of --model ict" "$BEVATRON" evaluate --load "$work/bert" --data-path "$text" --retrieval
expect 2 "asks for the next token" "$BEVATRON" evaluate --load "$work/a" --text "$work/vocab.txt"
expect 1 "it is not a BERT but a model of --model ict" "$BEVATRON" train "${size[@]}" "${data[@]}" "${ict[@]}" --bert-load "$work/a"
finish
