#!/usr/bin/env python3
"""Compares `bevatron plan` with step times that were measured or published.

usage: bench/plan_rows.py BEVATRON [ROWS.csv]

Without a file it plans the seven models of bench/RESULTS.md on one H200. With one it plans the rows of published runs
(columns as in the header below) whose layout is stated. Prints predicted and measured seconds, and the error of each row
in percent.
"""
import csv
import json
import subprocess
import sys

# name, flags, micro-batch, measured tokens/s on one H200 in bf16 (bench/RESULTS.md, 2026-11-16)
OURS = [
    ("gpt2-124M", 12, 768, 12, 1024, 64, 50304, "", 596085),
    ("gpt2-1558M", 48, 1600, 25, 1024, 16, 50304, "", 51953),
    ("gpt3-1.3B", 24, 2048, 16, 2048, 16, 50304, "", 67403),
    ("megatron-1.7B", 24, 2304, 24, 2048, 12, 51200, "", 52198),
    ("megatron-3.6B", 30, 3072, 32, 2048, 4, 51200, "", 23907),
    ("llama-1.3B", 24, 2048, 16, 4096, 8, 32000, "llama 5632", 61508),
    ("llama7B-8layers", 8, 4096, 32, 4096, 4, 32000, "llama 11008", 51518),
]
LLAMA = ("--swiglu --normalization RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights "
         "--disable-bias-linear --ffn-hidden-size ")
MACHINES = {"A100-80": "p4de.24xlarge", "A100": "p4de.24xlarge", "H100": "p5.48xlarge"}


def plan(program, flags):
    result = subprocess.run([program, "plan", "--json", "--bf16", "--mock-data", "--lr", "1e-4", "--train-iters", "1",
                             "--attention-dropout", "0", "--hidden-dropout", "0"] + flags.split(),
                            capture_output=True, text=True)
    if result.returncode:
        return None, result.stderr.strip().splitlines()[-1]
    return json.loads(result.stdout), ""


def shape(layers, hidden, heads, seq, vocab):
    return (f"--num-layers {layers} --hidden-size {hidden} --num-attention-heads {heads} --seq-length {seq} "
            f"--max-position-embeddings {seq} --vocab-size {vocab} --make-vocab-size-divisible-by 1 ")


def show(name, predicted, measured, why=""):
    if predicted is None:
        print(f"{name:38} not planned: {why}")
    else:
        print(f"{name:38} {predicted:9.3f} s  {measured:9.3f} s  {100 * (predicted / measured - 1):+6.1f} %")


def own(program):
    for name, layers, hidden, heads, seq, batch, vocab, kind, speed in OURS:
        flags = shape(layers, hidden, heads, seq, vocab)
        if kind:
            flags += LLAMA + kind.split()[1]
        found, why = plan(program, flags + f" --micro-batch-size {batch} --global-batch-size {batch} --nproc 1 "
                                           "--machine p5en.48xlarge")
        show(name, found and found["step_seconds"], batch * seq / speed, why)


def published(program, path):
    for row in csv.DictReader(open(path, newline="")):
        name = f"{row['source']} {row['model']} {row['gpus']}"
        if not row["mbs"] or not row["vocab"]:
            show(name, None, 0, "its micro-batch or vocabulary is not stated")
            continue
        flags = shape(row["layers"], row["hidden"], row["heads"], row["seq"], row["vocab"])
        flags += (f"--micro-batch-size {row['mbs']} --global-batch-size {row['gbs']} --nproc {row['gpus']} "
                  f"--tensor-model-parallel-size {row['tp']} --pipeline-model-parallel-size {row['pp']} "
                  f"--machine {MACHINES[row['gpu']]} ")
        if row["vpp"] not in ("", "1"):
            flags += f"--num-virtual-stages-per-pipeline-rank {row['vpp']} "
        if row["recompute"] == "full":
            flags += "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 "
        elif row["recompute"].startswith("selective"):
            flags += "--recompute-granularity selective "
        if row["recompute"].endswith("+sp"):
            flags += "--sequence-parallel "
        found, why = plan(program, flags)
        show(name, found and found["step_seconds"], float(row["t_iter_s"]), why)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        published(sys.argv[1], sys.argv[2])
    elif len(sys.argv) == 2:
        own(sys.argv[1])
    else:
        sys.exit(__doc__)
