#!/bin/bash
# bevatron checkpoint inspect and verify on checkpoints written here byte by byte, intact and damaged; bevatron board
# --text.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh" || exit
bevatron=$BEVATRON

entry() { # NAME HOLDS: a line of the manifest, made with system tools
    printf '{"name": "%s", "holds": "%s", "bytes": %d, "sha256": "%s"}' "$1" "$2" "$(stat -c %s "$1")" \
        "$(sha256sum "$1" | cut -d' ' -f1)"
}

# One tensor w, fp32 (2), in the documented format: 64 bytes of header, 8 of data.
write_checkpoint() { # ITERATION
    local at=save/iter_$(printf '%07d' "$1")
    mkdir -p "$at"
    (
        cd "$at" || exit 1
        printf '\x40\0\0\0\0\0\0\0%-64s\0\0\x80\x3f\0\0\0\x40' \
            '{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}' >model.safetensors
        printf '{"program_version": "0.0", "iteration": %d, "consumed_train_samples": 80, "consumed_valid_samples": 0,
            "skipped_train_samples": 0, "adam_step": 9, "schedule_samples": 72, "seed": 1234, "loss_scale_growth": 0,
            "loss_scale_hysteresis": 0, "loss_scale": 1, "flops_so_far": 0}' "$1" >state.json
        printf '{"format": "bevatron-checkpoint", "version": 1, "iteration": %d, "files": [%s, %s]}' "$1" \
            "$(entry model.safetensors model)" "$(entry state.json state)" >manifest.json
    )
}

cd "$work" || exit 1
write_checkpoint 10
write_checkpoint 20
printf 20 >save/latest_checkpointed_iteration.txt

expect 0 'iterations 10 20 (latest)' "$bevatron" checkpoint inspect save
expect 0 'iter_0000020' "$bevatron" checkpoint inspect save
expect 0 '1 tensors, 2 elements' "$bevatron" checkpoint inspect save --ckpt-step 10
expect 0 'fp32 (2)' "$bevatron" checkpoint inspect --tensors save/iter_0000010
expect 0 '"consumed_train_samples":80' "$bevatron" checkpoint inspect --json save
expect 0 '"tensors":[{"name":"w","dtype":"fp32","shape":[2]}]' "$bevatron" checkpoint inspect --json --tensors \
    save/iter_0000010/model.safetensors
expect 1 'nowhere' "$bevatron" checkpoint inspect nowhere
expect 1 'iter_0000099' "$bevatron" checkpoint inspect save --ckpt-step 99
expect 0 'save/iter_0000010: whole' "$bevatron" checkpoint verify save
expect 0 'save/iter_0000020: whole' "$bevatron" checkpoint verify save
expect 0 '{"path":"save/iter_0000010","is_whole":true,"error":null}' "$bevatron" checkpoint verify --json save/iter_0000010
expect 0 'whole' "$bevatron" checkpoint verify save/iter_0000010/model.safetensors
expect 2 'checkpoint COMMAND' "$bevatron" checkpoint
expect 2 'prove' "$bevatron" checkpoint prove
expect 0 'verify' "$bevatron" checkpoint --help
expect 2 'PATH' "$bevatron" checkpoint verify

# Names and metadata with escape sequences, line ends and 8-bit controls, which must not reach a terminal.
header='{"__metadata__":{"k\u001b[2J":"v\n  fake: \u009b1m\u007f"},"w\u001b]0;x\u0007":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
printf "\\x$(printf %02x ${#header})\0\0\0\0\0\0\0%s\0\0\200\077\0\0\0\100" "$header" >hostile.safetensors
expect 0 'w?]0;x?' "$bevatron" checkpoint inspect --tensors hostile.safetensors
expect 0 '  k?[2J: v?  fake: ?1m?' "$bevatron" checkpoint inspect --tensors hostile.safetensors
"$bevatron" checkpoint inspect --tensors hostile.safetensors | LC_ALL=C grep -q $'[\x01-\x09\x0b-\x1f\x7f]\|\xc2\x9b' &&
    fail "control characters on the terminal"

# Flips one bit of one weight.
printf '\x81' | dd of=save/iter_0000020/model.safetensors bs=1 seek=74 conv=notrunc status=none
expect 216 'save/iter_0000020/model.safetensors' "$bevatron" checkpoint verify save
expect 216 'SHA-256' "$bevatron" checkpoint verify save
expect 216 'save/iter_0000010: whole' "$bevatron" checkpoint verify save
expect 0 'whole (sizes only)' "$bevatron" checkpoint verify --sizes-only save/iter_0000020
expect 216 '"is_whole":false' "$bevatron" checkpoint verify --json save/iter_0000020
truncate -s 70 save/iter_0000020/model.safetensors
expect 216 '70 bytes and the manifest says 80' "$bevatron" checkpoint verify --sizes-only save
expect 1 'model.safetensors' "$bevatron" checkpoint inspect save
printf 'PK\x03\x04 surely no tensors' >other.pt
expect 216 'is it a safetensors file?' "$bevatron" checkpoint verify other.pt

expect 2 '--logdir' "$bevatron" board --text
expect 1 'no metrics.jsonl' "$bevatron" board --text --logdir save
expect 1 'nowhere' "$bevatron" board --text --logdir nowhere
mkdir -p runs/a runs/b/deep
for ((i = 1; i <= 50; i++)); do
    printf '{"kind":"train","time":%d,"iteration":%d,"train_iters":60,"losses":{"lm loss":%d.5},"tokens_per_second":1000}\n' \
        $((1767323045 + i)) $i $((60 - i)) >>runs/a/metrics.jsonl
done
cp runs/a/metrics.jsonl runs/b/deep/second_metrics.jsonl
printf '{"kind":"eval","iteration":50,"set":"validation","losses":{"lm loss":9.25}}\n{"kind":"tr' >>runs/a/metrics.jsonl
expect 0 'iteration 50 of 60, loss 10.5000, validation 9.2500, 1000 tokens/s' "$bevatron" board --text --logdir runs
"$bevatron" board --text --logdir runs | grep -q Slurm && fail "a job that is not there"
printf '\n{"kind":"run","iteration":50,"job":"%s","job_log":"/logs/%s.log"}' 16 train-16 17 train-17 >>runs/b/deep/second_metrics.jsonl
echo >>runs/b/deep/second_metrics.jsonl
expect 0 'Slurm jobs 16, 17; log /logs/train-17.log' "$bevatron" board --text --logdir runs/b
expect 0 'runs/b/deep/second_metrics.jsonl' "$bevatron" board --text --logdir runs
expect 0 '59.50 ┤⠑⠒⠢⢄⡀' "$bevatron" board --text --logdir runs --width 60 --height 12
[ "$("$bevatron" board --text --logdir runs | grep -c '└')" -eq 2 ] || fail "two runs, two pictures"

finish
