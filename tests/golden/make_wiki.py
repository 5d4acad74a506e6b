#!/usr/bin/env python3
"""Writes bzip2 files for the parallel decoder; only Python's own library is needed.

wiki/blocks.bz2: 300,000 lines "line N" in three streams of many 100 kB blocks, with an empty stream between the first
two.
wiki/false_mark.bz2: 2,000 lines of numbers whose block holds the 48 bits of a block mark among its selectors, where a
decoder ignores them: one in 2^48 places of a normal file looks like that."""
import bz2
import pathlib

folder = pathlib.Path(__file__).parent / "wiki"
folder.mkdir(exist_ok=True)
lines = [b"line %d\n" % (i // 64) for i in range(300000)]
parts = [b"".join(lines[:100000]), b"", b"".join(lines[100000:100100]), b"".join(lines[100100:])]
(folder / "blocks.bz2").write_bytes(b"".join(bz2.compress(part, 1) for part in parts))

numbers = b"".join(b"%d\n" % (i * i * 7919 % 1000003) for i in range(2000))
packed = bz2.compress(numbers)
bits = "".join(f"{byte:08b}" for byte in packed)
at = 32 + 48 + 32 + 1 + 24  # header, mark, checksum, randomised, origin
used = bits[at:at + 16].count("1")
at += 16 + 16 * used
groups = int(bits[at:at + 3], 2)
assert groups >= 3, "the mark needs three code tables: two ones in a row"
count = int(bits[at + 3:at + 18], 2)
end = at + 18
for _ in range(count):
    end = bits.index("0", end) + 1
mark = f"{0x314159265359:048b}" + "0"
extra = mark.count("0")
tail = bits[end:]
changed = bits[:at + 3] + f"{count + extra:015b}" + bits[at + 18:end] + mark + tail
# The padding of the last byte moves; the end mark and checksum are the last 80 bits before it.
stop = changed.rindex(f"{0x177245385090:048b}") + 80
changed = changed[:stop] + "0" * (-stop % 8)
crafted = bytes(int(changed[i:i + 8], 2) for i in range(0, len(changed), 8))
assert bz2.decompress(crafted) == numbers
(folder / "false_mark.bz2").write_bytes(crafted)
