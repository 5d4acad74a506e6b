#!/usr/bin/env bash
# Folders of others: every command that writes is pointed at checkpoints of every other program and at an ordinary
# folder of a user's files. No existing file may be changed, moved or removed. Then the folder of --save: which runs
# may write to it, one at a time.
# tier: all
# cost: 20
# label: slow
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
foreign=tests/golden/foreign

# A tokenizer, a dataset, a run of ours and a dump to write from.
printf '{"text": "the cat sat on the mat and the cat ate"}\n{"text": "a dog ran to the cat"}\n' >"$work/a.jsonl"
for _ in $(seq 20); do cat "$work/a.jsonl"; done >"$work/text.jsonl"
printf 'the cat\nsat\n' >"$work/text.txt"
(cat "$work/a.jsonl" && echo '{"text": bad}') >"$work/bad.jsonl"
expect 0 "wrote" "$BEVATRON" tokenizer train --input "$work/text.jsonl" --vocab-size 270 --output-prefix "$work/t"
tokenizer=(--vocab-file "$work/t-vocab.json" --merge-file "$work/t-merges.txt")
expect 0 "" "$BEVATRON" preprocess --input "$work/text.jsonl" --output-prefix "$work/d" "${tokenizer[@]}" --append-eod
train=("$BEVATRON" train --mock-data --vocab-size 30 --num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 8
    --max-position-embeddings 8 --micro-batch-size 1 --train-iters 4 --lr 1e-3 --log-interval 1 --eval-iters 0 --device cpu
    --threads 1)
expect 0 "successfully saved" "${train[@]}" --save "$work/ours" --save-interval 2
cat >"$work/dump.xml" <<'EOF'
<mediawiki><siteinfo><namespaces><namespace key="0" /></namespaces></siteinfo><page><title>Cat</title><ns>0</ns><id>1</id>
<revision><id>2</id><model>wikitext</model><format>text/x-wiki</format><text>A cat is an animal that sleeps.</text></revision></page></mediawiki>
EOF

# ---- the folders ----

mkdir "$work/kinds"
kind() { mkdir -p "$work/kinds/$1"; cd "$work/kinds/$1" || exit 1; }
copy() { cp -r "$foreign/$2" "$work/kinds/$1" && chmod -R u+w "$work/kinds/$1"; }
copy torch megatron_v3_llama
copy torch_dist megatron_dist_gpt
copy huggingface gpt2
(kind release && mkdir release && cp -r "$OLDPWD/$foreign/megatron_v1_tp2/iter_0000100/." release/ && printf release >latest_checkpointed_iteration.txt)
(kind llmc && cp "$OLDPWD/$foreign/llmc_bf16.bin" model_00000100.bin && touch DONE_00000100)
(kind fairseq && printf 'PK\3\4weights' >checkpoint_last.pt && printf 'the 9\ncat 8\n' >dict.txt)
(kind deepspeed && mkdir global_step100 && printf x >global_step100/mp_rank_00_model_states.pt && printf global_step100 >latest)
(kind zarr && mkdir -p iter_0000002/w && printf '{"sharded_backend": "zarr"}' >iter_0000002/metadata.json && printf x >iter_0000002/w/0 &&
    printf 2 >latest_checkpointed_iteration.txt)
(kind dcp && mkdir iter_0000002 && printf 'model.w' >iter_0000002/.metadata && printf x >iter_0000002/__0_0.distcp &&
    printf 2 >latest_checkpointed_iteration.txt)
# Somebody's files: every name that our commands might use, with other content.
(kind plain && for name in notes.txt x.bin x_text_document.bin x.idx x.dict.txt x-vocab.json x-merges.txt x-tokenizer.json vocab.json \
    merges.txt tokenizer.json x.yaml x.jsonl dict.txt y_bad_lines.txt flight-0.jsonl iter_0000002.tmp.backup; do
    printf 'mine: %s' $name >$name
done && mkdir x.unfinished iter_0000002.tmp.old && printf mine >x.unfinished/mine && printf mine >iter_0000002.tmp.old/mine)
for folder in huggingface llmc fairseq deepspeed; do (kind $folder && printf mine >x.bin && printf mine >vocab.json); done
(kind huggingface && printf '{"version": "1.0"}' >tokenizer.json)

# state FOLDER: every path, and for files what every change affects: inode, size, and change time.
state() {
    find "$1" \( -type d -printf '%p %y %m\n' \) -o -printf '%p %y %m %i %s %C@ %l\n' | LC_ALL=C sort
}

# ---- the commands ----
from=$work

# Each line is a command; F is the folder. Lines marked ! must not even add anything to a folder with a checkpoint.
commands() {
    local pretrained=(--pretrained-checkpoint "$from/ours")
    cat <<EOF
! ${train[*]} --save F --save-interval 1
! ${train[*]} --save F --load F --save-interval 1 --keep-last 1
! ${train[*]} --save F --load F --finetune
! ${train[*]} --save F --load F --no-load-optim --use-checkpoint-args
! ${train[*]} --save F --load $from/ours --async-save
! ${train[*]} --save F ${pretrained[*]}
  ${train[*]} --metrics-file F/metrics.jsonl --tensorboard-dir F
  ${train[*]} --metrics-file F/latest_checkpointed_iteration.txt
  ${train[*]} --metrics-file F/x.jsonl --data-cache-path F
! $BEVATRON launch slurm --dry-run --nodes 1 ${train[*]:2} --save F --save-interval 1
! $BEVATRON checkpoint convert --input $foreign/gpt2 --output F
! $BEVATRON checkpoint convert --input $from/ours --output F
! $BEVATRON checkpoint convert --input $from/ours --output F --to bevatron
! $BEVATRON checkpoint convert --input F --output F --to huggingface
! $BEVATRON checkpoint convert --input $foreign/gpt2 --output F --to gguf
  $BEVATRON checkpoint convert --input $foreign/gpt2 --output F/notes.txt --to gguf
  $BEVATRON checkpoint convert --input $foreign/gpt2 --output F/config.json --to gguf
! $BEVATRON checkpoint reshard --input $from/ours --output F
  $BEVATRON preprocess --input $from/text.jsonl --output-prefix F/x ${tokenizer[*]}
  $BEVATRON preprocess --input $from/bad.jsonl --skip-bad-lines --output-prefix F/y ${tokenizer[*]}
  $BEVATRON dataset merge $from/d_text_document --output-prefix F/x
  $BEVATRON dataset import --text $from/text.txt --output-prefix F/x ${tokenizer[*]}
  $BEVATRON tokenizer train --input $from/text.jsonl --vocab-size 270 --save F
  $BEVATRON tokenizer train --input $from/text.jsonl --vocab-size 270 --output-prefix F/x
  $BEVATRON tokenizer convert ${tokenizer[*]} --output F
  $BEVATRON tokenizer dictionary --input $from/text.txt --output F/notes.txt
  $BEVATRON tokenizer dictionary --input $from/text.txt --output F/latest_checkpointed_iteration.txt
  $BEVATRON extract wiki --input $from/dump.xml --output F/x.jsonl
  $BEVATRON extract wiki --input $from/dump.xml --output F/config.json
  $BEVATRON cluster render --name c --region eu-west-1 --subnet subnet-1 --head-subnet subnet-1 --queue "gpu c5.xlarge 0-1" --output F/x.yaml
  $BEVATRON evaluate --load F --mock-data --device cpu
  $BEVATRON generate --load F --prompt a --device cpu
  $BEVATRON checkpoint inspect F
  $BEVATRON checkpoint verify F
  $BEVATRON preflight --save F --file-size 1 --device cpu
EOF
    if "$BEVATRON" version | grep -qE "^ *MPI +yes" && command -v mpirun >/dev/null; then
        printf '! %s --nproc 2 --save F --save-interval 1\n' "${train[*]}"
        printf '! %s\n' "$BEVATRON launch local -n 1 ${train[*]:2} --save F --save-interval 1"
    fi
}

# try KIND: runs all commands (for kinds similar to another only those that save checkpoints), one after another, on one
# copy of the folder.
try() {
    local kind=$1 mark line before after code
    cp -r "kinds/$kind" "copy-$kind"
    state "copy-$kind" >"$work/before"
    while read -r mark line; do
        [ "$mark" = "!" ] || [[ $kind =~ ^(torch_dist|huggingface|plain)$ ]] || continue
        [ "$mark" = "!" ] || line="$mark $line"
        # shellcheck disable=SC2086
        eval "${line// F/ copy-$kind}" </dev/null >"$work/out" 2>&1
        code=$?
        [ $code -lt 128 ] || [ $code -ge 210 ] || fail "$kind: it crashed: $line"
        state "copy-$kind" >"$work/after"
        before=$(LC_ALL=C comm -23 "$work/before" "$work/after")
        after=$(LC_ALL=C comm -13 "$work/before" "$work/after")
        if [ -n "$before" ]; then
            fail "$kind: $line changed $before"
        elif [ "$mark" = "!" ] && [ "$kind" != plain ] && [ -n "$after" ]; then
            fail "$kind: $line added $after"
        else
            pass
        fi
        if [ -n "$before$after" ]; then
            rm -rf "copy-$kind"
            cp -r "kinds/$kind" "copy-$kind"
            state "copy-$kind" >"$work/before"
        fi
    done < <(commands)
}
root=$PWD
foreign=$root/$foreign
for name in "$work"/kinds/*; do
    beside "try-${name##*/}" eval 'cd "$work/.." && try '"${name##*/}"
done
gather
cd "$root" || exit 1

# ---- the folder of --save ----

cp -r "$work/ours" "$work/run"
expect 2 "holds checkpoints of another run, up to iteration 4; resume that run with --resume, or give another --save" \
    "${train[@]}" --save "$work/run"
expect 2 "with --pretrained-checkpoint $work/ours, the same command starts and resumes" "${train[@]}" --save "$work/run" --load "$work/ours"
expect 2 "holds checkpoints of another run" "${train[@]}" --save "$work/run" --pretrained-checkpoint "$work/ours"
expect 2 "leave out --finetune to resume" "${train[@]}" --save "$work/run" --load "$work/run" --finetune
diff -r "$work/ours" "$work/run" >"$work/out" && pass || fail "a run that was refused has changed the folder of another"
expect 2 "give another --save, with --finetune: the run starts at iteration 0" "${train[@]}" --load "$work/kinds/huggingface" \
    --save "$work/kinds/huggingface"
expect 2 "with --no-load-optim to continue at its iteration" "${train[@]}" --load "$work/kinds/torch_dist" --save "$work/kinds/torch_dist"
mkdir "$work/marked" && printf 4 >"$work/marked/latest_checkpointed_iteration.txt"
expect 2 "of another run without its checkpoints; remove that file" "${train[@]}" --save "$work/marked"
longer=(--train-iters 6 --override-opt_param-scheduler)
ln -s run "$work/link"
expect 0 "iteration        6/       6" "${train[@]}" --save "$work/link" --load "$work/run" "${longer[@]}"
[ -d "$work/run/iter_0000006" ] && [ ! -e "$work/run/.bevatron-lock" ] && pass || fail "a run that resumes through a link"
# Weights alone, ours or others', go to a new folder.
expect 0 "iteration        4/       4" "${train[@]}" --save "$work/tuned" --load "$work/run" --finetune
mock=("$BEVATRON" train --mock-data --micro-batch-size 1 --lr 1e-3 --log-interval 1 --eval-iters 0 --device cpu --threads 1 --train-iters 2
    --use-checkpoint-args)
expect 0 "at iteration 0 with a fresh optimizer; give --no-load-optim to continue at iteration 100" "${mock[@]}" \
    --load "$foreign/megatron_dist_gpt" --save "$work/other"
grep -q "loading checkpoint from .* at iteration 100" "$work/out" && pass || fail "the iteration of a checkpoint of Megatron-LM"
expect 0 "loading weights from" "${mock[@]}" --load "$foreign/gpt2" --finetune
grep -q "fresh optimizer" "$work/out" && fail "a warning about what was asked for" || pass

# A launcher reports it before the job waits in a queue.
slurm=("$BEVATRON" launch slurm --dry-run --nodes 1 "${train[@]:2}" --save-interval 2)
expect 2 "$work/kinds/torch holds a Megatron-LM checkpoint (torch): iter_0000100" "${slurm[@]}" --save "$work/kinds/torch"
expect 2 "holds checkpoints of another run" "${slurm[@]}" --save "$work/run" --load "$work/ours"
expect 0 "a restart cannot resume from --load $work/run; give --pretrained-checkpoint $work/run --load $work/later" "${slurm[@]}" \
    --save "$work/later" --load "$work/run"
expect 0 "$work/run" "${slurm[@]}" --save "$work/run"
# --save alone saves from time to time and at the end, and leaves one checkpoint.
expect 0 "saved every 10 minutes" "${train[@]}" --save "$work/alone"
[ "$(cd "$work/alone" && echo iter_*)" = iter_0000004 ] && pass || fail "one checkpoint, at the end"
for flag in "" --async-save; do
    expect 0 "saving checkpoint at iteration       3" "${train[@]}" --save "$work/often$flag" --save-minutes 1e-12 $flag
    [ "$(cd "$work/often$flag" && echo iter_*)" = iter_0000004 ] && pass || fail "a checkpoint replaces the one before"
done
# What an earlier start has left is not removed.
expect 0 "iteration        6/       6" "${train[@]}" --save "$work/often" --resume --save-minutes 1e-12 "${longer[@]}"
[ "$(cd "$work/often" && echo iter_*)" = "iter_0000004 iter_0000006" ] && pass || fail "checkpoints of an earlier start"
expect 0 "saved only at the end of the run" "${train[@]}" --save "$work/rarely" --save-minutes 0
# The same command starts and resumes.
expect 0 "iteration        4/       4" "${train[@]}" --save "$work/same" --resume
grep -q "no checkpoint in" "$work/out" && fail "a warning at the first start" || pass
expect 0 "nothing is left to train" "${train[@]}" --save "$work/same" --resume
expect 2 "give --save DIR" "${train[@]}" --resume
expect 2 "leave out --load" "${train[@]}" --resume --save "$work/same" --load "$work/ours"
# The lowest validation loss: of a rate that ruins the model, that of an early iteration.
best=("${train[@]}" --lr 30 --lr-decay-style constant --eval-iters 2 --eval-interval 1 --keep-best)
expect 0 "the best checkpoint so far is that of iteration" "${best[@]}" --save "$work/best" --save-minutes 0
lowest=$(sed -n 's/^ validation loss at iteration \([0-9]*\) | lm loss value: \([0-9.E+-]*\) .*/\2 \1/p' "$work/out" | sort -g | head -1)
kept=$(grep "the best checkpoint" "$work/out" | tail -1 | sed 's/.*of iteration \([0-9]*\) .*/\1/')
[ "${lowest#* }" = "$kept" ] && [ "$kept" -lt 4 ] && pass || fail "the best is $lowest, not $kept"
[ "$(cd "$work/best" && echo iter_*)" = "iter_000000$kept iter_0000004" ] && pass || fail "the best and the last: $(ls "$work/best")"
expect 0 "" "${best[@]}" --save "$work/best" --resume --keep-last 1 "${longer[@]}"
[ "$(cd "$work/best" && echo iter_*)" = "iter_000000$kept iter_0000006" ] && pass || fail "the best after a resume: $(ls "$work/best")"
expect 2 "keep-best needs --save" "${best[@]}"

# Nothing to take flags from, at the first start of a script.
expect 0 "no checkpoint in $work/new for --use-checkpoint-args" "${train[@]}" --use-checkpoint-args --load "$work/new" --save "$work/new"
expect 0 "iteration        6/       6" "$BEVATRON" train --mock-data --micro-batch-size 1 --lr 1e-3 --log-interval 1 --eval-iters 0 --device cpu \
    --use-checkpoint-args --load "$work/new" --save "$work/new" "${longer[@]}"
expect 216 "$work/none" "${train[@]}" --use-checkpoint-args --load "$work/none" --exit-on-missing-checkpoint

# Formats of Megatron-LM that are not supported: what it is and what helps.
mkdir "$work/fsdp" && printf 'model.module.w' >"$work/fsdp/.metadata"
for flag in "train --train-iters 1 --micro-batch-size 1 --lr 1 --mock-data --use-checkpoint-args --load" "generate --prompt a --load" "checkpoint convert --output $work/never --input"; do
    # shellcheck disable=SC2086
    expect 216 "has the unsupported format zarr; load it in Megatron-LM (core 0.15" "$BEVATRON" $flag "$work/kinds/zarr"
    # shellcheck disable=SC2086
    expect 216 "dcp_to_torch $work/kinds/dcp/iter_0000002 DIR/mp_rank_00/model_optim_rng.pt" "$BEVATRON" $flag "$work/kinds/dcp"
    # shellcheck disable=SC2086
    expect 216 "checkpoint in fsdp_dtensor format" "$BEVATRON" $flag "$work/fsdp"
done

# Two runs at the same time: the second stops, whatever path it uses; a killed run releases the folder at once.
endless=("${train[@]}" --train-iters 1000000000 --log-interval 100000000 --save-interval 50)
in_background "$work/out1" "${endless[@]}" --save "$work/both"
first=$!
await_text "successfully saved" "$work/out1"
ln -s both "$work/both-link"
expect 2 "another run (process $first on" "${train[@]}" --save "$work/both" --load "$work/both"
expect 2 "is writing to $work/both-link; stop it, or give another --save" "${train[@]}" --save "$work/both-link"
kill -9 $first
end_of $first
[ -e "$work/both/.bevatron-lock" ] && pass || fail "what a killed run leaves of its lock"
expect 0 "successfully loaded checkpoint" "${train[@]}" --save "$work/both" --load "$work/both" --override-opt_param-scheduler --train-iters 1
[ ! -e "$work/both/.bevatron-lock" ] && pass || fail "a run that has ended leaves its lock"

# The lock is removed by hand: the run notices between checkpoints, and stops if another run has taken it meanwhile.
endless=("${train[@]}" --train-iters 1000000000 --log-interval 50 --save-interval 900000000)
in_background "$work/out1" "${endless[@]}" --save "$work/removed"
first=$!
await_text "iteration       50/" "$work/out1"
rm "$work/removed/.bevatron-lock"
await_text "was removed while this run held it, and was made again" "$work/out1"
[ -e "$work/removed/.bevatron-lock" ] && pass || fail "a lock that was removed is not made again"
kill -STOP $first
rm "$work/removed/.bevatron-lock"
in_background "$work/out2" "${endless[@]}" --save "$work/removed"
second=$!
await_text "iteration       50/" "$work/out2"
kill -CONT $first
wait $first
[ $? = 2 ] && grep -q "was removed while this run held it, and another run (process $second on .*this run writes nothing there any more" "$work/out1" && pass ||
    fail "two runs write to one folder: $(tail -n 2 "$work/out1")"
ls "$work/removed" | grep -q "^iter_" && fail "a run that has lost the folder saves to it" || pass
kill -9 $second
end_of $second

# ---- a tokenizer that is a folder ----

# A run that ended before its first checkpoint leaves metrics. The next one in the folder says so and marks where it
# begins.
expect 0 "successfully saved" "${train[@]}" --save "$work/again"
grep -q "an earlier run" "$work/out" && fail "a note about an earlier run in a new folder" || pass
rm -r "$work/again"/iter_* "$work/again/latest_checkpointed_iteration.txt"
expect 0 "metrics.jsonl has lines of an earlier run" "${train[@]}" --save "$work/again"
[ "$(grep -c '"kind":"run"' "$work/again/metrics.jsonl")" = 2 ] && pass || fail "each run has a line of its own"

mkdir "$work/tok"
cp "$work/t-tokenizer.json" "$work/tok/tokenizer.json"
# Documents end with another token than usual, which only this file names.
printf '{"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 77, "eos_token": "!"}' >"$work/tok/tokenizer_config.json"
printf '{{ messages }}' >"$work/tok/chat_template.jinja"
folder=(--tokenizer-type HuggingFaceTokenizer --tokenizer-model "$work/tok")
hf=("$BEVATRON" train --data-path "$work/d_text_document" --split 1 --num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 8
    --max-position-embeddings 8 --micro-batch-size 1 --lr 1e-3 --log-interval 1 --eval-iters 0 --device cpu --threads 1)
expect 0 "successfully saved checkpoint from iteration       4" "${hf[@]}" "${folder[@]}" --train-iters 4 --save "$work/hf" --save-interval 2
expect_same "$work/tok/tokenizer.json" "$work/hf/iter_0000002/tokenizer-model_tokenizer.json" "tokenizer.json in a checkpoint"
expect_same "$work/tok/chat_template.jinja" "$work/hf/iter_0000004/huggingface_chat_template.jinja" "the chat template in a checkpoint"
expect 0 "whole" "$BEVATRON" checkpoint verify "$work/hf"
# What a save needs is checked before the first iteration.
null=(--tokenizer-type NullTokenizer --vocab-size 300 --vocab-file "$work/tok")
expect 1 "cannot save a checkpoint: cannot read $work/tok: it is a folder" "${hf[@]}" "${null[@]}" --train-iters 4 --save "$work/bad"
grep -q "iteration        1/" "$work/out" && fail "an iteration before a save that cannot succeed" || pass
# The folder is removed; the run, the model and its conversion have what they need.
mv "$work/tok" "$work/gone"
expect 0 "iteration        6/       6" "${hf[@]}" --use-checkpoint-args --load "$work/hf" --save "$work/hf" "${longer[@]}"
expect_same "$work/gone/tokenizer.json" "$work/hf/iter_0000006/tokenizer-model_tokenizer.json" "tokenizer.json after a resume"
expect_same "$work/gone/tokenizer_config.json" "$work/hf/iter_0000006/huggingface_tokenizer_config.json" "tokenizer_config.json after a resume"
expect 0 "the cat" "$BEVATRON" generate --load "$work/hf" --prompt "the cat" --max-new-tokens 3 --device cpu
expect 0 "huggingface" "$BEVATRON" checkpoint convert --input "$work/hf" --output "$work/exported"
for name in tokenizer.json tokenizer_config.json chat_template.jinja; do
    expect_same "$work/gone/$name" "$work/exported/$name" "$name of an export"
done
for name in "$work/gone" "$work/gone/tokenizer.json" "$work/hf/iter_0000006/tokenizer-model_tokenizer.json"; do
    expect 0 '"end_of_document":0' "$BEVATRON" tokenizer inspect --json --tokenizer-type HuggingFaceTokenizer --tokenizer-model "$name"
done
grep -q '"eos_token_id": 0' "$work/exported/config.json" && pass || fail "the end of documents in config.json"
# The file alone: the file that names its special tokens is copied too.
expect 0 "successfully saved" "${hf[@]}" --tokenizer-type HuggingFaceTokenizer --tokenizer-model "$work/gone/tokenizer.json" --train-iters 1 \
    --save "$work/file"
expect_same "$work/gone/tokenizer_config.json" "$work/file/iter_0000001/huggingface_tokenizer_config.json" "tokenizer_config.json beside the file"
# The same folder passed to a conversion.
expect 0 "bevatron" "$BEVATRON" checkpoint convert --input "$work/hf" --output "$work/with" --to bevatron \
    --tokenizer-type HuggingFaceTokenizer --tokenizer-model "$work/gone"
expect_same "$work/gone/tokenizer.json" "$work/with/iter_0000006/tokenizer-model_tokenizer.json" "tokenizer.json of a conversion"
finish
