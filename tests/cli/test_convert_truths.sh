#!/usr/bin/env bash
# label: slow
# config.json describes the model, in both directions: missing members have transformers' defaults, and what it cannot
# express is an error. Expected values are those of transformers' classes and their defaults
# (tests/peers/hf_peers.py compares logits).
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
foreign=tests/golden/foreign
mock=(--mock-data --micro-batch-size 1 --seq-length 8 --lr 1e-3 --eval-iters 0 --device cpu --threads 1 --train-iters 1 --save-interval 1)
small=(--hidden-size 8 --num-attention-heads 2 --max-position-embeddings 16 --vocab-size 40 --make-vocab-size-divisible-by 1)

# train NAME FLAGS…: a model of ours after one step, in $work/NAME.
train() {
    local name=$1
    shift
    expect 0 "iteration        1/       1" "$BEVATRON" train "${mock[@]}" "${small[@]}" "$@" --save "$work/$name"
}
# export_to NAME TEXT FLAGS…: writes $work/NAME.hf for Hugging Face and reads it back; config.json must contain TEXT.
export_to() {
    local name=$1 text=$2
    shift 2
    expect 0 "read back: flags, shapes and all elements" "$BEVATRON" checkpoint convert --input "$work/$name" --output "$work/$name.hf" "$@"
    has "$name.hf" "$text"
}
has() {
    grep -qF -- "$2" "$work/$1/config.json" && pass || fail "no $2 in $work/$1/config.json"
}
# edit NAME FROM TO: a copy of a golden model with a changed configuration.
edit() {
    rm -rf "$work/$1"
    cp -r "$foreign/$1" "$work/$1"
    chmod -R u+w "$work/$1"
    sed -i "s/$2/$3/" "$work/$1/config.json"
}

# T5 with different numbers of layers in its halves, and with a tied output that is not scaled, which no member
# expresses.
t5=(--model t5 --normalization RMSNorm --disable-bias-linear --position-embedding-type relative --softmax-scale 1 --decoder-seq-length 6
    --activation relu)
train t5 "${t5[@]}" --num-layers 1 --encoder-num-layers 3 --decoder-num-layers 2 --scale-tied-output
export_to t5 '"num_layers": 3'
has t5.hf '"num_decoder_layers": 2'
has t5.hf '"tie_word_embeddings": true'
train t5_plain "${t5[@]}" --num-layers 1
export_to t5_plain '"tie_word_embeddings": false'
expect 0 "lm_head.weight" "$BEVATRON" checkpoint inspect --tensors "$work/t5_plain.hf/model.safetensors"
# Tensors and names that the source does not have are announced.
edit t5 '"tie_word_embeddings": true' '"tie_word_embeddings": false'
sed -i 's/"scale_decoder_outputs": true/"scale_decoder_outputs": false/' "$work/t5/config.json"
expect 0 "note: lm_head.weight is written as a copy of shared.weight" "$BEVATRON" checkpoint convert --input "$work/t5" --output "$work/t5.hf2" --to huggingface
expect 0 "read back" "$BEVATRON" checkpoint convert --input $foreign/t5 --output "$work/t5.hf3" --to huggingface
grep -q "is written as a copy" "$work/out" && fail "a head that is not written is announced" || pass
expect 0 'gpt2 have a base model'"'"'s names, and are written with the prefix "transformer."' \
    "$BEVATRON" checkpoint convert --input $foreign/gpt2 --output "$work/names.hf" --to huggingface
expect 0 "read back" "$BEVATRON" checkpoint convert --input "$work/names.hf" --output "$work/names.hf2" --to huggingface
grep -q "a base model's names" "$work/out" && fail "names that stay are announced" || pass

# Weights may be links to another folder, which a note names; other files are not copied from there.
mkdir "$work/linked" && cp $foreign/gpt2/config.json "$work/linked/"
cp $foreign/gpt2/model.safetensors "$work/elsewhere"
echo secret >"$work/secret"
ln -s "$work/elsewhere" "$work/linked/model.safetensors"
ln -s "$work/secret" "$work/linked/LICENSE"
expect 0 "is a link that leads out of the folder; the weights are those of $(realpath "$work/elsewhere")" \
    "$BEVATRON" checkpoint convert --input "$work/linked" --output "$work/linked.hf" --to huggingface
[ ! -e "$work/linked.hf/LICENSE" ] && [ ! -L "$work/linked.hf/model.safetensors" ] && pass || fail "a file from outside is copied"
expect_same "$work/linked.hf/model.safetensors" "$work/names.hf/model.safetensors" "weights behind a link"

# Gemma's multiplier follows the width; one of its own is no Gemma's, which a short message says.
gemma=(--preset gemma-2b --num-layers 1 --ffn-hidden-size 20 --kv-channels 8 --hidden-size 30 --tokenizer-type NullTokenizer)
train gemma "${gemma[@]}"
export_to gemma '"model_type": "gemma"'
has gemma.hf '"hidden_size": 30'
grep -q '"embedding_multiplier":5.477225575051661' "$work"/gemma/iter_*/config.json && pass || fail "the multiplier is the root of 30"
train gemma7 "${gemma[@]}" --embedding-multiplier 7
expect 1 "no Hugging Face family can express this model; nearest: gemma has no --embedding-multiplier 7" \
    "$BEVATRON" checkpoint convert --input "$work/gemma7" --output "$work/x"
[ "$(grep "error: " "$work/out" | wc -c)" -lt 200 ] && pass || fail "a long message"
train gpt_scaled --num-layers 1 --scale-tied-output
expect 1 "gpt2 has no --scale-tied-output true" "$BEVATRON" checkpoint convert --input "$work/gpt_scaled" --output "$work/x"

# A BERT without sentence pairs still has a table of token types there.
train bert --model bert --num-layers 1 --bert-no-binary-head --norm-placement post
export_to bert '"type_vocab_size": 2'
has bert.hf '"BertForMaskedLM"'
expect 0 "bert.embeddings.token_type_embeddings.weight" "$BEVATRON" checkpoint inspect --tensors "$work/bert.hf/model.safetensors"
train roberta --model roberta --num-layers 1
export_to roberta '"type_vocab_size": 1'

# GPT-2's second names.
train gpt2 --num-layers 1 --hidden-dropout 0.25
export_to gpt2 '"embd_pdrop": 0.25'
has gpt2.hf '"n_ctx": 16'
edit gpt2 '"embd_pdrop": 0.1' '"embd_pdrop": 0.0'
expect 0 "read back" "$BEVATRON" checkpoint convert --input "$work/gpt2" --output "$work/gpt2.kept" --to huggingface
has gpt2.kept '"embd_pdrop": 0.0'

# Two kinds of rotary scaling at once.
llama=(--model llama --num-layers 1 --ffn-hidden-size 12)
train both "${llama[@]}" --rotary-seq-len-interpolation-factor 2 --use-rope-scaling --rope-original-length 8
expect 1 "llama has no --rotary-seq-len-interpolation-factor beside --use-rope-scaling" \
    "$BEVATRON" checkpoint convert --input "$work/both" --output "$work/x"
[ ! -e "$work/x" ] && pass || fail "an export that failed leaves nothing"
train linear "${llama[@]}" --rotary-seq-len-interpolation-factor 2
export_to linear '"rope_scaling": {"rope_type": "linear", "factor": 2.0}'
# transformers 4.57 warns about integer factors.
train llama3 "${llama[@]}" --use-rope-scaling --rope-original-length 8
export_to llama3 '"factor":8.0,"low_freq_factor":1.0'

# What the configurations of Mistral and Qwen leave out.
edit mistral '"sliding_window": 4' '"top_k": 4'
expect 0 "read back" "$BEVATRON" checkpoint convert --input "$work/mistral" --output "$work/wide.hf" --to huggingface
has wide.hf '"sliding_window": 4096'
edit mistral '"sliding_window": 4' '"sliding_window": null'
expect 0 "read back" "$BEVATRON" checkpoint convert --input "$work/mistral" --output "$work/mistral.hf" --to huggingface
has mistral.hf '"sliding_window": null'
edit mistral '"num_key_value_heads"' '"top_k"'
expect 2 "is not a multiple of --num-query-groups 8" "$BEVATRON" checkpoint inspect "$work/mistral"
edit qwen3 '"head_dim"' '"top_k"'
expect 1 "(256, " "$BEVATRON" checkpoint inspect "$work/qwen3"

# Unexpected numbers and names.
edit llama_dynamic '"rope_theta": [0-9.]*' '"rope_theta": 12345.678'
expect 0 "read back" "$BEVATRON" checkpoint convert --input "$work/llama_dynamic" --output "$work/theta.hf" --to huggingface
has theta.hf '"rope_theta": 12345.678'
# Dynamic scaling changes the base of the frequencies. With two channels there is one, which does not depend on it; transformers divides by 0.
dynamic=(--model llama --num-layers 1 --ffn-hidden-size 8 --use-rope-scaling --rope-scaling-type dynamic --rope-scaling-factor 4)
train two "${dynamic[@]}" --kv-channels 2
export_to two '"rope_scaling": null'
train four "${dynamic[@]}" --kv-channels 4
export_to four '"rope_type":"dynamic"'
edit llama '"rms_norm_eps": [^,]*' '"rms_norm_eps": 0'
expect 0 "read back" "$BEVATRON" checkpoint convert --input "$work/llama" --output "$work/zero.hf" --to huggingface
has zero.hf '"rms_norm_eps": 0.0'
for model in llama mistral qwen2 qwen3; do
    edit $model '"silu"' '"swish"'
    expect 0 "read back" "$BEVATRON" checkpoint convert --input "$work/$model" --output "$work/$model.swish" --to huggingface
    has $model.swish '"hidden_act": "swish"'
done

# Gains stored as their distance from 1 have more digits than 16 bits hold for the gains themselves.
train centered --num-layers 1 --apply-layernorm-1p --bf16 --lr 0.3
expect 1 "give --dtype fp32 to keep them exact" "$BEVATRON" checkpoint convert --input "$work/centered" --output "$work/x"
export_to centered '"float32"' --dtype fp32
rm -rf "$work/centered.hf"
export_to centered '"bfloat16"' --dtype bf16
grep -q "norm gains are rounded by up to" "$work/out" && pass || fail "rounding is said"

# The head of a Megatron BERT has another activation than its blocks; BERT's configuration has one for both.
train heads --model bert --num-layers 1 --norm-placement post --activation gelu_tanh --lm-head-activation gelu
expect 1 "bert has no --activation/--lm-head-activation" "$BEVATRON" checkpoint convert --input "$work/heads" --output "$work/x"
export_to heads '"gelu_new"' --allow-inexact

# --verify runs transformers; here a script answers in its place.
answer() {
    printf '#!/bin/sh\necho "$2" >"%s/script"\ncat >"%s/asked"\necho '"'%s'"'\n' "$work" "$work" "$1" >"$work/python"
    chmod +x "$work/python"
    rm -rf "$work/verified"
}
verify=(env PYTHON="$work/python" "$BEVATRON" checkpoint convert --input $foreign/gpt2 --output "$work/verified" --to huggingface --verify)
expect 2 "reads --to huggingface only" "$BEVATRON" checkpoint convert --input $foreign/gpt2 --output "$work/x" --verify
answer '{"absent": "No module named transformers"}'
expect 0 "transformers: not run, No module named transformers" "${verify[@]}"
grep -q '"tokens":\[[0-9]' "$work/asked" && pass || fail "tokens for transformers"
# Python does not search for modules in the current folder.
sed -n 2p "$work/script" | grep -qF 'sys.path[:] = [path for path in sys.path if path]' && pass || fail "modules of the current folder"
expect 0 "transformers: not run, there is no program" env PYTHON="$work/nothing" "$BEVATRON" checkpoint convert --input $foreign/gpt2 \
    --output "$work/verified.none" --to huggingface --verify
answer '{"version": "9", "missing": ["transformer.wte.weight"], "unexpected": [], "mismatched": [], "said": [], "rows": 8, "columns": 37, "logits": []}'
expect 1 "transformers 9 does not find the same model in the result: missing tensor transformer.wte.weight" "${verify[@]}"
[ ! -e "$work/verified" ] && pass || fail "what transformers refuses is not kept"
answer "{\"version\": \"9\", \"rows\": 8, \"columns\": 37, \"logits\": [$(yes 1, | head -295 | tr -d '\n')1]}"
expect 1 "transformers 9 computes other logits" "${verify[@]}"
# The ids of texts are compared too: for the text "abc", merged or not.
cp -r $foreign/gpt2 "$work/spoken"
chmod -R u+w "$work/spoken"
echo '{"version": "1.0", "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE",
    "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3}, "merges": ["a b"]}}' >"$work/spoken/tokenizer.json"
echo '{"tokenizer_class": "PreTrainedTokenizerFast"}' >"$work/spoken/tokenizer_config.json"
verify[6]=$work/spoken
answer '{"absent": "nothing"}'
expect 0 "transformers: not run" "${verify[@]}"
sed -n 's/.*"texts":\[\(.*\)\].*/\1/p' "$work/asked" | grep -qF '" a","  a  b   c    "' && pass || fail "texts for transformers"
answer '{"version": "9", "rows": 8, "columns": 37, "logits": [], "ids": [[], [9]]}'
expect 1 'transformers 9 gives other token ids than this program for " a"' "${verify[@]}"
[ ! -e "$work/verified" ] && pass || fail "a tokenizer with other ids is not kept"
printf '#!/bin/sh\necho "ValueError: no such class" >&2\nexit 1\n' >"$work/python"
expect 1 "transformers does not load the result, which was removed: ValueError: no such class" "${verify[@]}"
finish
