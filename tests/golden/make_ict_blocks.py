"""Writes ict_blocks.txt: which sentences form the blocks of ICT, by megatron-core's build_blocks_mapping.

Run: python tests/golden/make_ict_blocks.py > tests/golden/ict_blocks.txt  (needs numpy and megatron-core)

Lines: "lengths A,B C - …" has the tokens of each document's sentences; "titles 3 0 …" those of each title, or "titles
none", which Megatron does not have: it is given zeros instead. "blocks SEQ SAMPLES SEED SINGLE COUNT MD5" has the
arguments of the map (SAMPLES 0: one epoch; SINGLE 1: --use-one-sent-docs), how many rows it has and the md5 of its
uint32s; "row I BEGIN END DOCUMENT BLOCK" has a row of the map before it."""
import hashlib
import random
import numpy
from megatron.core.datasets import helpers_cpp

LAST = numpy.iinfo(numpy.int32).max - 1


def show(documents, titles, asked):
    print("lengths", " ".join(",".join(map(str, d)) or "-" for d in documents))
    print("titles", " ".join(map(str, titles)) if titles else "none")
    bounds = numpy.cumsum([0] + [len(d) for d in documents]).astype(numpy.int64)
    sizes = numpy.array([n for d in documents for n in d], numpy.int32)
    own = numpy.array(titles or [0] * len(documents), numpy.int32)
    for seq, samples, seed, single in asked:
        epochs, most = (LAST, samples) if samples else (1, numpy.iinfo(numpy.int64).max - 1)
        rows = helpers_cpp.build_blocks_mapping(bounds, sizes, own, epochs, most, seq - 3, seed, False, single)
        digest = hashlib.md5(rows.astype("<u4").tobytes()).hexdigest()
        print("blocks", seq, samples, seed, int(single), len(rows), digest)
        for i in range(0, len(rows), max(1, len(rows) // 4)):
            print("row", i, *rows[i])


random.seed(5)
few = [[5, 9, 4], [], [7], [600, 3], [700], [4, 4, 4, 4, 4, 4, 4], [20, 1, 1, 30, 2], [8, 8]]
show(few, [3, 1, 0, 2, 2, 5, 4, 12], [(16, 0, 1234, False), (16, 40, 1234, False), (16, 0, 1, True), (24, 100, 7, True)])
show(few, None, [(16, 0, 1234, False), (20, 50, 99, True)])
many = [[random.randint(1, 40) for _ in range(random.randint(0, 30))] for _ in range(200)]
show(many, [random.randint(0, 12) for _ in many], [(64, 0, 1, False), (64, 3000, 1234, False), (128, 1000, 42, True)])
