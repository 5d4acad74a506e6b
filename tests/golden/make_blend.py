"""Writes blend.txt: which dataset provides which sample of a blend.

Run: python tests/golden/make_blend.py > tests/golden/blend.txt  (needs numpy; with megatron-core its own code computes
the same orders, which are compared. That code is compiled for the machine: if its compiler fuses a multiply and a
subtract, which x86-64 compilers do not by default, single samples may swap places, and only a count is printed)

Lines: "weights SIZE W…" or "sizes SIZE N…" (SIZE 0: all), then the datasets in order as digits in base 36.
"targets N W…" has the samples requested and built per dataset.
"""

import math
import sys

import numpy

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def normalize(weights):
    w = numpy.array(weights, dtype=numpy.float64)
    return (w / numpy.sum(w)).tolist()


def greedy(weights, size):
    given = [0] * len(weights)
    order = []
    for i in range(size):
        lag = [w * max(float(i), 1.0) - float(g) for w, g in zip(weights, given)]
        j = lag.index(max(lag))
        order.append((j, given[j]))
        given[j] += 1
    return order


def exhaust(sizes):
    total = sum(sizes)
    given = [0] * len(sizes)
    order = []
    for i in range(total):
        lag = [-math.inf if g == n else n / total * max(float(i), 1.0) - float(g) for n, g in zip(sizes, given)]
        j = lag.index(max(lag))
        order.append((j, given[j]))
        given[j] += 1
    return order


def compare(order, weights, sizes):
    try:
        from megatron.core.datasets import helpers_cpp
    except ImportError:
        return
    datasets = numpy.zeros(len(order), dtype=numpy.int16)
    numbers = numpy.zeros(len(order), dtype=numpy.int64)
    if weights is not None:
        helpers_cpp.build_blending_indices(
            datasets, numbers, numpy.array(weights), len(weights), len(order), False)
    else:
        helpers_cpp.build_exhaustive_blending_indices(datasets, numbers, numpy.array(sizes), len(sizes))
    differ = sum((a, b) != (int(c), int(d)) for (a, b), c, d in zip(order, datasets, numbers))
    print(f"{len(order)} samples, {differ} elsewhere in megatron-core", file=sys.stderr)


def show(order):
    print("".join(DIGITS[j] for j, _ in order))


for size, weights in [
    (20, [30, 70]),
    (20, [0.5, 0.3, 0.2]),
    (500, [1, 1, 1]),
    (400, [0.1] * 10),
    (300, [1.0]),
    (1000, [1e-3, 5, 2.5, 0.7]),
    (1500, [i + 1.25 for i in range(19)]),
    (600, [3.7, 1.1, 8.2, 0.9, 4.4, 2.2, 6.6, 1.3, 9.1]),
]:
    first = normalize(weights)
    second = normalize(first)
    print("weights", size, *[repr(float(w)) for w in weights])
    order = greedy(second, size)
    show(order)
    compare(order, second, None)

for size, sizes in [(0, [3, 7, 5]), (0, [1, 1, 40]), (9, [3, 7, 5]), (100, [13, 200, 1, 55])]:
    print("sizes", size, *sizes)
    if size:
        weights = normalize(sizes)
        order = greedy(weights, size)
        compare(order, weights, None)
    else:
        order = exhaust(sizes)
        compare(order, None, sizes)
    show(order)

for n, weights in [(1000, [30, 70]), (320, [0.5, 0.3, 0.2]), (12345, [1e-3, 5, 2.5, 0.7]), (7, [1, 2, 4])]:
    print("targets", n, *[repr(float(w)) for w in weights])
    wanted = [math.ceil(n * w) for w in normalize(weights)]
    built = [int(math.ceil(math.ceil(n * w) * (1 + 0.005))) for w in normalize(weights)]
    print(*wanted, *built)
