#!/bin/bash
# From an AWS account to a cluster of p4d.24xlarge with Wikipedia as a dataset: the steps of 0-ultracluster.md, one after
# the other. Without WHERE it rehearses them on this machine: nothing is created in AWS, and the dump is a small one.
# usage: examples/recipes/0-ultracluster.sh FOLDER                   rehearses
#        WHERE=account examples/recipes/0-ultracluster.sh FOLDER     steps 1 to 5 on your machine, with your credentials
#        WHERE=head examples/recipes/0-ultracluster.sh /lustre       steps 6 to 8 on the head node; `bevatron help files`
#                                                                    prints the folder of examples there
# Run account again after an error: FOLDER/NAME.yaml with your changes, the key and the bucket are kept.
# What the environment may say:
#   BUCKET REGION NAME   of account: a name for the new bucket, the region, the cluster's name
#   SOURCE               of account: a bevatron.tar that was made elsewhere; default: one of this git checkout
#   PARTITION            of head: the queue of the jobs; default: cpu
#   DUMP VOCABULARY      of head: where the dump, and the folder of vocab.json and merges.txt, are fetched from
set -euo pipefail
folder=${1:?usage: 0-ultracluster.sh FOLDER}
where=${WHERE:-rehearsal}
region=${REGION:-us-west-2}
name=${NAME:-ultra}
bevatron=${BEVATRON:-bevatron}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
partition=${PARTITION:-cpu}
dump_url=${DUMP:-https://dumps.wikimedia.org/enwiki/latest/enwiki-latest-pages-articles.xml.bz2}
vocabulary_url=${VOCABULARY:-https://huggingface.co/openai-community/gpt2/resolve/main}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd) # jobs need whole paths
short=$folder/$name.yaml
[ "$where" != rehearsal ] || short=$folder/rehearsal.yaml # made-up values, which must not reach an account

step() { printf '\n== %s\n' "$*"; }
# Says a command, then runs it.
run() {
    printf '+ %s\n' "$*"
    "$@"
}

describe() {
    step "1. The cluster, from a configuration of ParallelCluster 2"
    if [ "$where" = account ] && [ -s "$short" ]; then
        echo "$short is there already and stays as it is"
        return
    fi
    cat >"$folder/old.ini" <<INI
[aws]
aws_region_name = $region
[cluster $name]
key_name = <to be found>
base_os = alinux2
scheduler = slurm
master_instance_type = c5.4xlarge
master_root_volume_size = 128
compute_root_volume_size = 256
vpc_settings = found
scaling_settings = slow
queue_settings = gpu, cpu
fsx_settings = lustre
[vpc found]
master_subnet_id = <to be found>
compute_subnet_id = <to be found>
[scaling slow]
scaledown_idletime = 120
[queue gpu]
compute_resource_settings = p4d
enable_efa = true
enable_efa_gdr = true
placement_group = DYNAMIC
disable_hyperthreading = true
[compute_resource p4d]
instance_type = p4d.24xlarge
max_count = 16
[queue cpu]
compute_resource_settings = c5n
[compute_resource c5n]
instance_type = c5n.18xlarge
max_count = 2
[fsx lustre]
shared_dir = /lustre
storage_capacity = 1200
deployment_type = SCRATCH_2
INI
    rm -f "$short"
    run "$bevatron" cluster convert "$folder/old.ini" --output "$short"
}

# Machines build Bevatron from its source, which packages do not bring: said before anything is made in the account.
find_source() {
    : "${BUCKET:?a name for the new bucket}"
    source=${SOURCE:-$folder/bevatron.tar}
    if [ -n "${SOURCE:-}" ]; then
        [ -s "$SOURCE" ] || { echo "0-ultracluster.sh: SOURCE=$SOURCE: there is no such file" >&2 && exit 2; }
    elif ! [ -e "$here/.git" ]; then
        echo "0-ultracluster.sh: $here is not a git checkout: run this script in one, or set SOURCE to a bevatron.tar made there" \
            "(git archive --prefix=bevatron/ --output=bevatron.tar HEAD)" >&2
        exit 2
    fi
}

prepare() {
    step "2. Subnets, key pair, bucket, quotas"
    if [ "$where" = account ]; then
        # A walk that is run again finds the key and the bucket of the first.
        local new=()
        if ! grep -q '^key:' "$short"; then
            if [ -e ~/.ssh/"$name.pem" ]; then new+=(--key "$name"); else new+=(--create-key "$name"); fi
        fi
        if ! grep -qE '^(fsx-s3|bucket):' "$short"; then
            if aws s3api head-bucket --bucket "$BUCKET" >/dev/null 2>&1; then new+=(--fsx-s3 "s3://$BUCKET"); else new+=(--create-bucket "$BUCKET"); fi
        fi
        run "$bevatron" cluster prepare --config "$short" "${new[@]}"
        return
    fi
    # What it finds in an account, by made-up names.
    cat >>"$short" <<'FOUND'
head-subnet: subnet-0123456789abcdef0
subnet: subnet-0123456789abcdef1
key: my-key
fsx-s3: s3://my-bucket
FOUND
}

image() {
    step "3. Bevatron on every machine: installed when a machine starts"
    if [ "$where" = account ]; then
        [ -n "${SOURCE:-}" ] || run git -C "$here" archive --prefix=bevatron/ --output="$source" HEAD
        run aws s3 cp "$source" "s3://$BUCKET/bevatron.tar"
        run aws s3 cp "$here/examples/images/node-setup.sh" "s3://$BUCKET/node-setup.sh"
    fi
    grep -q '^on-node-configured:' "$short" || printf 'on-node-configured:\n  - s3://%s/node-setup.sh s3://%s/bevatron.tar /lustre/bevatron\n' "${BUCKET:-my-bucket}" "${BUCKET:-my-bucket}" >>"$short"
    run "$bevatron" cluster build-image --image-id "$name-1" --region "$region" --parent ami-0123456789abcdef0 --script s3://my-bucket/image.sh --dry-run
}

create() {
    step "4. The configuration, its cost, and the cluster"
    run "$bevatron" cluster render --config "$short" --output "$folder/$name.pcluster.yaml"
    if [ "$where" = account ]; then
        run "$bevatron" cluster create --config "$short" --output "$folder/$name.pcluster.yaml" --dry-run
        run "$bevatron" cluster create --config "$short" --output "$folder/$name.pcluster.yaml" --wait
        step "5. The head node"
        run "$bevatron" cluster status --config "$short"
        echo "next: $bevatron cluster ssh --config $short --key-file ~/.ssh/$name.pem, and there, in the folder of examples that \`bevatron help files\` prints:"
        echo "    WHERE=head recipes/0-ultracluster.sh /lustre"
    fi
}

# A dump of a few articles, as Wikimedia writes them.
small_dump() {
    {
        echo '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="en">'
        for i in $(seq 200); do
            echo "<page><title>Article $i</title><ns>0</ns><id>$i</id><revision><id>$i</id><text>'''Article $i''' is about [[number|the number]] $i. It follows article $((i - 1)) and comes before article $((i + 1)). Numbers such as $i, $((i * 7)) and $((i * i)) are counted in many languages.</text></revision></page>"
        done
        echo '</mediawiki>'
    } | bzip2 >"$1"
}

# On the cluster these are jobs of the cpu queue, each after the one before.
data() {
    local dump=$folder/data/wiki.xml.bz2 articles=$folder/data/wiki.jsonl job="" launch=("$bevatron")
    local tokens=(--output-prefix "$folder/data/my-gpt2" --append-eod --vocab-file "$folder/data/gpt2/gpt2-vocab.json"
        --merge-file "$folder/data/gpt2/gpt2-merges.txt")
    mkdir -p "$folder/data/gpt2"
    step "6. Text: a dump of Wikipedia, and the vocabulary of GPT-2"
    if [ "$where" = head ]; then
        run curl -fL --retry 10 -C - -o "$dump" "$dump_url"
        for file in vocab.json merges.txt; do
            run curl -fL --retry 10 -o "$folder/data/gpt2/gpt2-$file" "$vocabulary_url/$file"
        done
        step "7. Articles, one JSON object each, and 8. the dataset, as jobs"
        launch+=(launch slurm --partition "$partition" --logs "$folder/logs")
        job=$("${launch[@]}" --job-name extract extract wiki --input "$dump" --output "$articles")
        job=$("${launch[@]}" --after "$job" --job-name preprocess preprocess --input "$articles" "${tokens[@]}")
        echo "job $job makes $folder/data/my-gpt2_text_document: squeue --me shows whether it runs"
        return
    fi
    small_dump "$dump"
    step "7. Articles, one JSON object each"
    run "$bevatron" extract wiki --input "$dump" --output "$articles"
    run "$bevatron" tokenizer train --input "$articles" --vocab-size 400 --output-prefix "$folder/data/gpt2/gpt2"
    step "8. The dataset"
    run "$bevatron" preprocess --input "$articles" "${tokens[@]}"
    run "$bevatron" dataset inspect "$folder/data/my-gpt2_text_document"
}

# One call per line: bash ignores `set -e` in functions that && or || follow.
case $where in
rehearsal)
    describe
    prepare
    image
    create
    data
    ;;
account)
    find_source
    describe
    prepare
    image
    create
    ;;
head) data ;;
*) echo "0-ultracluster.sh: WHERE is account or head, or not set" >&2 && exit 2 ;;
esac
echo
echo "done: next 1-gpt2-8b.md"
