"""Writes muon_sets.txt: matrices after 20 updates of Muon with every set of coefficients of Megatron-LM's
--muon-coefficient-type, in float64 by NumPy.

Run: python tests/golden/make_muon_sets.py > tests/golden/muon_sets.txt

A line "case TYPE STEPS ROWS COLUMNS", then the weights. Element n of the weights begins as sin(n), its gradient in update
t, counted from 1, is cos(0.37 n^2 + 7 t), all rounded to fp32. Momentum 0.9 with Nesterov's, learning rate 0.02, weight
decay 0.1, spectral scale with a further factor of 0.2. tests/peers/muon_peers.py compares the sets with those of the
package that Megatron-LM uses.
"""
import itertools

import numpy

SIMPLE = (3.4445, -4.7750, 2.0315)
CYCLED = {
    "quintic": [(4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037),
                (2.8769, -3.1427, 1.2046), (2.8366, -3.0525, 1.2012)],
    "simple": [SIMPLE],
    "aol": [(4.0098, -7.0585, 2.4635), (3.4585, -5.5479, 2.5959), (2.7573, -3.2939, 1.4254), (2.7215, -3.0494, 1.3169)],
    "cubic5": [(3.3656576, -3.3420992, 0), (2.5744352, -1.4957376, 0), (2.5368962, -1.4312570, 0),
               (2.4418906, -1.2764040, 0), (2.2230472, -0.9630650, 0)],
}
LAST_REPEATED = {
    "polar_express": [(8.2051, -22.9019, 16.4607), (4.0664, -2.8612, 0.5184), (3.9096, -2.8234, 0.5250),
                      (3.2856, -2.4153, 0.4853), (2.2779, -1.6198, 0.3985), (1.8726, -1.2307, 0.3585),
                      (1.8564, -1.2132, 0.3568), (1.8750, -1.2500, 0.3750)],
    "cans": [(8.4703, -25.1081, 18.6293), (4.1828, -3.1087, 0.5806), (3.9619, -2.9541, 0.5630), (3.2866, -2.4647, 0.5074),
             (2.2737, -1.6447, 0.4162)],
    "deepseekv4": [SIMPLE] * 8 + [(2, -1.5, 0.5)] * 2,
}
SETS = CYCLED | LAST_REPEATED


def steps_of(name, count):
    steps = SETS[name]
    following = itertools.cycle(steps) if name in CYCLED else itertools.repeat(steps[-1])
    return steps[:count] + list(itertools.islice(following, max(0, count - len(steps))))


def orthogonalize(x, steps):
    if len(x) > len(x[0]):
        return orthogonalize(x.T, steps).T
    x = x / max(numpy.linalg.norm(x), 1e-15)
    for a, b, c in steps:
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


def updated(rows, columns, steps):
    n = numpy.arange(rows * columns, dtype=numpy.float64).reshape(rows, columns)
    weight, momentum = numpy.sin(n).astype(numpy.float32).astype(numpy.float64), numpy.zeros((rows, columns))
    for t in range(1, 21):
        gradient = numpy.cos(0.37 * (n * n) + 7 * t).astype(numpy.float32).astype(numpy.float64)
        momentum = 0.9 * momentum + 0.1 * gradient
        along = orthogonalize(0.1 * gradient + 0.9 * momentum, steps)
        weight = weight * (1 - 0.02 * 0.1) - 0.02 * 0.2 * max(rows, columns) ** 0.5 * along
    return weight


if __name__ == "__main__":
    for name, steps in SETS.items():
        for count in [5] if name == "cubic5" else [min(5, len(steps)) if name == "aol" else 5, len(steps) + 3]:
            for rows, columns in [(9, 13), (17, 5), (1, 6), (7, 1), (8, 8)]:
                print("case", name, count, rows, columns)
                print(*(f"{x:.8g}" for x in updated(rows, columns, steps_of(name, count)).flatten()))
