#!/usr/bin/env python3
"""Compares the memory that `bevatron plan` counts with what runs take: on one H200 what the driver sees, on a CPU the
largest sum of anonymous memory of all ranks.

usage: bench/plan_memory.py BEVATRON [--cpu] [NAME…]

All ranks of a case share the GPU or the machine, and their sum is compared. What a tiny model takes (libraries, CUDA's
context) is measured first, for as many ranks, and taken off. Cases of several ranks need mpirun.
"""
import json
import os
import subprocess
import sys
import threading
import time

COMMON = "--mock-data --tokenizer-type NullTokenizer --lr 1e-4 --train-iters 3 --eval-interval 2 --eval-iters 1 --log-interval 1 "
PLAIN = "--attention-dropout 0 --hidden-dropout 0 --make-vocab-size-divisible-by 1 "
LLAMA = ("--swiglu --normalization RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights "
         "--disable-bias-linear --ffn-hidden-size ")


def gpt(layers, hidden, heads, seq, batch, vocab, more=""):
    return (f"--num-layers {layers} --hidden-size {hidden} --num-attention-heads {heads} --seq-length {seq} "
            f"--max-position-embeddings {seq} --micro-batch-size {batch} --vocab-size {vocab} {PLAIN}{more}")


SMALL = gpt(12, 768, 12, 1024, 16, 50304, "--bf16 ")
FULL = "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 "
NORMS = "--recompute-granularity selective --recompute-modules layernorm "
# name, ranks, micro-batches, flags. One rank and one micro-batch of a large model is timed by `bench step`.
CASES = [
    ("gpt2-124M bf16", 1, 1, gpt(12, 768, 12, 1024, 64, 50304, "--bf16")),
    ("gpt2-124M fp32", 1, 1, gpt(12, 768, 12, 1024, 32, 50304)),
    ("gpt2-124M fp16", 1, 1, gpt(12, 768, 12, 1024, 64, 50304, "--fp16")),
    ("gpt2-124M bf16, dropout", 1, 2, SMALL.replace("-dropout 0", "-dropout 0.1")),
    ("gpt2-1558M bf16", 1, 1, gpt(48, 1600, 25, 1024, 16, 50304, "--bf16")),
    ("gpt3-1.3B bf16", 1, 1, gpt(24, 2048, 16, 2048, 16, 50304, "--bf16")),
    ("gpt3-1.3B bf16, full recompute", 1, 1, gpt(24, 2048, 16, 2048, 16, 50304, "--bf16 " + FULL)),
    ("gpt3-1.3B fp8", 1, 1, gpt(24, 2048, 16, 2048, 16, 50304, "--bf16 --fp8-format hybrid")),
    ("gpt3-1.3B fp8, blockwise", 1, 1, gpt(24, 2048, 16, 2048, 16, 50304, "--bf16 --fp8-format hybrid --fp8-recipe blockwise")),
    ("megatron-3.6B bf16", 1, 1, gpt(30, 3072, 32, 2048, 4, 51200, "--bf16")),
    ("llama-1.3B bf16", 1, 1, gpt(24, 2048, 16, 4096, 8, 32000, "--bf16 " + LLAMA + "5632")),
    ("llama7B-8layers bf16", 1, 1, gpt(8, 4096, 32, 4096, 4, 32000, "--bf16 " + LLAMA + "11008")),
    ("llama7B-8layers fp8", 1, 1, gpt(8, 4096, 32, 4096, 4, 32000, "--bf16 --fp8-format hybrid " + LLAMA + "11008")),
    ("llama-1.3B bf16, norms recomputed", 1, 1, gpt(24, 2048, 16, 4096, 8, 32000, "--bf16 " + LLAMA + "5632 " + NORMS)),
    ("mixtral-8x7B-2layers", 1, 1, gpt(2, 4096, 32, 4096, 4, 32000, "--bf16 " + LLAMA + "14336 --num-experts 8 --moe-router-topk 2")),
    ("olmoe-1B-7B-8layers", 1, 1, gpt(8, 2048, 16, 4096, 8, 50304, "--bf16 " + LLAMA + "1024 --num-experts 64 --moe-router-topk 8")),
    ("bert-large bf16", 1, 2, "--model bert " + gpt(24, 1024, 16, 512, 32, 30592, "--bf16")),
    ("t5-base bf16", 1, 2, "--model t5 --num-layers 12 --hidden-size 768 --num-attention-heads 12 --encoder-seq-length 512 "
     "--decoder-seq-length 128 --max-position-embeddings 512 --micro-batch-size 32 --vocab-size 32128 --bf16 " + PLAIN),
    ("TP2 with sequence parallelism", 2, 2, SMALL + "--tensor-model-parallel-size 2 --sequence-parallel"),
    ("PP2", 2, 4, SMALL + "--pipeline-model-parallel-size 2"),
    ("PP2, interleaved by 2", 2, 4, SMALL + "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2"),
    ("DP2, distributed optimizer", 2, 2, SMALL + "--use-distributed-optimizer"),
    ("CP2", 2, 2, SMALL + "--context-parallel-size 2"),
    ("TP2 PP2, full recompute", 4, 4, SMALL + "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 " + FULL),
]
TINY = gpt(2, 64, 4, 64, 1, 128, "--bf16")

# On a CPU: smaller, so that a step takes a second.
CPU = gpt(4, 512, 8, 256, 8, 16384)
CPU_RANKS = gpt(4, 512, 8, 128, 2, 32768)
CPU_EXPERTS = gpt(4, 256, 8, 256, 8, 8192, LLAMA + "512 --num-experts 8 --moe-router-topk 2 ")
CPU_CASES = [
    ("fp32", 1, 1, CPU),
    ("bf16", 1, 1, CPU + "--bf16"),
    ("fp32, 4 micro-batches", 1, 4, CPU),
    ("dropout", 1, 1, CPU.replace("-dropout 0", "-dropout 0.1")),
    ("full recompute", 1, 1, CPU + FULL),
    ("selective recompute", 1, 1, CPU + "--recompute-granularity selective"),
    ("long sequences", 1, 1, gpt(4, 256, 4, 2048, 1, 16384)),
    ("a large vocabulary", 1, 1, gpt(2, 256, 4, 256, 8, 50304)),
    ("Llama, grouped queries", 1, 1, gpt(4, 512, 8, 256, 8, 16384, LLAMA + "1408 --group-query-attention --num-query-groups 2")),
    ("SGD", 1, 1, CPU + "--optimizer sgd"),
    ("Muon", 1, 1, CPU + "--optimizer muon"),
    ("BERT", 1, 1, "--model bert " + gpt(4, 512, 8, 256, 8, 16384)),
    ("T5", 1, 1, "--model t5 --num-layers 4 --hidden-size 512 --num-attention-heads 8 --encoder-seq-length 256 "
     "--decoder-seq-length 128 --max-position-embeddings 256 --micro-batch-size 8 --vocab-size 16384 " + PLAIN),
    ("experts", 1, 1, CPU_EXPERTS),
    ("experts, bf16", 1, 2, CPU_EXPERTS + "--bf16"),
    ("TP2", 2, 1, CPU_RANKS + "--tensor-model-parallel-size 2"),
    ("TP2 with sequence parallelism", 2, 1, CPU_RANKS + "--tensor-model-parallel-size 2 --sequence-parallel"),
    ("PP2", 2, 4, CPU_RANKS + "--pipeline-model-parallel-size 2"),
    ("PP2, interleaved by 2", 2, 4, CPU_RANKS + "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2"),
    ("DP2, distributed optimizer", 2, 1, CPU_RANKS + "--use-distributed-optimizer --bf16"),
    ("CP2", 2, 1, CPU_RANKS + "--context-parallel-size 2"),
]


def batch_flag(flags, ranks, micro_batches):
    words = flags.split()
    model = 1
    for flag in ("--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--context-parallel-size"):
        if flag in words:
            model *= int(words[words.index(flag) + 1])
    batch = int(words[words.index("--micro-batch-size") + 1])
    return f" --global-batch-size {batch * micro_batches * (ranks // model)}"


def planned(program, flags, ranks, micro_batches, machine="p5en.48xlarge"):
    batch = batch_flag(flags, ranks, micro_batches)
    out = subprocess.run([program, "plan", "--json", "--machine", machine, "--nproc", str(ranks)] +
                         (COMMON + flags + batch).split(), capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"{' '.join(out.args)}\n{out.stderr}")
    stages = json.loads(out.stdout)["stages"]
    return sum(stage["memory_bytes"]["total"] for stage in stages) * ranks // len(stages)


def driver():
    out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True,
                         text=True)
    return int(out.stdout.split()[0]) * 2**20


def processes_of(parent):
    """All descendants of a process."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parents[int(name)] = int(file.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    found = [parent]
    for one in found:
        found += [child for child, of in parents.items() if of == one]
    return found


def anonymous_bytes(process, name):
    """Of a process that runs the program; 0 for others, e.g. launchers."""
    try:
        with open(f"/proc/{process}/comm") as file:
            if file.read().strip() != name:
                return 0
        with open(f"/proc/{process}/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon"))
    except (OSError, StopIteration):
        return 0


def measured_cpu(program, flags, ranks, micro_batches):
    """The largest sum of the ranks' memory."""
    command = [program, "train", "--nproc", str(ranks), "--device", "cpu"] + flags.split() + (
        COMMON + batch_flag(flags, ranks, micro_batches)).split()
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    most = 0
    name = os.path.basename(program)
    while run.poll() is None:
        most = max(most, sum(anonymous_bytes(process, name) for process in processes_of(run.pid)))
        time.sleep(0.02)
    if run.returncode:
        print(f"{' '.join(command)}\n{run.stdout.read()[-2000:]}")
        return None
    return most


def measured(program, flags, ranks, micro_batches):
    before, most, done = driver(), 0, threading.Event()

    def watch():
        nonlocal most
        while not done.is_set():
            most = max(most, driver())
            time.sleep(0.02)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    batch = batch_flag(flags, ranks, micro_batches)
    words = flags.split() + ["--device", "cuda"]
    if ranks == 1 and micro_batches == 1:
        command = [program, "bench", "step", "--steps", "3", "--quick-weights"] + words
    else:
        command = [program, "train"] + words + (COMMON + batch).split()
    if ranks > 1:
        mpirun = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/parallel/mpirun.sh")
        command = ["bash", mpirun, str(ranks)] + command + ["--distributed-backend", "mpi"]
    out = subprocess.run(command, capture_output=True, text=True, timeout=240)
    done.set()
    watcher.join()
    if out.returncode:
        print(f"{' '.join(out.args)}\n{out.stdout[-2000:]}\n{out.stderr[-2000:]}")
        return None
    return most - before


def main():
    arguments = [a for a in sys.argv[1:] if a != "--cpu"]
    if not arguments:
        sys.exit(__doc__)
    is_cpu = "--cpu" in sys.argv
    program, only = os.path.realpath(arguments[0]), arguments[1:]
    machine, measure = ("c6i.32xlarge", measured_cpu) if is_cpu else ("p5en.48xlarge", measured)
    own = {ranks: None for ranks in (1, 2, 4)}
    worst = 0
    for name, ranks, micro_batches, flags in CPU_CASES if is_cpu else CASES:
        if only and name not in only:
            continue
        if own[ranks] is None:
            tiny = TINY + (f" --context-parallel-size {ranks}" if ranks > 1 else "")
            own[ranks] = measure(program, tiny, ranks, 2) - planned(program, tiny, ranks, 2, machine)
            print(f"libraries of {ranks} ranks: {own[ranks] / 1e9:.3f} GB")
        plan = planned(program, flags, ranks, micro_batches, machine)
        found = measure(program, flags, ranks, micro_batches)
        if found:
            error = 100 * (plan / (found - own[ranks]) - 1)
            worst = max(worst, abs(error))
            print(f"{name:34} planned {plan / 1e9:7.3f} GB  measured {(found - own[ranks]) / 1e9:7.3f} GB  {error:+5.1f} %",
                  flush=True)
    print(f"worst: {worst:.1f} %")


if __name__ == "__main__":
    main()
