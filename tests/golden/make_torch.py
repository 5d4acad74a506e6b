#!/usr/bin/env python3
"""Writes tests/golden/torch/: files of torch.save with plain content, in both containers, and hostile pickles and
archives.

plain.pt, legacy.pt     tensors of every readable type, views with strides, shared storages, parameters, nested containers, numbers,
                        an argparse.Namespace, numpy's random state (opaque)
evil_*.pt               archives whose pickle calls something, has wrong offsets, or is built to harm a reader
Needs torch and numpy. Run from the repository's root; the values are checked in tests/formats/test_torch.c."""
import argparse
import collections
import io
import os
import pickle
import struct
import zipfile

import numpy
import torch

FOLDER = "tests/golden/torch"
os.makedirs(FOLDER, exist_ok=True)


def content():
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    state = collections.OrderedDict()
    state["matrix"] = base
    state["transposed"] = base.t()  # shares the storage
    state["slice"] = base[1:3, 2:5]
    state["half"] = torch.tensor([1.0, -2.5, 65504.0], dtype=torch.float16)
    state["brain"] = torch.tensor([1.0, -2.5, 3.140625], dtype=torch.bfloat16)
    state["long"] = torch.tensor([-(1 << 63), 77])
    state["int"] = torch.tensor([[1, -2], [3, 4]], dtype=torch.int32)
    state["byte"] = torch.tensor([0, 255], dtype=torch.uint8)
    state["double"] = torch.tensor([1.5], dtype=torch.float64)
    state["bool"] = torch.tensor([True, False])
    state["scalar"] = torch.tensor(2.5)
    state["empty"] = torch.zeros(0, 3)
    state["parameter"] = torch.nn.Parameter(torch.tensor([4.0, 5.0]))
    state._metadata = {"": {"version": 1}}
    args = argparse.Namespace(num_layers=2, lr=1.5e-4, name="gpt ünï", fp16=True, load=None, many=[1, 2, 3], big=1 << 40,
                              negative=-5, dtype=torch.float16, size=torch.Size([3, 4]))
    numpy.random.seed(1)
    return {"model": state, "args": args, "iteration": 1000, "nested": {"deep": {"value": (1, (2, [3]))}},
            "np_rng_state": numpy.random.get_state(), "torch_rng_state": torch.arange(8, dtype=torch.uint8),
            "checkpoint_version": 3.0, "set": {7}}


torch.save(content(), f"{FOLDER}/plain.pt")
torch.save(content(), f"{FOLDER}/legacy.pt", _use_new_zipfile_serialization=False)
torch.save(content(), f"{FOLDER}/protocol4.pt", pickle_protocol=4)
torch.save({"weight": torch.ones(2, 3).to(torch.float8_e4m3fn)}, f"{FOLDER}/float8.pt")


# ---- hostile ones ----

class Call:
    def __init__(self, function, *arguments):
        self.value = (function, arguments)

    def __reduce__(self):
        return self.value


def archive(name, data_pkl, storages=None, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(f"{FOLDER}/{name}.pt", "w", compression) as out:
        out.writestr("archive/data.pkl", data_pkl)
        for key, value in (storages or {}).items():
            out.writestr(f"archive/data/{key}", value)


def tensor_pickle(offset=0, shape=(4,), stride=(1,), count=4, key="0"):
    """{"t": a tensor} with any claims."""
    def integers(values):
        return b"(" + b"".join(b"J" + struct.pack("<i", v) if -2**31 <= v < 2**31 else
                               b"\x8a\x08" + struct.pack("<q", v) for v in values) + b"t"

    def text(value):
        return b"X" + struct.pack("<I", len(value)) + value.encode()
    storage = (b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(key) + text("cpu") + integers((count,))[1:-1] + b"tQ")
    call = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + integers((offset,))[1:-1] + integers(shape) + integers(stride)
    return b"\x80\x02}" + text("t") + call + b"\x89ccollections\nOrderedDict\n)RtRs."


floats = struct.pack("<4f", 1, 2, 3, 4)
archive("evil_system", pickle.dumps({"a": Call(os.system, "touch /tmp/bevatron_was_here")}, protocol=2))
archive("evil_eval", pickle.dumps({"a": Call(eval, "1")}, protocol=4))
with open(f"{FOLDER}/evil_system_legacy.pt", "wb") as out:
    for value in (0x1950a86a20f9469cfc6c, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {}},
                  Call(os.system, "touch /tmp/bevatron_was_here"), []):
        pickle.dump(value, out, protocol=2)
archive("good_tensor", tensor_pickle(), {"0": floats})
archive("evil_offset", tensor_pickle(offset=1), {"0": floats})
archive("evil_offset_huge", tensor_pickle(offset=(1 << 62)), {"0": floats})
archive("evil_stride", tensor_pickle(shape=(2, 2), stride=(3, 1)), {"0": floats})
archive("evil_stride_overflow", tensor_pickle(shape=(2, 2), stride=(1 << 62, 1 << 62)), {"0": floats})
archive("evil_stride_negative", tensor_pickle(stride=(-1,)), {"0": floats})
archive("evil_shape_bomb", tensor_pickle(shape=(1 << 40,), stride=(0,)), {"0": floats})
archive("evil_shape_negative", tensor_pickle(shape=(-4,)), {"0": floats})
archive("evil_count", tensor_pickle(count=5), {"0": floats})
archive("evil_missing_storage", tensor_pickle(key="1"), {"0": floats})
archive("evil_key", tensor_pickle(key="../../../../etc/passwd"), {"0": floats})
archive("evil_compressed", tensor_pickle(), {"0": floats + b"\0" * 100000}, zipfile.ZIP_DEFLATED)
archive("evil_depth", b"\x80\x02" + b"]" * 20000 + b"a" * 19999 + b".")  # nested lists
archive("evil_circle", b"\x80\x02]q\0h\0a.")  # a list that contains itself
archive("evil_circle_dict", b"\x80\x02}q\0X\5\0\0\0modelh\0s.")
archive("evil_text", b"\x80\x02X\xff\xff\xff\x7fabc.")
archive("evil_text8", b"\x80\x04\x8d" + b"\xff" * 8 + b"abc.")
archive("evil_memo", b"\x80\x02]r\xff\xff\xff\xff.")
archive("evil_recall", b"\x80\x02h\7.")
archive("evil_pop", b"\x80\x020.")
archive("evil_mark", b"\x80\x02t.")
archive("evil_opcode", b"\x80\x02I42\n.")
archive("evil_no_stop", b"\x80\x02]")
archive("evil_call", b"\x80\x02]]R.")
archive("evil_protocol", b"\x80\x09].")

# Two entries that share bytes, a local header that names another entry, and a checksum that is wrong.
good = open(f"{FOLDER}/good_tensor.pt", "rb").read()
data = bytearray(good)
first_directory = data.find(b"PK\1\2")
second_directory = data.find(b"PK\1\2", first_directory + 4)
data[second_directory + 42:second_directory + 46] = data[first_directory + 42:first_directory + 46]
open(f"{FOLDER}/evil_same_place.pt", "wb").write(data)
out = io.BytesIO()
with zipfile.ZipFile(out, "w") as z:
    z.writestr("archive/data.pkl", tensor_pickle())
    z.writestr("archive/data/0", floats + b"\0" * 80)
data = bytearray(out.getvalue())
first_directory = data.find(b"PK\1\2")
length = struct.unpack("<I", data[first_directory + 20:first_directory + 24])[0] + 60  # the pickle reaches into the next entry
data[first_directory + 20:first_directory + 28] = struct.pack("<II", length, length)
open(f"{FOLDER}/evil_overlap.pt", "wb").write(data)
data = bytearray(good)
data[data.find(floats)] ^= 1
open(f"{FOLDER}/evil_checksum.pt", "wb").write(data)
data = bytearray(good)
data[-6:-2] = struct.pack("<I", 1 << 30)
open(f"{FOLDER}/evil_directory.pt", "wb").write(data)
open(f"{FOLDER}/evil_cut.pt", "wb").write(good[:-30])
with zipfile.ZipFile(f"{FOLDER}/evil_no_pickle.pt", "w") as z:
    z.writestr("archive/other", b"x")

# A checkpoint of Megatron whose dicts hold the same dict twenty times, ten deep: too many paths to walk.
bomb = {}
for _ in range(10):
    bomb = {f"k{i}": bomb for i in range(20)}
os.makedirs(f"{FOLDER}/dict_bomb/mp_rank_00", exist_ok=True)
torch.save({"model": bomb}, f"{FOLDER}/dict_bomb/mp_rank_00/model_optim_rng.pt")
