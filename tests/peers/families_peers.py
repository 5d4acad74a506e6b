#!/usr/bin/env python3
"""Two-layer decoders of each family, trained by bevatron and by PyTorch (transformers) from the same weights on the same
samples in the same order, then their perplexity on WikiText-2: the two must agree within 1 %.

Trains on valid.txt and tests on test.txt of $BEVATRON_SHARED/data/text/wikitext-2. Needs torch, transformers and numpy;
$BEVATRON is the program. ITERS: updates (300). Names of families as arguments choose some. Run from the repository's root."""
import glob
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import numpy as np
import torch
import torch.nn.functional as F
import transformers as hf

PROGRAM = os.environ.get("BEVATRON", "build/release/bevatron")
SHARED = os.environ.get("BEVATRON_SHARED", "../shared")
ITERS, B, T, V, EVALS, LR = int(os.environ.get("ITERS", "300")), 8, 64, 2048, 20, 2e-3
SIZE = dict(vocab_size=V, num_hidden_layers=2, hidden_size=64, num_attention_heads=4, max_position_embeddings=T)
FAMILIES = {
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=V, n_positions=T, n_embd=64, n_layer=2, n_head=4, resid_pdrop=0,
                                                     embd_pdrop=0, attn_pdrop=0)),
    "opt": lambda: hf.OPTForCausalLM(hf.OPTConfig(ffn_dim=256, word_embed_proj_dim=64, dropout=0, attention_dropout=0,
                                                 pad_token_id=None, **SIZE)),
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(intermediate_size=160, num_key_value_heads=2, **SIZE)),
    "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(intermediate_size=160, num_key_value_heads=1, head_dim=24,
                                                              sliding_window=20, **SIZE)),
}


def run(*arguments):
    result = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(arguments)}\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    return result.stdout


def prepare(folder):
    """A tokenizer of V tokens and two datasets, a document for each article."""
    for name in ("valid", "test"):
        text = open(f"{SHARED}/data/text/wikitext-2/{name}.txt").read()
        articles = re.split(r"(?m)^(?= = [^=])", text)
        with open(f"{folder}/{name}.jsonl", "w") as out:
            out.writelines(json.dumps({"text": a}) + "\n" for a in articles if a.strip())
        open(f"{folder}/{name}.txt", "w").write(text)
    run("tokenizer", "train", "--input", f"{folder}/valid.txt", "--output-prefix", f"{folder}/t", "--vocab-size", str(V))
    for name in ("valid", "test"):
        run("preprocess", "--input", f"{folder}/{name}.jsonl", "--output-prefix", f"{folder}/{name}", "--vocab-file",
            f"{folder}/t-vocab.json", "--merge-file", f"{folder}/t-merges.txt", "--append-eod", "--workers", "2")


def samples(folder, name, split):
    """All samples (n, T + 1) of a dataset in the order of the index that bevatron wrote (Megatron's)."""
    raw = open(f"{folder}/{name}_text_document.idx", "rb").read()
    count = int.from_bytes(raw[18:26], "little")
    lengths = np.frombuffer(raw, np.int32, count, 34)
    starts = np.frombuffer(raw, np.int64, count, 34 + 4 * count) // 2
    tokens = np.fromfile(f"{folder}/{name}_text_document.bin", np.uint16)
    documents, places, shuffle = (np.load(glob.glob(f"{folder}/cache/*GPTDataset-{split}-{kind}_index.npy")[0])
                                  for kind in ("document", "sample", "shuffle"))
    stream = np.concatenate([tokens[starts[d]:starts[d] + lengths[d]] for d in documents])
    begins = np.concatenate([[0], np.cumsum(lengths[documents])])
    first = begins[places[:, 0]] + places[:, 1]
    return np.stack([stream[first[i]:first[i] + T + 1] for i in shuffle]).astype(np.int64)


def ours(folder, model):
    out = run("train", "--load", model, "--use-checkpoint-args", "--finetune", "--train-data-path",
              f"{folder}/valid_text_document", "--valid-data-path", f"{folder}/test_text_document", "--data-cache-path",
              f"{folder}/cache", "--vocab-file", f"{folder}/t-vocab.json", "--merge-file", f"{folder}/t-merges.txt",
              "--seq-length", str(T), "--micro-batch-size", str(B), "--train-iters", str(ITERS), "--lr", str(LR),
              "--lr-decay-style", "constant", "--weight-decay", "0.1", "--adam-beta2", "0.95", "--clip-grad", "1.0",
              "--eval-iters", str(EVALS), "--eval-interval", str(10 * ITERS), "--log-interval", str(ITERS), "--device", "cpu",
              "--hidden-dropout", "0", "--attention-dropout", "0")
    return float(re.search(r"on validation set \| lm loss value: (\S+)", out).group(1))


def theirs(folder, path):
    torch.manual_seed(0)
    model = hf.AutoModelForCausalLM.from_pretrained(path)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW([{"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
                                   {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}],
                                  lr=LR, betas=(0.9, 0.95), eps=1e-8)

    def loss_of(rows):
        rows = torch.from_numpy(rows)
        logits = model(input_ids=rows[:, :-1]).logits
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), rows[:, 1:].reshape(-1))
    train = samples(folder, "valid", "train")
    for i in range(ITERS):
        loss_of(train[i * B:(i + 1) * B]).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
    valid = samples(folder, "test", "valid")
    with torch.no_grad():
        return sum(loss_of(valid[i * B:(i + 1) * B]).item() for i in range(EVALS)) / EVALS


failed = False
with tempfile.TemporaryDirectory() as folder:
    prepare(folder)
    for name in sys.argv[1:] or FAMILIES:
        torch.manual_seed(1)
        path = f"{folder}/{name}"
        FAMILIES[name]().save_pretrained(path)
        a, b = math.exp(ours(folder, path)), math.exp(theirs(folder, path))
        difference = abs(a - b) / b
        failed |= not difference < 0.01
        print(f"{name:10} perplexity after {ITERS} updates: bevatron {a:9.3f}, PyTorch {b:9.3f}, {100 * difference:.4f} % apart", flush=True)
sys.exit(failed)
