#!/usr/bin/env python3
"""Hashes of matrices quantized to NVFP4, computed with numpy and ml_dtypes, for tests/ops/cases_float4.h:
python3 make_fp4.py > fp4.txt. A line has the scaling, the rounding, whether the transpose is mixed, how many powers of two
smaller the numbers are, and FNV-1a hashes of the codes and of the scales with the tensor's factor, of the matrix and of
its transpose. Numbers so small that a scale's inverse is beyond fp32 have the largest fp32 number in its place, as in
Transformer Engine.
"""
import ml_dtypes
import numpy as np

from make_blocks import fnv, up

ROWS, COLUMNS, SEED, SITE, FIRST = 160, 96, 1234567, 77, 64
F32 = np.float32
LARGEST = np.finfo(F32).max
SIGNS = np.array([-1 if 0x9E37 >> i & 1 else 1 for i in range(16)], dtype=F32)


def numbers(smaller):
    """bf16 numbers of many magnitudes from a linear congruential generator; some blocks are all zeros. Of small numbers
    some rows are still smaller."""
    state, bits = 7, np.zeros((ROWS, COLUMNS), dtype=np.uint16)
    for row in range(ROWS):
        for column in range(COLUMNS):
            state = (state * 1664525 + 1013904223) % 2**32
            drawn = state >> 8
            exponent = max(118 + drawn // 2 % 13 - smaller - (row % 5 * 4 if smaller else 0), 0)
            bits[row, column] = drawn % 2 << 15 | exponent << 7 | drawn // 82 % 128
            if row % 16 == 5 and column < 32:
                bits[row, column] = 0
    return (bits.astype(np.uint32) << 16).view(F32)


def philox(key, counter):
    """Philox4x32 with seven rounds (Salmon et al., 2011)."""
    low, high = key & 0xFFFFFFFF, key >> 32
    for _ in range(7):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [second >> 32 ^ counter[1] ^ low, second & 0xFFFFFFFF, first >> 32 ^ counter[3] ^ high,
                   first & 0xFFFFFFFF]
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    return counter


def row_id(row):
    return row * 5 + 3 + (row << 33)


def draws(is_transposed):
    """Sixteen random bits of each element of the matrix; of its transpose, those of another site. Both are sites that no
    dropout has."""
    out = np.zeros((ROWS, COLUMNS), dtype=F32)
    for row in range(ROWS):
        number = row_id(row)
        for first in range(0, COLUMNS, 8):
            words = philox(SEED, [(FIRST + first) // 8, number & 0xFFFFFFFF, number >> 32,
                                  SITE + (2 + is_transposed) * 2**30])
            for i in range(8):
                out[row, first + i] = words[i // 2] >> i % 2 * 16 & 0xFFFF
    return out.T if is_transposed else out


def mixed(x):
    """Sixteen neighbours times the signs and the Hadamard matrix, by sums and differences in fp32."""
    parts = (x.reshape(-1, 16) * SIGNS).astype(F32)
    for step in (1, 2, 4, 8):
        split = parts.reshape(-1, 16 // (2 * step), 2, step)
        parts = np.stack((split[:, :, 0] + split[:, :, 1], split[:, :, 0] - split[:, :, 1]), axis=2).reshape(-1, 16)
    return (parts * F32(0.25)).reshape(x.shape)


def to_nearest(x):
    return np.clip(x, -6, 6).astype(ml_dtypes.float4_e2m1fn).view(np.uint8) & 15


def at_random(x, drawn):
    grid = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=np.float64)
    size = np.minimum(np.abs(x.astype(np.float64)), 6)
    low = np.minimum(np.searchsorted(grid, size, side="right") - 1, 7)
    gap = np.append(np.diff(grid), 1)[low]
    code = low + ((size - grid[low]) / gap * 65536 > drawn) * (low < 7)
    return (code + 8 * np.signbit(x)).astype(np.uint8)


def quantize(x, scaling, drawn):
    rows, columns = x.shape
    most = np.abs(x).max()
    scale = F32(min(np.float64(448 * 6) / np.float64(most), np.float64(LARGEST)))
    blocks = np.abs(x).reshape(rows, columns // 16, 16).max(axis=2)
    if scaling == "block16":
        blocks = np.repeat(blocks.reshape(rows // 16, 16, -1).max(axis=1), 16, axis=0)
    stored = (blocks / F32(6) * scale).astype(ml_dtypes.float8_e4m3fn)
    values = stored.astype(F32)
    by = np.where(values > 0, np.minimum(scale.astype(np.float64) / np.where(values > 0, values, 1), LARGEST), 0).astype(F32)
    scaled = x * np.repeat(by, 16, axis=1)
    codes = to_nearest(scaled) if drawn is None else at_random(scaled, drawn)
    packed = codes[:, 0::2] | codes[:, 1::2] << 4
    padded = np.zeros((up(rows, 128), up(columns // 16, 4)), dtype=np.uint8)
    padded[:rows, :columns // 16] = stored.view(np.uint8)
    tiles = padded.reshape(padded.shape[0] // 128, 4, 32, padded.shape[1] // 4, 4)
    tail = np.zeros(padded.shape[1], dtype=np.uint8)
    tail[:4] = np.frombuffer(F32(1 / scale).tobytes(), dtype=np.uint8)
    return fnv(packed.tobytes()), fnv(np.ascontiguousarray(tiles.transpose(0, 3, 2, 1, 4)).tobytes() + tail.tobytes())


def main():
    for smaller in (0, 114, 124):
        x = numbers(smaller)
        for scaling in ("vector16", "block16"):
            for rounding in ("nearest", "random"):
                for mixes in (0, 1):
                    turned = np.ascontiguousarray(x.T)
                    turned = mixed(turned) if mixes else turned
                    drawn = [draws(i) if rounding == "random" else None for i in (0, 1)]
                    hashes = quantize(x, scaling, drawn[0]) + quantize(turned, scaling, drawn[1])
                    print(scaling, rounding, mixes, smaller, *(f"{value:016x}" for value in hashes))


if __name__ == "__main__":
    main()
