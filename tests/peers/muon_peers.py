#!/usr/bin/env python3
"""Muon's updates in real runs beside those of NVIDIA's emerging_optimizers, which Megatron-LM uses, for every set of
coefficients; and the sets of tests/golden/make_muon_sets.py beside the package's. A run saves every iteration: what an
update followed is what its weights moved by, and the momentum, which is saved, says what it should have followed.

Runs are in fp32 with --muon-fp32-matmul-prec high. Needs torch, safetensors, NumPy, absl-py and emerging_optimizers (pip
install --no-deps; on Python before 3.12 with --ignore-requires-python), installed or in the folder EMERGING_OPTIMIZERS.
Sets that the release lacks are skipped. Run from the repository's root."""
import os
import random
import subprocess
import sys
import tempfile
import typing

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../golden"), *filter(None, [os.environ.get("EMERGING_OPTIMIZERS")])]
import numpy
import torch
from safetensors import safe_open

import make_muon_sets

if not hasattr(typing, "override"):  # Python before 3.12
    typing.override = lambda method: method
try:
    from emerging_optimizers.orthogonalized_optimizers import muon_utils
    from emerging_optimizers.orthogonalized_optimizers.muon import get_muon_scale_factor
except ImportError as missing:
    sys.exit(f"muon_peers: {missing}; pip install --no-deps --target FOLDER emerging-optimizers, and give EMERGING_OPTIMIZERS=FOLDER")

BEVATRON = os.environ.get("BEVATRON", "build/release/bevatron")
RATE, DECAY, EXTRA = 1e-2, 0.1, 0.2
failures = 0


def check(what, condition, detail=""):
    global failures
    print(f"  {'ok  ' if condition else 'FAIL'} {what} {detail}", flush=True)
    failures += not condition


def train(folder, name, steps, mode):
    flags = f"""--num-layers 1 --hidden-size 24 --num-attention-heads 4 --group-query-attention --num-query-groups 2
        --ffn-hidden-size 56 --seq-length 32 --micro-batch-size 2 --train-iters 3 --data-path {folder}/text.txt --vocab-size 300
        --tokenizer-type auto --data-cache-path {folder}/cache --optimizer muon --muon-fp32-matmul-prec high --clip-grad 0
        --muon-coefficient-type {name} --muon-num-ns-steps {steps} --muon-scale-mode {mode} --muon-extra-scale-factor {EXTRA}
        --muon-no-split-qkv --lr {RATE} --lr-decay-style constant --weight-decay {DECAY} --save {folder}/{name}_{mode}
        --save-interval 1"""
    done = subprocess.run([BEVATRON, "train", *flags.split()], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{flags}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def read(path):
    with safe_open(path, framework="pt") as file:
        return {key: file.get_tensor(key).float() for key in file.keys()}


def compare_run(folder, name, steps, mode):
    worst, matrices = 0.0, 0
    for i in (1, 2):
        before, after = (read(f"{folder}/{name}_{mode}/iter_000000{i + k}/model.safetensors") for k in (0, 1))
        states = read(f"{folder}/{name}_{mode}/iter_000000{i + 1}/optimizer.safetensors")
        for key, momentum in states.items():
            state, weight = key.split(".", 1)
            if state != "momentum_buffer":
                continue
            shape = before[weight].shape
            along = muon_utils.newton_schulz(momentum.reshape(shape), steps, name) * EXTRA * get_muon_scale_factor(*shape, mode=mode)
            expected = before[weight] * (1 - RATE * DECAY) - RATE * along
            moved = torch.linalg.norm(expected - before[weight])
            worst = max(worst, (torch.linalg.norm(after[weight] - expected) / moved).item())
            matrices += 1
    check(f"{name} {steps} {mode}", matrices == 8 and worst < 1e-4, f"{matrices} matrices, {worst:.1e} of what they moved by")


def main():
    torch.set_float32_matmul_precision("highest")
    with tempfile.TemporaryDirectory() as folder:
        random.seed(1)
        with open(f"{folder}/text.txt", "w") as file:
            for _ in range(200):
                print(*(random.choice("abcdefgh") * random.randint(1, 5) for _ in range(20)), file=file)
        for name, steps in make_muon_sets.SETS.items():
            if name not in muon_utils._COEFFICIENT_SETS:
                print(f"  skip {name}: not in this release")
                continue
            check(f"{name}: coefficients", steps == [tuple(step) for step in muon_utils._COEFFICIENT_SETS[name]])
            if name != "cubic5":
                x = torch.from_numpy(numpy.random.default_rng(0).standard_normal((9, 13))).float()
                theirs = muon_utils.newton_schulz(x, len(steps) + 3, name).double().numpy()
                ours = make_muon_sets.orthogonalize(x.double().numpy(), make_muon_sets.steps_of(name, len(steps) + 3))
                check(f"{name}: beyond its steps", abs(theirs - ours).max() < 1e-4, f"{abs(theirs - ours).max():.1e}")
            count = {"aol": 4}.get(name, 5)
            for mode in ("spectral", "shape_scaling"):
                train(folder, name, count, mode)
                compare_run(folder, name, count, mode)
    print(f"muon_peers: {failures} failures")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
