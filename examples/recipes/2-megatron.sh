#!/usr/bin/env bash
# GPT-3, BERT, T5 and Llama-2 with Megatron's flags on a Slurm cluster, from text to models. The page is
# 2-megatron.md; its numbers are those of the steps below.
#
#   examples/recipes/2-megatron.sh FOLDER [STEP…]
#
# FOLDER is one that all machines share; without steps all are taken. Run it on the head node. What the environment may
# say:
#   BEVATRON  the program; default: bevatron
#   CLUSTER   flags of launch slurm; default: two nodes with two ranks each on CPUs, a rehearsal in minutes
#   SCALE     small (default), or full: the flag sets of examples/aws, for p4d and p4de machines
#   TEXT      JSON Lines, plain or compressed: files, patterns, https:// or s3://, separated by spaces; default: the
#             pages of docs
all_steps="1 2 3 4 5 6 7 8 9"
# shellcheck source=examples/recipes/slurm-walk.sh
. "$(dirname "$0")/slurm-walk.sh"
job() { "$program" launch slurm "${cluster[@]}" --watch "$@"; }
task() { "$program" launch slurm "${single[@]}" --watch "$@"; }

# What differs between a rehearsal and a run: sizes, layouts, lengths.
if [ "$scale" = full ]; then
    gpt=(--config "$here/examples/aws/gpt3-slurm.yaml")
    encoder=(--preset bert-large --lr 1e-4 --train-iters 100000 --global-batch-size 256 --micro-batch-size 4 --bf16 --save-interval 1000)
    t5=(--preset t5-large --lr 1e-4 --train-iters 100000 --global-batch-size 256 --micro-batch-size 4 --bf16 --save-interval 1000)
    llama=(--config "$here/examples/aws/llama2-7b.yaml")
    vocabulary=32000
    machine=(--machine "$(sed -nE 's/.*--machine[ =]([^ ]+).*/\1/p' <<<"${cluster[*]}")")
    [ -n "${machine[1]}" ] || stop "SCALE=full needs a --machine in CLUSTER, e.g. CLUSTER=\"--nodes 2 --machine p4de.24xlarge\""
    most=(--max-bytes 1073741824)
else
    tiny=(--num-layers 2 --hidden-size 64 --num-attention-heads 4 --threads 1 --micro-batch-size 1 --log-interval 2
        --eval-iters 1 --split 95,5,0 --lr 1e-3 --train-iters 6 --save-interval 3)
    gpt=("${tiny[@]}" --seq-length 64 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --global-batch-size 4
        --fp16 --initial-loss-scale 4096)
    encoder=(--model bert "${tiny[@]}" --seq-length 64 --tensor-model-parallel-size 2 --global-batch-size 4)
    t5=(--model t5 "${tiny[@]}" --seq-length 64 --decoder-seq-length 32 --global-batch-size 4)
    llama=(--model llama "${tiny[@]}" --ffn-hidden-size 128 --seq-length 64 --tensor-model-parallel-size 2 --global-batch-size 4
        --log-throughput)
    vocabulary=600
    machine=(--file-size 8 --bytes 65536)
    most=(--max-bytes 262144)
fi
bpe=(--vocab-file "$PWD/gpt-vocab.json" --merge-file "$PWD/gpt-merges.txt")
words=(--tokenizer-type BertWordPieceLowerCase --vocab-file "$PWD/words.txt")

if step 1 "text"; then
    # The real thing: TEXT='https://…/oscar.jsonl.xz' or a pattern of files; .xz, .zst, .gz and .bz2 are read as they are.
    if [ -z "${TEXT-}" ]; then
        pages >text.jsonl
        xz -kf text.jsonl
    fi
    ls -l text.jsonl* 2>/dev/null || echo "text: $TEXT"
fi
text=("$PWD/text.jsonl.xz")
[ -z "${TEXT-}" ] || read -ra text <<<"$TEXT"

# most_common COUNT: the most common words and punctuation marks of a dictionary, without the escapes of JSON.
most_common() {
    awk '{ count = $NF; $NF = ""; line = tolower($0)
           gsub(/\\u[0-9a-f][0-9a-f][0-9a-f][0-9a-f]|\\[bfnrt]|^\{?"[^"]*":/, " ", line)
           while (match(line, /[a-z]+|[-.,!?\047]/)) { seen[substr(line, RSTART, RLENGTH)] += count; line = substr(line, RSTART + RLENGTH) } }
         END { for (word in seen) if (seen[word] > 1) print seen[word], word }' | LC_ALL=C sort -k1,1nr -k2 | awk -v most="$1" 'NR <= most { print $2 }'
}

if step 2 "tokenizers"; then
    # GPT-2's own files may stand here instead. BERT and T5 want words: BERT's vocabulary, or these of the text.
    [ -s gpt-vocab.json ] || task tokenizer train --input "${text[@]}" --vocab-size $vocabulary --output-prefix "$PWD/gpt"
    if ! [ -s words.txt ]; then
        task tokenizer dictionary --input "${text[@]}" --output "$PWD/words.dict"
        { printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' && most_common 29995 <words.dict; } >words.txt.new
        [ "$(wc -l <words.txt.new)" -gt 5 ] || stop "the text has no words for words.txt: ${text[*]}"
        mv words.txt.new words.txt
    fi
fi

if step 3 "preprocessing jobs, one for GPT and Llama-2, one for BERT and T5"; then
    task preprocess --input "${text[@]}" --output-prefix "$PWD/gpt" --append-eod "${bpe[@]}"
    task preprocess --input "${text[@]}" --output-prefix "$PWD/bert" --split-sentences "${words[@]}"
fi

if step 4 "the machines: checked, and the network between them measured"; then
    job preflight --path "$PWD" "${machine[@]}"
    job bench collectives --operation all_reduce --min-bytes 65536 "${most[@]}"
fi

if step 5 "GPT-3"; then
    job "${gpt[@]}" --data-path "$PWD/gpt_text_document" "${bpe[@]}" --save "$PWD/gpt-run"
fi

if step 6 "BERT"; then
    job "${encoder[@]}" --data-path "$PWD/bert_text_sentence" "${words[@]}" --save "$PWD/bert-run"
fi

if step 7 "T5"; then
    job "${t5[@]}" --data-path "$PWD/bert_text_sentence" "${words[@]}" --vocab-extra-ids 100 --save "$PWD/t5-run"
fi

if step 8 "Llama-2"; then
    job "${llama[@]}" --data-path "$PWD/gpt_text_document" --tokenizer-type GPT2BPETokenizer "${bpe[@]}" --save "$PWD/llama-run"
fi

if step 9 "what was learned: perplexity, text, a model for Hugging Face, curves"; then
    task evaluate --load "$PWD/llama-run" --data-path "$PWD/gpt_text_document" --max-samples 20
    task generate --load "$PWD/llama-run" --prompt "Once upon a time" --max-new-tokens 20
    task checkpoint convert --input "$PWD/llama-run" --output "$PWD/llama-hf"
    "$program" board --text --logdir "$PWD"
fi
