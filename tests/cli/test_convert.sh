#!/usr/bin/env bash
# Models in and out as a user moves them: a checkpoint carries its tokenizer; written for Hugging Face and read back it
# generates the same; runs start from converted models and from other programs' folders.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
needs_parts UTF8PROC
foreign=tests/golden/foreign

for i in $(seq 400); do echo "{\"text\": \"the $i cats sat on the mat and $((i % 7)) dogs ran after the sun.\"}"; done >"$work/text.jsonl"
sed 's/.*: "\(.*\)"}/\1/' "$work/text.jsonl" >"$work/text.txt"
mkdir "$work/tok"
expect 0 "" "$BEVATRON" tokenizer train --input "$work/text.txt" --output-prefix "$work/tok/t" --vocab-size 300
expect 0 "" "$BEVATRON" preprocess --input "$work/text.jsonl" --output-prefix "$work/data" --vocab-file "$work/tok/t-vocab.json" \
    --merge-file "$work/tok/t-merges.txt" --append-eod --workers 1
model=(--num-layers 2 --hidden-size 24 --num-attention-heads 3 --seq-length 16 --max-position-embeddings 64)
run=(--data-path "$work/data_text_document" --micro-batch-size 2 --lr 1e-2 --log-interval 5 --eval-iters 0 --device cpu --threads 1)
expect 0 "iteration       20/      20" "$BEVATRON" train "${model[@]}" "${run[@]}" --vocab-file "$work/tok/t-vocab.json" \
    --merge-file "$work/tok/t-merges.txt" --train-iters 20 --save "$work/run" --save-interval 10 --keep-last 1

# The tokenizer is in the checkpoint and needed nowhere else.
[ -f "$work/run/iter_0000020/vocab-file_t-vocab.json" ] && [ -f "$work/run/iter_0000020/merge-file_t-merges.txt" ] && pass ||
    fail "the tokenizer's files are in the checkpoint"
expect 0 "vocab-file_t-vocab.json" "$BEVATRON" checkpoint inspect "$work/run"
# Embedding, positions, final norm; per layer two norms, QKV, projection and an MLP of 4 x 24, all with biases.
rows=$(sed -n 's/^  padded_vocab_size *//p' "$work/out")
parameters=$(((rows + 64) * 24 + 48 + 2 * (96 + 3 * 24 * 25 + 24 * 25 + 24 * 97 + 24 * 97 + 72)))
for line in "model +gpt" "num_layers +2" "hidden_size +24" "num_attention_heads +3" "padded_vocab_size +384" "parameters +$parameters"; do
    grep -qE "^  $line$" "$work/out" && pass || fail "checkpoint inspect shows no \"$line\": $(cat "$work/out")"
done
expect 0 '"model":{"model":"gpt","num_layers":2,"hidden_size":24,' "$BEVATRON" checkpoint inspect --json "$work/run"
mv "$work/tok" "$work/gone"
say=(--prompt "the cats" --greedy --max-new-tokens 12 --device cpu)
expect 0 "the cats" "$BEVATRON" generate --load "$work/run" "${say[@]}"
grep -v '^note' "$work/out" >"$work/said"
expect 0 "perplexity" "$BEVATRON" evaluate --load "$work/run" --text "$work/text.txt" --device cpu
grep '^loss' "$work/out" >"$work/loss"
# A run that resumes without the original files keeps them, whatever --keep-last removes.
expect 0 "iteration       40/      40" "$BEVATRON" train "${run[@]}" --load "$work/run" --use-checkpoint-args --train-iters 40 \
    --override-opt_param-scheduler --save "$work/run" --save-interval 10 --keep-last 1
[ ! -e "$work/run/iter_0000020" ] && [ -f "$work/run/iter_0000040/vocab-file_t-vocab.json" ] && pass ||
    fail "the tokenizer went from checkpoint to checkpoint"
expect 0 "whole" "$BEVATRON" checkpoint verify "$work/run"

# To Hugging Face and back; its folder can also be loaded directly.
expect 0 "the cats" "$BEVATRON" generate --load "$work/run" "${say[@]}"
grep -v '^note' "$work/out" >"$work/said"
# What a killed conversion has left goes with the next one; what a process may still be writing stays.
: & wait $!
here=$(hostname | cut -c 1-32 | tr -c 'A-Za-z0-9\n' -)
mkdir "$work/hf.tmp.$here.$!.00c0ffee" "$work/hf.tmp.$here.$$.00c0ffee" && : >"$work/hf.tmp.$here.$!.00c0ffee/model.safetensors"
expect 0 "→ $work/hf: huggingface" "$BEVATRON" checkpoint convert --input "$work/run" --output "$work/hf"
[ ! -e "$work/hf.tmp.$here.$!.00c0ffee" ] && [ -e "$work/hf.tmp.$here.$$.00c0ffee" ] && pass || fail "leftovers: $(ls "$work")"
rmdir "$work/hf.tmp.$here.$$.00c0ffee"
for file in config.json model.safetensors vocab.json merges.txt tokenizer.json tokenizer_config.json special_tokens_map.json; do
    [ -f "$work/hf/$file" ] && pass || fail "$file for Hugging Face"
done
expect_same "$work/hf/vocab.json" "$work/gone/t-vocab.json" "the vocabulary"
grep -q '"transformers_version": "5.0.0"' "$work/hf/config.json" && pass || fail "the release of transformers that a tokenizer is written for"
# 300 tokens in 384 rows, or without the padding.
expect 0 "padded from 300 tokens to 384 rows" "$BEVATRON" checkpoint convert --input "$work/run" --output "$work/hf-padded"
expect 0 "huggingface" "$BEVATRON" checkpoint convert --input "$work/run" --output "$work/hf-tokens" --vocab-size 300
grep -q "padded" "$work/out" && fail "a note on padding that is left out" || pass
grep -q '"vocab_size": 300' "$work/hf-tokens/config.json" && pass || fail "a vocabulary without padding"
# transformers' generate() stops at the end of a document: <|endoftext|> is the last of 300.
for key in bos eos; do
    grep -q "\"${key}_token_id\": 299" "$work/hf/config.json" && pass || fail "${key}_token_id of the tokenizer"
done
expect 0 "→ $work/back: bevatron" "$BEVATRON" checkpoint convert --input "$work/hf" --output "$work/back"
grep -q "read back: flags, shapes and all elements are those of the source, and so are the logits of 8 tokens" "$work/out" && pass || fail "a model of ours is read back"
for folder in hf back; do
    expect 0 "the cats" "$BEVATRON" generate --load "$work/$folder" "${say[@]}"
    grep -v '^note' "$work/out" >"$work/said.$folder"
    expect_same "$work/said" "$work/said.$folder" "text of the model in $folder"
done
# To llama.cpp: one file with the tokenizer in it, read back before it gets its name.
expect 0 "→ $work/model.gguf: gguf" "$BEVATRON" checkpoint convert --input "$work/run" --output "$work/model.gguf" --dtype bf16
expect 0 "tokenizer.ggml.pre: gpt-2" "$BEVATRON" checkpoint inspect "$work/model.gguf"
expect 0 "blk.1.attn_qkv.weight BF16 (72, 24)" "$BEVATRON" checkpoint inspect "$work/model.gguf" --tensors
expect 1 "model.gguf exists; give another name" "$BEVATRON" checkpoint convert --input "$work/run" --output "$work/model.gguf" --to gguf
expect 0 "stay in fp16" "$BEVATRON" checkpoint convert --input "$work/run" --output "$work/small.gguf" --to gguf --dtype q8_0
expect 2 "q8_0 is for --to gguf" "$BEVATRON" checkpoint convert --input "$work/run" --output "$work/small" --to huggingface --dtype q8_0
expect 2 "a GGUF file needs the tokenizer" "$BEVATRON" checkpoint convert --input $foreign/gpt2 --output "$work/none.gguf" --to gguf
[ ! -e "$work/none.gguf" ] && ! compgen -G "$work/*.tmp.*" >/dev/null && pass || fail "nothing is left of a file that was not written"
# A folder never gets the name of a file.
for name in x.safetensors pytorch_model.bin model.pt model.txt; do
    expect 2 "--output $work/$name is the name of a file, and what is written is a folder; give a folder's name, or MODEL.gguf" \
        "$BEVATRON" checkpoint convert --input "$work/run" --output "$work/$name"
done
expect 2 "--to huggingface is a folder; give a folder's name, or leave --to out" "$BEVATRON" checkpoint convert \
    --input "$work/run" --output "$work/y.gguf" --to huggingface
[ ! -e "$work/y.gguf" ] && [ ! -e "$work/model.pt" ] && pass || fail "a folder with the name of a file"
expect 0 "→ $work/llama-3.1-8b: huggingface" "$BEVATRON" checkpoint convert --input "$work/run" --output "$work/llama-3.1-8b"
expect 1 "already holds checkpoints" "$BEVATRON" checkpoint convert --input "$work/hf" --output "$work/back"
expect 1 "is not an empty folder" "$BEVATRON" checkpoint convert --input "$work/run" --output "$work/hf"
expect 0 '"to":"huggingface"' "$BEVATRON" checkpoint convert --input "$work/run" --output "$work/hf16" --dtype bf16 \
    --max-shard-size 0.01MB --json
[ -f "$work/hf16/model.safetensors.index.json" ] && grep -q '"bfloat16"' "$work/hf16/config.json" && pass || fail "files in bf16"

# The end-of-text token that OPT's and Qwen's folders name beside the tokenizer ends texts here too, in the folder and
# in runs from it.
for kind in vocab.json tokenizer.json; do
    rm -rf "$work/ends" "$work/ends-run" "$work/ends-back"
    cp -r "$work/hf" "$work/ends"
    [ $kind = tokenizer.json ] || rm -f "$work/ends/tokenizer.json"
    [ -f "$work/ends/$kind" ] || continue
    echo '{"tokenizer_class": "GPT2Tokenizer", "eos_token": {"content": "e"}, "add_bos_token": true}' >"$work/ends/tokenizer_config.json"
    expect 0 "iteration        1/       1" "$BEVATRON" train "${run[@]}" --load "$work/ends" --use-checkpoint-args --train-iters 1 \
        --save "$work/ends-run" --save-interval 1
    grep -q "transformers adds a token before every text" "$work/out"
    [ $? = $([ $kind = vocab.json ]; echo $?) ] && pass || fail "a word about add_bos_token in a folder with $kind"
    grep -q '"eod_token":"e"' "$work/ends-run/iter_0000001/config.json" && pass || fail "the end of a text in a run from $kind"
    expect 0 "read back" "$BEVATRON" checkpoint convert --input "$work/ends-run" --output "$work/ends-back"
    expect_same "$work/ends/tokenizer_config.json" "$work/ends-back/tokenizer_config.json" "add_bos_token and eos_token"
    # Another tokenizer brings its own end.
    rm -rf "$work/ends-other" "$work/ends-back"
    expect 0 "iteration        1/       1" "$BEVATRON" train "${run[@]}" --load "$work/ends" --use-checkpoint-args --train-iters 1 \
        --save "$work/ends-other" --save-interval 1 --tokenizer-type NullTokenizer --vocab-size 300
    expect 0 "read back" "$BEVATRON" checkpoint convert --input "$work/ends" --output "$work/ends-back" --to huggingface \
        --tokenizer-type GPT2BPETokenizer --vocab-file "$work/gone/t-vocab.json" --merge-file "$work/gone/t-merges.txt"
    grep -q '"eos_token": "<|endoftext|>"' "$work/ends-back/tokenizer_config.json" && pass || fail "the end of another tokenizer with $kind"
done

# --eod-token with a Hugging Face tokenizer changes only the end, in every file that names it.
id_of() { sed -nE "s/.*\"$1\": ?([0-9]+)[,}].*/\\1/p" "$work/gone/t-vocab.json" | head -n 1; }
furnished=$work/furnished
cp -r "$work/hf" "$furnished"
echo '{"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "b", "eos_token": {"content": "e", "lstrip": false}, "pad_token": "p", "chat_template": "{{ x }}", "tomorrow": [1.0], "additional_special_tokens": ["a"]}' >"$furnished/tokenizer_config.json"
echo '{"bos_token": "b", "eos_token": "e", "pad_token": "p"}' >"$furnished/special_tokens_map.json"
echo "{\"temperature\": 0.7, \"eos_token_id\": [$(id_of e), $(id_of x)]}" >"$furnished/generation_config.json"
sed -i -E "s/\"eos_token_id\": [0-9]+/\"eos_token_id\": $(id_of e)/" "$furnished/config.json"
expect 0 "iteration        1/       1" "$BEVATRON" train "${model[@]}" "${run[@]}" --train-iters 1 --save "$work/own-end" --save-interval 1 \
    --tokenizer-type HuggingFaceTokenizer --tokenizer-model "$furnished" --eod-token a
expect 0 "iteration        1/       1" "$BEVATRON" train "${run[@]}" --load "$furnished" --use-checkpoint-args --train-iters 1 \
    --save "$work/their-end" --save-interval 1 --eod-token a
for end in own-end their-end; do
    expect 0 "read back" "$BEVATRON" checkpoint convert --input "$work/$end" --output "$work/$end-hf"
    for text in '"content": "a"' '"lstrip": false' '"bos_token": "b"' '"pad_token": "p"' '"chat_template": "{{ x }}"' '1.0'; do
        grep -qF -- "$text" "$work/$end-hf/tokenizer_config.json" && pass || fail "$text in tokenizer_config.json of $end"
    done
    grep -qF '"eos_token": "a"' "$work/$end-hf/special_tokens_map.json" && pass || fail "the end in special_tokens_map.json of $end"
    grep -qE "\"eos_token_id\": $(id_of a)\b" "$work/$end-hf/config.json" && pass || fail "the end in config.json of $end"
    expect_same "$furnished/tokenizer.json" "$work/$end-hf/tokenizer.json" "the tokenizer of $end"
done
grep -qE "\"bos_token_id\": $(id_of b)\b" "$work/own-end-hf/config.json" && grep -qE "\"pad_token_id\": $(id_of p)\b" "$work/own-end-hf/config.json" &&
    pass || fail "the tokens of tokenizer_config.json in config.json"
tr -d ' \n' <"$work/their-end-hf/generation_config.json" | grep -qF "\"temperature\":0.7,\"eos_token_id\":[$(id_of a),$(id_of e),$(id_of x)]" &&
    pass || fail "the end in generation_config.json"
# transformers splits texts at every token that a file calls special. An ordinary one ends texts only by its id.
expect 0 "is an ordinary token" "$BEVATRON" checkpoint convert --input "$furnished" --output "$work/plain-end" --to huggingface --eod-token c
expect_same "$furnished/tokenizer_config.json" "$work/plain-end/tokenizer_config.json" "tokenizer_config.json with an ordinary end"
grep -qE "\"eos_token_id\": $(id_of c)\b" "$work/plain-end/config.json" && pass || fail "an ordinary end in config.json"
expect 0 "→ $work/end.gguf" "$BEVATRON" checkpoint convert --input "$work/their-end" --output "$work/end.gguf" --to gguf
expect 0 "tokenizer.ggml.eos_token_id: $(id_of a)" "$BEVATRON" checkpoint inspect "$work/end.gguf"

# fairseq's dictionary lists GPT-2's ids in its own order; transformers needs one vocabulary in that order.
{ for i in $(seq 299 -1 0); do echo "$i 1"; done; } >"$work/dict.txt"
bpe=(--vocab-file "$work/gone/t-vocab.json" --merge-file "$work/gone/t-merges.txt")
expect 0 "" "$BEVATRON" dataset import --text "$work/text.txt" --output-prefix "$work/lines" --tokenizer-type FairseqTokenizer \
    --tokenizer-model "$work/dict.txt" "${bpe[@]}"
expect 0 "iteration        2/       2" "$BEVATRON" train --model roberta "${model[@]}" --data-path "$work/lines" --micro-batch-size 2 \
    --lr 1e-2 --eval-iters 0 --device cpu --threads 1 --tokenizer-type FairseqTokenizer --tokenizer-model "$work/dict.txt" \
    "${bpe[@]}" --seq-length 64 --train-iters 2 --log-interval 1 --save "$work/roberta" --save-interval 2
expect 0 "huggingface" "$BEVATRON" checkpoint convert --input "$work/roberta" --output "$work/roberta-hf"
grep -q '"type": "RobertaProcessing"' "$work/roberta-hf/tokenizer.json" && grep -q '"cls_token": "<s>"' "$work/roberta-hf/tokenizer_config.json" &&
    [ ! -e "$work/roberta-hf/tokenizer.model" ] && pass || fail "the tokenizer of a RoBERTa"
grep -q '{"<s>":0,"<pad>":1,"</s>":2,"<unk>":3,' "$work/roberta-hf/vocab.json" && pass || fail "the first ids of a RoBERTa"
"$BEVATRON" tokenizer encode --tokenizer-type FairseqTokenizer --tokenizer-model "$work/dict.txt" "${bpe[@]}" --lines \
    <"$work/text.txt" >"$work/ids" 2>/dev/null
"$BEVATRON" tokenizer encode --vocab-file "$work/roberta-hf/vocab.json" --merge-file "$work/roberta-hf/merges.txt" --lines \
    <"$work/text.txt" >"$work/ids.hf" 2>/dev/null
[ -s "$work/ids" ] && pass || fail "ids of the lines"
"$BEVATRON" tokenizer encode --tokenizer-type HuggingFaceTokenizer --tokenizer-model "$work/roberta-hf" \
    --tokenizer-hf-no-include-special-tokens --lines <"$work/text.txt" >"$work/ids.json" 2>/dev/null
expect_same "$work/ids" "$work/ids.json" "ids of fairseq's tokenizer and of its tokenizer.json"
expect_same "$work/ids" "$work/ids.hf" "ids of fairseq's tokenizer and of the one for Hugging Face"

# Weights alone start a run at iteration 0, with or without --finetune.
for flags in "" "--finetune"; do
    # shellcheck disable=SC2086
    expect 0 "iteration        5/       5" "$BEVATRON" train "${run[@]}" --load "$work/back" --use-checkpoint-args --train-iters 5 $flags
    [ -n "$flags" ] || grep -q "only its weights are read" "$work/out" && pass || fail "a note about weights only"
done
expect 0 "iteration        5/       5" "$BEVATRON" train "${run[@]}" --load "$work/hf" --use-checkpoint-args --train-iters 5
expect 0 "iteration       45/      45" "$BEVATRON" train "${run[@]}" --load "$work/run" --use-checkpoint-args --train-iters 45 --no-load-optim
grep -q "iteration       41/" "$work/out" && pass || fail "--no-load-optim goes on where the run stood"

# Other programs' models.
mock=(--mock-data --micro-batch-size 2 --seq-length 9 --lr 1e-3 --log-interval 1 --eval-iters 0 --device cpu --threads 1)
expect 0 "iteration        2/       2" "$BEVATRON" train "${mock[@]}" --load $foreign/llama --use-checkpoint-args --train-iters 2
expect 0 "iteration        2/       2" "$BEVATRON" train "${mock[@]}" --load $foreign/megatron_v2_tp2_pp2 --use-checkpoint-args --train-iters 2
expect 1 "give --weights-only to convert without it" "$BEVATRON" checkpoint convert --input $foreign/megatron_v1_tp2 --output "$work/megatron"
expect 0 "megatron, 52 tensors" "$BEVATRON" checkpoint convert --input $foreign/megatron_v1_tp2 --output "$work/megatron" --weights-only
expect 0 "iteration      102/     102" "$BEVATRON" train "${mock[@]}" --load "$work/megatron" --use-checkpoint-args --train-iters 102 \
    --no-load-optim
expect 216 "no optimizer.safetensors" "$BEVATRON" train "${mock[@]}" --load "$work/megatron" --use-checkpoint-args --train-iters 102
expect 1 "give --num-attention-heads" "$BEVATRON" checkpoint convert --input $foreign/megatron_v0 --output "$work/v0"
expect 0 "huggingface" "$BEVATRON" checkpoint convert --input $foreign/megatron_v0 --output "$work/v0" --to huggingface \
    --num-attention-heads 6 --vocab-size 37
grep -q '"vocab_size": 37' "$work/v0/config.json" && pass || fail "a vocabulary without padding"
# The same as distributed by NGC, a zip archive; one of several checkpoints, in a folder.
expect 0 "huggingface" "$BEVATRON" checkpoint convert --input $foreign/megatron_v0.zip --output "$work/v0z" --to huggingface \
    --num-attention-heads 6 --vocab-size 37
expect_same "$work/v0/model.safetensors" "$work/v0z/model.safetensors" "a model out of an archive"
expect 0 "iteration 100" "$BEVATRON" checkpoint inspect $foreign/megatron_v0_tp2.zip
expect 0 "iteration        2/" "$BEVATRON" train --pretrained-checkpoint $foreign/megatron_v0_tp2.zip --use-checkpoint-args --mock-data --seq-length 8 \
    --num-attention-heads 6 --micro-batch-size 1 --train-iters 2 --lr 1e-4 --log-interval 1 --eval-iters 0 --device cpu --threads 1
head -c 10000 $foreign/megatron_v0.zip >"$work/cut.zip"
expect 1 "cut.zip: it has no zip directory at its end; the file is truncated" "$BEVATRON" checkpoint convert --input "$work/cut.zip" --output "$work/none"

{ printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]'; seq 20; } >"$work/small.txt"
# Distributed checkpoints of Megatron-LM, and files of llm.c.
expect 0 "iteration 100, after 800 samples" "$BEVATRON" checkpoint inspect $foreign/megatron_dist_llama
expect 0 '"iteration":100' "$BEVATRON" checkpoint inspect $foreign/megatron_dist_gpt --json
expect 0 "megatron, 40 tensors" "$BEVATRON" checkpoint convert --input $foreign/megatron_dist_gpt --output "$work/dist"
expect 0 "llm.c: 28 tensors" "$BEVATRON" checkpoint inspect $foreign/llmc_bf16.bin
expect 0 "llm.c, 28 tensors" "$BEVATRON" checkpoint convert --input $foreign/llmc_fp32.bin --output "$work/llmc" --to huggingface --vocab-size 37
head -c 20000 $foreign/llmc_fp32.bin >"$work/cut.bin"
expect 1 "truncated or damaged" "$BEVATRON" checkpoint inspect "$work/cut.bin"
expect 0 "iteration        2/       2" "$BEVATRON" train "${mock[@]}" --load $foreign/llmc_bf16.bin --use-checkpoint-args --train-iters 2

# A run of Megatron-LM resumes with its optimizer and its schedule.
expect 0 "megatron, 9 tensors" "$BEVATRON" checkpoint convert --input tests/golden/resume/torch_bf16_tp2 --output "$work/resume"
expect 0 "iteration        6/      20" "$BEVATRON" train --load "$work/resume" --use-checkpoint-args --use-checkpoint-opt_param-scheduler --bf16 \
    --mock-data --micro-batch-size 4 --seq-length 8 --lr 1e-3 --log-interval 1 --eval-iters 0 --device cpu --threads 1 --train-iters 20

# A run of Megatron-LM is resumed at its iteration if requested.
expect 0 "iteration      102/     102" "$BEVATRON" train "${mock[@]}" --load $foreign/megatron_dist_llama --use-checkpoint-args \
    --train-iters 102 --no-load-optim
grep -q "iteration      101/" "$work/out" && pass || fail "a run of Megatron-LM goes on"
# The same tensors under other flags are another model.
expect 1 "holds another model: --num-attention-heads is 4 there and 2 here, --kv-channels" "$BEVATRON" train "${mock[@]}" \
    --load $foreign/megatron_dist_llama --use-checkpoint-args --train-iters 2 --num-attention-heads 2 --num-query-groups 1 --kv-channels 8
expect 0 "flags differ from the model in $foreign/megatron_dist_llama: --norm-epsilon is 1e-05 there and 0.001 here, --rotary-base is" \
    "$BEVATRON" train "${mock[@]}" --load $foreign/megatron_dist_llama --use-checkpoint-args --train-iters 2 --norm-epsilon 1e-3 --rotary-base 20000
# otherwise MODEL FLAGS: a run that begins with its weights, and what it says of flags that no tensor tells
otherwise() {
    expect 0 "flags differ from the model in $foreign/$1: $2; ignore this if intended" "$BEVATRON" train --mock-data --load "$foreign/$1" \
        --use-checkpoint-args --finetune --seq-length 8 --micro-batch-size 1 --train-iters 1 --lr 1e-4 --eval-iters 0 --device cpu --threads 1 "${@:3}"
}
otherwise mpt "--position-embedding-type is alibi there and none here" --position-embedding-type none
otherwise gpt_oss "--glu-linear-offset is 1 there and 0 here, --activation-func-clamp-value is 0.5 there and 5 here" \
    --glu-linear-offset 0 --activation-func-clamp-value 5
otherwise bert "--lm-head-activation is gelu there and relu here" --lm-head-activation relu
otherwise t5 "--scale-tied-output is true there and false here" --scale-tied-output=false
# So do weights of a checkpoint of ours.
expect 0 "flags differ from the model in $work/dist/iter_0000100: --norm-epsilon is 1e-05 there and 0.001 here" "$BEVATRON" train "${mock[@]}" \
    --load "$work/dist" --use-checkpoint-args --finetune --train-iters 2 --norm-epsilon 1e-3

# --pretrained-checkpoint starts a run; a run that has started resumes.
begin=(--pretrained-checkpoint $foreign/megatron_dist_llama --use-checkpoint-args --save "$work/begun" --save-interval 2 --lr-decay-iters 9)
expect 0 "iteration        2/       2" "$BEVATRON" train "${mock[@]}" "${begin[@]}" --load "$work/begun" --train-iters 2
# A longer run has the same constant weight decay, and with --lr-decay-iters the same schedule.
expect 0 "iteration        4/       4" "$BEVATRON" train "${mock[@]}" "${begin[@]}" --load "$work/begun" --train-iters 4
grep -q "iteration        2/" "$work/out" && fail "a run that has begun goes on" || pass
expect 2 "the same command starts and resumes" "$BEVATRON" train "${mock[@]}" --load $foreign/megatron_dist_llama --use-checkpoint-args \
    --save "$work/begun" --save-interval 9 --train-iters 1
expect 216 "no checkpoint in $work/nothing" "$BEVATRON" train "${mock[@]}" --pretrained-checkpoint "$work/nothing" --num-layers 1 \
    --hidden-size 8 --num-attention-heads 2 --vocab-size 9 --train-iters 1

# A tokenizer that the input lacks can be added.
expect 0 "huggingface" "$BEVATRON" checkpoint convert --input $foreign/megatron_v3_bert --output "$work/bert-hf" --to huggingface \
    --tokenizer-type BertWordPieceLowerCase --vocab-file "$work/small.txt"
[ -f "$work/bert-hf/vocab.txt" ] && pass || fail "a tokenizer that was given"
expect 1 "it belongs to another model" "$BEVATRON" checkpoint convert --input $foreign/megatron_v3_bert --output "$work/x" \
    --vocab-file "$work/gone/t-vocab.json" --merge-file "$work/gone/t-merges.txt"
expect 2 "tokenizer's files with --tokenizer-type" "$BEVATRON" checkpoint convert --input $foreign/megatron_v3_bert --output "$work/x" --vocab-file x

# A BERT whose matrix has one row per line of vocab.txt has none for the two tokens that Megatron adds.
cp -r $foreign/bert "$work/bert"
chmod -R u+w "$work/bert"
{ printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]'; seq 32; } >"$work/bert/vocab.txt"
expect 0 "iteration        2/       2" "$BEVATRON" train "${mock[@]}" --load "$work/bert" --use-checkpoint-args --train-iters 2
grep -q "tokenizer_type .* BertWordPieceLowerCase" "$work/out" && pass || fail "the tokenizer of a vocab.txt"
# Whether text is lower-cased is in the file beside it, in both directions.
expect 0 "iteration        2/       2" "$BEVATRON" train "${mock[@]}" --model bert --num-layers 1 --hidden-size 8 --num-attention-heads 2 \
    --norm-placement post --max-position-embeddings 9 --tokenizer-type BertWordPieceCase --vocab-file "$work/bert/vocab.txt" \
    --activation gelu --train-iters 2 --save "$work/cased" --save-interval 2
expect 0 "huggingface" "$BEVATRON" checkpoint convert --input "$work/cased" --output "$work/cased-hf"
grep -q '"do_lower_case": false' "$work/cased-hf/tokenizer_config.json" && pass || fail "the case of a BERT for Hugging Face"
# The two tokens that Megatron's tokenizer adds after those of the file.
[ "$(tail -n 2 "$work/cased-hf/vocab.txt" | tr '\n' ' ')" = "[BOS] [EOS] " ] && pass || fail "the vocabulary of a BERT for Hugging Face"
expect 0 "iteration        2/       2" "$BEVATRON" train "${mock[@]}" --load "$work/cased-hf" --use-checkpoint-args --train-iters 2
grep -q "tokenizer_type .* HuggingFaceTokenizer" "$work/out" && pass || fail "the tokenizer.json of a BERT of Hugging Face"
# Without a tokenizer.json, vocab.txt and the file beside it give the same.
rm "$work/cased-hf/tokenizer.json"
expect 0 "iteration        2/       2" "$BEVATRON" train "${mock[@]}" --load "$work/cased-hf" --use-checkpoint-args --train-iters 2
grep -q "tokenizer_type .* BertWordPieceCase" "$work/out" && pass || fail "the case of a BERT of Hugging Face"
# A tokenizer that a tokenizer.json cannot express is an error, unless it is left out.
expect 1 "a model of words, which a tokenizer.json cannot express" "$BEVATRON" checkpoint convert --input "$work/run" \
    --output "$work/x" --tokenizer-type GPTSentencePieceTokenizer --tokenizer-model tests/golden/spm/word.model
[ ! -e "$work/x" ] && pass || fail "a model without its tokenizer"
expect 0 "huggingface" "$BEVATRON" checkpoint convert --input "$work/run" --output "$work/hf-bare" --no-tokenizer
[ ! -e "$work/hf-bare/tokenizer.json" ] && [ ! -e "$work/hf-bare/vocab.json" ] && pass || fail "--no-tokenizer"
# Of a folder of Hugging Face with a tokenizer too, in both forms.
for to in bevatron huggingface; do
    expect 0 "read back: flags" "$BEVATRON" checkpoint convert --input "$work/hf" --output "$work/bare-$to" --to $to --no-tokenizer
done
[ ! -e "$work/bare-huggingface/tokenizer.json" ] && pass || fail "--no-tokenizer of a folder of Hugging Face"

expect 0 "huggingface: 34 tensors" "$BEVATRON" checkpoint inspect $foreign/bert_mlm
expect 0 "decoder.layers.3.mlp.linear_fc2.weight fp32 (12, 48)" "$BEVATRON" checkpoint inspect --tensors $foreign/megatron_v2_tp2_pp2

expect 2 "--input DIR" "$BEVATRON" checkpoint convert --output "$work/x"
expect 2 "--max-shard-size takes a size" "$BEVATRON" checkpoint convert --input $foreign/gpt2 --output "$work/x" --max-shard-size 5
expect 216 "is not a readable model" "$BEVATRON" checkpoint convert --input "$work" --output "$work/x"
expect 2 "unknown family x; known families: gpt2, opt" "$BEVATRON" checkpoint convert --input $foreign/gpt2 --output "$work/x" --to huggingface --family x
finish
