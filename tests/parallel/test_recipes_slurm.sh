#!/usr/bin/env bash
# The recipes for Slurm, examples/recipes/2-megatron.sh and examples/recipes/4-gpt3-opt.sh, from text to models on a
# real Slurm cluster on this machine; their full-size commands are only planned. Then the steps of 0-ultracluster.sh and
# 1-gpt2-8b.sh that run on a head node.
# tier: all
# label: slow
# beside: ranks
# cost: 120
# parts: 3
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
. tests/parallel/slurm_test.sh || exit
export BEVATRON

# is_part K: whether the cases of part K run here.
is_part() { [ "${BEVATRON_TEST_PART:-$1/}" = "$1/${BEVATRON_TEST_PART#*/}" ]; }
has() { grep -qE -- "$1" "$work/out" && pass || fail "no \"$1\" in the walk: $(tail -n 20 "$work/out")"; }
at() { [ "$(cat "$work/$1/latest_checkpointed_iteration.txt" 2>/dev/null)" = "$2" ] && pass || fail "$1 is not at iteration $2"; }

if is_part 1; then
    bash examples/recipes/2-megatron.sh "$work/megatron" >"$work/out" 2>&1 && pass || fail "the walk along Megatron's recipe stopped: $(tail -n 20 "$work/out")"
    for run in gpt bert t5 llama; do at "megatron/$run-run" 6; done
    [ "$(grep -c 'has ended: COMPLETED' "$work/out")" = 13 ] && pass || fail "not thirteen jobs completed"
    has "all_reduce +262144 " && has "^loss [0-9.]+ \| perplexity" && has "Slurm job [0-9]+; log $work/megatron/logs/train-"
    SCALE=full TEXT='/fsx/*.xz' CLUSTER="--dry-run --nodes 2 --machine p4de.24xlarge" \
        bash examples/recipes/2-megatron.sh "$work/full" 3 4 5 6 7 8 >"$work/planned" 2>&1 && pass || fail "not in full: $(grep error "$work/planned")"
    [ -s "$work/megatron/llama-hf/config.json" ] && pass || fail "no model for Hugging Face"
    # The words of several texts, plain and compressed, the most common first; a text without words leaves no list.
    sed 15q "$work/megatron/words.txt" | grep -qx the && [ "$(wc -l <"$work/megatron/words.txt")" -le 30000 ] && pass || fail "words.txt"
    mkdir "$work/few" "$work/none"
    echo learned | tee "$work/few/gpt-vocab.json" >"$work/none/gpt-vocab.json"
    echo '{"text": "One fish.\ntwo FISH"}' >"$work/a.jsonl"
    echo '{"text": "one 1 2"}' | gzip >"$work/b.jsonl.gz"
    echo '{"text": "1 2 3"}' >"$work/c.jsonl"
    TEXT="$work/[a].jsonl $work/b.jsonl.gz" bash examples/recipes/2-megatron.sh "$work/few" 2 >"$work/out" 2>&1
    [ "$(sed '1,5d' "$work/few/words.txt" | tr '\n' ' ')" = "fish one " ] && pass || fail "the words of two texts"
    TEXT=$work/c.jsonl bash examples/recipes/2-megatron.sh "$work/none" 2 >"$work/out" 2>&1 && fail "no words, and no error" || has "the text has no words"
    [ ! -e "$work/none/words.txt" ] && pass || fail "a list without words"
fi

if is_part 2; then
    bash examples/recipes/4-gpt3-opt.sh "$work/opt" >"$work/out" 2>&1 && pass || fail "the walk along the recipe of GPT-3 and OPT stopped: $(tail -n 20 "$work/out")"
    at opt/opt 6
    SCALE=full IMAGE=/fsx/image CLUSTER="--dry-run --nodes 2 --machine p4de.24xlarge" \
        bash examples/recipes/4-gpt3-opt.sh "$work/full" 4 6 >"$work/planned" 2>&1 && pass || fail "not in full: $(grep error "$work/planned")"
    [ "$(grep -c -- "--container-image=/fsx/image" "$work/planned")" = 6 ] && pass || fail "not all jobs are in the container"
    has "nemo-gpt3-175b, [0-9]+ ranks: (memory|ranks of stage)" && has "log: $work/opt/logs/gpt3-126m-[0-9]+.log"
    [ "$(grep -c 'has ended: COMPLETED' "$work/out")" = 3 ] && pass || fail "not three followed jobs completed"
    has "stopped after a checkpoint: iteration 4, then ([5-9]|[0-9]{2,})" && has "ended with code 210"
    has "Slurm jobs [0-9]+_1, [0-9]+_2, [0-9]+_3; log $work/opt/logs/opt-"
    # What fails ends the walk: nothing to resume, a job that still runs, one that ends without an iteration.
    stops() { # TEXT SCRIPT ARGUMENT…
        bash "${@:2}" >"$work/out" 2>&1 && fail "the walk does not stop: $*" || has "$1"
    }
    SCALE=full stops "$work/new/gpt3-126m has no checkpoint to resume from yet: take step 4" examples/recipes/4-gpt3-opt.sh "$work/new" 5
    [ ! -e "$work/new/logs" ] && pass || fail "a job was submitted"
    mkdir "$work/new/gpt3-126m" && echo 4 >"$work/new/gpt3-126m/latest_checkpointed_iteration.txt"
    held=$(sbatch --parsable --hold --job-name gpt3-126m --wrap true)
    stops "job $held still trains gpt3-126m: wait until it has ended, or stop it with scancel --batch --signal=USR2 $held" examples/recipes/4-gpt3-opt.sh "$work/new" 5
    scancel "$held"
    CLUSTER="--nodes 1 --ntasks-per-node 2 --shared --max-requeues 0" \
        stops "has ended without an iteration; its log, $work/new/logs/gpt3-126m-[0-9]+.log, ends with:" examples/recipes/4-gpt3-opt.sh "$work/new" 5
    # A size whose file is missing, does not say how many ranks it is for, or cannot be planned.
    mkdir -p "$work/tree/examples/aws" && cp -r examples/recipes "$work/tree/examples"
    sizes=(env SCALE=full CLUSTER="--dry-run --nodes 2 --machine p4de.24xlarge" bash "$work/tree/examples/recipes/4-gpt3-opt.sh" "$work/new")
    "${sizes[@]}" 4 >"$work/out" 2>&1 && fail "without files" || has "nemo-gpt3-126m.yaml: No such file"
    "${sizes[@]}" 1 >"$work/out" 2>&1 && fail "without files" || has "No such file"
    echo "num-layers: 2" >"$work/tree/examples/aws/nemo-gpt3-126m.yaml"
    "${sizes[@]}" 4 >"$work/out" 2>&1 && fail "without ranks" || has 'nemo-gpt3-126m.yaml does not say "# ranks: N"'
    printf '# ranks: 8\nhidden-size: 63\n' >"$work/tree/examples/aws/nemo-gpt3-126m.yaml"
    "${sizes[@]}" 1 >"$work/out" 2>&1 && fail "a plan that failed" || has "4-gpt3-opt.sh: .*nemo-gpt3-126m.yaml: error: bevatron: "
    SCALE=full CLUSTER="--nodes 2" stops "SCALE=full needs a --machine in CLUSTER" examples/recipes/2-megatron.sh "$work/new" 4
fi

# walk SCRIPT…: the second time if the first does not end: on a busy machine srun may lose the start of MPI's ranks.
walk() {
    local code=0
    timeout 600 bash "$@" >"$work/out" 2>&1 || code=$?
    [ $code = 124 ] || return $code
    scancel --me
    bash "$@" >"$work/out" 2>&1
}
# The jobs of walk 0 and 1 are submitted, not followed.
has_ended() { [ -z "$(squeue --noheader --me 2>&1)" ]; }
if is_part 3 && { ! command -v curl || ! command -v bzip2; } >/dev/null; then
    echo "SKIP walks 0 and 1: no curl or no bzip2"
elif is_part 3; then
    # What a rehearsal makes is fetched: a small dump, and a vocabulary by the names it has elsewhere.
    bash examples/recipes/0-ultracluster.sh "$work/elsewhere" >"$work/out" 2>&1 && pass || fail "the rehearsal: $(tail -n 20 "$work/out")"
    for file in vocab.json merges.txt; do cp "$work/elsewhere/data/gpt2/gpt2-$file" "$work/elsewhere/$file"; done
    export WHERE=head PARTITION=all NODES=2 MACHINE='' RANKS=2 CHECKS="--file-size 1 --bytes 65536"
    DUMP=file://$work/elsewhere/data/wiki.xml.bz2 VOCABULARY=file://$work/elsewhere \
        walk examples/recipes/0-ultracluster.sh "$work/ultra" && pass || fail "the walk to a dataset stopped: $(tail -n 20 "$work/out")"
    within 900 has_ended || fail "the jobs have not ended: $(squeue; tail -n 5 "$work"/ultra/logs/*)"
    "$BEVATRON" dataset inspect "$work/ultra/data/my-gpt2_text_document" >"$work/out" 2>&1
    has "documents +200"
    small="--model-parallel-size 2 --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --batch-size 2
        --log-interval 5 --save-interval 5 --eval-iters 1 --fp16=false --distributed-backend mpi --threads 1"
    for end in 10 15; do
        FLAGS="${small//$'\n'/ } --train-iters $end" walk examples/recipes/1-gpt2-8b.sh "$work/ultra" && pass ||
            fail "the walk to a model stopped: $(tail -n 20 "$work/out")"
        within 900 has_ended || fail "the job has not ended: $(squeue; tail -n 5 "$work"/ultra/logs/*)"
        at ultra/checkpoint "$end"
    done
    has "ok .* network .* over 4 ranks" && has "board --logdir $work/ultra/logs --text"
    cat "$work"/ultra/logs/*.log >"$work/out"
    has "successfully loaded checkpoint from $work/ultra/checkpoint"
    "$BEVATRON" board --logdir "$work/ultra/logs" --text >"$work/out" 2>&1 && pass || fail "no curves"
fi
finish
