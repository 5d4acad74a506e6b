#!/usr/bin/env bash
# tier: all
# label: slow
# The files beside the weights of a Hugging Face model are kept: through a plain conversion, through ours and back, and
# through resumed training. Every file of the source is there, byte by byte, except the weights, config.json and those
# named in a note; config.json keeps members that change nothing.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
foreign=tests/golden/foreign
mock=(--mock-data --micro-batch-size 1 --seq-length 8 --lr 1e-3 --log-interval 1 --eval-iters 0 --device cpu --threads 1)

# A copy of a small model with everything that may be in such a folder.
furnish() {
    cp -r "$foreign/$1" "$2"
    chmod -R u+w "$2"
    mkdir "$2/additional_chat_templates" "$2/onnx"
    sed -i 's/"model_type"/"bad_words_ids": {"deep": [1, 2.0, 1e-05, null]},\n  "task_specific_params": {"x": "\\u00e9"},\n  "model_type"/' "$2/config.json"
    echo '{"temperature": 0.7, "top_p": 0.9, "eos_token_id": [2, 7], "_from_model_config": false}' >"$2/generation_config.json"
    echo '{"pad_token": "<pad>", "bos_token": "<s>", "unk_token": "<unk>", "chat_template": "{{ messages }}"}' >"$2/tokenizer_config.json"
    echo '{"pad_token": "<pad>", "bos_token": "<s>", "unk_token": "<unk>"}' >"$2/special_tokens_map.json"
    echo '{"<pad>": 36}' >"$2/added_tokens.json"
    echo '{% for m in messages %}{{ m }}{% endfor %}' >"$2/chat_template.jinja"
    echo '{{ documents }}' >"$2/additional_chat_templates/rag.jinja"
    echo 'You may.' >"$2/LICENSE"
    echo '# A model' >"$2/README.md"
    : >"$2/USE_POLICY.md"
    echo '*.bin filter=lfs' >"$2/.gitattributes"
    echo 'weights' >"$2/tf_model.h5"
}

# Every file of folder $1 that is neither weights nor config.json is in folder $2, unchanged.
expect_files() {
    local file
    while IFS= read -r file; do
        cmp -s "$1/$file" "$2/$file" && pass || fail "$file of $1 came back in $2"
    done < <(cd "$1" && find . -type f ! -name '*.safetensors*' ! -name '*.bin' ! -name '*.h5' ! -name config.json)
    grep -q '"bad_words_ids": {"deep":\[1,2.0,1e-05,null\]}' "$2/config.json" && pass || fail "members of $2/config.json"
    [ ! -e "$2/tf_model.h5" ] && [ ! -e "$2/onnx" ] && pass || fail "stale weights in $2"
}

for model in gpt2 opt gpt_bigcode llama mistral qwen2 qwen3 phi3 starcoder2 stablelm nemotron gpt_neox bert megatron_bert roberta xlm_roberta camembert t5 mt5; do
    furnish $model "$work/$model"
    expect 0 "were not copied: onnx (a folder), tf_model.h5 (weights or state of another program)" \
        "$BEVATRON" checkpoint convert --input "$work/$model" --output "$work/$model.plain" --to huggingface
    expect_files "$work/$model" "$work/$model.plain"
    expect 0 "iteration        1/       1" "$BEVATRON" train "${mock[@]}" --load "$work/$model" --use-checkpoint-args --train-iters 1 \
        --save "$work/$model.run" --save-interval 1
    expect 0 "read back" "$BEVATRON" checkpoint convert --input "$work/$model.run" --output "$work/$model.trained"
    expect_files "$work/$model" "$work/$model.trained"
    [ "$(grep -o '"initializer_range": [^,]*' "$work/$model.trained/config.json")" = "$(grep -o '"initializer_range": [^,]*' "$work/$model/config.json")" ] &&
        pass || fail "initializer_range of $model"
done

# The source is removed before the first save: the files were read at the start.
in_background "$work/out" "$BEVATRON" train "${mock[@]}" --load "$work/qwen2" --use-checkpoint-args --train-iters 100000000 --save "$work/late.run"
run=$!
await_text "iteration        2/"
mv "$work/qwen2" "$work/qwen2.moved"
kill -USR1 "$run"
end_of "$run"
[ "$code" = 210 ] && pass || fail "exit code $code of a run whose source has gone"
expect 0 "read back" "$BEVATRON" checkpoint convert --input "$work/late.run" --output "$work/late"
expect_files "$work/qwen2.moved" "$work/late"

# A resumed run keeps them, even when the source and its own older checkpoints are gone.
mv "$work/llama" "$work/moved"
expect 0 "iteration        3/       3" "$BEVATRON" train "${mock[@]}" --load "$work/llama.run" --use-checkpoint-args --train-iters 3 \
    --save "$work/llama.run" --save-interval 1 --keep-last 1 --override-opt_param-scheduler
expect 0 "read back" "$BEVATRON" checkpoint convert --input "$work/llama.run" --output "$work/llama.resumed"
expect_files "$work/moved" "$work/llama.resumed"
expect 0 "whole" "$BEVATRON" checkpoint verify "$work/llama.run"
# Through a conversion to ours.
expect 0 "bevatron" "$BEVATRON" checkpoint convert --input "$work/moved" --output "$work/llama.ours"
expect 0 "read back" "$BEVATRON" checkpoint convert --input "$work/llama.ours" --output "$work/llama.back"
expect_files "$work/moved" "$work/llama.back"

# With another tokenizer, files of the old one are dropped, and so are its token ids.
{ printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]'; seq 20; } >"$work/vocab.txt"
expect 0 "iteration        1/       1" "$BEVATRON" train "${mock[@]}" --load "$work/bert" --use-checkpoint-args --train-iters 1 \
    --save "$work/other.run" --save-interval 1 --tokenizer-type BertWordPieceLowerCase --vocab-file "$work/vocab.txt"
expect 0 "read back" "$BEVATRON" checkpoint convert --input "$work/other.run" --output "$work/other"
for file in LICENSE README.md USE_POLICY.md; do
    cmp -s "$work/bert/$file" "$work/other/$file" && pass || fail "$file beside another tokenizer"
done
[ ! -e "$work/other/chat_template.jinja" ] && [ ! -e "$work/other/generation_config.json" ] && pass || fail "the old tokenizer's files"
grep -q "<pad>" "$work/other/tokenizer_config.json" && fail "the old tokenizer's configuration" || pass
finish
