#!/usr/bin/env python3
"""Files for timing llm.c: random weights of a GPT-2 in its format, since drawing 1.5 billion itself takes it half a minute, and
random tokens. Weights repeat a few million numbers; only their sizes and that they are no zeros matters for time. Tokens are as
frequent as words are, the nth by 1/n: llm.c sorts each batch's on the host, which takes longer for uniformly random ones.

usage: llmc_files.py weights FILE LAYERS HIDDEN HEADS SEQUENCE VOCABULARY      (bf16; the vocabulary is a multiple of 128)
       llmc_files.py tokens FILE COUNT VOCABULARY
"""
import array
import random
import sys

WEIGHTS_MAGIC, BF16 = 20240326, 5
TOKENS_MAGIC, FIRST = 20240520, 1


def header(*numbers):
    return array.array("i", list(numbers) + [0] * (256 - len(numbers))).tobytes()


def bf16(values):
    """The upper halves of their fp32 bits."""
    return array.array("H", memoryview(array.array("f", values)).cast("B").cast("H")[1::2].tolist()).tobytes()


def fill(out, piece, count):
    """Writes `count` numbers of 2 bytes by repeating the piece."""
    left = 2 * count
    while left > 0:
        out.write(piece[:left])
        left -= min(left, len(piece))


def write_weights(path, layers, hidden, heads, length, vocabulary):
    normal = bf16([random.gauss(0, 0.02) for _ in range(1 << 20)])
    small = bf16([random.gauss(0, 0.02 / (2 * layers) ** 0.5) for _ in range(1 << 20)])
    zero, one = bytes(1 << 20), bf16([1.0] * (1 << 16))
    with open(path, "wb") as out:
        out.write(header(WEIGHTS_MAGIC, BF16, length, 50257, layers, heads, hidden, vocabulary))
        for piece, count in ((normal, vocabulary * hidden), (normal, length * hidden)):
            fill(out, piece, count)
        # All layers of one kind are together: norm, qkv, projection, norm, MLP; gains or weights, then biases.
        for piece, inner, width in ((one, 1, 1), (normal, hidden, 3), (small, hidden, 1), (one, 1, 1), (normal, hidden, 4),
                                    (small, 4 * hidden, 1)):
            fill(out, piece, layers * width * hidden * inner)
            fill(out, zero, layers * width * hidden)
        fill(out, one, hidden)
        fill(out, zero, hidden)


def write_tokens(path, count, vocabulary):
    words = random.sample(range(vocabulary), vocabulary)
    weights = [1 / (n + 1) for n in range(vocabulary)]
    piece = array.array("H", random.choices(words, weights, k=min(count, 1 << 21))).tobytes()
    with open(path, "wb") as out:
        out.write(header(TOKENS_MAGIC, FIRST, count))
        fill(out, piece, count)


def main():
    random.seed(1)
    kind, path, numbers = sys.argv[1], sys.argv[2], [int(n) for n in sys.argv[3:]]
    {"weights": write_weights, "tokens": write_tokens}[kind](path, *numbers)


if __name__ == "__main__":
    main()
