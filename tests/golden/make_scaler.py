"""Writes scaler.txt: loss scales after each of a series of steps, by megatron-core's own DynamicGradScaler.

Run: python tests/golden/make_scaler.py > tests/golden/scaler.txt  (needs torch and megatron-core)

Lines: "rule INITIAL LEAST WINDOW HYSTERESIS", then pairs of "." (good) or "x" (overflow) and the exponent of 2 of the
scale after it. Megatron keeps the scale on a GPU; here its tensors are on the CPU.
"""

import random
import warnings

warnings.simplefilter("ignore")

import torch

make_tensor = torch.tensor
torch.tensor = lambda *a, **k: make_tensor(*a, **{n: v for n, v in k.items() if n != "device"})
from megatron.core.optimizer.grad_scaler import DynamicGradScaler

for initial, least, window, hysteresis, count, chance in [
    (32, 0, 1000, 2, 60, 0.9),
    (32, 0, 5, 2, 300, 0.1),
    (16, 3, 3, 1, 200, 0.3),
    (20, 0, 4, 4, 400, 0.25),
]:
    scaler = DynamicGradScaler(
        initial_scale=2.0**initial, min_scale=2.0**least, growth_factor=2.0, backoff_factor=0.5,
        growth_interval=window, hysteresis=hysteresis)
    draw = random.Random(initial + window)
    print("rule", initial, least, window, hysteresis)
    steps = []
    for _ in range(count):
        overflow = draw.random() < chance
        scaler.update(overflow)
        scale = float(scaler.scale)
        exponent = int(scale).bit_length() - 1
        assert scale == 2.0**exponent
        steps.append(("x" if overflow else ".") + str(exponent))
    print(*steps)
