#!/usr/bin/env bash
# What people bring in their first hour: a cloned Hub dataset, tables, notes, a PDF, JSON of other shapes, other programs'
# tokens, a tiny text, files that are not text. Each is either a run that makes sense or one line that says what to do.
# cost: 3
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/cli/text.sh || exit

cd "$work" || exit 1
auto=("${train[@]}" --eval-iters 1 "${own[@]}" --data-path)
# helps TEXT NAME…: train ends with one line that has the text.
helps() {
    expect 215 "$1" "${auto[@]}" "${@:2}"
    [ "$(grep -c "^error: " out)" = 1 ] && pass || fail "${*:2}: not one line"
}
# lacks TEXT: the last output does not have it.
lacks() { grep -qF -- "$1" out && fail "the output has \"$1\"" || pass; }

# ---- a cloned Hub dataset ----

mkdir -p hub/data hub/.git
printf -- '---\nlicense: mit\n---\n# The card\n' >hub/README.md
echo '{"default": {}}' >hub/dataset_infos.json
echo "a licence" | tee hub/LICENSE >hub/LICENSE-MIT.txt
touch hub/.gitattributes hub/data/load.py
printf 'Obj\001....' | tee hub/data/0.avro >hub/data/1.avro
export_it="hub/data/0.avro is an Avro file; export its text as JSON Lines, e.g. \`avro-tools tojson hub/data/0.avro\`"
helps "hub has no text but 2 .avro files: $export_it" hub
expect 215 "$export_it" "$BEVATRON" preprocess --input hub --output-prefix p --tokenizer-type NullTokenizer --vocab-size 9
expect 215 "$export_it" "$BEVATRON" preflight "${size[@]}" "${short[@]}" --data-path hub --tokenizer-type NullTokenizer --vocab-size 9
# With text beside it: the text is read, the rest is counted and named, on every run and in all commands alike.
words 1 300 | as_json >hub/data/train.jsonl
for turn in first second; do
    expect 0 "iteration        2/" "${auto[@]}" hub
    grep -qF "warning: 2 .avro files left out of hub: $export_it" out &&
        grep -qF "note: left out of hub: LICENSE, LICENSE-MIT.txt, README.md, dataset_infos.json, 2 hidden files, 1 .py file" out && pass || fail "what is left out, in the $turn run"
done
expect 0 "2 .avro files left out of hub" "$BEVATRON" preprocess --input hub --output-prefix p --vocab-file hub/.bevatron-cache/tokenizer-*/vocab.json \
    --merge-file hub/.bevatron-cache/tokenizer-*/merges.txt
grep -q "^300 documents" out && pass || fail "preprocess read other files"
expect 0 "hub: text, which train tokenizes first; files: 1" "$BEVATRON" preflight "${size[@]}" "${short[@]}" --data-path hub \
    --vocab-file hub/.bevatron-cache/tokenizer-*/vocab.json --merge-file hub/.bevatron-cache/tokenizer-*/merges.txt
grep -q "2 .avro files left out of hub" out && pass || fail "preflight does not name what is left out"
# Addresses of such files, and of none.
expect 215 "https://e.org/0.avro is an Avro file; export its text" "${auto[@]}" https://e.org/0.avro
expect 215 "s3://b/t.docx is a document" "${auto[@]}" s3://b/t.docx
for page in "https://github.com/o/n is a page of GitHub, not a file here; clone its repository" \
    "git@github.com:o/n.git is a repository, not a file here; clone it: \`git clone git@github.com:o/n.git\`" \
    "https://www.kaggle.com/datasets/o/n is a page of Kaggle" "https://drive.google.com/file/d/1/view is on Google Drive" \
    "https://huggingface.co/datasets/o/n is on Hugging Face, not a file here; download it: \`hf download o/n --repo-type dataset" \
    "hf://datasets/o/n is on Hugging Face, not a file here; download it: \`hf download o/n --repo-type dataset"; do
    expect 1 "$page" "${auto[@]}" "${page%% *}"
    expect 1 "$page" "$BEVATRON" tokenizer train --input "${page%% *}" --vocab-size 300 --output-prefix q
done
expect 1 "https://e.org/page is an address, not a dataset here; copy its .bin and .idx files" "${auto[@]}" https://e.org/page
# A clone without git-lfs has pointers.
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n' | tee lfs.jsonl lfs.parquet >hub/data/0.avro
helps "lfs.jsonl is a Git LFS pointer, not the file itself; fetch the file: \`git lfs pull\`" lfs.jsonl
helps "lfs.parquet is a Git LFS pointer" lfs.parquet
expect 0 "hub/data/0.avro is a Git LFS pointer, not the file itself; fetch" "${auto[@]}" hub

# ---- tables, pages, documents ----

printf 'id,text\n1,"a cat, and\na dog"\n2,a bird\n3,a cow\n' | tee t.csv >table.txt
printf 'id\ttext\n1\ta cat\n2\ta bird\n3\ta cow\n' | tee t.tsv >tabs.txt
helps "table.txt is a CSV table; give it a name that ends in .csv, and name its column with --json-keys" table.txt
helps "tabs.txt is a table of tab-separated values; give it a name that ends in .tsv" tabs.txt
gzip -k t.csv
printf '[{"id": 1, "text": "a cat, and\\na dog"},\n {\n  "text": "a bird"\n }, "a cow"]\n' >array.json
printf '{"text": "a cat, and\\na dog"}\n{"text": "a bird"}\n{"text": "a cow"}\n' >same.jsonl
byte_bpe=("$BEVATRON" preprocess --vocab-file "$OLDPWD/tests/golden/bpe/vocab.json" --merge-file "$OLDPWD/tests/golden/bpe/merges.txt")
expect 0 "3 documents" "${byte_bpe[@]}" --input same.jsonl --output-prefix same
for name in t.csv t.tsv t.csv.gz array.json; do
    [ "$name" = t.tsv ] && printf 'id\ttext\n1\t"a cat, and\na dog"\n2\ta bird\n3\ta cow\n' >t.tsv
    expect 0 "3 documents" "${byte_bpe[@]}" --input "$name" --output-prefix read --restart
    cmp same_text_document.bin read_text_document.bin && cmp same_text_document.idx read_text_document.idx && pass || fail "$name differs from its JSON Lines"
done
for name in t.csv table.txt; do
    "${byte_bpe[@]}" --input - --output-prefix piped <"$name" >out 2>&1
    grep -q "standard input:1: this is a CSV table; give it a name that ends in .csv" out && pass || fail "a table on standard input"
done
helps "t.csv has no column \"body\" of text, only id, text; name the column that holds the text with --json-keys" t.csv --json-keys body
# Bad rows are bad lines.
printf 'id,text\n1,a cat\n2,a dog, too\n3,"a "bird\n4,a cow\n' >bad.csv
expect 215 "bad.csv:2: the row at line 3 of the file has 3 fields, but the header 2; fields with separators" "${byte_bpe[@]}" --input bad.csv --output-prefix bad
expect 0 "2 documents" "${byte_bpe[@]}" --input bad.csv --output-prefix bad --restart --skip-bad-lines
grep -q "bad.csv:3: line 4 of the file has text after the quote" bad_bad_lines.txt && pass || fail "the list of bad rows"
# The rows of a folder, and of a file that train reads.
mkdir tables && for i in $(seq 200); do cat t.csv; done | awk 'NR == 1 || !/^id,text/' >tables/t.csv
expect 0 "iteration        2/" "${auto[@]}" tables
expect 0 "" "$BEVATRON" tokenizer train --input tables/t.csv --vocab-size 300 --save tables/tokenizer
printf '\n<!DOCTYPE html>\n<html><body>Text</body></html>\n' >page.txt
helps "page.txt is an HTML page; extract its text" page.txt
printf '%%PDF-1.4\n' >paper.pdf
helps "paper.pdf is a PDF file; extract its text, e.g. \`pdftotext paper.pdf\`" paper.pdf
# Prose with commas and tabs stays prose.
printf 'Hark, hark\nBow-wow, the\nwatch-dogs, bark\nCock-a-diddle, dow\n' >song.txt
printf 'Tom, Dick, Harry\nare here, and there, too\nas always, at noon, we eat\n' >names.txt
for i in $(seq 30); do cat names.txt song.txt; done >prose.txt
expect 0 "iteration        2/" "${auto[@]}" prose.txt

# ---- JSON of other shapes ----

printf '{"messages": [{"role": "user", "content": "a cat?"}, {"role": "assistant", "content": "a dog"}]}\n' >chat.jsonl
printf '{"conversations": [{"from": "human", "value": "a cat?"}]}\n' >share.jsonl
printf '{"instruction": "say", "input": "", "output": "a cat"}\n' >alpaca.jsonl
helps "chat.jsonl:1: this is chat data; make text of it: \`jq -c '(arrays[], objects) | {text: ([.messages[] | .role + " chat.jsonl
helps "share.jsonl:1: this is chat data; make text of it: \`jq -c '(arrays[], objects) | {text: ([.conversations[] | .from + " share.jsonl
helps "alpaca.jsonl:1: this is instructions; make text of it: \`jq -c" alpaca.jsonl
expect 215 "chat.jsonl:1: this is chat data; make text of it" "${auto[@]}" chat.jsonl --json-keys messages
if command -v jq >/dev/null; then
    bash -c "$(sed -n 's/.*make text of it: `\(.*\)`.*/\1/p' out | sed 's/FILE/chat.jsonl/')"
    [ "$(cat LINES.jsonl)" = '{"text":"user: a cat?\nassistant: a dog"}' ] && pass || fail "the command for chats"
    (echo '['; cat chat.jsonl; echo ']') >chats.json
    expect 215 "chats.json:1: this is chat data" "${auto[@]}" chats.json
    bash -c "$(sed -n 's/.*make text of it: `\(.*\)`.*/\1/p' out | sed 's/FILE/chats.json/')"
    [ "$(cat LINES.jsonl)" = '{"text":"user: a cat?\nassistant: a dog"}' ] && pass || fail "the command for an array of chats"
fi

# ---- tokens of other programs ----

# Ids 640, 7, the end, 8, 9: as in nanoGPT's prepare.py; a shard of llm.c begins with 20240520.
printf '\200\002\007\000\120\304\010\000\011\000' >train.bin
tokens="copy both files, or import tokens of nanoGPT: \`bevatron dataset import --nanogpt train.bin --output-prefix train_document\`"
for name in train train.bin; do expect 1 "$tokens" "${train[@]}" --data-path "$name" --tokenizer-type NullTokenizer --vocab-size 60000; done
expect 0 "2 documents, 2 sequences, 5 tokens (uint16)" "$BEVATRON" dataset import --nanogpt train.bin --output-prefix train_document
[ "$("$BEVATRON" dataset peek train_document | grep -v === | tr '\n' ' ')" = "640 7 50256 8 9 " ] && pass || fail "the tokens of nanoGPT"
printf 'x' >>train.bin
expect 215 "train.bin has 11 bytes, which is not a number of 16-bit tokens" "$BEVATRON" dataset import --nanogpt train.bin --output-prefix b
cp "$OLDPWD/tests/golden/import/llmc_1.bin" shard.bin
for name in shard shard.bin; do
    expect 215 "shard.bin is a shard of llm.c; import it: \`bevatron dataset import --llmc shard.bin" "${train[@]}" --data-path "$name" --tokenizer-type NullTokenizer --vocab-size 60000
done
expect 215 "shard.bin is a shard of llm.c; give it with --llmc" "$BEVATRON" dataset import --nanogpt shard.bin --output-prefix b

# ---- no text at all ----

printf '\211PNG\r\n\032\n' >picture.txt
printf '\177ELF\002\001\001' >program
printf '\200\004\225\001' >data.pkl
{ words 1 9; printf 'a \000 byte\n'; } >zero.txt
{ words 1 300; printf 'a \000 byte\n'; } >late.txt
awk 'BEGIN { for (i = 0; i < 300; i++) printf "%c%c", 200 + i % 40, 97 + i % 9 }' | LC_ALL=C tr -d '\000-\040' >latin.txt
expect 0 "successfully saved" "${auto[@]}" prose.txt --save scored
expect 215 "picture.txt is a PNG picture" "$BEVATRON" evaluate --load scored --text picture.txt
expect 1 "https://huggingface.co/datasets/o/n is on Hugging Face" "$BEVATRON" evaluate --load scored --text https://huggingface.co/datasets/o/n
# A compressed text is the text.
if "$BEVATRON" version | grep -q "ZLIB *yes"; then
    gzip -k prose.txt
    expect 0 "" "$BEVATRON" evaluate --load scored --text prose.txt --device cpu
    grep "^loss" out >want
    expect 0 "$(cat want)" "$BEVATRON" evaluate --load scored --text prose.txt.gz --device cpu
fi
helps "picture.txt is a PNG picture" picture.txt
helps "program is a program" program
helps "data.pkl is a Python pickle; load it in Python and write its text as JSON Lines" data.pkl
helps "zero.txt is not text: it has NUL bytes; check the path; \`tr -d '\\0' <zero.txt >OUT\` drops them" zero.txt
helps "late.txt:301: byte 2 of the line is NUL" late.txt
LC_ALL=C awk 'BEGIN { for (i = 0; i < 300; i++) printf "\317\360\350 " }' >koi.txt
helps "koi.txt is not text in UTF-8; convert text of another encoding: \`iconv -f ENCODING -t utf-8 koi.txt" koi.txt
printf '\n  \n\t\n' >blank.txt
echo '{"text": "  "}' >blank.jsonl
: >empty.txt
for name in blank.txt blank.jsonl; do helps "$name: no text to train on, only blanks" "$name"; done
helps "empty.txt: no text to train on" empty.txt
for command in preprocess tokenizer; do
    case $command in
    preprocess) blank=(preprocess --input-format text --output-prefix q --tokenizer-type HuggingFaceTokenizer --tokenizer-model hub/.bevatron-cache/tokenizer-*) ;;
    *) blank=(tokenizer train --output-prefix q --vocab-size 300) ;;
    esac
    expect 215 ", only blanks" "$BEVATRON" "${blank[@]}" --input blank.txt
done
# A few bytes are replaced; the remark stays when the cache is warm.
{ words 2 90; printf 'caf\351\n'; } >cafe.txt
for turn in cold warm; do
    expect 0 "warning: cafe.txt has 1 lines that are not UTF-8; such bytes were replaced" "${auto[@]}" cafe.txt
    [ "$turn" = cold ] || lacks "tokenized"
done

# ---- small texts: notes and a page ----

mkdir notes
for i in 1 2 3 4 5 6 7 8; do { echo "# Note $i"; words "$i" 20; } >"notes/$i.md"; done
echo "What these notes are about" >notes/README.md
expect 0 "tokenized notes: 8 documents" "${auto[@]}" notes
grep -q "note: left out of notes: README.md$" out && pass || fail "the README of the notes"
# A pattern finds the same files.
expect 0 "iteration        2/" "${auto[@]}" 'notes/*.md'
lacks "tokenized"
grep -q "note: left out of notes/\*.md: README.md$" out && pass || fail "the README that a pattern matches"
expect 0 "tokenized notes/READ*: 1 documents" "${auto[@]}" 'notes/READ*' --split 1 --eval-iters 0
# Also where the shell has expanded it; with a weight everything counts.
expect 0 "note: left out of the files given: README.md" "${auto[@]}" notes/*.md
expect 0 "note: left out of the files given: README.md" "${byte_bpe[@]}" --input-format text --input notes/*.md --output-prefix notes
grep -q "^8 documents" out && pass || fail "preprocess read the README that the shell had matched"
expect 0 "tokenized notes/README.md: 1 documents" "${auto[@]}" 0.1 notes/README.md 0.9 prose.txt --split 1 --eval-iters 0
# 5 KB: cut at every KB. Validation has ten windows or none, and an evaluation reads no window twice unless it is told to.
words 5 150 | head -c 5000 >five.txt
expect 0 "tokenized five.txt: 5 documents" "${auto[@]}" five.txt
lacks "there is no validation"
if "$BEVATRON" version | grep -q "ZLIB *yes"; then
    gzip -c five.txt >five.gz
    expect 0 "tokenized five.gz: 5 documents" "${auto[@]}" five.gz
    expect_same .bevatron-cache/five.txt-*/data_text_document.idx .bevatron-cache/five.gz-*/data_text_document.idx "documents of a compressed text"
    expect 0 "building the sample index of the valid split" "${auto[@]}" five.txt --seed 5
fi
windows=$(sed -n 's/building the sample index of the valid split.* \([0-9]*\) tokens, [0-9]* epochs.*/\1/p' out)
[ "$((${windows:-0} / 16))" -ge 10 ] && pass || fail "validation has $windows tokens"
expect 0 "there is no validation: a tenth of the documents has fewer than 10 windows of 256 tokens" "${auto[@]}" five.txt --seq-length 256
lacks "validation loss"
expect 0 "the validation set repeats: it has" "${auto[@]}" five.txt --eval-iters 500
grep -Eq "the validation set repeats: it has [0-9]+ windows of 16 tokens, and an evaluation reads 1000; --eval-iters [0-9]+ reads it once" out && pass || fail "how to read it once"
expect 0 "with which an evaluation reads the validation set once" "$BEVATRON" train "${size[@]}" "${own[@]}" --data-path five.txt --exit-interval 1 --micro-batch-size 4
lacks "repeats"
# A user's shares stay.
expect 0 "building the sample index of the valid split" "${auto[@]}" five.txt --split 60,40,0
lacks "chosen for this run: --split"
# A run that resumes keeps the shares it began with, whatever the text would get now.
expect 0 "chosen for this run: --split 900, 100, 0, so that validation has 10 windows of 16 tokens or more" "${auto[@]}" five.txt --save run
words 3 2000 >>five.txt
expect 0 "successfully loaded" "${auto[@]}" five.txt --save run --load run --train-iters 4 --override-opt_param-scheduler --allow-changed-data
grep -q "settings differ.*--split\|chosen for this run: --split" out && fail "the shares of a resumed run" || pass

# ---- words of other programs ----

# answers CODE TEXT ARGUMENT...: one line that has the text.
answers() {
    expect "$1" "$2" "$BEVATRON" "${@:3}"
    [ "$(grep -c . out)" = 1 ] && pass || fail "${*:3}: not one line"
}
words 1 300 | as_json >lines.jsonl
answers 2 'no command "finetune"; use `bevatron train --load MODEL --finetune`' finetune
answers 2 'no command "chat"; use `bevatron generate' chat
answers 2 'no command "serve"; write the model for a server with `bevatron checkpoint convert`: --to gguf' serve
answers 2 'no command "download"; download models and datasets with `hf download' download gpt2
answers 2 'no command "convert"; use `bevatron checkpoint convert`' convert run hf
answers 2 'no command "-v"; use `bevatron version`' -v
answers 2 'no command "--preset"; a command comes first, as in `bevatron train' --preset cpu-3m
expect 2 'no command "checkpoint list"; use `bevatron checkpoint inspect`' "$BEVATRON" checkpoint list x
expect 2 'no command "checkpoint export"; use `bevatron checkpoint convert`' "$BEVATRON" checkpoint export x
answers 2 'unexpected argument "Hello": tokenizer encode takes only flags; text and ids are read from standard input: put `echo WORDS |`' tokenizer encode Hello
answers 2 'read from standard input' tokenizer decode 1 2
answers 2 '--help takes no value' train --help=all
answers 2 '--logdir five.txt is a file; give the folder of a run' board --logdir five.txt
answers 2 'unknown flag --tp; leave it out: every layout of ranks reads every checkpoint' checkpoint reshard --input run --output x --tp 2
answers 2 'unexpected argument "Once upon": generate takes only flags; the text to continue is --prompt TEXT' generate --load run "Once upon"
answers 2 'unknown flag -p; use --prompt' generate --load run -p Once
answers 2 '--warmup is the old name of --lr-warmup-fraction: --lr-warmup-fraction takes a number, from 0 to less than 1, not "100"' train --warmup 100
answers 2 '--tokenizer-type gpt2 is not a tokenizer type; did you mean GPT2BPETokenizer?' preprocess --input lines.jsonl --output-prefix p --tokenizer-type gpt2
answers 2 '--tokenizer-model gpt2 is for another --tokenizer-type: HuggingFaceTokenizer' preprocess --input lines.jsonl --output-prefix p --tokenizer-model gpt2
answers 2 'unknown flag --stream; leave it out: texts appear as they are written' generate --load run --stream
answers 2 'unknown flag --file; give the file on standard input: every line is a prompt' generate --load run --file five.txt
answers 2 'unknown flag --output-dir; use --save: a folder' tokenizer train --input five.txt --output-dir x --vocab-size 300
answers 2 'unknown flag --val_fraction; use --split' train --val_fraction 0.1
answers 2 'unknown flag --shuffle; leave it out: documents are shuffled, by --seed' train --shuffle
expect 2 'no command "dataset info"; use `bevatron dataset inspect`' "$BEVATRON" dataset info x
answers 2 'unexpected argument "lines.jsonl": train takes only flags; text or a dataset is --data-path PATH' train lines.jsonl
answers 2 'unexpected argument "—train-iters": train takes only flags; it begins with a typographic dash' train —train-iters
expect 2 'unexpected argument "gpt3": plan takes only flags; a published size is --preset NAME' "$BEVATRON" plan gpt3
answers 2 '--device takes one of auto, cpu, cuda, not "gpu": give cuda' train --device gpu
answers 2 'not "cuda:0": give cuda, and choose GPUs with CUDA_VISIBLE_DEVICES' train --device cuda:0
mkdir -p models/tiny
for name in models/tiny notes meta-llama/Llama-3.1-8B; do
    answers 2 "not \"$name\": the folder of a model is --load FOLDER" generate --model "$name" --prompt hi
done
answers 1 "cannot read five.txt: it is text, not a safetensors file; give a checkpoint's folder" checkpoint inspect five.txt
for command in "launch local" "launch slurm" train; do
    # shellcheck disable=SC2086  # two words
    answers 2 'unexpected argument "job.sh": train takes only flags; give the flags of train, which a script repeats' $command job.sh
done
answers 2 'unexpected argument "ds.json": train takes only flags; a file of flags is --config FILE, DeepSpeed'"'s --deepspeed --deepspeed-config FILE" \
    train --deepspeed ds.json
answers 2 'not "pytorch": give huggingface' checkpoint convert --input run --to pytorch --output x
answers 2 'unknown flag --load; use --input' checkpoint convert --load run --input run --output x
expect 2 'unknown flag --num-fewshot; use --num-shots' "$BEVATRON" evaluate --load run --tasks hellaswag --num-fewshot 5
expect 2 '--tokenizer-type auto is for train with text; here, train a tokenizer first' "$BEVATRON" preprocess --input lines.jsonl \
    --output-prefix p --tokenizer-type auto
printf '[model]\nlayers = 2\n' >run.toml
answers 2 '--config reads flags and their values in YAML or JSON, not run.toml' train --config run.toml
printf 'epochs: 2\ntrain-iters: 3\n' >length.yaml
expect 0 "note: the file gives the length twice; its iterations or samples count, not epochs" "$BEVATRON" train "${size[@]}" "${own[@]}" \
    --data-path five.txt --config length.yaml
grep -q "iteration        3/       3" out && pass || fail "the length of a file that gives two"
expect 0 "note: the job is one rank on one machine; --nodes N --machine TYPE ask for more" "$BEVATRON" launch slurm "${size[@]}" "${own[@]}" \
    --data-path five.txt --config length.yaml --dry-run
expect 0 "#SBATCH --nodes=2" "$BEVATRON" launch slurm --nodes 2 "${size[@]}" "${own[@]}" --data-path five.txt --config length.yaml --dry-run
lacks "ask for more"
printf 'GGUF\003\0\0\0' >m.gguf
expect 216 'm.gguf is a GGUF file, which is only written' "$BEVATRON" checkpoint convert --input m.gguf --output x
expect 1 'lines.jsonl,b.jsonl does not exist; separate several paths by spaces' "${auto[@]}" lines.jsonl,b.jsonl
echo '{"text": null}' >null.jsonl
helps "null.jsonl:1: valid JSON, but \"text\" is null, not a string; drop such lines: jq -c 'select(.text)'" null.jsonl
printf 'PK\003\004aaaaaaaa' | tee book.docx >table.xlsx
helps 'book.docx is a document; extract its text: `pandoc -t plain book.docx' book.docx
helps 'table.xlsx is a spreadsheet; save its table as CSV' table.xlsx
finish
