#!/usr/bin/env bash
# `migrate` prints the command that does what a script of Megatron-LM does: with variables, arrays, conditions, a file
# of DeepSpeed and undecided values; the printed command trains. Hostile scripts run nothing and write nothing.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit

cat >"$work/train.sh" <<'END'
#!/bin/bash
GPUS_PER_NODE=${GPUS:-2}
NNODES=$(scontrol show hostnames | wc -l)
SAVE=$1; SIZE=small
if [ $SIZE = small ]; then HIDDEN=32; LAYERS=2; else HIDDEN=64; LAYERS=4; fi
MODEL=(--num-layers $LAYERS --hidden-size $HIDDEN --num-attention-heads 4
       --seq-length 16 --max-position-embeddings 16)
BATCH="--micro-batch-size 2 --global-batch-size $((2 * GPUS_PER_NODE * 2))"
TRAIN_ARGS="$BATCH --lr 1e-3 --train-iters 3 --log-interval 1 --eval-iters 0 --eval-interval 10 \
    --use-mcore-models --save $SAVE --save-interval 3"
[ -n "$WANDB" ] && TRAIN_ARGS="$TRAIN_ARGS --wandb-project $WANDB"
rm -rf "$SAVE"; mkdir -p "$SAVE"; touch "$(dirname $0)/was-here"
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes ${NNODES} pretrain_gpt.py \
    "${MODEL[@]}" $TRAIN_ARGS $EXTRA --mock-data --vocab-size 97 --tokenizer-type NullTokenizer 2>&1 | tee log
END
expect 2 "train.sh needs its arguments (1)" "$BEVATRON" migrate "$work/train.sh"
expect 0 "# note: the launcher's --nnodes is \${NNODES}" "$BEVATRON" migrate "$work/train.sh" "$work/run"
expect 0 "number of parameters: " "$BEVATRON" migrate "$work/train.sh" --set NNODES=1 -- "$work/run"
for line in "^bevatron train --nproc 2 --num-layers 2 --hidden-size 32 " "--global-batch-size 8 " "^# note: --use-mcore-models has no meaning" \
    "^# note: taken as unset (--set NAME=VALUE): GPUS, WANDB" "^# note: \${EXTRA} holds no flags" "--vocab-size 97"; do
    grep -q -e "$line" "$work/out" && pass || fail "no \"$line\" in the result"
done
grep -q -e "--use-mcore-models\$\|--wandb" "$work/out" && fail "a flag without a meaning is printed" || pass
[ ! -e "$work/was-here" ] && [ ! -e "$work/run" ] && [ ! -e log ] && pass || fail "the script has run"

# The printed command and the file for --config train the same run.
expect 0 "number of parameters" "$BEVATRON" migrate "$work/train.sh" --set NNODES=1 --output "$work/ours.sh" -- "$work/run"
expect 0 "number of parameters" "$BEVATRON" migrate "$work/train.sh" --set NNODES=1 --output "$work/ours.yaml" -- "$work/run"
(PATH=$(dirname "$BEVATRON"):$PATH bash "$work/ours.sh") >"$work/log" 2>&1
grep -q "iteration        3/" "$work/log" && pass || fail "the printed command does not train: $(tail -1 "$work/log")"
expect 0 "iteration        3/" "$BEVATRON" train --config "$work/ours.yaml" --nproc 2 --save "$work/again"
expect_same "$work/run/iter_0000003/model.safetensors" "$work/again/iter_0000003/model.safetensors" "the file for --config"

# Undecided: numbers are asked for by name, paths are left to the shell.
cat >"$work/open.sh" <<'END'
HIDDEN=$(cat size); DATE=$(date)
srun --nodes=2 --ntasks-per-node=2 python pretrain_bert.py --num-layers 2 --hidden-size $HIDDEN --num-attention-heads 4 \
    --seq-length 16 --max-position-embeddings 16 --micro-batch-size 2 --lr 1e-3 --train-iters 3 --eval-interval 10 \
    --data-path $DATA --save "$HOME/run $DATE" --vocab-size 97 --tokenizer-type NullTokenizer --spec a b --eval-iters x
END
expect 2 "--set HIDDEN=… for --hidden-size: line 1: \$(cat size)" "$BEVATRON" migrate "$work/open.sh"
expect 2 "2 flags were left out" "$BEVATRON" migrate "$work/open.sh" --set HIDDEN=32
for line in "^srun --nodes=2 --ntasks-per-node=2 bevatron train --model bert" "--data-path \${DATA}" '--save "${HOME}/run ${DATE}"' \
    "^# note: set before this command: DATA, HOME, DATE" "^# left out: --spec describes a model" \
    "^# left out: --eval-iters takes a whole number"; do
    grep -q -e "$line" "$work/out" && pass || fail "no \"$line\" in the result"
done
expect 0 "memory of a rank" "$BEVATRON" migrate "$work/train.sh" --set NNODES=1 --also="--bf16 --swiglu" -- "$work/run"
grep -q -e "--bf16 --swiglu" "$work/out" && pass || fail "--also adds no flags"

# DeepSpeed's file, which the script writes, is part of the result; the dry run reads it.
cat >"$work/ds.sh" <<'END'
run_cmd="deepspeed --num_gpus 2 pretrain_gpt.py --deepspeed --deepspeed_config ds.json --num-layers 2 --hidden-size 32 \
    --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 --lr 1e-3 --train-iters 3 --mock-data \
    --vocab-size 97 --eval-interval 9 --micro-batch-size 2 --clip-grad 1"
cat <<EOF > ds.json
{"train_batch_size": $((4 * 2)), "train_micro_batch_size_per_gpu": 2, "gradient_clipping": 0.5}
EOF
echo ${run_cmd}
eval ${run_cmd}
END
expect 0 "gradient_clipping 0.5 counts instead of --clip-grad 1" "$BEVATRON" migrate "$work/ds.sh"
grep -q '^{"train_batch_size": 8,' "$work/out" && pass || fail "the file is not printed"
[ ! -e ds.json ] && pass || fail "migrate wrote the script's file"

# Hostile scripts.
cat >"$work/bad.sh" <<END
touch $work/owned; \$(touch $work/owned); \`touch $work/owned\`; eval "touch $work/owned"; A=\$(touch $work/owned)
bash -c 'touch $work/owned'; source $work/train.sh; exec 3> $work/owned; cat <<X > $work/owned
text
X
: > $work/owned; echo x >> $work/owned; trap "touch $work/owned" EXIT; python -c 'open("$work/owned", "w")'
while true; do B="\$B\$B x"; touch $work/owned; done &
torchrun pretrain_gpt.py --save '\$(touch $work/owned)' --load '\${x@P}\`touch $work/owned\`"' --num-layers 1
END
expect 2 "repeats or expands more than any" "$BEVATRON" migrate "$work/bad.sh"
sed -i '/^while/d' "$work/bad.sh"
expect 2 "" "$BEVATRON" migrate "$work/bad.sh"
sed -n '/^bevatron/,/[^\\]$/p' "$work/out" >"$work/printed"
cat >"$work/comment.sh" <<END
A="
touch $work/owned
"
cat <<X > d.json
EOF
touch $work/owned
X
cat "\$A.sh"
torchrun pretrain_gpt.py "--bad\$A" "\$A" --lr "\$A" --save "\$A" --deepspeed-config d.json --num-layers 1
END
expect 2 "" "$BEVATRON" migrate "$work/comment.sh" --output "$work/printed.sh"
grep -q "^# left out: unknown flag --bad?touch" "$work/printed.sh" && pass || fail "a comment has more than one line"
(bevatron() { :; }; . "$work/printed.sh") >"$work/words" 2>&1
(bevatron() { printf '%s\n' "$@"; }; . "$work/printed") >"$work/words" 2>&1
grep -q -F "\$(touch $work/owned)" "$work/words" && grep -q -F "\${x@P}\`touch $work/owned\`\"" "$work/words" && pass ||
    fail "what is printed is not what the script says: $(cat "$work/words")"
[ ! -e "$work/owned" ] && pass || fail "a hostile script has run"
expect 2 "starts no Python program" "$BEVATRON" migrate "$work/printed"
expect 2 "is not a shell script: byte" "$BEVATRON" migrate "$work/run/iter_0000003/model.safetensors"
expect 2 "write NAME=VALUE" "$BEVATRON" migrate "$work/ds.sh" --set "a b"

# A value that begins with -- is no flag; a copied program starts nothing; a long value is one.
cat >"$work/words.sh" <<'END'
cp pretrain_gpt.py /tmp/x; A="x y "; for i in 1 2 3 4 5 6 7 8 9 10; do A=$A$A; done
torchrun pretrain_gpt.py --save=--load --wandb-project $A
END
expect 2 "problems with the flags" "$BEVATRON" migrate "$work/words.sh"
grep -q "^bevatron train --save=--load" "$work/out" && pass || fail "a value has become a flag"
expect 2 "problems with the flags" "$BEVATRON" migrate "$work/words.sh" --output "$work/words.yaml"
grep -q '^save: "--load"$' "$work/words.yaml" && pass || fail "a value of the file has become a flag"

# Settings of other programs: their defaults count, their units are ours, and what is not known here is refused.
cat >"$work/small.py" <<'END'
"""
smaller than GPT-2
"""
import time
wandb_log = True  # no meaning here
n_layer, = (2,)
END
expect 2 "small.py, line 6: migrate cannot read this setting" "$BEVATRON" migrate "$work/small.py"
sed -i '$d' "$work/small.py"
printf '"""A text of one line."""\nn_layer = 2\nbatch_size = 2\ngradient_accumulation_steps = 5 * 8\nlearning_rate = 1e-3\nbias = True\ndropout = 0.2\n' >>"$work/small.py"
expect 0 "number of parameters" "$BEVATRON" migrate "$work/small.py"
for line in "--num-layers 2 " "--global-batch-size 80 " "--lr 1e-3 " "--hidden-dropout 0.2 --attention-dropout 0.2" \
    "--hidden-size 768 " "--adam-beta2 0.95" "--bf16 "; do
    tr -s ' \\\n' ' ' <"$work/out" | grep -q -e "$line" && pass || fail "no \"$line\" for nanoGPT"
done
grep -q -e "--disable-bias\|wandb" "$work/out" && fail "bias = True or wandb_log has become a flag" || pass
echo 'init_from = "gpt2-xl"' >>"$work/small.py"
expect 2 "1 flags were left out" "$BEVATRON" migrate "$work/small.py"
cat >"$work/titan.toml" <<'END'
[model]
name = "llama3"
flavor = "8B"
[optimizer]
lr = 3e-4
[lr_scheduler]
min_lr_factor = 0.1
warmup_steps = 20
[training]
local_batch_size = 1
global_batch_size = -1
seq_len = 128
steps = 100
dataset = "c4"
[parallelism]
tensor_parallel_degree = 2
[checkpoint]
enable = true
folder = "out"
[profiling]
enable_profiling = true
END
expect 0 "number of parameters: 8030261248" "$BEVATRON" migrate "$work/titan.toml" --also="--vocab-size 128256"
for line in "--nproc 2 --preset llama3-8b" "--lr 3e-4" "--min-lr 3e-05" "--lr-warmup-iters 20" "--tensor-model-parallel-size 2" "--save out" \
    "--weight-decay 0.1"; do
    tr -s ' \\\n' ' ' <"$work/out" | grep -q -e "$line" && pass || fail "no \"$line\" for torchtitan"
done
cat >"$work/nemo.yaml" <<'END'
trainer: {devices: 8}
END
expect 2 "" "$BEVATRON" migrate "$work/nemo.yaml"
cat >"$work/nemo.yaml" <<'END'
name: megatron_gpt  # of NeMo
trainer:
  devices: 8
  num_nodes: 2
  precision: bf16
  max_steps: 1000
model:
  micro_batch_size: 4
  tensor_model_parallel_size: 2
  encoder_seq_length: 128
  num_layers: 2
  hidden_size: 64
  num_attention_heads: 4
  kv_channels: null
  bias: false
  data:
    data_prefix:
      - 1.0
      - /data/a_text_document
    splits_string: 980,10,10
  optim:
    name: distributed_fused_adam
    lr: 2e-4
    sched:
      name: CosineAnnealing
      warmup_steps: 115
END
expect 0 "number of parameters" "$BEVATRON" migrate "$work/nemo.yaml" --also="--vocab-size 1000"
for line in "mpirun -n 16 bevatron train --bf16 --train-iters 1000" "--disable-bias-linear --data-path 1.0 /data/a_text_document --split 980,10,10" \
    "--use-distributed-optimizer --lr 2e-4 --lr-decay-style cosine --lr-warmup-iters 115"; do
    tr -s ' \\\n' ' ' <"$work/out" | grep -q -e "$line" && pass || fail "no \"$line\" for NeMo"
done
echo 'mpirun -np 8 ./train_gpt2cu -i "a_*.bin" -e d12 -b 64 -t 1024 -d 524288 -r 1 -z 1 -l 0.0006 -q 0.1 -x 100 -h 1' >"$work/llmc.sh"
expect 0 "number of parameters" "$BEVATRON" migrate "$work/llmc.sh" --also="--vocab-size 50257"
for line in "--nproc 8 --train-data-path \"a_\*.bin\" --preset gpt2-124m --micro-batch-size 64" "--global-batch-size 512 " "--min-lr 6e-05" \
    "--recompute-modules mlp_act --use-distributed-optimizer"; do
    tr -s ' \\\n' ' ' <"$work/out" | grep -q -e "$line" && pass || fail "no \"$line\" for llm.c"
done
printf 'out_dir = "$(touch %s/owned)"\nx = `touch %s/owned`\n' "$work" "$work" >"$work/bad.py"
expect 2 "" "$BEVATRON" migrate "$work/bad.py"
printf 'a: \001b\n' >"$work/bad.yaml"
expect 2 "bad.yaml, line 1: migrate cannot read this setting" "$BEVATRON" migrate "$work/bad.yaml"
[ ! -e "$work/owned" ] && pass || fail "settings have run"

# Sizes whose product no integer holds are the dry run's to refuse.
cat >"$work/large.sh" <<'END'
python pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 16 --lr 1 --train-iters 1 \
    --max-position-embeddings 16 --micro-batch-size 1 --mock-data --vocab-size 97 --tensor-model-parallel-size 1048576 \
    --pipeline-model-parallel-size 1048576 --context-parallel-size 1048576 --num-experts 4 --expert-model-parallel-size 4
END
expect 2 "problems with the flags" "$BEVATRON" migrate "$work/large.sh"

finish
