#!/usr/bin/env bash
# label: slow
# The documents are correct: their commands run as printed (docs.sh says which blocks), with small models; the flags,
# links, make targets and build options that they name exist. docs/prepare-data.md has its own test, and so have commands
# that start ranks: test_docs_ranks.sh runs this script with BEVATRON_DOCS_RANKS=yes, for their stories only.
# cost: 20
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/cli/docs.sh || exit

ranks=${BEVATRON_DOCS_RANKS:+1}

# A stand-in for `bevatron` on a page: the same command, with a model and a run that finish at once (the last of equal
# flags counts), from a file where the page has an address, and without starting anything on a cluster.
mkdir "$work/bin"
cat >"$work/bin/bevatron" <<'PROGRAM'
#!/usr/bin/env bash
warmup=
[[ " $* " == *" --lr-warmup-iters "* ]] && warmup="--lr-warmup-iters 1"
case "$1 ${2:-}" in
train*) set -- "${@/#https:*/books.jsonl}" ;;
esac
case "$1 ${2:-}" in
train* | "launch local") set -- "$@" --num-layers 2 --hidden-size 32 --ffn-hidden-size 64 --num-attention-heads 8 --kv-channels 4 --seq-length 32 \
    --max-position-embeddings 128 --micro-batch-size 2 --global-batch-size 8 --train-iters 3 --lr 1e-3 --eval-iters 1 \
    --save-interval 2 --device cpu --threads 1 $warmup ;;
generate*) set -- "$@" --max-new-tokens 8 --device cpu ;;
evaluate*) set -- "$@" --device cpu ;;
"bench matmul" | "bench step") set -- "$@" --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 \
    --micro-batch-size 2 --vocab-size 256 --device cpu --threads 1 ;;
bench*) set -- "$@" --max-bytes 65536 ;;
launch*) set -- "$1" "$2" --dry-run "${@:3}" ;;
esac
exec "$BEVATRON_REAL" "$@"
PROGRAM
chmod +x "$work/bin/bevatron"
export BEVATRON_REAL=$real PATH="$work/bin:$PATH"
# Allow more ranks than cores, and any user.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
    OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
# What … stands for on a page.
export rest
mock="--mock-data --tokenizer-type NullTokenizer --vocab-size 500"

# dataset NAME: from the made corpus, with the story's tokenizer.
dataset() {
    "$real" preprocess --input books.jsonl --output-prefix "$1" --append-eod --vocab-file books-vocab.json --merge-file books-merges.txt
}

prepare_readme() {
    make_jsonl >books.jsonl
}

prepare_training() {
    make_jsonl >books.jsonl
    "$real" tokenizer train --input books.jsonl --vocab-size 400 --output-prefix books
    dataset books
    dataset other
    head -20 "$golden/bpe/corpus.txt" >book.txt
    printf ' \n = one two = \n \n three , four @-@ five . six \n' >wiki.test.tokens
    echo '{"text": "The end of it all was the end."}' >lambada_test.jsonl
    printf 'Once upon a time\nThere was\n' >prompts.txt
    bevatron train --model t5 --decoder-seq-length 16 --mock-data --vocab-file "$golden/wordpiece/vocab.txt" --vocab-extra-ids 100 --save t5
}

prepare_plan() {
    :
}
prepare_models() {
    true
}

prepare_watch() {
    # shellcheck disable=SC2086  # flags
    bevatron train $mock --save run
}

prepare_events() {
    true
}

prepare_samples() {
    cp "$golden/wordpiece/vocab.txt" vocab.txt
    cp "$golden/bpe/vocab.json" encoder.json
    cp "$golden/bpe/merges.txt" vocab.bpe
    cp "$golden/fairseq/bpe.txt" dict.txt
    make_jsonl >books.jsonl
    "$real" preprocess --input books.jsonl --output-prefix my --split-sentences --tokenizer-type BertWordPieceLowerCase --vocab-file vocab.txt
    "$real" preprocess --input books.jsonl --output-prefix wiki --append-eod --tokenizer-type FairseqTokenizer --tokenizer-model dict.txt \
        --vocab-file encoder.json --merge-file vocab.bpe
}

prepare_ict() {
    cp "$golden/wordpiece/vocab.txt" vocab.txt
    make_jsonl | sed -E 's/^\{"text": "([^ "]*)/{"title": "\1", "text": "\1/' >wiki.jsonl
}

prepare_blends() {
    make_jsonl >books.jsonl
    "$real" tokenizer train --input books.jsonl --vocab-size 400 --output-prefix books
    for name in books wiki held_out other; do
        "$real" preprocess --input books.jsonl --output-prefix $name --append-eod --vocab-file books-vocab.json --merge-file books-merges.txt
        mv ${name}_text_document.bin $name.bin
        mv ${name}_text_document.idx $name.idx
    done
    echo "30 books 70 wiki" >words.txt
    echo '{"train": ["3", "books", "7", "wiki"], "valid": ["held_out"]}' >splits.json
}

prepare_foreign() {
    prepare_blends
    dataset books
    head -20 "$golden/bpe/corpus.txt" >book.txt
    for name in gpt llama; do
        bevatron train --model $name --data-path books_text_document --vocab-file books-vocab.json --merge-file books-merges.txt --save $name.ours
        "$real" checkpoint convert --input $name.ours --output $name.theirs
    done
    mv gpt.theirs gpt2
    mv llama.theirs Llama-2-7b
}

prepare_migrating() {
    for _ in 1 2 3 4 5; do make_jsonl; done >books.jsonl
    "$real" tokenizer train --input books.jsonl --vocab-size 400 --output-prefix gpt2
    "$real" preprocess --input books.jsonl --output-prefix my-gpt2 --append-eod --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt
}

prepare_huggingface() {
    prepare_foreign
    cp books-tokenizer.json Llama-2-7b/tokenizer.json
}

prepare_layouts() {
    true
}

prepare_data() {
    make_jsonl >made.jsonl
    pack zstd made.jsonl corpus.jsonl.zst
    cp made.jsonl more.jsonl
    mkdir books
    pack xz "$golden/bpe/corpus.txt" books/a.txt.xz
    file gpt2/vocab.json bpe/vocab.json vocab.json
    file gpt2/merges.txt bpe/merges.txt merges.txt
    printf 'Once upon a time\nThere was\n' >prompts.txt
}

prepare_tokenizer() {
    file llama2/tokenizer.model spm/bpe.model tokenizer.model
}

prepare_dumps() {
    make_dump >dump.xml
    pack bzip2 dump.xml enwiki-latest-pages-articles-multistream.xml.bz2
    file gpt2/vocab.json bpe/vocab.json gpt2-vocab.json
    file gpt2/merges.txt bpe/merges.txt gpt2-merges.txt
}

prepare_clusters() {
    true
}

for page in README.md docs/*.md; do
    [ "$page" = docs/prepare-data.md ] && continue
    for story in $(stories "$page"); do
        [ -z "$ranks" ] || grep -qx "<!-- run: $story ranks -->" "$page" || continue
        case $story in
        samples) rest= ;;
        blends) rest="--vocab-file books-vocab.json --merge-file books-merges.txt" ;;
        clusters) rest="$mock --preset gpt2-124m --micro-batch-size 4 --global-batch-size 128 --train-iters 10 --lr 1e-3" ;;
        *) rest=$mock ;;
        esac
        run_story "$page" "$story"
    done
done

[ -z "$ranks" ] || finish
# Everything that looks like one of our commands is checked.
pages=(README.md CONTRIBUTING.md docs/*.md docs/internals/*.md)
# These have blocks that need no mark; flags, links and paths are checked.
example_pages=(examples/*/*.md)
for page in "${pages[@]}"; do unmarked "$page"; done >"$work/out"
[ ! -s "$work/out" ] && pass || fail "blocks that do not say whether they are run (tests/cli/docs.sh)"

# Flags: ours as printed by the commands, Megatron's from docs/flags.md and the tables behind it, the benchmarks', and
# other programs'.
words() {
    grep -hoE -- '(^|[^-A-Za-z0-9])--[A-Za-z][A-Za-z0-9_-]*' "$@" | sed 's/^[^-]*//' | sort -u
}
: >"$work/bare"
while read -r command; do
    # shellcheck disable=SC2086  # words of a command
    "$BEVATRON" $command --help-all >"$work/one"
    grep -qi example "$work/one" || echo "$command" >>"$work/bare"
    cat "$work/one"
done >"$work/help" 2>&1 <<'COMMANDS'
train
evaluate
generate
preprocess
extract wiki
tokenizer train
tokenizer dictionary
tokenizer encode
tokenizer decode
tokenizer inspect
dataset inspect
dataset verify
dataset merge
dataset peek
dataset import
checkpoint inspect
checkpoint verify
checkpoint convert
checkpoint reshard
checkpoint average
board
migrate
launch local
launch slurm
launch kubernetes
launch keeper
launch decide
launch progress
launch kubernetes getdata
preflight
plan
bench collectives
bench matmul
bench step
cluster create
cluster build-image
cluster export
cluster ssh
cluster logs
cluster prepare
cluster convert
cluster volume
cluster push-image
COMMANDS
cat >"$work/others" <<'OTHERS'
Chromium: --headless --print-to-pdf
CMake: --build --install --prefix --strip --target --test-dir
Open MPI: --quiet
Slurm: --auto-resume --batch --clusters --comment --exclude --kill-on-bad-exit --mail-type --mem --overlap --signal
fairseq: --keep-empty --only-source --required-batch-size-multiple --srcdict --task
dpkg: --force-depends
ld: --defsym --dynamic-list --wrap
nsys: --capture-range --capture-range-end
pip: --find-links
torch: --local_rank --nproc_per_node
dpkg: --force-depends
util-linux: --as
zstd: --long
OTHERS
"$BEVATRON" help >>"$work/help"
words "$work/help" "$work/others" docs/flags.md src/config/flags_megatron.c bench/*.c bench/*.py >"$work/known"
# The pages about other programs also have their flags: docs/migrating.md those that the program answers with its own.
{ cat "$work/known"; words src/config/flags_synonyms.c; } | sort -u >"$work/answered"
{
    words $(printf '%s\n' "${pages[@]}" "${example_pages[@]}" | grep -vxE "docs/migrating.md|examples/aws/README.md") | comm -23 - "$work/known"
    words docs/migrating.md | comm -23 - "$work/answered"
} >"$work/out"
[ ! -s "$work/out" ] && pass || fail "flags that do not exist"
cp "$work/bare" "$work/out"
[ ! -s "$work/out" ] && pass || fail "commands whose --help has no example"

# Links within the repository, and the headings they lead to, as GitHub names them.
for page in "${pages[@]}" CHANGELOG.md bench/*.md "${example_pages[@]}"; do
    grep -oE '\]\([^)]+\)' "$page" | sed 's/^](//; s/)$//' | grep -vE '^(https?|mailto):' | while read -r link; do
        target=$(dirname "$page")/${link%%#*}
        [ "${link%%#*}" = "" ] && target=$page
        [ -e "$target" ] || echo "$page: $link"
        if [[ $link == *#* ]]; then
            sed -nE '/^```/,/^```/d; s/^#+ //p' "$target" | tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9_ -]//g; s/ /-/g' |
                grep -qx -- "${link#*#}" || echo "$page: no heading for $link"
        fi
    done
done >"$work/out"
[ ! -s "$work/out" ] && pass || fail "links that lead nowhere"

# Make targets in code, build options, source files, and folders of the tour.
awk '/^```/ { inside = !inside } { print (inside ? "`" : "") $0 }' "${pages[@]}" | grep -oE '`make [a-z][a-z-]*' | sed 's/.*make //' | sort -u | while read -r target; do
    grep -qE "^$target:" Makefile || echo "make $target"
done >"$work/out"
grep -ohE -- '-DBEVATRON_[A-Z_]+|`BEVATRON_[A-Z0-9_]+`' "${pages[@]}" | tr -d '`' | sed 's/^-D//' | sort -u | while read -r option; do
    grep -qrE "$option|bevatron_feature\(${option#BEVATRON_}|\b${option#BEVATRON_}\b" CMakeLists.txt cmake || grep -qr "$option" tests bench src || echo "$option"
done >>"$work/out"
grep -ohE '\b(src|tests|bench|tools|examples|cmake)/[A-Za-z0-9_./-]*[A-Za-z0-9_]' "${pages[@]}" "${example_pages[@]}" | sort -u | while read -r path; do
    [[ -e $path || $path == *[/_]x.c ]] || compgen -G "$path*" >/dev/null || echo "$path"
done >>"$work/out"
for folder in src/*/; do
    grep -qE "^[0-9]+\. \`${folder%/}\`" docs/internals/architecture.md || echo "the tour in architecture.md lacks ${folder%/}"
done >>"$work/out"
[ ! -s "$work/out" ] && pass || fail "what the documents name and the repository lacks"

# Nine fields in every line, with the quotes within them doubled.
for table in docs/reliability.csv docs/reliability_gpu.csv; do
    [ ! -e "$table" ] || tail -n +2 "$table" |
        grep -vE '^[0-9]+,"([^"]|"")*",(pass|fail|not run),[0-9.]*,[0-9.]*,[0-9]*,"([^"]|"")*",[0-9-]{10},"[^"]*"$' >"$work/out"
    [ ! -s "$work/out" ] && pass || fail "lines of $table that no program reads"
done
finish
