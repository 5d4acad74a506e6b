#!/usr/bin/env python3
"""Writes tests/golden/rearrange.txt: orders of `--shuffle`, computed with NumPy from the description in
docs/internals/rearrange.md. Philox4x32-10 is reimplemented here over arrays, and checked against the known answers of
the Random123 distribution.

    shuffle SEED COUNT FIRST…   the document at each place (all of them, or the first 32)
"""
import os

import numpy as np

M0, M1, W0, W1 = (np.uint64(x) for x in (0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85))
LOW = np.uint64(0xFFFFFFFF)


def philox(counter, key):
    c0, c1, c2, c3 = (np.asarray(c, dtype=np.uint64) for c in counter)
    k0, k1 = (np.uint64(k) for k in key)
    for _ in range(10):
        p0, p1 = M0 * c0, M1 * c2
        c0, c1, c2, c3 = (p1 >> np.uint64(32)) ^ c1 ^ k0, p1 & LOW, (p0 >> np.uint64(32)) ^ c3 ^ k1, p0 & LOW
        k0, k1 = (k0 + W0) & LOW, (k1 + W1) & LOW
    return c0, c1, c2, c3


def order(seed, count):
    i = np.arange(count, dtype=np.uint64)
    words = philox((i & LOW, i >> np.uint64(32), np.full(count, 0x53485546), np.zeros(count)),
                   (seed & 0xFFFFFFFF, seed >> 32))
    key = words[1] << np.uint64(32) | words[0]
    return np.lexsort((i, key))


def main():
    ones = [0xFFFFFFFF]
    known = [int(word[0]) for word in philox((ones, ones, ones, ones), (0xFFFFFFFF, 0xFFFFFFFF))]
    assert known == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD], known
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rearrange.txt")
    with open(path, "w") as out:
        for seed in (0, 1, 1234, 2**32 + 5, 2**64 - 1):
            for count in (1, 2, 3, 10, 100, 5000):
                print("shuffle", seed, count, *order(seed, count)[:32], file=out)


if __name__ == "__main__":
    main()
