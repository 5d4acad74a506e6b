# Writes folders of runs as train would have written them, with curves that are computed, not trained: for the tests and
# the pictures of the board.
# usage: make_runs.py FOLDER [--runs N] [--steps N]
import argparse
import json
import math
import os
import random
import time

NAMES = ["gpt-345m/lr-3e-4", "gpt-345m/lr-6e-4", "gpt-345m/lr-1e-3", "llama-1b/baseline", "llama-1b/experts-8",
         "ict/wikipedia-en"]
ENDS = ["live", "finished", "failed", "stopped", "finished", "lost"]
PROMPTS = ["Once upon a time", "The capital of France is"]
TEXTS = [" the the of and the a the of", " there was the town of the sea and the people",
         " there was a small town by the sea, and people lived there for the time",
         " there was a small town by the sea, and in it lived a baker who rose before the sun."]


def loss_of(index, step, noise):
    base = 2.15 + 0.06 * (index % 7) + 8 * math.exp(-step / 60) + 1.3 * math.exp(-step / 700)
    spike = 2.5 * math.exp(-(step - 1000) / 12) if index % 3 == 2 and 1000 <= step < 1060 else 0
    return base + spike + noise.gauss(0, 0.05)


def config_of(index, steps, name):
    return {"num_layers": 24 if "gpt" in name else 16, "hidden_size": 1024 if "gpt" in name else 2048,
            "num_attention_heads": 16, "seq_length": 2048, "micro_batch_size": 4, "global_batch_size": 512,
            "train_iters": steps, "lr": [3e-4, 6e-4, 1e-3][index % 3], "min_lr": 3e-5, "lr_decay_style": "cosine",
            "lr_warmup_iters": 100, "weight_decay": 0.1, "clip_grad": 1.0, "bf16": True, "seed": 1234 + index,
            "tensor_model_parallel_size": 1 + index % 2, "pipeline_model_parallel_size": 1,
            "tokenizer_type": "GPT2BPETokenizer", "data_path": ["/data/wiki_text_document"], "split": "969,30,1"}


def run_line(name, index, begin, iteration, steps, folder):  # a restart is on the next host, with the next job
    return {"kind": "run", "time": begin, "iteration": iteration, "program": "bevatron", "version": "1.0",
            "host": f"node-{11 + (index + (iteration > 0)) % 4}", "pid": 4000 + index, "ranks": 16,
            "job": str(88120 + index + (iteration > 0)),
            "job_log": os.path.join(folder, "job.log"), "flops_per_token": 2.1e9, "tokens_per_sample": 2048,
            "config": config_of(index, steps, name)}


def train_line(index, step, steps, now, noise):
    tokens = 411000 * (1 + 0.04 * (index % 5)) * (1 + noise.gauss(0, 0.008)) * (0.7 if step % 487 < 2 else 1)
    warm = min(1, step / 100) * (0.1 + 0.45 * (1 + math.cos(math.pi * step / steps)))
    return {"kind": "train", "time": now, "iteration": step, "train_iters": steps, "consumed_samples": step * 512,
            "skipped_samples": 0, "losses": {"lm loss": loss_of(index, step, noise)},
            "learning_rate": [3e-4, 6e-4, 1e-3][index % 3] * warm, "global_batch_size": 512,
            "elapsed_ms": 1048576e3 / tokens, "tokens_per_second": tokens, "loss_scale": 1.0,
            "grad_norm": 0.35 + 2 * math.exp(-step / 80) + abs(noise.gauss(0, 0.08)),
            "memory_bytes": int((61.3 + index % 4) * 2**30), "skipped_iterations": 0, "nan_iterations": 0}


def ranks_line(index, step, now, noise):
    own = [281 + noise.random() * 5 + (62 if rank == 13 and step > 900 else 0) for rank in range(16)]
    slowest = max(own) + 2.1  # all wait for the slowest rank
    ranks = [{"rank": rank, "host": f"node-{11 + rank // 8}", "step_ms": slowest, "wait_ms": slowest - own[rank],
              "data_ms": 1 + noise.random(), "memory": int((61 + noise.random()) * 2**30)} for rank in range(16)]
    line = {"kind": "ranks", "time": now, "iteration": step, "steps": 25, "ranks": ranks}
    if step > 900:
        line["slow"] = {"rank": 13, "host": "node-12", "cause": "host",
                        "text": "rank 13 on node-12 is 60.4 ms (19 %) of a step late: its process is not running "
                                "or launches late (61.0 ms, others 0.6 ms); check for other processes on its host"}
    return line


def write_run(folder, index, steps, end, interval=1):
    name = NAMES[index] if index < len(NAMES) else f"sweep/run-{index:03d}"
    place = os.path.join(folder, name)
    os.makedirs(place, exist_ok=True)
    noise = random.Random(index)
    seconds = 2.55 * interval
    last = int(steps * (0.8 if end == "live" else 1 if end == "finished" else 0.6))
    # A run is live while its last line is young: this one's stays so for ten minutes, however slow the machine is.
    finish = time.time() + (600 if end == "live" else -3600 * (5 + 7 * index))
    when = lambda step: finish - (last - step) * seconds / interval
    lines = [run_line(name, index, when(0), 0, steps, place)]
    for step in range(interval, last + 1, interval):
        lines.append(train_line(index, step, steps, when(step), noise))
        if step % 100 == 0:
            lines.append({"kind": "eval", "time": when(step), "iteration": step, "consumed_samples": step * 512,
                          "set": "validation", "final": False, "elapsed_ms": 900,
                          "losses": {"lm loss": 0.08 + loss_of(index, step, random.Random(0))}})
        if step % 250 == 0:
            lines.append({"kind": "event", "time": when(step), "iteration": step, "event": "saved",
                          "text": f"saved {name}/iter_{step:07d} in 4.1 s"})
            for prompt in PROMPTS:
                lines.append({"kind": "sample", "time": when(step), "iteration": step, "prompt": prompt,
                              "text": TEXTS[min(3, step // 500)]})
        if step % 25 == 0 and index == 0:
            lines.append(ranks_line(index, step, when(step), noise))
        if step == 750 and index % 2 == 0:
            lines.append(run_line(name, index, when(step) + 60, step, steps, place))
    if end in ("finished", "stopped", "failed"):
        text = {"finished": "reached train_iters", "stopped": "SIGTERM: saved and stopped",
                "failed": "rank 3 on node-14: CUDA error 719 in attention_backward; run nvidia-smi on that host"}[end]
        lines.append({"kind": "event", "time": when(last), "iteration": last, "event": end, "text": text,
                      "exit_code": 1 if end == "failed" else 0})
    with open(os.path.join(place, "metrics.jsonl"), "w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    with open(os.path.join(place, "job.log"), "w") as file:
        for step in range(max(1, last - 60), last):
            file.write(f" iteration {step:8d}/{steps:8d} | consumed samples: {step * 512:12d} | "
                       f"lm loss: {loss_of(index, step, noise):.6E} | grad norm: 0.412 |\n")


def make_runs(folder, runs=6, steps=2000, interval=1):
    for index in range(runs):
        end = ENDS[index] if runs <= len(ENDS) else ("live" if index == 0 else "finished")
        write_run(folder, index, steps, end, interval)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--steps", type=int, default=2000)
    options = parser.parse_args()
    make_runs(options.folder, options.runs, options.steps)
