#!/bin/bash
# The commands of docs/prepare-data.md, as printed there, on small made data: blocks marked <!-- run: STORY -->, each story
# in a folder of its own, prepared below. Where $BEVATRON_SHARED/data is there, its real tokenizers are used.
source tests/cli/common.sh
page=$PWD/docs/prepare-data.md
golden=$PWD/tests/golden
shared=${BEVATRON_SHARED:-../shared}/data
mkdir "$work/bin"
ln -s "$(realpath "$BEVATRON")" "$work/bin/bevatron"
PATH=$work/bin:$PATH

# file REAL MADE NAME: the real file where there is one, else the made one, under the name that the page has.
file() {
    if [ -f "$shared/$1" ]; then cp "$shared/$1" "$3"; else cp "$golden/$2" "$3"; fi
}

# pack PROGRAM FROM TO: compressed where the program is installed; content decides, so a plain file will do too.
pack() {
    if command -v "$1" >/dev/null; then "$1" -c "$2" >"$3" 2>/dev/null; else cp "$2" "$3"; fi
}

gpt2_files() {
    file gpt2/vocab.json bpe/vocab.json gpt2-vocab.json
    file gpt2/merges.txt bpe/merges.txt gpt2-merges.txt
}

# Paragraphs of the golden corpus as JSON Lines, some of them twice.
make_jsonl() {
    awk 'NF { gsub(/\\/, ""); gsub(/"/, "\\\""); gsub(/\t/, " "); printf "{\"text\": \"%s The end.\", \"meta\": {\"set\": \"made\"}}\n", $0 }
        NR % 50 == 0 { print "{\"text\": \"Again. And again.\", \"meta\": {}}" }' "$golden/bpe/corpus.txt" | head -400
}

prepare_wikipedia() {
    gpt2_files
    {
        echo '<mediawiki><siteinfo><base>https://en.wikipedia.org/wiki/Main_Page</base></siteinfo>'
        for i in 1 2 3; do
            echo "<page><title>Page $i</title><ns>0</ns><id>$i</id><revision><id>9</id><text>'''Page $i''' is a [[page|made page]]"
            echo "about {{convert|$i|km|mi}} of road. $(printf 'It goes on and on. %.0s' 1 2 3 4 5 6 7 8)</text></revision></page>"
        done
        echo '</mediawiki>'
    } >dump.xml
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

# The blocks of a story, one after another.
commands() {
    awk -v mark="<!-- run: $1 -->" '
        $0 == mark { wanted = 1; next }
        wanted && $0 == "```sh" { inside = 1; next }
        inside && $0 == "```" { inside = wanted = 0; next }
        inside' "$page"
}

for story in wikipedia oscar wikitext pile; do
    mkdir "$work/$story"
    commands "$story" >"$work/$story.sh"
    grep -q bevatron "$work/$story.sh" && pass || fail "docs/prepare-data.md has no commands for $story"
    (cd "$work/$story" && "prepare_$story") || fail "cannot prepare $story"
    expect 0 "" bash -ec "cd '$work/$story' && set -o pipefail && . ../$story.sh"
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
