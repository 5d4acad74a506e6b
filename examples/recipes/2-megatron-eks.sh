#!/usr/bin/env bash
# GPT-3 and Llama-2 with Megatron's flags on Kubernetes (EKS), from an image to a PyTorchJob. The page is
# 2-megatron.md; its letters are those of the steps below.
#
#   examples/recipes/2-megatron-eks.sh [STEP…]
#
# Prints commands and manifests; APPLY=yes runs and applies them. Without steps all are taken. What the environment may
# say:
#   BEVATRON  the program; default: bevatron
#   APPLY     yes: push, apply and follow; default: print
#   WATCH     no: with APPLY=yes, do not follow the jobs; each step then needs the one before it to have ended
#   ACCOUNT   AWS account of the registry; REGION: its region, and that of the file system
#   FSX_ID    an FSx file system. With APPLY=yes these three and URLS are required; what is printed has examples.
#   MACHINE   instance type of the nodes; default: p4de.24xlarge. NODES: how many; default: 2
#   URLS      what getdata fetches: texts, and GPT-2's vocab.json and merges.txt
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
steps=" ${*:-a b c d e f} "
program=${BEVATRON:-bevatron}
if [ "${APPLY-}" = yes ]; then
    : "${ACCOUNT:?the AWS account of the registry}" "${REGION:?the region}" "${FSX_ID:?the FSx file system}" "${URLS:?what to fetch}"
    push=() volume=(--apply) launch=(--watch)
    [ "${WATCH-yes}" = yes ] || launch=()
else
    push=(--print) volume=(--dns-name fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com --mount-name abcd1234) launch=(--dry-run)
fi
account=${ACCOUNT:-123456789012}
region=${REGION:-us-west-2}
image=$account.dkr.ecr.$region.amazonaws.com/bevatron:v1
nodes=(--nodes "${NODES:-2}" --machine "${MACHINE:-p4de.24xlarge}" --toleration nvidia.com/gpu)
read -ra urls <<<"${URLS:-https://example.com/oscar.jsonl.xz https://example.com/vocab.json https://example.com/merges.txt}"

step() {
    [[ $steps == *" $1 "* ]] || return 1
    echo "# == $1. $2"
}
job() { "$program" launch kubernetes --image "$image" --claim fsx-claim "${launch[@]}" "$@"; }
bpe=(--vocab-file /fsx/raw/vocab.json --merge-file /fsx/raw/merges.txt)

if step a "the image, in the registry"; then
    # First: docker build -f examples/images/Dockerfile -t bevatron:v1 .
    "$program" cluster push-image --image bevatron:v1 --account "$account" --region "$region" "${push[@]}"
fi

if step b "FSx for Lustre as a claim"; then
    "$program" cluster volume --fsx-id "${FSX_ID:-fs-0123456789abcdef0}" --region "$region" "${volume[@]}"
fi

if step c "text and vocabulary, to the claim"; then
    job getdata --url "${urls[@]}" --to /fsx/raw
fi

if step d "preprocessing: .xz is read as it is"; then
    job preprocess --input '/fsx/raw/*.jsonl.xz' --output-prefix /fsx/gpt --append-eod "${bpe[@]}"
fi

if step e "GPT-3 as a PyTorchJob"; then
    job --kind pytorchjob "${nodes[@]}" --job-name gpt3 --config "$here/examples/aws/gpt3-slurm.yaml" \
        --data-path /fsx/gpt_text_document "${bpe[@]}" --save /fsx/gpt3
fi

if step f "Llama-2 as a PyTorchJob"; then
    job --kind pytorchjob "${nodes[@]}" --job-name llama2 --config "$here/examples/aws/llama2-7b.yaml" \
        --data-path /fsx/gpt_text_document --tokenizer-type GPT2BPETokenizer "${bpe[@]}" --save /fsx/llama2
fi
