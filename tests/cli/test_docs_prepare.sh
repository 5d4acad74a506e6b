#!/bin/bash
# The commands of docs/prepare-data.md, as printed there, on small made data: see docs.sh. If $BEVATRON_SHARED/data
# exists, its real tokenizers are used.
source tests/cli/common.sh || exit
needs_parts BZIP2 LZMA UTF8PROC
source tests/cli/docs.sh || exit
page=docs/prepare-data.md
ranks=
mkdir "$work/bin"
ln -s "$real" "$work/bin/bevatron"
PATH=$work/bin:$PATH

gpt2_files() {
    file gpt2/vocab.json bpe/vocab.json gpt2-vocab.json
    file gpt2/merges.txt bpe/merges.txt gpt2-merges.txt
}

prepare_wikipedia() {
    gpt2_files
    make_dump >dump.xml
    pack bzip2 dump.xml enwiki-latest-pages-articles.xml.bz2
}

prepare_oscar() {
    gpt2_files
    make_jsonl >made.jsonl
    pack xz made.jsonl oscar-1GB.jsonl.xz
    file llama2/tokenizer.model spm/bpe.model tokenizer.model
    file bert/bert-base-uncased-vocab.txt wordpiece/vocab.txt bert-large-uncased-vocab.txt
}

prepare_wikitext() {
    mkdir -p wikitext-103-raw gpt2_bpe data-bin/wikitext-103
    for split in train valid test; do
        awk 'NR % 7 == 1 { print " \n = Heading =  \n " } { print " " $0 " " }' "$golden/bpe/corpus.txt" | head -200 \
            >wikitext-103-raw/wiki.$split.raw
    done
    file gpt2/vocab.json bpe/vocab.json gpt2_bpe/encoder.json
    file gpt2/merges.txt bpe/merges.txt gpt2_bpe/vocab.bpe
    file roberta/dict.txt fairseq/bpe.txt gpt2_bpe/dict.txt
    cp "$golden/import/mmap_u16.bin" data-bin/wikitext-103/train.bin
    cp "$golden/import/mmap_u16.idx" data-bin/wikitext-103/train.idx
    cp "$golden/import/dict.txt" data-bin/wikitext-103/
}

prepare_pile() {
    mkdir -p pile/train
    make_jsonl >made.jsonl
    head -100 made.jsonl >a
    tail -n +101 made.jsonl >b
    pack zstd a pile/train/00.jsonl.zst
    pack zstd b pile/train/01.jsonl.zst
    pack zstd a pile/val.jsonl.zst
    file hf_json/gpt_neox.json hf/neox.json 20B_tokenizer.json
}

for story in wikipedia oscar wikitext pile; do
    run_story "$page" "$story"
done

tokens() {
    "$BEVATRON" dataset inspect --json "$1" | sed -n 's/.*"documents":\([0-9]*\).*/\1/p'
}

expect_same "$work/wikipedia/my-gpt2_text_document.bin" "$work/wikipedia/piped_text_document.bin" "with and without a pipe"
[ "$(tokens "$work/wikipedia/my-gpt2_text_document")" = 3 ] && pass || fail "three pages are three documents"
[ "$(tokens "$work/oscar/mixed_text_document")" -lt "$(tokens "$work/oscar/my-gpt2_text_document")" ] && pass ||
    fail "--dedup found nothing"
expect_same "$work/pile/pile_text_document.bin" "$work/pile/joined.bin" "all files at once and joined"
expect_same "$work/pile/pile_text_document.idx" "$work/pile/joined.idx" "all files at once and joined"
expect_same "$work/wikitext/gpt2_bpe/dict.txt" "$work/wikitext/wikitext-103-train.dict.txt" "the dictionary is kept"
finish
