"""Writes huggingface.safetensors with Hugging Face's own library: one tensor of each element type this project reads.

    python tests/golden/make_safetensors.py        (safetensors 0.8.0, torch 2.15)
"""
import pathlib

import torch
from safetensors.torch import save_file

tensors = {
    "matrix": torch.arange(12, dtype=torch.float32).reshape(3, 4) / 8,
    "brain": torch.tensor([1.0, -2.5, 3.140625], dtype=torch.bfloat16),
    "half": torch.tensor([[0.5], [65504.0]], dtype=torch.float16),
    "words": torch.tensor([-1, 2147483647], dtype=torch.int32),
    "long": torch.tensor([1 << 40, -7], dtype=torch.int64),
    "bytes": torch.tensor([0, 1, 254, 255, 9], dtype=torch.uint8),
    "scalar": torch.tensor(42.0),
    "empty": torch.zeros((0, 5)),
    "ünïcode \"name\"": torch.ones(2, 1, 2, 1),
}
save_file(tensors, pathlib.Path(__file__).parent / "huggingface.safetensors",
          metadata={"format": "pt", "who": "Hugging Face"})
