#!/usr/bin/env python3
"""Makes tests/golden/compress: the lines 1 to 4000 in our own words, compressed by each format's own tools; each file
has several streams. Needs the program zstd."""
import bz2
import gzip
import lzma
import os
import struct
import subprocess

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compress")


def lines(first, last):
    return "".join(f"line {i}: {i * i % 977} sacks of flour\n" for i in range(first, last)).encode()


def main():
    parts = [lines(1, 1500), lines(1500, 1501), b"", lines(1501, 4001)]
    os.makedirs(folder, exist_ok=True)

    def write(name, data):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)

    zstd = [subprocess.run(["zstd", "-q", "-19", "--check", "-c"], input=p, capture_output=True, check=True).stdout
            for p in parts]
    skippable = struct.pack("<II", 0x184D2A53, 5) + b"skip!"
    write("lines.gz", b"".join(gzip.compress(p, mtime=0) for p in parts))
    write("lines.bz2", b"".join(bz2.compress(p) for p in parts))
    write("lines.xz", b"".join(lzma.compress(p) for p in parts[:2]) + bytes(8) +
          b"".join(lzma.compress(p) for p in parts[2:]))
    write("lines.zst", skippable + zstd[0] + zstd[1] + skippable + zstd[2] + zstd[3])


if __name__ == "__main__":
    main()
