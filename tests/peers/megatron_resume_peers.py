#!/usr/bin/env python3
"""Runs that megatron-core began on a CPU (tests/golden/megatron_run.py) and that bevatron resumes: 50 iterations there,
saved in every format, 50 more there and here, on the same samples. The losses must agree within 1e-5. And back: what
bevatron trained is converted with --to megatron, loaded by megatron-core, and trained 20 iterations more by both.

The runs are in fp32; tests/formats/test_megatron_optimizer.c compares the states of 16-bit ones bit by bit. Needs
torch, megatron-core, psutil and NumPy, and for flattened states OLD_MEGATRON, a folder with megatron-core 0.12 (pip
install --no-deps --target), and for the buckets of early releases OLDER_MEGATRON, one with 0.10. Arguments select cases by name. Run from the repository's root."""
import json
import os
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../golden"))
BEVATRON = os.environ.get("BEVATRON", "build/release/bevatron")
BEGUN, END, MORE = 50, 100, 20
# Name, kind of model, tensor-parallel ranks, data-parallel ranks, distributed optimizer, format ("torch", or the
# sharding of a distributed checkpoint's optimizer; None: it is not distributed). "llama_experts/2": experts on two of
# the data-parallel ranks.
CASES = [
    ("torch_gpt", "gpt", 1, 1, False, "torch"),
    ("torch_llama_tp2", "llama", 2, 1, False, "torch"),
    ("torch_gpt_dp2_buffers", "gpt", 1, 2, True, "torch"),
    ("torch_llama_tp2_buffers", "llama", 2, 1, True, "torch"),
    ("dist_gpt", "gpt", 1, 1, False, None),
    ("dist_llama_dp2_reshardable", "llama", 1, 2, True, "fully_reshardable"),
    ("dist_gpt_tp2_reshardable", "gpt", 2, 1, True, "fully_reshardable"),
    ("torch_mtp_tp2", "llama_mtp", 2, 1, False, "torch"),
    ("dist_mtp_dp2_reshardable", "llama_mtp", 1, 2, True, "fully_reshardable"),
    ("torch_experts", "llama_experts", 1, 1, False, "torch"),
    ("torch_experts_ep2", "llama_experts/2", 1, 2, False, "torch"),
    ("torch_experts_ep2_dp4", "llama_experts/2", 1, 4, False, "torch"),
    ("torch_experts_ep2_buffers", "llama_experts/2", 1, 2, True, "torch"),
    ("torch_experts_ep2_dp4_buffers", "llama_experts/2", 1, 4, True, "torch"),
    ("dist_experts_ep2_reshardable", "llama_experts/2", 1, 2, True, "fully_reshardable"),
    ("dist_experts_dp2_reshardable", "llama_experts", 1, 2, True, "fully_reshardable"),
    ("dist_gpt_dp2_buckets", "gpt", 1, 2, True, "dp_reshardable"),
    ("dist_llama_tp2_buckets", "llama", 2, 1, True, "dp_reshardable"),
    ("dist_llama_dp2_flat", "llama", 1, 2, True, "fully_sharded_model_space"),
    ("dist_gpt_tp2_flat", "gpt", 2, 1, True, "fully_sharded_model_space"),
    ("dist_gpt_dp2_old_buckets", "gpt", 1, 2, True, "fully_sharded_bucket_space"),
    ("dist_llama_tp2_old_buckets", "llama", 2, 1, True, "fully_sharded_bucket_space"),
]
failures = 0


def check(what, condition, detail=""):
    global failures
    print(f"  {'ok  ' if condition else 'FAIL'} {what} {detail}", flush=True)
    failures += not condition


def bevatron(*arguments):
    done = subprocess.run([BEVATRON, *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


# ---- what runs in processes of megatron-core ----

def make_data(folder):
    import numpy as np
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
    import torch
    random = np.random.default_rng(5)
    builder = IndexedDatasetBuilder(f"{folder}/data.bin", dtype=np.uint16)
    for _ in range(60):
        steps = random.integers(1, 4, random.integers(40, 200))
        builder.add_item(torch.from_numpy(np.cumsum(steps) % 63))
        builder.end_document()
    builder.finalize(f"{folder}/data.idx")


def samples(folder, count, length):
    """The training samples (count, length + 1) of Megatron's own dataset."""
    import numpy as np
    import torch
    from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig

    class Tokenizer:
        unique_identifiers, eod, pad, vocab_size = {"class": "null"}, 63, 63, 64
    config = GPTDatasetConfig(random_seed=1234, sequence_length=length, blend=([f"{folder}/data"], None), split="100,0,0",
                              path_to_cache=f"{folder}/cache_there", tokenizer=Tokenizer(), reset_position_ids=False,
                              reset_attention_mask=False, eod_mask_loss=False, create_attention_mask=False)
    data = BlendedMegatronDatasetBuilder(GPTDataset, [count, 0, 0], lambda: True, config).build()[0]
    rows = [np.concatenate([data[i]["tokens"].numpy(), data[i]["labels"].numpy()[-1:]]) for i in range(count)]
    return torch.from_numpy(np.stack(rows)).long()


def rank_main(folder, name, what):
    import torch
    import megatron_run
    _, kind, tp, dp, distributed, form = next(case for case in CASES if case[0] == name)
    kind, ep = kind.split("/")[0], int((kind + "/1").split("/")[1])
    ep = ep if what == "begin" else 1  # else there are two optimizers, which load only what two have saved
    megatron_run.start(tp, ep=ep)
    begin, end = {"begin": (0, END), "back": (END, END + MORE)}[what]
    run = megatron_run.Run(kind, tp=tp, dp=dp, ep=ep, distributed=distributed, iterations=END + MORE)
    rows = samples(folder, (END + MORE) * run.batch, run.length)
    if what == "back":
        run.load_dist(f"{folder}/{name}_back", END, "fully_reshardable" if distributed else None)
    losses = []
    for i in range(begin, end):
        losses.append(run.step(rows[i * run.batch:(i + 1) * run.batch]))
        if run.iteration == BEGUN and what == "begin":
            run.save_torch(f"{folder}/{name}") if form == "torch" else run.save_dist(f"{folder}/{name}", form)
    if torch.distributed.get_rank() == 0:
        with open(f"{folder}/{name}_{what}.json", "w") as file:
            json.dump(losses, file)


# ---- what starts them, and runs bevatron ----

def release_of(case):
    """The variable with a folder of an earlier release; None for the one that is installed."""
    return {"fully_sharded_model_space": "OLD_MEGATRON", "fully_sharded_bucket_space": "OLDER_MEGATRON"}.get(case[5])


def there(folder, name, what):
    case = next(case for case in CASES if case[0] == name)
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    ranks = case[2] * case[3]
    release = {"PYTHONPATH": os.environ[release_of(case)]} if release_of(case) and what == "begin" else {}
    started = [subprocess.Popen([sys.executable, __file__, "--rank", folder, name, what], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                env=os.environ | release | dict(RANK=str(r), WORLD_SIZE=str(ranks), MASTER_ADDR="localhost", MASTER_PORT=str(port)))
               for r in range(ranks)]
    for process in started:
        said = process.communicate(timeout=1200)[1]
        if process.returncode:
            sys.exit(f"{name} {what}: {said.decode()[-3000:]}")
    with open(f"{folder}/{name}_{what}.json") as file:
        return json.load(file)


def train(folder, load, save, until):
    """Resumes with the checkpoint's model and schedule; returns the losses of its iterations."""
    out = bevatron("train", "--load", load, "--save", save, "--use-checkpoint-args", "--use-checkpoint-opt_param-scheduler",
                   "--data-path", f"{folder}/data", "--split", "100,0,0", "--data-cache-path", f"{folder}/cache", "--seq-length", "32",
                   "--micro-batch-size", "4", "--train-iters", str(END + MORE), "--exit-interval", str(until), "--lr", "2e-3", "--min-lr", "2e-4",
                   "--lr-decay-style", "cosine", "--lr-warmup-iters", "10", "--weight-decay", "0.1", "--adam-beta2", "0.95", "--clip-grad",
                   "1.0", "--eval-iters", "0", "--log-interval", "1", "--save-interval", str(until), "--device", "cpu", "--seed", "1234",
                   "--tokenizer-type", "NullTokenizer", "--vocab-size", "63")
    losses = []
    for line in out.splitlines():
        if "lm loss:" in line:
            losses.append(float(line.split("lm loss:")[1].split()[0]))
    return losses


def compare(name, ours, theirs):
    worst = max((abs(a - b) / abs(b) for a, b in zip(ours, theirs)), default=1)
    check(name, len(ours) == len(theirs) and worst <= 1e-5, f"{len(ours)} losses, at most {worst:.2g} apart")


def resume(folder, name):
    theirs = there(folder, name, "begin")
    bevatron("checkpoint", "convert", "--input", f"{folder}/{name}", "--output", f"{folder}/{name}_here")
    ours = train(folder, f"{folder}/{name}_here", f"{folder}/{name}_on", END)
    compare(f"{name}: resumed here", ours, theirs[BEGUN:])
    if not next(case for case in CASES if case[0] == name)[4]:
        return  # what is written for Megatron has a distributed optimizer
    bevatron("checkpoint", "convert", "--input", f"{folder}/{name}_on", "--output", f"{folder}/{name}_back", "--to", "megatron",
             "--max-shard-size", "0.002MB")  # so that large tensors are in several pieces
    on = train(folder, f"{folder}/{name}_on", f"{folder}/{name}_end", END + MORE)
    compare(f"{name}: and back", there(folder, name, "back"), on)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--rank":
        rank_main(*sys.argv[2:])
    else:
        with tempfile.TemporaryDirectory() as folder:
            make_data(folder)
            for case in CASES:
                if release_of(case) and release_of(case) not in os.environ:
                    print(f"  {case[0]} is left out: {release_of(case)} is not set")
                elif len(sys.argv) == 1 or case[0] in sys.argv[1:]:
                    resume(folder, case[0])
        sys.exit(failures > 0)
