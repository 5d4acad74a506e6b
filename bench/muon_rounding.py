#!/usr/bin/env python3
"""How exact Muon's iteration is in bf16, in single steps and in pairs (src/optim/muon.c), beside single steps in float64.

Every product is rounded to bf16 once, as our matmuls do. Prints the norm of the difference over that of the result, for
random matrices whose singular values span a number of decades. Needs numpy:
    bench/muon_rounding.py [ROWS COLUMNS]       (256 x 1024)
"""
import sys

import numpy

SIMPLE = (3.4445, -4.7750, 2.0315)
STEPS = {
    "quintic": [(4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037),
                (2.8769, -3.1427, 1.2046), (2.8366, -3.0525, 1.2012)],
    "simple": [SIMPLE] * 5,
    "deepseekv4": [SIMPLE] * 8 + [(2, -1.5, 0.5)] * 2,
    "polar_express": [(8.2051, -22.9019, 16.4607), (4.0664, -2.8612, 0.5184), (3.9096, -2.8234, 0.5250),
                      (3.2856, -2.4153, 0.4853), (2.2779, -1.6198, 0.3985)],
    "cans": [(8.4703, -25.1081, 18.6293), (4.1828, -3.1087, 0.5806), (3.9619, -2.9541, 0.5630), (3.2866, -2.4647, 0.5074),
             (2.2737, -1.6447, 0.4162)],
    "aol": [(4.0098, -7.0585, 2.4635), (3.4585, -5.5479, 2.5959), (2.7573, -3.2939, 1.4254), (2.7215, -3.0494, 1.3169)],
    "cubic5": [(3.3656576, -3.3420992, 0), (2.5744352, -1.4957376, 0), (2.5368962, -1.4312570, 0),
               (2.4418906, -1.2764040, 0), (2.2230472, -0.9630650, 0)],
}


def to_bf16(x):
    """The nearest bf16, ties to even."""
    bits = x.astype(numpy.float32).view(numpy.uint32).astype(numpy.uint64)
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return bits.astype(numpy.uint32).view(numpy.float32).astype(numpy.float64)


def mirrored(x):
    return numpy.tril(x) + numpy.tril(x, -1).T


def single(x, step, rounded):
    gram = rounded(mirrored(x @ x.T))
    p = rounded(mirrored(step[1] * gram + step[2] * (gram @ gram)))
    return rounded(step[0] * x + p @ x)


def pair(x, first, second, rounded):
    unit = numpy.eye(len(x))
    gram = rounded(mirrored(x @ x.T))
    p = rounded(first[0] * unit + rounded(mirrored(first[1] * gram + first[2] * (gram @ gram))))
    gram = rounded(mirrored(p @ rounded(mirrored(p @ gram))))
    q = rounded(second[0] * unit + rounded(mirrored(second[1] * gram + second[2] * (gram @ gram))))
    return rounded(rounded(mirrored(q @ p)) @ x)


def iterate(x, steps, rounded, pairs):
    x = rounded(x / numpy.linalg.norm(x))
    at = 0
    while pairs and at + 1 < len(steps):
        x = pair(x, steps[at], steps[at + 1], rounded)
        at += 2
    for step in steps[at:]:
        x = single(x, step, rounded)
    return x


def main():
    rows, columns = (int(word) for word in sys.argv[1:3]) if len(sys.argv) > 2 else (256, 1024)
    random = numpy.random.default_rng(0)
    print(f"{rows} x {columns}: steps, decades of singular values, error of single steps and of pairs")
    for name, steps in STEPS.items():
        for decades in (0, 2, 3, 4):
            x = random.standard_normal((rows, columns))
            if decades:
                u, _, v = numpy.linalg.svd(x, full_matrices=False)
                x = u * numpy.logspace(0, -decades, rows) @ v
            exact = iterate(x, steps, lambda y: y, False)
            errors = [numpy.linalg.norm(iterate(x, steps, to_bf16, pairs) - exact) / numpy.linalg.norm(exact)
                      for pairs in (False, True)]
            print(f"{name:14} {decades}  {errors[0]:.4f}  {errors[1]:.4f}")


if __name__ == "__main__":
    main()
