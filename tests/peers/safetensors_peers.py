"""Hugging Face's safetensors library reads our files, and we read its files.

    BEVATRON=build/release/bevatron python tests/peers/safetensors_peers.py       (safetensors, torch)
"""
import hashlib
import os
import pathlib
import random
import subprocess
import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import save_file

PROGRAM = pathlib.Path(os.environ.get("BEVATRON", "build/release/bevatron")).parent / "tests/test_checkpoint_safetensors"
DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16", torch.int32: "int32",
          torch.int64: "int64", torch.uint8: "uint8"}


def read_ours(folder):
    path = f"{folder}/ours.safetensors"
    subprocess.run([PROGRAM, "write", path], check=True)
    with safe_open(path, framework="pt") as file:
        assert sorted(file.keys()) == sorted(
            ["layers.0.weight", 'a "quoted" ünïcode name', "nothing", "numbers", "one"]), file.keys()
        assert file.metadata() == {"format": "pt", "note": "line\nbreak"}, file.metadata()
        weight = file.get_tensor("layers.0.weight")
        assert torch.equal(weight, torch.tensor([[0, -1.5, 2], [3e-8, 1e30, 5]])), weight
        brain = file.get_tensor('a "quoted" ünïcode name')
        assert brain.dtype == torch.bfloat16 and brain.tolist() == [1.0, -2.5, 3.140625], brain
        assert file.get_tensor("nothing").shape == (0, 4)
        assert file.get_tensor("numbers").tolist() == [-(1 << 63), 77]
        assert file.get_tensor("one").shape == () and file.get_tensor("one").item() == ord("!")


def random_tensors(generator):
    tensors = {}
    for i in range(generator.randrange(1, 40)):
        shape = [generator.randrange(0, 9) for _ in range(generator.randrange(0, 5))]
        dtype = generator.choice(list(DTYPES))
        tensors[f"layer.{i}.{generator.choice(['weight', 'bias', 'ß', ' '])}"] = (
            torch.randn(shape) * 100).abs().to(dtype)
    return tensors


def read_theirs(folder, seed):
    generator = random.Random(seed)
    torch.manual_seed(seed)
    tensors = random_tensors(generator)
    path = f"{folder}/theirs.safetensors"
    save_file(tensors, path, metadata={"seed": str(seed)} if seed % 2 else None)
    lines = subprocess.run([PROGRAM, "check", path], check=True, capture_output=True, text=True).stdout.splitlines()
    assert len(lines) == len(tensors), (len(lines), len(tensors))
    for line in lines:
        name, description, sha256 = line.split("|")
        tensor = tensors[name]
        shape = ", ".join(str(n) for n in tensor.shape)
        assert description == f"{DTYPES[tensor.dtype]} ({shape})", (description, tensor.dtype, tensor.shape)
        raw = tensor.contiguous().flatten().view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)
        assert sha256 == hashlib.sha256(raw.numpy().tobytes()).hexdigest(), name


with tempfile.TemporaryDirectory() as folder:
    read_ours(folder)
    for seed in range(20):
        read_theirs(folder, seed)
print("safetensors: both ways agree")
