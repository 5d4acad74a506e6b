#!/usr/bin/env bash
# preflight on one machine: GPUs with a stand-in for nvidia-smi, EFA with one for fi_info, NCCL's log, the file system,
# space for checkpoints, tokenizer and data; problems are reported and give the exit code.
. tests/cli/common.sh || exit
mkdir "$work/bin"
stand_in() { printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1" && chmod +x "$work/bin/$1"; }
flight=(env PATH="$work/bin:$PATH" "$BEVATRON" preflight)
a100="NVIDIA A100-SXM4-40GB, 535.183.01, 40960, 1410, 1410, Enabled, 0, No, 0x0000000000000001, 31"
eight="for i in 1 2 3 4 5 6 7 8; do echo '$a100'; done"

stand_in nvidia-smi "echo \"\$@\" >$work/arguments; exit 9"
expect 0 "nvidia-smi failed with exit code 9" "${flight[@]}"
grep -q "^--query-gpu=name,driver_version,.* --format=csv,noheader,nounits$" "$work/arguments" && pass || fail "nvidia-smi's arguments"
expect 1 "check that the driver is loaded" "${flight[@]}" --gpus 8
has_cuda=$("$BEVATRON" version | grep -c "CUDA.*yes")
stand_in nvidia-smi "$eight"
"${flight[@]}" --gpus 8 >"$work/out" 2>&1
grep -q "ok .* gpus .*8 × NVIDIA A100-SXM4-40GB, 40960 MiB, driver 535.183.01, 1410 of 1410 MHz, ECC on" "$work/out" && pass || fail "eight GPUs"
[ "$has_cuda" = 1 ] || { grep -q "BAD .*this bevatron cannot use them" "$work/out" && pass || fail "GPUs without CUDA"; }
stand_in nvidia-smi "$eight | head -n 7"
expect 1 "7 GPUs instead of 8" "${flight[@]}" --machine p4d.24xlarge
expect 1 "GPU 0: is a NVIDIA A100-SXM4-40GB, those of a p5.48xlarge are H100" "${flight[@]}" --machine p5.48xlarge
grep -q "note .* network .*not measured" "$work/out" && pass || fail "no word about the network"
expect 1 "cannot check for 10.00 GB/s with one rank" "${flight[@]}" --min-busbw 10
stand_in nvidia-smi "$eight | sed '3s/, 0, No/, 2, No/'"
expect 1 "GPU 2: 2 memory errors" "${flight[@]}" --gpus 8
stand_in nvidia-smi "echo No devices were found"
expect 1 "instead of 10 fields" "${flight[@]}" --gpus 1
rm "$work/bin/nvidia-smi"

# The network: what a log says, against what was requested.
printf 'h:1:2 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 4 nics)\n' >"$work/efa.log"
printf 'h:1:2 [0] NCCL INFO Using network Socket\n' >"$work/tcp.log"
stand_in fi_info "for i in 1 2 3 4; do printf 'provider: efa\n    domain: rdmap%ss27-rdm\n' \$i; done"
(ulimit -l unlimited) 2>/dev/null && unlimited=(bash -c 'ulimit -l unlimited; exec "$@"' -) || unlimited=()
if [ ${#unlimited[@]} -gt 0 ]; then
    expect 0 "NCCL uses efa" "${unlimited[@]}" "${flight[@]}" --transport efa --nccl-log "$work/efa.log"
    grep -q "ok .* efa .*4 interfaces" "$work/out" && pass || fail "fi_info was not understood"
fi
expect 1 "efa is required, but NCCL uses tcp" "${flight[@]}" --transport efa --nccl-log "$work/tcp.log"
expect 1 "ib is required, but NCCL uses efa" "${flight[@]}" --transport ib --nccl-log "$work/efa.log"
[ -d /sys/class/infiniband ] || expect 1 "no InfiniBand port is up" "${unlimited[@]}" "${flight[@]}" --transport ib
expect 1 "whether NCCL takes efa shows on two or more" "${flight[@]}" --transport efa --gpus 1
expect 0 "NCCL uses tcp" "${flight[@]}" --nccl-log "$work/tcp.log"
expect 1 "does not say that it uses it" "${flight[@]}" --transport ib --nccl-log /dev/null
expect 1 "no-such-log" "${flight[@]}" --nccl-log "$work/no-such-log"
expect 1 "4 interfaces, a p5.48xlarge has 32" "${flight[@]}" --machine p5.48xlarge --gpus 0 --nccl-log "$work/efa.log"
stand_in fi_info "echo 'fi_getinfo: -61 (No data available)' >&2; exit 61"
expect 1 "sees no EFA interface" "${flight[@]}" --transport efa --nccl-log "$work/efa.log"
expect 1 "EFA and InfiniBand need unlimited" bash -c 'ulimit -l 64; exec "$@"' - "${flight[@]}" --transport ib --nccl-log "$work/tcp.log"
expect 1 "open files; raise it" bash -c 'ulimit -n 1024; exec "$@"' - "${flight[@]}"

# Files: speed, and space for two checkpoints of the model.
expect 0 "writes" "${flight[@]}" --path "$work/disk" --file-size 2
[ -z "$(ls -A "$work/disk")" ] && pass || fail "preflight left something behind"
expect 1 "999999 are asked for" "${flight[@]}" --path "$work/disk" --file-size 2 --min-write 999999
expect 1 "cannot" "${flight[@]}" --path /proc/none --file-size 2
model=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 50
    --tokenizer-type NullTokenizer --micro-batch-size 1 --lr 1e-3 --train-iters 5)
expect 0 "two checkpoints take 0.0 GB" "${flight[@]}" "${model[@]}" --save "$work/run" --save-interval 5 --file-size 1
large=("${model[@]}" --num-layers 96 --hidden-size 12288 --num-attention-heads 96 --save "$work/run" --file-size 1)
expect 1 "two checkpoints take 4175.1 GB" "${flight[@]}" "${large[@]}"
expect 1 "two checkpoints take 4871.0 GB" "${flight[@]}" "${large[@]}" --bf16
expect 1 "two checkpoints take 2783.4 GB" "${flight[@]}" "${large[@]}" --optimizer sgd
expect 1 "two checkpoints take 3479.3 GB" "${flight[@]}" "${large[@]}" --optimizer sgd --bf16
expect 0 "two checkpoints take 0.0 GB" "${flight[@]}" --mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 \
    --seq-length 16 --vocab-size 50 --micro-batch-size 1 --lr 1e-3 --train-iters 5 --save "$work/run" --file-size 1
expect 2 "unknown flag --no-such-flag" "${flight[@]}" --no-such-flag
expect 2 "num-attention-heads" "${flight[@]}" "${model[@]}" --hidden-size 17
expect 2 "unknown machine" "${flight[@]}" --machine p9.large

# Data and tokenizer.
for i in $(seq 50); do echo "{\"text\": \"the $i quick brown foxes\"}"; done >"$work/text.jsonl"
"$BEVATRON" tokenizer train --input "$work/text.jsonl" --vocab-size 270 --output-prefix "$work/bpe" >"$work/out" 2>&1 || fail "no tokenizer"
tokenizer=(--tokenizer-type GPT2BPETokenizer --vocab-file "$work/bpe-vocab.json" --merge-file "$work/bpe-merges.txt")
"$BEVATRON" preprocess --input "$work/text.jsonl" --output-prefix "$work/data" "${tokenizer[@]}" --append-eod >"$work/out" 2>&1 || fail "no data"
expect 0 "50 documents" "${flight[@]}" "${tokenizer[@]}" --data-path "$work/data_text_document"
grep -q "ok .* tokenizer .*GPT2BPETokenizer, 2[0-9][0-9] ids" "$work/out" && pass || fail "no word about the tokenizer"
expect 0 "all read" "${flight[@]}" "${tokenizer[@]}" --data-path "$work/data_text_document" --deep
expect 215 "BAD" "${flight[@]}" --vocab-size 10 --data-path "$work/data_text_document" --deep
# Padding the model to more ids than the tokenizer has does not make them valid in the data: train's bound.
for i in 1 2; do echo '{"text": "260 261"}'; done >"$work/ids.jsonl"
"$BEVATRON" preprocess --input "$work/ids.jsonl" --output-prefix "$work/ids" --tokenizer-type NullTokenizer --vocab-size 262 >"$work/out" 2>&1 || fail "no ids"
expect 215 "beyond the vocabulary of" "${flight[@]}" --tokenizer-type NullTokenizer --vocab-size 258 --data-path "$work/ids_text_document" --deep
truncate -s -1 "$work/data_text_document.bin"
expect 215 "BAD" "${flight[@]}" "${tokenizer[@]}" --data-path 0.5 "$work/data_text_document" 0.5 "$work/data_text_document"
expect 1 "BAD" "${flight[@]}" --data-path "$work/none_text_document"
echo '{"a' >"$work/bpe-vocab.json"
"${flight[@]}" "${tokenizer[@]}" >"$work/out" 2>&1 && fail "a broken tokenizer passes" || pass
expect 0 '"check":"shm"' "${flight[@]}" --json
finish
