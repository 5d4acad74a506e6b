#!/usr/bin/env python3
"""A training step (B=4, T=256) of GPT-2 124M, a Llama of its size or BERT-base: ours beside PyTorch, eager and compiled,
and beside the step's matmuls alone, in OpenBLAS (fp32) and in our own kernels (fp32 and bf16). Needs a Python with torch.
Rounds are interleaved, so that what else the machine does hits all alike; of each the round with the best median counts. MODEL=gpt|llama|bert;
DTYPE=fp32|bf16|both: in bf16 ours in fp32 stands beside, and PyTorch runs under autocast and with bf16 weights (see torch_step_cpu.py);
MODES="eager compiled": of PyTorch; THREADS (2), ROUNDS, STEPS: how many; LAYERS: fewer for a trial;
LIMIT: seconds for one run, after which it is given up, in later rounds too."""
import json
import os
import subprocess
import sys

BUILD = os.path.dirname(os.environ.get("BEVATRON", "build/release/bevatron"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
STEPS = os.environ.get("STEPS", "4")
LIMIT = float(os.environ["LIMIT"]) if "LIMIT" in os.environ else None
HERE = os.path.dirname(os.path.abspath(__file__))


def program(name):
    for folder in (BUILD, os.path.join(BUILD, "bench")):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return path
    sys.exit(f"{name} is not built; run make first")


MODEL, DTYPE, LAYERS = os.environ.get("MODEL", "gpt"), os.environ.get("DTYPE", "fp32"), os.environ.get("LAYERS", "12")
THREADS, MODES = os.environ.get("THREADS", "2"), os.environ.get("MODES", "eager compiled").split()
SHAPES = {
    "gpt": ["--preset", "gpt2-124m"],
    "llama": ["--preset", "llama-7b", "--hidden-size", "768", "--num-attention-heads", "12", "--ffn-hidden-size", "2048",
              "--vocab-size", "32000"],
    "bert": ["--preset", "bert-base", "--bert-no-binary-head", "--vocab-size", "30522"],
}
flags = [*SHAPES[MODEL], "--num-layers", LAYERS, "--steps", STEPS, "--threads", THREADS]
ours = [program("bevatron"), "bench", "step", "--device", "cpu", *flags]


def torch(mode, dtype):
    return [sys.executable, f"{HERE}/torch_step_cpu.py", "--mode", mode, "--model", MODEL, "--dtype", dtype, "--layers", LAYERS,
            "--steps", STEPS, "--threads", THREADS]


# The floor's own number of runs: its matmuls take milliseconds each.
at = flags.index("--steps")
commands = {"floor": [program("bench_floor"), *flags[:at], *flags[at + 2:]]}
commands |= {"bevatron": ours} if DTYPE == "fp32" else {"fp32": ours, "bevatron": [*ours, "--bf16"]}
peers = {"fp32": ["fp32"], "bf16": ["autocast", "bf16"], "both": ["fp32", "autocast", "bf16"]}[DTYPE]
commands |= {(mode, dtype): torch(mode, dtype) for dtype in peers for mode in MODES}
best = {}
for _ in range(ROUNDS):
    for key, command in list(commands.items()):
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            print(f"{key} failed: it did not end within {LIMIT:g} s", file=sys.stderr, flush=True)
            del commands[key]
            continue
        lines = [line for line in result.stdout.splitlines() if line.startswith("{")]
        if result.returncode or not lines:
            print(f"{key} failed ({result.returncode}): {result.stderr.strip()[-400:]}", file=sys.stderr)
            continue
        for row in map(json.loads, lines):
            row["name"] += f" {key}" if key == "fp32" else ""
            print(json.dumps(row), flush=True)
            if row["name"] not in best or row["median_s"] < best[row["name"]]["median_s"]:
                best[row["name"]] = row

first = best["bevatron"]
print(f"\n{MODEL + ' ' + DTYPE:36}{'s/step':>9}{'tokens/s':>10}{'peak MB':>9}{'ours is':>10}")
for row in best.values():
    tokens, memory = row.get("tokens_per_second"), row.get("peak_rss_mb")
    ratio = row["median_s"] / first["median_s"]
    print(f"{row['name']:36}{row['median_s']:9.3f}{tokens or 0:10.1f}{memory or 0:9.0f}{ratio:9.3f}x")
