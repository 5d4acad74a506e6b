"""Writes convert.txt: float bit patterns converted to other float types by torch.

    python tests/golden/make_convert.py            (torch 2.15)

Lines "bf16 F32BITS BF16BITS" and "f16 F32BITS F16BITS" in hexadecimal, then "f16_all SHA256": of the fp32 bits
(little-endian) of all 65536 fp16 patterns that are not NaN, in order."""
import hashlib
import pathlib
import random
import struct

import torch

random.seed(1)
edges = [0x00000000, 0x80000000, 0x00000001, 0x007fffff, 0x00800000, 0x3f800000, 0x3f808000, 0x3f808001, 0x3f818000,
         0x7f7fffff, 0xff7fffff, 0x7f7f7fff, 0x7f800000, 0xff800000, 0x477fe000, 0x477fefff, 0x477ff000, 0x477fffff,
         0x47800000, 0x38800000, 0x387fffff, 0x387fe000, 0x387fefff, 0x387ff000, 0x33800000, 0x33000000, 0x33000001, 0x32ffffff,
         0x33c00000, 0x33bfffff, 0x33c00001, 0xb3000001, 0x3f801000, 0x3f803000, 0x3f801001]
cases = edges + [random.getrandbits(32) for _ in range(150)]
cases += [random.randrange(0x33000000, 0x48000000) | random.getrandbits(1) << 31 for _ in range(150)]
cases = [bits for bits in cases if bits & 0x7fffffff <= 0x7f800000]
values = torch.frombuffer(bytearray(struct.pack(f"<{len(cases)}I", *cases)), dtype=torch.float32)
lines = []
for name, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
    for bits, result in zip(cases, values.to(dtype).view(torch.int16).tolist()):
        lines.append(f"{name} {bits:08x} {result & 0xffff:04x}")
halves = [h for h in range(65536) if h & 0x7fff <= 0x7c00]
wide = torch.tensor([h - 65536 if h >= 32768 else h for h in halves], dtype=torch.int16).view(torch.float16).float()
lines.append("f16_all " + hashlib.sha256(wide.numpy().tobytes()).hexdigest())
(pathlib.Path(__file__).parent / "convert.txt").write_text("\n".join(lines) + "\n")
