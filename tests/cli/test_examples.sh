#!/usr/bin/env bash
# Every file of examples is run, planned or read by a test; the list below says which. Here: the flag sets of
# examples/aws are accepted by train without the files of a cluster, fit the machines they name, and can be launched by
# the commands in their headers.
# label: slow
. tests/cli/common.sh || exit
unset LUSTRE

# Which test has which file, and what it does with it: it runs it (with stand-ins where it says so), plans or renders
# it, or only reads it. "all of" means a loop over the folder; any other test must name the file.
covered=(
    "planned aws/*.yaml all of tests/cli/test_examples.sh"
    "planned clusters/*.yaml all of tests/cli/test_examples.sh"
    "planned text/*.yaml all of tests/cli/test_examples.sh"
    "read */*.md all of tests/cli/test_docs.sh"
    "run demo/run.sh tests/cli/test_stories.sh"
    "run demo/CMakeLists.txt CMakeLists.txt"
    "run demo/make_stories.c examples/demo/CMakeLists.txt"
    "run demo/grammar.c examples/demo/CMakeLists.txt"
    "run demo/grammar.h examples/demo/grammar.c"
    "run demo/story.c examples/demo/CMakeLists.txt"
    "run demo/story.h examples/demo/make_stories.c"
    "run demo/stories.txt examples/demo/make_stories.c"
    "run images/enroot.sh tests/cli/test_images.sh"
    "run images/image-script.sh tests/cli/test_images.sh"
    "run images/node-setup.sh tests/cli/test_images.sh"
    "read images/Dockerfile tests/cli/test_images.sh"
    "read images/Dockerfile.dockerignore tests/cli/test_images.sh"
    "read images/steps.sh tests/cli/test_images.sh"
    "read images/rehearse.sh tests/cli/test_images.sh"
    "run recipes/0-ultracluster.sh tests/parallel/test_recipes_slurm.sh"
    "run recipes/1-gpt2-8b.sh tests/parallel/test_recipes_slurm.sh"
    "run recipes/2-megatron.sh tests/parallel/test_recipes_slurm.sh"
    "run recipes/2-megatron-eks.sh tests/cli/test_recipe_eks.sh"
    "run recipes/3-roberta.sh tests/parallel/test_recipe_roberta.sh"
    "run recipes/4-gpt3-opt.sh tests/parallel/test_recipes_slurm.sh"
    "run recipes/slurm-walk.sh examples/recipes/2-megatron.sh"
)
for line in "${covered[@]}"; do
    read -r _ pattern rest <<<"$line"
    test=${rest##* }
    compgen -G "examples/$pattern" >/dev/null && pass || fail "examples/$pattern does not exist"
    case $rest in
    "all of "*) grep -qF "examples/${pattern/\*\/\*/*/*}" "$test" ;;
    CMakeLists.txt) grep -qF "examples/demo" "$test" ;;
    *) grep -qE "(^|[^A-Za-z0-9_.-])$(basename "$pattern" | sed 's/[.]/[.]/g')" "$test" || { [[ $pattern == *.c ]] && grep -qw "$(basename "$pattern" .c)" "$test"; } ;;
    esac && pass || fail "$test does not have examples/$pattern"
done
while read -r path; do
    for line in "${covered[@]}"; do
        read -r _ pattern _ <<<"$line"
        # shellcheck disable=SC2053  # a pattern
        [[ ${path#examples/} == $pattern ]] && continue 2
    done
    fail "no test has $path: run, plan or read it in one, and add it to the list"
done < <(find examples -type f)

# Memory per GPU of a machine, in GB, minus what CUDA keeps.
gib_of() {
    case $1 in
    p4d.24xlarge) echo 40 ;;
    p4de.24xlarge | p5.48xlarge) echo 80 ;;
    *) echo 0 ;;
    esac
}

for example in examples/aws/*.yaml; do
    ranks=$(sed -n 's/^# ranks: //p' "$example")
    command=$(sed -n 's/^# bevatron \(launch .*\)$/\1/p' "$example")
    machine=$(sed -nE 's/.* --machine ([^ ]+) .*/\1/p' <<<"$command")
    expect 0 "number of parameters" "$BEVATRON" train --dry-run --config "$example"
    # No recompute, offload or sharding that the flags do not request, so the measurement on paper decides.
    expect 0 "is not on this machine; assuming the published vocabulary" "$BEVATRON" train --dry-run --device cuda --nproc "$ranks" --config "$example"
    needed=$(sed -nE 's/^(memory of a rank|ranks of stage [0-9]+ need most memory): ([0-9.]+) GB.*/\2/p' "$work/out")
    awk "BEGIN { exit !($needed > 1 && $needed < ($(gib_of "$machine") - 1) * 1.073741824) }" && pass || fail "$example needs $needed GB on $machine"
    # shellcheck disable=SC2086  # words of a command
    expect 0 "train" "$BEVATRON" $command --dry-run
    grep -q "may not fit" "$work/out" && fail "$command does not fit" || pass
    # A container does not have the file: its content is in the command.
    if [[ $command == *container-image* || $command == *kubernetes* ]]; then
        grep -q -- "--config" "$work/out" && fail "$command names a file of this machine" || pass
        tr -d '"' <"$work/out" | tr -s ' -' '\n' | grep -qx "$(sed -n 's/^hidden-size: //p' "$example")" && pass ||
            fail "$command lost the flags of $example"
    else
        grep -q -- "$example" "$work/out" && pass || fail "$command is not about $example"
    fi
    grep -q "($(basename "$example"))" examples/aws/README.md && pass || fail "the README lacks $example"
done
# Too few machines for the layout: the flags that name them, and the command of the example.
expect 2 "the flags split the model over 8 ranks (tensor × pipeline × context parallelism), and the job has 1; give --nodes N --machine TYPE with 8 GPUs" \
    "$BEVATRON" launch slurm --dry-run --config examples/aws/gpt2-8b-p4d.yaml
grep -qF "; examples/aws/gpt2-8b-p4d.yaml is meant for \`bevatron launch slurm --nodes 8 --machine p4d.24xlarge --partition gpu --config" "$work/out" &&
    pass || fail "the command of the example is not named"
expect 2 "examples/aws/gpt3-kubernetes.yaml is meant for \`bevatron launch kubernetes" \
    "$BEVATRON" launch kubernetes --dry-run --image i --config examples/aws/gpt3-kubernetes.yaml
expect 2 "and the job has 3; give --nodes N --machine TYPE with 2 GPUs or a multiple of it" \
    "$BEVATRON" launch slurm --dry-run --nodes 3 --preset gpt2-124m --mock-data --train-iters 1 --tensor-model-parallel-size 2
for example in examples/text/*.yaml; do
    expect 0 "number of parameters" "$BEVATRON" train --dry-run --config "$example"
    # Planned by --vocab-size; the table has that many rows, padded.
    size=$(sed -n 's/^vocab-size: //p' "$example")
    grep -q "word_embeddings.weight *($(((size + 127) / 128 * 128)), " "$work/out" && pass || fail "$example is not planned with $size tokens"
done
expect 0 "micro-batches of 1" "$BEVATRON" train --dry-run --preset cpu-3m --tokenizer-type auto
grep -q "vocabulary of 0" "$work/out" && fail "a vocabulary of 0 tokens" || pass
expect 2 "--tokenizer-type auto needs text to learn from" "$BEVATRON" train --dry-run --config examples/text/cpu.yaml --mock-data
for example in examples/clusters/*.yaml; do
    expect 0 "InstanceType" "$BEVATRON" cluster render --config "$example"
    grep -q "too old" "$work/out" && fail "$example has GPUs that cannot be used" || pass
done

# RoBERTa from text to a checkpoint with the flags of its examples, on its BPE and on words, with a small model.
# tests/parallel/test_recipe_roberta.sh covers the whole recipe.
export LUSTRE=$work/lustre
small=(--num-layers 1 --hidden-size 16 --ffn-hidden-size 32 --num-attention-heads 2 --tokens-per-sample 32 --micro-batch-size 1 --global-batch-size 2
    --train-iters 4 --log-interval 2 --eval-interval 4 --eval-iters 1 --save-interval 4 --device cpu --threads 1)
bpe=$LUSTRE/data/gpt2_bpe
mkdir -p "$bpe"
for i in $(seq 200); do [ $((i % 10)) = 0 ] && echo || echo "the quick brown foxes jump $((i % 17)) times"; done >"$work/text"
"$BEVATRON" tokenizer train --input "$work/text" --input-format text --vocab-size 280 --output-prefix "$work/bpe" >"$work/out" 2>&1 || fail "no BPE"
cp "$work/bpe-vocab.json" "$bpe/encoder.json" && cp "$work/bpe-merges.txt" "$bpe/vocab.bpe"
for i in $(seq 0 279); do echo "$i 1"; done >"$bpe/dict.txt"
roberta() {
    local kind=$1 split
    shift
    for split in train valid; do
        expect 0 "$split.dict.txt" "$BEVATRON" dataset import --text "$work/text" --output-prefix "$LUSTRE/data/wikitext-103/$split" --tokenizer-type FairseqTokenizer "$@"
    done
    expect 0 '"num_updates": "4"' "$BEVATRON" train --config "examples/aws/roberta-large$kind-p4d.yaml" "${small[@]}"
    expect 0 "iterations 4 (latest)" "$BEVATRON" checkpoint inspect "$LUSTRE/checkpoints"
    rm -rf "$LUSTRE/checkpoints"
    [ -n "$kind" ] || expect 0 '"num_updates": "4"' "$BEVATRON" train --config examples/aws/roberta-large-p4d.yaml "${small[@]}" --mask-whole-words
    rm -rf "$LUSTRE/checkpoints" "$LUSTRE/data/wikitext-103"/*.bin "$LUSTRE/data/wikitext-103"/*.idx "$LUSTRE/data/wikitext-103"/*.dict.txt
}
roberta "" --tokenizer-model "$bpe/dict.txt" --vocab-file "$bpe/encoder.json" --merge-file "$bpe/vocab.bpe"
expect 0 "symbols" "$BEVATRON" tokenizer dictionary --input "$work/text" --output "$LUSTRE/data/wikitext-103/dict.txt"
roberta -words --tokenizer-model "$LUSTRE/data/wikitext-103/dict.txt"
expect 2 "--mask-whole-words needs --vocab-file, a BPE" "$BEVATRON" train --config examples/aws/roberta-large-words-p4d.yaml "${small[@]}" --mask-whole-words
unset LUSTRE

# The run of Megatron's GPT-3 recipe: as many iterations as its log shows, and with its padding as many parameters as the
# formula gives; its example of another size is refused, because the heads do not divide the width.
recipe=(train --dry-run --nproc 8 --tensor-model-parallel-size 8 --num-layers 36 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 --micro-batch-size 1
    --global-batch-size 288 --train-samples 146484375 --lr 6e-5 --mock-data --tokenizer-type NullTokenizer --vocab-size 50256)
expect 0 "train_iters ..................................... 508626" "$BEVATRON" "${recipe[@]}" --padded-vocab-size 51200
width=4096 layers=36
parameters=$((12 * layers * width * width + 13 * layers * width + (51200 + 2048) * width + 2 * width))
grep -qx "number of parameters: $parameters" "$work/out" && pass || fail "not $parameters parameters"
expect 2 "--hidden-size 8192 is not a multiple of --num-attention-heads 48" "$BEVATRON" "${recipe[@]}" --num-layers 64 --hidden-size 8192 --num-attention-heads 48

# A run that does not fit is refused before its job waits in a queue, with flags that would help; so are GPUs that are
# too old, or have no fp8 or fp4.
seven=(launch slurm --dry-run --nodes 2 --config examples/aws/llama2-7b.yaml)
for launcher in "slurm" "kubernetes --image i --claim c"; do
    # shellcheck disable=SC2086  # words of a command
    expect 2 "does not fit the GPUs of a p4d.24xlarge: a rank needs 57.98 GB and has 41.88 GB; it would fit with " "$BEVATRON" launch $launcher --dry-run \
        --nodes 2 --machine p4d.24xlarge --config examples/aws/llama2-7b.yaml
    # shellcheck disable=SC2086  # words of a command
    expect 0 "may not fit the GPUs of a p4d.24xlarge" "$BEVATRON" launch $launcher --dry-run --allow-out-of-memory \
        --nodes 2 --machine p4d.24xlarge --config examples/aws/llama2-7b.yaml
done
expect 2 "A100 GPUs of a p4de.24xlarge have no fp8; leave out --fp8-format" "$BEVATRON" "${seven[@]}" --machine p4de.24xlarge --fp16=false --bf16 --fp8-format hybrid
expect 2 "H100 GPUs of a p5.48xlarge have no fp4 matmuls; leave out --fp4-format" "$BEVATRON" "${seven[@]}" --machine p5.48xlarge --fp16=false --bf16 --fp4-format e2m1
expect 2 "have no mxfp8 matmuls; give --fp8-format hybrid --fp8-recipe delayed, or choose a machine with B200" "$BEVATRON" "${seven[@]}" --machine p5.48xlarge --fp16=false --bf16 --fp8-format e4m3 --fp8-recipe mxfp8
expect 2 "have no blockwise fp8 matmuls; give --fp8-format hybrid --fp8-recipe delayed, or choose a machine with H100" "$BEVATRON" "${seven[@]}" --machine p6-b200.48xlarge --fp16=false --bf16 --fp8-format e4m3 --fp8-recipe blockwise
expect 0 " --machine p6-b200.48xlarge" "$BEVATRON" "${seven[@]}" --machine p6-b200.48xlarge --fp16=false --bf16 --fp4-format e2m1
expect 2 "B200 GPUs of a p6-b200.48xlarge have no fp8 matmuls of experts" "$BEVATRON" "${seven[@]}" --machine p6-b200.48xlarge --fp16=false \
    --bf16 --fp8-format hybrid --num-experts 8
expect 0 " --machine p4de.24xlarge" "$BEVATRON" "${seven[@]}" --machine p4de.24xlarge
expect 2 "a rank needs 133.24 GB and has 84.83 GB; it would fit with --use-distributed-optimizer" "$BEVATRON" "${seven[@]}" --machine p4de.24xlarge \
    --use-distributed-optimizer=false --overlap-grad-reduce=false --overlap-param-gather=false
for launcher in "slurm" "kubernetes --image i --claim c"; do
    # shellcheck disable=SC2086  # words of a command
    expect 2 "the GPUs of a p3dn.24xlarge (V100, compute capability 7.0) are too old: they lack bf16; bevatron needs compute capability 8.0 (A100 or later); use e.g. a p4d" \
        "$BEVATRON" launch $launcher --dry-run --nodes 2 --machine p3dn.24xlarge --config examples/aws/roberta-large-p4d.yaml
done
expect 2 "the GPUs of a p3.16xlarge (V100, compute capability 7.0) are too old" "$BEVATRON" launch slurm --dry-run --machine p3.16xlarge --config examples/aws/roberta-large-p4d.yaml
expect 2 "the GPUs of a g4dn.12xlarge (T4, compute capability 7.5) are too old" "$BEVATRON" launch slurm --dry-run --machine g4dn.12xlarge --config examples/aws/roberta-large-p4d.yaml
expect 0 "train" "$BEVATRON" launch slurm --dry-run --nodes 2 --machine p3dn.24xlarge --config examples/aws/roberta-large-p4d.yaml --device cpu
expect 0 "preprocess" "$BEVATRON" launch slurm --dry-run --machine p3dn.24xlarge preprocess --input "$work/a.jsonl" --output-prefix "$work/b"
expect 0 "note: queue old: the GPUs of a p3dn.24xlarge (V100, compute capability 7.0) are too old" "$BEVATRON" cluster render --name ab --region us-east-1 \
    --key k --subnet subnet-0123456789abcdef0 --queue "old p3dn.24xlarge 0-2 efa placement-group"
# Any of a queue's types may come: each is named.
expect 0 "note: queue mixed: the GPUs of a p3.2xlarge (V100, compute capability 7.0) are too old" "$BEVATRON" cluster render --name ab --region us-east-1 \
    --key k --subnet subnet-0123456789abcdef0 --queue "mixed g5.xlarge,p3.2xlarge,g4dn.metal 0-2" --queue "small p3.8xlarge 0-1" --queue "tiny g4dn.xlarge 0-1"
for each in "mixed: the GPUs of a g4dn.metal (T4, compute capability 7.5)" "small: the GPUs of a p3.8xlarge" "tiny: the GPUs of a g4dn.xlarge"; do
    grep -qF "note: queue $each" "$work/out" && pass || fail "no note of $each"
done

# preflight on one machine checks that machine, whatever the run's layout: 32 ranks hold a copy of the model here.
expect 1 "the GPUs of a p3dn.24xlarge (V100, compute capability 7.0) are too old" "$BEVATRON" preflight --machine p3dn.24xlarge
sixteen=(preflight --config examples/aws/gpt3-slurm-16-nodes.yaml --path "$work/disk" --file-size 1)
expect 1 "this is one machine of a run whose layout needs a multiple of 32 ranks" "$BEVATRON" "${sixteen[@]}"
grep -q "ok .* files .*writes" "$work/out" && grep -q "BAD .* tokenizer .*/fsx/gpt2" "$work/out" && pass || fail "preflight did not look at the machine"
finish
