#!/usr/bin/env python3
"""How far weights move if the last bits of gradients change, with Muon, NorMuon and AdaMuon in float64 and, where
NVIDIA's emerging_optimizers can be imported, with its own in fp32. AdaMuon divides the orthogonal matrix O by the root
of the mean of O^2 over time, element by element. In the first update that is sign(O) / sqrt(1 - beta2), however small an
element is: a sign that changes moves its weight by two whole steps. A larger epsilon bounds that.

Prints the norm of the weights' difference over that of the weights after 20 updates. Needs numpy and torch:
    [PYTHONPATH=Emerging-Optimizers] bench/muon_bits.py
"""
import numpy
import torch

ROWS, COLUMNS, UPDATES, RATE = 64, 96, 20, 1e-4
QUINTIC = [(4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037), (2.8769, -3.1427, 1.2046),
           (2.8366, -3.0525, 1.2012)]


def gradients(change, seed):
    """Of a few tokens, so that most of a gradient lies in some directions; `change` is relative to each element."""
    random, other = numpy.random.default_rng(seed), numpy.random.default_rng(seed + 1000)
    for _ in range(UPDATES):
        g = random.normal(size=(ROWS, 8)) @ random.normal(size=(8, COLUMNS)) + 1e-2 * random.normal(size=(ROWS, COLUMNS))
        yield g * (1 + change * other.uniform(-1, 1, size=g.shape))


def orthogonal(u):
    x = u / numpy.linalg.norm(u)
    for a, b, c in QUINTIC:
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


def weights(seed):
    return numpy.random.default_rng(seed + 2000).normal(scale=0.02, size=(ROWS, COLUMNS))


def in_float64(method, epsilon, change, seed):
    w, m, v = weights(seed), 0, 0
    for g in gradients(change, seed):
        m = 0.9 * m + 0.1 * g
        x = orthogonal(m)
        if method == "normuon":
            v = 0.95 * v + 0.05 * (x * x).mean(axis=0, keepdims=True)
            along = x / numpy.sqrt(numpy.maximum(v, epsilon))
            x = along * numpy.linalg.norm(x) / numpy.linalg.norm(along)
        elif method == "adamuon":
            v = 0.95 * v + 0.05 * x * x
            x = x / (numpy.sqrt(v) + epsilon)
        w = w - RATE * (1 if method == "adamuon" else 0.2 * COLUMNS**0.5) * x
    return w


def of_nvidia(method, epsilon, change, seed):
    from emerging_optimizers.orthogonalized_optimizers.adaptive_muon import AdaptiveMuon
    w = torch.nn.Parameter(torch.tensor(weights(seed), dtype=torch.float32))
    scale = 1 / (ROWS / COLUMNS) ** 0.5 if method == "adamuon" else 0.2 * COLUMNS**0.5 / (ROWS / COLUMNS) ** 0.5
    optimizer = AdaptiveMuon([w], RATE, 0.9, 0.0, fp32_matmul_prec="highest", scale_mode="unit_rms_norm",
                             extra_scale_factor=scale, moment2_method=method, eps=epsilon)
    for g in gradients(change, seed):
        w.grad = torch.tensor(g, dtype=torch.float32)
        optimizer.step()
    return w.detach().double().numpy()


def distance(run, method, epsilon, change):
    found = []
    for seed in range(5):
        a, b = run(method, epsilon, 0, seed), run(method, epsilon, change, seed)
        found.append(numpy.linalg.norm(a - b) / numpy.linalg.norm(a))
    return f"{numpy.median(found):9.1e} {max(found):9.1e}"


print(f"{'method':9} {'epsilon':>7} {'change':>8}   {'float64: median, largest of 5':>30}   NVIDIA's, fp32")
for method, epsilon, change in ([(m, 1e-8, c) for m in ("muon", "normuon", "adamuon") for c in (1e-5, 2**-24, 1e-9, 1e-11)] +
                                [("adamuon", e, 2**-24) for e in (1e-6, 1e-5, 1e-4, 1e-3)]):
    row = f"{method:9} {epsilon:7.0e} {change:8.1e}   {distance(in_float64, method, epsilon, change):>30}"
    try:
        if method != "muon" and change >= 2**-24:
            row += "   " + distance(of_nvidia, method, epsilon, change)
    except ImportError:
        pass
    print(row, flush=True)
