#!/usr/bin/env bash
# GPT-3 in NeMo's sizes and OPT on a Slurm cluster: compressed shards, one submit line for each size, stopping and
# resuming. The page is 4-gpt3-opt.md; its numbers are those of the steps below.
#
#   examples/recipes/4-gpt3-opt.sh FOLDER [STEP…]
#
# FOLDER is one that all machines share; without steps all are taken. Run it on the head node. What the environment may
# say:
#   BEVATRON  the program; default: bevatron
#   CLUSTER   flags of launch slurm; default: two nodes with two ranks each on CPUs, a rehearsal in minutes
#   SCALE     small (default), or full: the flag sets of examples/aws, for p4de machines
#   SHARDS    .jsonl.zst files: a pattern, https:// or s3://; default: the pages of docs in four shards
#   IMAGE     a container image for Pyxis; default: none
all_steps="1 2 3 4 5 6 7"
# shellcheck source=examples/recipes/slurm-walk.sh
. "$(dirname "$0")/slurm-walk.sh"
container=()
[ -z "${IMAGE-}" ] || container=(--container-image "$IMAGE" --container-mounts "$PWD:$PWD" --container-mount-home)
cluster+=("${container[@]}") single+=("${container[@]}")
submit() { "$program" launch slurm "${cluster[@]}" "$@"; }

bpe=(--vocab-file "$PWD/bpe-vocab.json" --merge-file "$PWD/bpe-merges.txt")
data=(--data-path "$PWD/pile_text_document" --tokenizer-type GPT2BPETokenizer "${bpe[@]}")
if [ "$scale" = full ]; then
    sizes=(126m 5b 20b 40b 175b)
    watch=()
    opt=(--preset opt-1.3b --micro-batch-size 2 --global-batch-size 512 --train-iters 100000 --lr 2e-4 --bf16 --save-interval 1000)
    vocabulary=50000
else
    sizes=(126m)
    watch=(--watch)
    small=(--num-layers 2 --hidden-size 64 --num-attention-heads 4 --ffn-hidden-size 128 --seq-length 64
        --max-position-embeddings 64 --threads 1 --micro-batch-size 1 --global-batch-size 4 --log-interval 1 --eval-iters 1
        --split 95,5,0 --lr 1e-3 --lr-warmup-iters 2 --lr-decay-iters 20)
    opt=(--preset opt-125m "${small[@]}" --train-iters 6 --save-interval 2)
    vocabulary=600
fi
# ranks_of FILE: how many ranks the file of a size is for.
ranks_of() {
    local ranks
    ranks=$(sed -n 's/^# ranks: //p' "$1") && [ "${ranks:-0}" -gt 0 ] || stop "$1 does not say \"# ranks: N\""
    echo "$ranks"
}
# size NAME: sets flags to the file of a size of GPT-3, or in a rehearsal to what makes it small.
size() {
    local file=$here/examples/aws/nemo-gpt3-$1.yaml ranks
    if [ "$scale" = full ]; then
        ranks=$(ranks_of "$file")
        flags=(--nodes $((ranks / 8)) --config "$file" --mock-data=false)
    else
        flags=(--preset "gpt3-$1" "${small[@]}" --tensor-model-parallel-size 2 --train-iters 100000 --exit-interval 4)
    fi
}

if step 1 "what fits: memory of each size, without a GPU"; then
    for file in "$here"/examples/aws/nemo-gpt3-*.yaml; do
        ranks=$(ranks_of "$file")
        plan=$("$program" train --dry-run --device cuda --nproc "$ranks" --config "$file" 2>&1) || stop "$file: $(sed -n '/^error:/,$p' <<<"$plan")"
        memory=$(grep -m 1 -E "^(memory of a rank|ranks of stage)" <<<"$plan") || stop "$file: the plan has no memory"
        echo "$(basename "$file" .yaml), $ranks ranks: $memory"
    done
fi

if step 2 "shards"; then
    if [ -z "${SHARDS-}" ]; then
        pages | awk '{ print >("shard-" NR % 4 ".jsonl") }'
        zstd -q -f --rm shard-*.jsonl
    fi
    ls -l shard-*.zst 2>/dev/null || echo "shards: $SHARDS"
fi
shards=${SHARDS:-$PWD/shard-*.jsonl.zst}

if step 3 "the tokenizer, then the shards as one dataset: a job that waits for a job"; then
    learned=$("$program" launch slurm "${single[@]}" tokenizer train --input "$shards" --vocab-size $vocabulary --output-prefix "$PWD/bpe")
    "$program" launch slurm "${single[@]}" --after "$learned" --watch preprocess --input "$shards" --output-prefix "$PWD/pile" \
        --append-eod "${bpe[@]}"
fi

if step 4 "GPT-3: one line for each size"; then
    for name in "${sizes[@]}"; do
        size "$name"
        submit "${watch[@]}" --job-name "gpt3-$name" "${flags[@]}" "${data[@]}" --save "$PWD/gpt3-$name" --save-interval 1000
    done
fi

if step 5 "stop a run, and resume it"; then
    run=gpt3-${sizes[0]}
    marker=$run/latest_checkpointed_iteration.txt
    [ -s "$marker" ] || stop "$PWD/$run has no checkpoint to resume from yet: take step 4, and this step when $marker exists"
    running=$(squeue --me --noheader --name "$run" --format %i)
    [ -z "$running" ] || stop "job $running still trains $run: wait until it has ended, or stop it with scancel --batch --signal=USR2 $running"
    before=$(cat "$marker")
    size "${sizes[0]}"
    [ "$scale" = full ] || flags+=(--exit-interval 100000)
    number=$(submit --job-name "$run" "${flags[@]}" "${data[@]}" --save "$PWD/$run" --save-interval 100000)
    log=logs/$run-$number.log
    until grep -qsE "iteration +[0-9]+/" "logs/$number/rank-0.log"; do
        ! has_ended "$number" || stop "job $number has ended without an iteration; its log, $PWD/$log, ends with: $(tail -n 3 "$log")"
        sleep 1
    done
    scancel --batch --signal=USR2 "$number" # saves first, however long it takes
    until has_ended "$number"; do sleep 1; done
    after=$(cat "$marker")
    [ "$after" -gt "$before" ] || stop "job $number has saved nothing after iteration $before; its log, $PWD/$log, ends with: $(tail -n 3 "$log")"
    echo "stopped after a checkpoint: iteration $before, then $after"
    tail -n 1 "$log"
fi

if step 6 "OPT, in three allocations of a chain"; then
    [ "$scale" = full ] || opt+=(--exit-interval 2)
    submit --job-name opt --array-chain 3 --watch "${opt[@]}" "${data[@]}" --save "$PWD/opt"
fi

if step 7 "find the jobs and their logs"; then
    squeue --me
    "$program" board --text --logdir "$PWD" | grep -E "metrics.jsonl|iteration|Slurm"
fi
