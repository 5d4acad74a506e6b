#!/usr/bin/env bash
# Scores on tasks as a user asks for them: the known tasks, tasks of one's own, any layout of ranks, in training; what is
# missing or wrong is named with file and line.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit

tokenizer=(--vocab-file tests/golden/bpe/vocab.json --merge-file tests/golden/bpe/merges.txt)
for i in $(seq 40); do printf '{"text": "the model reads page %s, and the answer is yes or no."}\n' "$i"; done >"$work/text.jsonl"
model=(--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 256 --max-position-embeddings 256 --micro-batch-size 2
    --lr 1e-2 --train-iters 4 --split 1,0,0 --eval-iters 0 --device cpu --threads 2 --hidden-dropout 0 --attention-dropout 0)
expect 0 "" "$BEVATRON" train "${tokenizer[@]}" --data-path "$work/text.jsonl" "${model[@]}" --save "$work/run" --save-interval 4
evaluate=("$BEVATRON" evaluate --load "$work/run" --device cpu --micro-batch-size 3 --task-data tests/golden/tasks)
known=hellaswag,lambada_openai,arc_easy,winogrande,mmlu,wikitext,core_copa,core_winogrande

expect 0 "acc_norm" "${evaluate[@]}" --tasks "$known" --task-documents "$work/one.jsonl"
expect 0 '"task":"arc_easy","metric":"acc","value":' "${evaluate[@]}" --tasks arc_easy --num-shots 2 --tasks-limit 1 --json
grep -qF '"documents":1,"shots":2' "$work/out" && pass || fail "number of documents and examples"
expect 0 "core_winogrande" "$BEVATRON" evaluate --tasks list

# Other layouts of ranks give the same answers.
same() {
    awk -v RS='[][,:{}]+' -v worst=0 'NR == FNR { a[FNR] = $0; next }
        { d = $0 - a[FNR]; d = d < 0 ? -d : d; if (d > 1e-3 || (a[FNR] != $0 && $0 !~ /^-?[0-9.e-]+$/)) bad = 1 }
        END { exit bad || FNR == 0 }' "$1" "$2"
}
if "$BEVATRON" version | grep -qE "^ *MPI +yes" && command -v mpirun >/dev/null; then
    for layout in "" "--tensor-model-parallel-size 2" "--pipeline-model-parallel-size 2" "--context-parallel-size 2"; do
        # shellcheck disable=SC2086
        expect 0 "hellaswag" bash tests/parallel/mpirun.sh 2 "${evaluate[@]}" $layout --threads 1 --tasks "$known" --task-documents "$work/two.jsonl"
        same "$work/one.jsonl" "$work/two.jsonl" && pass || fail "other answers with ${layout:-two data-parallel ranks}"
    done
fi

# In training: the scores of an iteration are those of its checkpoint, in all logs.
expect 0 "validation loss at iteration 4 on validation arc_easy set | acc value: " "$BEVATRON" train "${tokenizer[@]}" --data-path "$work/text.jsonl" \
    "${model[@]}" --save "$work/scored" --save-interval 2 --tensorboard-dir "$work/events" --eval-tasks arc_easy,wikitext --eval-tasks-interval 2 \
    --eval-tasks-limit 2 --eval-task-data tests/golden/tasks
grep -q "acc PPL" "$work/out" && fail "an accuracy has a perplexity" || pass
[ "$(grep -c '"validation wikitext"' "$work/scored/metrics.jsonl")" = 2 ] && pass || fail "scores in metrics.jsonl"
expect 0 '"metric":"bits_per_byte","value":' "${evaluate[@]}" --load "$work/scored" --tasks wikitext --json
score=$(sed -nE 's/.*"bits_per_byte","value":([0-9.]{7}).*/\1/p' "$work/out")
grep '"iteration":4' "$work/scored/metrics.jsonl" | grep -qE "\"bits_per_byte\": ?$score" && pass || fail "bits per byte of training: $score"
cmp -s <(sha256sum <"$work/run/iter_0000004/model.safetensors") <(sha256sum <"$work/scored/iter_0000004/model.safetensors") && pass ||
    fail "scoring changed the weights"
# With --eval-with-ema they are those of the averages.
scored=(train "${tokenizer[@]}" --data-path "$work/text.jsonl" "${model[@]}" --eval-tasks wikitext --eval-tasks-interval 4 --ema-decay 0.9)
bits() { sed -nE 's/.*bits_per_byte value: ([^ ]*).*/\1/p' "$work/out"; }
expect 0 "bits_per_byte value" "$BEVATRON" "${scored[@]}" --eval-task-data tests/golden/tasks
plain=$(bits)
expect 0 "bits_per_byte value" "$BEVATRON" "${scored[@]}" --eval-task-data tests/golden/tasks --eval-with-ema
[ "$(bits)" != "$plain" ] && pass || fail "--eval-with-ema scores the weights themselves"
# A signal ends the scoring, whose results are then not reported. The checkpoint names the data from any folder.
expect 210 "saved checkpoint" "$BEVATRON" "${scored[@]}" --save "$work/cut" --eval-task-data tests/golden/tasks --allow-injected-faults --inject term:phase=evaluate
grep -q "validation wikitext" "$work/out" && fail "scores of tasks after a signal" || pass
grep -rqF "\"$PWD/tests/golden/tasks\"" "$work/cut" && pass || fail "the checkpoint has another path of the tasks"
expect 2 "--eval-tasks needs --eval-task-data" "$BEVATRON" train "${tokenizer[@]}" --data-path "$work/text.jsonl" "${model[@]}" --eval-tasks boolq

# Tasks of one's own.
mkdir -p "$work/eval/mine"
printf '{"q": " the answer is", "o": ["yes", "no"], "k": 1}\n\n{"q": "the model", "o": ["reads", "x", "y"], "k": 0}\n' >"$work/eval/mine/test.jsonl"
echo '{"name": "mine", "kind": "choices", "split": "test", "context": "{q|strip}", "choices": ["{o[]}"], "answer": "{k}"}' >"$work/own.jsonl"
own=("$BEVATRON" evaluate --load "$work/run" --device cpu --task-data "$work/eval" --task-file "$work/own.jsonl" --tasks mine)
expect 0 '"metric":"acc_bytes","value":0.5,"error":0.5,"documents":2,"shots":0' "${own[@]}" --json
expect 0 '"documents":2,"shots":1' "${own[@]}" --json --num-shots 1
expect 215 "too few for 2 examples" "${own[@]}" --num-shots 2
printf '{"q": "a", "o": ["yes", "no"], "k": 2}\n' >>"$work/eval/mine/test.jsonl"
expect 215 'mine/test.jsonl:4: the answer "2" is none of the 2 choices' "${own[@]}"
sed -i '4s/.*/{"q": "a", "o": [], "k": 0}/' "$work/eval/mine/test.jsonl"
expect 215 'mine/test.jsonl:4: its list of choices is empty' "${own[@]}"
sed -i '4s/.*/{"q": ["a"], "o": ["b"], "k": 0}/' "$work/eval/mine/test.jsonl"
expect 215 'mine/test.jsonl:4: "q" is neither a text nor a number' "${own[@]}"
sed -i '4s/.*/{"q": "a", "o": [""], "k": 0/' "$work/eval/mine/test.jsonl"
expect 215 'mine/test.jsonl:4: the line is not valid JSON' "${own[@]}"
awk 'BEGIN { printf "{\"q\": \""; for (i = 0; i < 17000; i++) printf "%1024s", "["; print "\"}" }' >"$work/eval/mine/test.jsonl"
expect 215 'mine/test.jsonl:1: the line has 17408009 bytes; 16777216 is the most' "${own[@]}"

# A filter applies to answers as to labels.
echo '{"name": "mine", "kind": "choices", "split": "test", "filter": "strip", "context": "{q}", "choices": ["yes", "no"], "labels": ["a ", "b "], "answer": "{k}"}' \
    >"$work/own.jsonl"
echo '{"q": "the answer is", "k": "b "}' >"$work/eval/mine/test.jsonl"
expect 0 '"metric":"acc","value":' "${own[@]}" --json

# Missing data is named with its address, all of it.
expect 215 "$work/eval/boolq/validation.jsonl  from https://huggingface.co/datasets/aps/super_glue" "${own[@]}" --tasks boolq,sciq
grep -qF "$work/eval/sciq/test.jsonl  from https://huggingface.co/datasets/allenai/sciq" "$work/out" && pass || fail "data of the second task"
expect 2 "the task helaswag is not known; did you mean hellaswag?" "${own[@]}" --tasks helaswag
expect 2 "gsm8k scores texts that the model writes" "${own[@]}" --tasks gsm8k
expect 2 "give --task-data FOLDER" "$BEVATRON" evaluate --load "$work/run" --tasks boolq
finish
