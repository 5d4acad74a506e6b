#!/usr/bin/env python3
"""Shows whether the lessons of the Megatron papers come out of `bevatron plan` by themselves.

usage: bench/plan_lessons.py BEVATRON [MACHINE]

Plans the runs of Narayanan et al. 2021 (figures 12 to 16) and Korthikanti et al. 2022 (table 5) on DGX A100 machines,
and a mixture of experts on three kinds of machines,
prints what the papers found beside what the plan says, and exits with 1 if a lesson does not come out. The lessons that
do not are named in docs/plan.md.
"""
import json
import subprocess
import sys
import tempfile

FULL = "--recompute-granularity full "
SELECTIVE = "--recompute-granularity selective --sequence-parallel "


# The program of that time (docs/internals/plan.md): attention wrote its scores, and PyTorch launched every kernel.
PYTHON = tempfile.NamedTemporaryFile("w", suffix=".yaml")
PYTHON.write("launch-us: 30\n")
PYTHON.flush()


class Planner:
    def __init__(self, program, machine):
        self.program, self.machine, self.failed = program, machine, 0

    def seconds(self, shape, flags, tp, pp, gpus, mbs, gbs, vp=1):
        layers, hidden, heads = shape
        command = (f"plan --json --mock-data --lr 1e-4 --train-iters 1 --bf16 --vocab-size 51200 --seq-length 2048 "
                   f"--hardware {PYTHON.name} --attention-backend unfused "
                   f"--max-position-embeddings 2048 --machine {self.machine} --nproc {gpus} --num-layers {layers} "
                   f"--hidden-size {hidden} --num-attention-heads {heads} --tensor-model-parallel-size {tp} "
                   f"--pipeline-model-parallel-size {pp} --micro-batch-size {mbs} --global-batch-size {gbs} {flags}")
        if vp > 1:
            command += f"--num-virtual-stages-per-pipeline-rank {vp} "
        result = subprocess.run([self.program] + command.split(), capture_output=True, text=True)
        if result.returncode:
            sys.exit(result.stderr)
        return json.loads(result.stdout)["step_seconds"]

    def lesson(self, text, comes_out, numbers):
        self.failed += not comes_out
        print(f"{'yes' if comes_out else 'NO ':3} {text}: {numbers}")


def interleaving(p):
    shape = (96, 12288, 96)
    gains = {gbs: p.seconds(shape, FULL, 8, 12, 96, 1, gbs) / p.seconds(shape, FULL, 8, 12, 96, 1, gbs, 4) - 1
             for gbs in (12, 24, 60)}
    p.lesson("175B: interleaving gains over 10 % at small batch, less at larger ones",
             gains[12] > 0.1 and gains[12] > gains[24] > gains[60],
             ", ".join(f"{gbs}: {100 * gain:.0f} %" for gbs, gain in gains.items()))


def tensor_and_pipeline(p):
    for gbs in (32, 128):
        times = {tp: p.seconds((32, 20480, 128), FULL, tp, 64 // tp, 64, 1, gbs) for tp in (2, 4, 8, 16, 32)}
        p.lesson(f"162B, batch {gbs}: TP 8 × PP 8 is the best", min(times, key=times.get) == 8,
                 ", ".join(f"TP {tp}: {t:.2f} s" for tp, t in times.items()))


def micro_batch(p):
    for gbs in (128, 512):
        times = {mbs: p.seconds((32, 15360, 128), FULL, 8, 8, 64, mbs, gbs) for mbs in (1, 2, 4, 8)}
        p.lesson(f"91B, batch {gbs}: micro-batches of 2 are the best", min(times, key=times.get) == 2,
                 ", ".join(f"{mbs}: {t:.2f} s" for mbs, t in times.items()))


def data_parallelism(p):
    shape = (32, 3840, 32)
    for gbs in (128, 512):
        times = {(tp, pp): p.seconds(shape, FULL, tp, pp, 64, 1, gbs)
                 for tp, pp in ((1, 1), (1, 2), (1, 4), (1, 8), (2, 1), (4, 1), (8, 1))}
        p.lesson(f"5.9B, batch {gbs}: data parallelism alone is the best", min(times, key=times.get) == (1, 1),
                 ", ".join(f"TP {tp} PP {pp}: {t:.2f} s" for (tp, pp), t in times.items()))


def recompute(p):
    rows = (("22B", (48, 6144, 64), 8, 1, 8, 4, 4, 1, 29.0), ("175B", (96, 12288, 96), 8, 8, 64, 1, 64, 3, 31.8),
            ("530B", (105, 20480, 128), 8, 35, 280, 1, 280, 3, 29.7),
            ("1T", (128, 25600, 160), 8, 64, 512, 1, 512, 1, 32.1))
    for name, shape, tp, pp, gpus, mbs, gbs, vp, published in rows:
        slower = 100 * (p.seconds(shape, FULL, tp, pp, gpus, mbs, gbs, vp) /
                        p.seconds(shape, SELECTIVE, tp, pp, gpus, mbs, gbs, vp) - 1)
        p.lesson(f"{name}: full recompute is about 30 % slower than selective with sequence parallelism",
                 24 < slower < 37, f"{slower:.1f} %, published {published} %")


def expert_parallelism(p):
    """Qwen3 235B with 32 ranks that share out the experts: in one NVLink domain of 72 GPUs, on machines of 8 with
    InfiniBand, and with EFA."""
    shares = {}
    for machine in ("dgx-gb200", "dgx-b200", "p6-b200.48xlarge"):
        command = ("plan --json --mock-data --lr 1e-4 --train-iters 1 --bf16 --preset qwen3-235b-a22b --vocab-size 151936 "
                   "--seq-length 4096 --max-position-embeddings 4096 --expert-model-parallel-size 32 --nproc 64 "
                   "--micro-batch-size 1 --global-batch-size 512 --use-distributed-optimizer --overlap-grad-reduce "
                   f"--overlap-param-gather --machine {machine}")
        result = subprocess.run([p.program] + command.split(), capture_output=True, text=True)
        if result.returncode:
            sys.exit(result.stderr)
        plan = json.loads(result.stdout)
        shares[machine] = 100 * plan["step_parts_seconds"]["expert"] / plan["step_seconds"]
    p.lesson("235B, EP 32: all-to-all dominates across machines, not inside NVLink",
             min(shares["dgx-b200"], shares["p6-b200.48xlarge"]) > 50 and shares["dgx-gb200"] < 33,
             ", ".join(f"{machine}: {share:.0f} % of a step" for machine, share in shares.items()))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    planner = Planner(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "dgx-a100")
    for lesson in (interleaving, tensor_and_pipeline, micro_batch, data_parallelism, recompute,
                   expert_parallelism):
        lesson(planner)
    sys.exit(1 if planner.failed else 0)


if __name__ == "__main__":
    main()
