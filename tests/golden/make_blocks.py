#!/usr/bin/env python3
"""Hashes of matrices quantized by blocks, computed with numpy and ml_dtypes, for tests/ops/cases_blocks.h:
python3 make_blocks.py > blocks.txt. A line has the scaling, the dtype, and FNV-1a hashes of the codes and factors of the
matrix and of its transpose.
"""
import math

import ml_dtypes
import numpy as np

ROWS, COLUMNS = 136, 288


def numbers():
    """bf16 numbers of many magnitudes from a linear congruential generator; some blocks are all zeros."""
    state, bits = 1, np.zeros((ROWS, COLUMNS), dtype=np.uint16)
    for row in range(ROWS):
        for column in range(COLUMNS):
            state = (state * 1664525 + 1013904223) % 2**32
            drawn = state >> 8
            bits[row, column] = drawn % 2 << 15 | (100 + drawn // 2 % 41) << 7 | drawn // 82 % 128
            if row % 16 == 5 and column < 128:
                bits[row, column] = 0
    return (bits.astype(np.uint32) << 16).view(np.float32)


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def exponent_of(most, largest):
    """Of the smallest power of two p with most <= largest * p; exact."""
    if most == 0:
        return 0
    exponent = math.frexp(most)[1] - math.frexp(largest)[1] - 2
    while math.ldexp(largest, exponent) < most:
        exponent += 1
    return max(min(exponent, 127), -127)


def up(count, step):
    return (count + step - 1) // step * step


def quantize(x, scaling, dtype):
    rows, columns = x.shape
    height, width = (128, 128) if scaling == "block128" else (1, 32 if scaling == "vector32" else 128)
    largest = float(ml_dtypes.finfo(dtype).max)
    codes = np.zeros(x.shape, dtype=np.uint8)
    down, across = up(rows, height) // height, up(columns, width) // width
    factors = np.zeros((down, across), dtype=np.int64)
    for i in range(down):
        for j in range(across):
            at = np.s_[i * height:(i + 1) * height, j * width:(j + 1) * width]
            factors[i, j] = exponent = exponent_of(float(np.abs(x[at]).max()), largest)
            scaled = np.clip(np.ldexp(x[at].astype(np.float64), -exponent), -largest, largest)
            codes[at] = scaled.astype(np.float32).astype(dtype).view(np.uint8)
    if scaling == "vector128":
        stored = np.zeros((across, up(rows, 4)), dtype=np.float32)
        stored[:, :rows] = np.ldexp(np.float32(1), factors.T)
    elif scaling == "block128":
        stored = np.zeros((down, up(across, 4)), dtype=np.float32)
        stored[:, :across] = np.ldexp(np.float32(1), factors)
    else:
        padded = np.zeros((up(rows, 128), up(across, 4)), dtype=np.uint8)
        padded[:rows, :across] = factors + 127
        # Tiles of 128 x 4; in a tile, the four quarters of its rows lie beside each other.
        tiles = padded.reshape(padded.shape[0] // 128, 4, 32, padded.shape[1] // 4, 4)
        stored = np.ascontiguousarray(tiles.transpose(0, 3, 2, 1, 4))
    return fnv(codes.tobytes()), fnv(stored.tobytes())


def main():
    x = numbers()
    for scaling in ("vector128", "block128", "vector32"):
        for name, dtype in (("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2)):
            hashes = quantize(x, scaling, dtype) + quantize(np.ascontiguousarray(x.T), scaling, dtype)
            print(scaling, name, *(f"{value:016x}" for value in hashes))


if __name__ == "__main__":
    main()
