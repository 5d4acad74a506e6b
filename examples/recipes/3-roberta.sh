#!/usr/bin/env bash
# RoBERTa-large on the words of WikiText-103, on a Slurm cluster of AWS ParallelCluster: the steps of 3-roberta.md.
#
#   examples/recipes/3-roberta.sh STEP…       data cluster network prepare train result, in this order
#
# Run it in a folder of your own, the steps after `cluster` on the head node. Variables of the environment:
#   LUSTRE=/lustre            the shared file system, with text, data and checkpoints
#   PARTITION=queue1 NODES=2  where jobs run
#   MACHINE=p4d.24xlarge      the type of the nodes; empty: their CPUs, with RANKS ranks on each
#   CONFIG=FILE               the run; default: examples/aws/roberta-large-words-p4d.yaml
#   FLAGS="--train-iters 9"   flags of train that override those of the file
#   BUCKET=NAME               the bucket that is linked to LUSTRE, to which `data` copies the text
#   CLUSTER_FILE=FILE         the short file of `cluster`; default: roberta.yaml in this folder. If it does not exist it
#                             becomes a copy of examples/clusters/p4d-roberta.yaml with BUCKET in it
#   CREATE=yes                `cluster` completes that file from your account, uploads what machines install, and creates
#                             the cluster, which costs money; otherwise it only shows what the cluster would be
#   SOURCE=FILE               of `cluster`: a bevatron.tar that was made elsewhere; default: one of this git checkout
#   LARGEST=32M               the largest message of `network`
set -euo pipefail
export LUSTRE=${LUSTRE:-/lustre}
bevatron=${BEVATRON:-bevatron}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
text=$LUSTRE/wikitext-103
data=$LUSTRE/data/wikitext-103
config=${CONFIG:-$here/examples/aws/roberta-large-words-p4d.yaml}
nodes=${NODES:-2}
machine=${MACHINE-p4d.24xlarge}
ranks=${RANKS:-8}
partition=${PARTITION:-queue1}
read -r -a flags <<<"${FLAGS:-}"
fairseq=(--tokenizer-type FairseqTokenizer --tokenizer-model "$data/dict.txt")

data() {
    if ! [ -s "$text/wiki.train.tokens" ]; then
        wget -P "$LUSTRE" https://wikitext.smerity.com/wikitext-103-v1.zip
        unzip -d "$LUSTRE" "$LUSTRE/wikitext-103-v1.zip"
    fi
    [ -z "${BUCKET:-}" ] || aws s3 cp "$text" "s3://$BUCKET/wikitext-103" --recursive
    wc "$text"/wiki.*.tokens
}

# Machines install Bevatron when they start: from a tar file of its source, which packages do not bring.
upload() {
    local source=${SOURCE:-}
    if [ -z "$source" ]; then
        [ -e "$here/.git" ] || { echo "3-roberta.sh: $here is not a git checkout: set SOURCE to a bevatron.tar made in one" >&2 && exit 2; }
        source=$PWD/bevatron.tar
        git -C "$here" archive --prefix=bevatron/ --output="$source" HEAD
    fi
    aws s3 cp "$source" "s3://$BUCKET/bevatron.tar"
    aws s3 cp "$here/examples/images/node-setup.sh" "s3://$BUCKET/node-setup.sh"
}

cluster() {
    local file=${CLUSTER_FILE:-roberta.yaml}
    [ -s "$file" ] || sed "s/my-ml-bucket/${BUCKET:-my-ml-bucket}/g" "$here/examples/clusters/p4d-roberta.yaml" >"$file"
    if [ -n "${CREATE:-}" ]; then
        : "${BUCKET:?a bucket of yours, for the text and for what machines install}"
        if grep -q my-ml-bucket "$file"; then
            echo "3-roberta.sh: $file names the bucket my-ml-bucket of the example: write $BUCKET there" >&2
            exit 2
        fi
        "$bevatron" cluster prepare --config "$file"
        upload
    fi
    "$bevatron" cluster render --config "$file"
    [ -z "${CREATE:-}" ] || "$bevatron" cluster create --config "$file" --wait
}

# The nodes answer, and as fast as they should.
network() {
    local all=(srun --partition "$partition" --nodes "$nodes" --ntasks-per-node "$ranks" --mpi=pmix)
    srun --partition "$partition" --nodes "$nodes" hostname
    "${all[@]}" "$bevatron" bench collectives --operation all_reduce -b 8 -f 2 -e "${LARGEST:-32M}" -c 1
    [ -z "$machine" ] || "${all[@]}" "$bevatron" preflight --machine "$machine"
}

# A dictionary of the training text's words, and the three texts as its ids, on one node.
prepare() {
    local one=(srun --partition "$partition" --nodes 1 --ntasks 1 --exclusive) split
    mkdir -p "$data"
    "${one[@]}" "$bevatron" tokenizer dictionary --input "$text/wiki.train.tokens" --output "$data/dict.txt"
    for split in train valid test; do
        "${one[@]}" "$bevatron" dataset import --text "$text/wiki.$split.tokens" --output-prefix "$data/$split" "${fairseq[@]}"
    done
    "$bevatron" dataset verify "$data/train" "$data/valid" "$data/test"
}

# Submits the job and follows its log until it has ended. If it failed, so does this.
train() {
    local where=(--nodes "$nodes" --partition "$partition" --logs "$LUSTRE/logs")
    if [ -n "$machine" ]; then where+=(--machine "$machine"); else where+=(--ntasks-per-node "$ranks"); fi
    "$bevatron" launch slurm "${where[@]}" --watch --export "LUSTRE=$LUSTRE" --config "$config" "${flags[@]}"
}

result() {
    "$bevatron" checkpoint inspect "$LUSTRE/checkpoints"
    "$bevatron" checkpoint convert --input "$LUSTRE/checkpoints" --output "$LUSTRE/roberta" --to huggingface
}

[ $# -gt 0 ] || { sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }
for step in "$@"; do
    case $step in
    data | cluster | network | prepare | train | result) "$step" ;;
    *) echo "there is no step \"$step\"" >&2 && exit 2 ;;
    esac
done
