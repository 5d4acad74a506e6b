#!/usr/bin/env python3
"""One training step of GPT-2 124M in PyTorch on the CPU: eager or torch.compile. Prints one line of JSON.

The same work as bench_step: forward, backward, clipping by norm, AdamW (fused where the build has it), float32, dropout 0,
vocabulary 50304, tied embeddings, tanh GELU, PyTorch's own scaled_dot_product_attention."""
import argparse
import json
import resource
import time

parser = argparse.ArgumentParser()
parser.add_argument("--mode", choices=["eager", "compiled"], default="eager")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--length", type=int, default=256)
parser.add_argument("--steps", type=int, default=5)
args = parser.parse_args()

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(args.threads)
torch.manual_seed(0)
V, P, L, C, H = 50304, 1024, 12, 768, 12


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.qkv, self.proj = nn.Linear(C, 3 * C), nn.Linear(C, C)
        self.fc1, self.fc2 = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (z.view(b, t, H, C // H).transpose(1, 2) for z in self.qkv(self.norm1(x)).split(C, dim=-1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, C))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(V, C), nn.Embedding(P, C)
        self.blocks = nn.ModuleList(Block() for _ in range(L))
        self.norm = nn.LayerNorm(C)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, labels):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, V), labels.reshape(-1))


model = GPT()
decayed = [p for p in model.parameters() if p.dim() > 1]
plain = [p for p in model.parameters() if p.dim() == 1]
groups = [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
try:
    optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.999), fused=True)
except RuntimeError:
    optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.999))
run = torch.compile(model) if args.mode == "compiled" else model
tokens = torch.randint(0, V, (args.batch, args.length))
labels = torch.randint(0, V, (args.batch, args.length))


def step():
    loss = run(tokens, labels)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


for _ in range(2):
    loss = step()
times = []
for _ in range(args.steps):
    start = time.perf_counter()
    loss = step()
    times.append(time.perf_counter() - start)
times.sort()
median = times[len(times) // 2]
print(json.dumps({
    "name": f"pytorch {torch.__version__} {args.mode}", "median_s": round(median, 4), "min_s": round(times[0], 4),
    "tokens_per_second": round(args.batch * args.length / median, 1),
    "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024), "loss": round(loss, 5)}))
