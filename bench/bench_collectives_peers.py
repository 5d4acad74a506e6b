#!/usr/bin/env python3
"""bevatron bench collectives beside the same collectives written by hand over MPI (bench/collectives_mpi.c).

Each is run in turn, several times, on 2 and on 4 ranks, and the best time of each size counts. "started" is the loop that
starts a collective and waits for it, at the thread level that ours needs so that collectives have a deadline and go on
under computation; "blocking" is the plain call of a program without threads. A ratio is our time by the loop's: 1.05 is
five per cent more.
"""

import json
import os
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
BEVATRON = os.path.abspath(os.environ.get("BEVATRON", os.path.join(ROOT, "build/release/bevatron")))
LOOP = os.environ.get("COLLECTIVES_MPI", os.path.join(os.path.dirname(BEVATRON), "bench", "collectives_mpi"))
LEAST, MOST, FACTOR, ITERATIONS, WARMUP = 1024, 1 << 24, 16, 50, 10
ROUNDS = int(os.environ.get("ROUNDS", "5"))
RANKS = [int(n) for n in os.environ.get("RANKS", "2 4").split()]


def run(ranks, command):
    script = os.path.join(ROOT, "tests", "parallel", "mpirun.sh")
    out = subprocess.run(["bash", script, str(ranks)] + command, capture_output=True, text=True, check=True).stdout
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return {(row["operation"], row["bytes"]): row["us"] for row in rows}


def keep_best(best, times):
    for key, us in times.items():
        best[key] = min(us, best.get(key, us))


def main():
    sizes = [str(x) for x in (LEAST, MOST, FACTOR, ITERATIONS, WARMUP)]
    ours = [BEVATRON, "bench", "collectives", "--json", "--min-bytes", sizes[0], "--max-bytes", sizes[1], "--step-factor", sizes[2]]
    ours += ["--iters", sizes[3], "--warmup-iters", sizes[4]]
    for ranks in RANKS:
        best = {"ours": {}, "started": {}, "blocking": {}}
        for _ in range(ROUNDS):
            for kind in best:
                keep_best(best[kind], run(ranks, ours if kind == "ours" else [LOOP, kind] + sizes))
        print(f"{ranks} ranks, best of {ROUNDS}, microseconds")
        print(f"{'operation':<15} {'bytes':>10} {'ours':>10} {'started':>10} {'ratio':>7} {'blocking':>10} {'ratio':>7}")
        worst = {}
        for key, us in best["ours"].items():
            started, blocking = best["started"][key], best["blocking"][key]
            print(f"{key[0]:<15} {key[1]:>10} {us:>10.2f} {started:>10.2f} {us / started:>7.3f} {blocking:>10.2f} {us / blocking:>7.3f}")
            if key[1] >= 1 << 18:
                worst[key[0]] = max(worst.get(key[0], 0), us / started)
        print("largest ratio to the started loop at 256 KiB and more: " + ", ".join(f"{k} {v:.3f}" for k, v in worst.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
