#!/usr/bin/env python3
"""One training step of GPT-2 124M, of a Llama of its size or of BERT-base in PyTorch on the CPU: eager or torch.compile. Prints
one line of JSON.

The same work as bevatron bench step: forward, backward, clipping by norm, AdamW (fused where the build has it), dropout 0, PyTorch's own
scaled_dot_product_attention; BERT learns from 15 % of its tokens, with logits of all. GPT-2: vocabulary 50304, tied embeddings, tanh GELU.
Llama: 32000, untied, RMSNorm, rotary positions, SwiGLU of 2048. BERT: 30522, tied, norms behind, exact GELU, its transform before the head.
--dtype: fp32; autocast, bf16 products under autocast with fp32 weights, as a user has it; or bf16, all weights and Adam's state in
bf16, less than bevatron bench step --bf16 does, which keeps fp32 master weights and state.
--mode regions compiles a block once for all of them, and the head with its loss: that takes seconds, --mode compiled minutes."""
import argparse
import contextlib
import json
import resource
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--mode", choices=["eager", "regions", "compiled"], default="eager")
parser.add_argument("--model", choices=["gpt", "llama", "bert"], default="gpt")
parser.add_argument("--dtype", choices=["fp32", "autocast", "bf16"], default="fp32")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--length", type=int, default=256)
parser.add_argument("--steps", type=int, default=5)
args = parser.parse_args()

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(args.threads)
torch.manual_seed(0)
C, H = 768, 12
D = C // H
V, P = {"gpt": (50304, 1024), "llama": (32000, 0), "bert": (30522, 512)}[args.model]
LLAMA, BERT = args.model == "llama", args.model == "bert"
INNER = 2048 if LLAMA else 4 * C


def norm():
    return nn.RMSNorm(C, eps=1e-5) if LLAMA else nn.LayerNorm(C, eps=1e-12 if BERT else 1e-5)


def linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=not LLAMA)


def rotate(x, cosine, sine):
    a, b = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-b, a), dim=-1) * sine


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = norm(), norm()
        self.qkv, self.proj = linear(C, 3 * C), linear(C, C)
        self.fc1, self.fc2 = linear(C, 2 * INNER if LLAMA else INNER), linear(INNER, C)

    def attention(self, x, rotary):
        b, t, _ = x.shape
        q, k, v = (z.view(b, t, H, D).transpose(1, 2) for z in self.qkv(x).split(C, dim=-1))
        if LLAMA:
            q, k = rotate(q, *rotary), rotate(k, *rotary)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=not BERT)
        return self.proj(a.transpose(1, 2).reshape(b, t, C))

    def mlp(self, x):
        x = self.fc1(x)
        if LLAMA:
            gate, x = x.chunk(2, dim=-1)
            return self.fc2(F.silu(gate) * x)
        return self.fc2(F.gelu(x, approximate="none" if BERT else "tanh"))

    def forward(self, x, rotary):
        if BERT:
            x = self.norm1(x + self.attention(x, rotary))
            return self.norm2(x + self.mlp(x))
        x = x + self.attention(self.norm1(x), rotary)
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(V, C)
        self.blocks = nn.ModuleList(Block() for _ in range(args.layers))
        self.norm = norm()  # of the last block, or of BERT's embeddings
        if LLAMA:
            self.head = nn.Linear(C, V, bias=False)
            angles = torch.outer(torch.arange(args.length), 10000 ** (-torch.arange(0, D, 2) / D)).repeat(1, 2)
            self.register_buffer("cosine", angles.cos())
            self.register_buffer("sine", angles.sin())
        else:
            self.positions = nn.Embedding(P, C)
        if BERT:
            self.types, self.transform, self.head_norm = nn.Embedding(2, C), linear(C, C), norm()
            self.bias = nn.Parameter(torch.zeros(V))
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, labels):
        x, rotary = self.tokens(tokens), None
        if LLAMA:
            rotary = self.cosine.to(x.dtype), self.sine.to(x.dtype)
        else:
            x = x + self.positions.weight[: tokens.shape[1]]
        if BERT:
            x = self.norm(x + self.types.weight[0])
        for block in self.blocks:
            x = block(x, rotary)
        return self.loss(x, labels)

    def loss(self, x, labels):
        if BERT:
            x = self.head_norm(F.gelu(self.transform(x)))
            logits = F.linear(x, self.tokens.weight, self.bias)
        else:
            logits = F.linear(self.norm(x), self.head.weight if LLAMA else self.tokens.weight)
        return F.cross_entropy(logits.view(-1, V), labels.reshape(-1))


model = Model()
if args.dtype == "bf16":
    model.bfloat16()
decayed = [p for p in model.parameters() if p.dim() > 1]
plain = [p for p in model.parameters() if p.dim() == 1]
groups = [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
try:
    optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.999), fused=True)
except RuntimeError:
    optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.999))
run = torch.compile(model) if args.mode == "compiled" else model
if args.mode == "regions":
    model.loss = torch.compile(model.loss)
    for block in model.blocks:
        block.compile()
tokens = torch.randint(0, V, (args.batch, args.length))
labels = torch.randint(0, V, (args.batch, args.length))
if BERT:
    labels.view(-1)[torch.arange(labels.numel()) % 20 >= 3] = -100


def step():
    with torch.autocast("cpu", torch.bfloat16) if args.dtype == "autocast" else contextlib.nullcontext():
        loss = run(tokens, labels)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


# What is slow, compiling or computing, shows on stderr while it runs.
for i in range(2):
    start = time.perf_counter()
    loss = step()
    print(f"step {i - 2}, {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
times = []
for _ in range(args.steps):
    start = time.perf_counter()
    loss = step()
    times.append(time.perf_counter() - start)
times.sort()
median = times[len(times) // 2]
kind = args.mode if args.dtype == "fp32" else f"{args.mode} {args.dtype}"
print(json.dumps({
    "name": f"pytorch {torch.__version__} {kind}", "median_s": round(median, 4), "min_s": round(times[0], 4),
    "tokens_per_second": round(args.batch * args.length / median, 1),
    "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024), "loss": round(loss, 5)}))
