"""Writes numpy_rng.txt: numbers of NumPy's legacy RandomState, and Philox deviates, for tests/base/test_rng.c.

Each line is: kind, seed, an argument, then the values. Doubles are written as hexadecimal floats, so they are exact.
Run: python3 tests/golden/make_numpy_rng.py > tests/golden/numpy_rng.txt
"""

import numpy as np

SEEDS = [0, 1, 42, 1234, 2**31, 2**32 - 1]

print(f"# made by tests/golden/make_numpy_rng.py with numpy {np.__version__}")
for seed in SEEDS:
    state = np.random.RandomState(seed)
    words = [int(state.randint(0, 2**32, dtype=np.uint32)) for _ in range(4)]
    print("word", seed, len(words), *words)
    # Far into the sequence, after several refills of the state.
    state.bytes(4 * 5000)
    print("word_5004", seed, 4, *[int(state.randint(0, 2**32, dtype=np.uint32)) for _ in range(4)])

    state = np.random.RandomState(seed)
    print("random", seed, 4, *[float(x).hex() for x in state.random_sample(4)])

    for n in [0, 1, 2, 3, 10, 33]:
        state = np.random.RandomState(seed)
        x = np.arange(n, dtype=np.int32)
        state.shuffle(x)
        # The next draw shows that the same number of words was used.
        print("shuffle", seed, n, *x, int(state.randint(0, 2**32, dtype=np.uint32)))

    state = np.random.RandomState(seed)
    x = np.arange(20000, dtype=np.int64)
    state.shuffle(x)
    weighted = int((x * np.arange(1, 20001)).sum())
    print("shuffle_sum", seed, 20000, weighted, int(x[0]), int(x[-1]))

    state = np.random.RandomState(seed)
    print("permutation", seed, 12, *state.permutation(12))

    # One generator is used for all of these, so the number of words that each uses matters too. Masked rejection with
    # 32-bit draws up to 2^32 - 1 and with 64-bit draws above, as shuffle() does for long arrays.
    state = np.random.RandomState(seed)
    for most in [1, 5, 2**16, 2**31, 2**32 - 2, 2**32, 2**32 + 1, 3 * 2**33, 2**40 + 17, 2**63 - 2]:
        print("interval", seed, most, *[int(state.randint(0, most + 1, dtype=np.int64)) for _ in range(3)])


# Philox4x32-10 and Box-Muller reimplemented with Python integers and the C library's functions.
def philox(key, counter):
    c, k = list(counter), [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def normal(seed, stream, element):
    block, lane = divmod(element, 4)
    words = philox(seed, [block & 0xFFFFFFFF, block >> 32, stream & 0xFFFFFFFF, stream >> 32])
    w, v = words[lane // 2 * 2], words[lane // 2 * 2 + 1]
    radius = np.sqrt(-2 * np.log((w + 1) / 2**32))
    return radius * (np.sin if lane % 2 else np.cos)(2 * np.pi * v / 2**32)


for seed, stream, first in [(0, 0, 0), (1234, 7, 3), (2**63 + 5, 2**40 + 1, 2**34 + 2), (1, 2**64 - 1, 2**61)]:
    print("normal", seed, first, stream, *[float(normal(seed, stream, first + i)).hex() for i in range(9)])
