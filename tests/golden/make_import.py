#!/usr/bin/env python3
"""Makes tests/golden/import: small datasets as fairseq-preprocess writes them, and the expected results. Needs NumPy.
The two formats follow src/data/index/fairseq_reader.h; tests/peers/fairseq_peers.py compares these writers with
fairseq's own code.

  mmap_u16, mmap_u32, mmap_i64   --dataset-impl mmap
  torchnet_i32, torchnet_i16     --dataset-impl cached
  dict.txt                       the dictionary of mmap_u16
  expected.txt                   the lines as ids, one per row; the same for all except the 32-bit ids of mmap_u32
"""
import os
import struct

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint16": 8, "uint32": 9, "uint64": 10}

# Like a text: empty lines first, between and last, two in a row; ids up to 19.
LINES = [[2], [5, 6, 7, 2], [2], [8, 9, 10, 11, 2], [12, 2], [2], [2], [4, 2], [13, 14, 19, 15, 2], [2]]


def write_mmap(prefix, lines, dtype):
    itemsize = np.dtype(dtype).itemsize
    sizes = np.array([len(line) for line in lines], dtype=np.int32)
    ends = np.cumsum(sizes, dtype=np.int64) * itemsize
    with open(prefix + ".bin", "wb") as file:
        for line in lines:
            file.write(np.array(line, dtype=dtype).tobytes())
    with open(prefix + ".idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQ", 1, CODES[dtype], len(lines)))
        file.write(sizes.tobytes() + (ends - sizes.astype(np.int64) * itemsize).tobytes())


def write_torchnet(prefix, lines, dtype):
    sizes = [len(line) for line in lines]
    with open(prefix + ".bin", "wb") as file:
        for line in lines:
            file.write((np.array(line, dtype=np.int64) + 1).astype(dtype).tobytes())
    with open(prefix + ".idx", "wb") as file:
        file.write(b"TNTIDX\0\0" + struct.pack("<QQQQQ", 1, CODES[dtype], np.dtype(dtype).itemsize, len(lines), len(lines)))
        file.write(np.arange(len(lines) + 1, dtype=np.int64).tobytes())
        file.write(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64).tobytes())
        file.write(np.array(sizes, dtype=np.int64).tobytes())


def main():
    folder = os.path.join(HERE, "import")
    os.makedirs(folder, exist_ok=True)
    at = lambda name: os.path.join(folder, name)
    write_mmap(at("mmap_u16"), LINES, "uint16")
    write_mmap(at("mmap_i64"), LINES, "int64")
    write_mmap(at("mmap_u32"), [[i + 70000 if i > 3 else i for i in line] for line in LINES], "uint32")
    write_torchnet(at("torchnet_i32"), LINES, "int32")
    write_torchnet(at("torchnet_i16"), LINES, "int16")
    with open(at("dict.txt"), "w") as file:
        file.writelines(f"word{i} {100 - i}\n" for i in range(16))
    with open(at("expected.txt"), "w") as file:
        file.writelines(" ".join(map(str, line)) + "\n" for line in LINES)


if __name__ == "__main__":
    main()
