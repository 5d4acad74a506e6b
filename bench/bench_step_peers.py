#!/usr/bin/env python3
"""A training step of GPT-2 124M (B=4, T=256, fp32, 2 threads): ours beside PyTorch, eager and compiled, and beside the time
that the step's matrix products alone take in OpenBLAS (the best of its runs). Needs a Python with torch. Rounds are interleaved, so
that what else the machine does hits all alike; of each the round with the best median counts. ROUNDS, STEPS: how many."""
import json
import os
import subprocess
import sys

BUILD = os.path.dirname(os.environ.get("BEVATRON", "build/release/bevatron"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
STEPS = os.environ.get("STEPS", "4")
HERE = os.path.dirname(os.path.abspath(__file__))


def program(name):
    for folder in (BUILD, os.path.join(BUILD, "bench")):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return path
    sys.exit(f"{name} is not built; run make first")


commands = {
    "floor": [program("bench_step"), "--floor", "--steps", STEPS],
    "bevatron": [program("bench_step"), "--steps", STEPS],
    "eager": [sys.executable, f"{HERE}/torch_step_cpu.py", "--mode", "eager", "--steps", STEPS],
    "compiled": [sys.executable, f"{HERE}/torch_step_cpu.py", "--mode", "compiled", "--steps", STEPS],
}
best = {}
for _ in range(ROUNDS):
    for key, command in commands.items():
        result = subprocess.run(command, capture_output=True, text=True)
        lines = [line for line in result.stdout.splitlines() if line.startswith("{")]
        if result.returncode or not lines:
            print(f"{key} failed: {result.stderr.strip()[-400:]}", file=sys.stderr)
            continue
        row = json.loads(lines[-1])
        print(json.dumps(row), flush=True)
        if key not in best or row["median_s"] < best[key]["median_s"]:
            best[key] = row

ours = best["bevatron"]
print(f"\n{'':28}{'s/step':>9}{'tokens/s':>10}{'peak MB':>9}{'ours is':>10}")
for key, row in best.items():
    tokens, memory = row.get("tokens_per_second"), row.get("peak_rss_mb")
    ratio = row["median_s"] / ours["median_s"]
    print(f"{row['name']:28}{row['median_s']:9.3f}{tokens or 0:10.1f}{memory or 0:9.0f}{ratio:9.3f}x")
