#!/usr/bin/env python3
"""Two-layer models of each family, trained by bevatron and by PyTorch (transformers) from the same weights on the same
samples in the same order, then their perplexity on WikiText-2: the two must agree within 1 %.

With TWIN=1 PyTorch trains a second time from weights changed by one part in 10^7, about fp32's rounding: the difference
of its two runs is the effect of rounding alone. At a learning rate of 2e-3 that is 0.3 to 1.6 % for T5; at the 5e-4
used here below 0.05 %.

Trains on valid.txt and tests on test.txt of $BEVATRON_SHARED/data/text/wikitext-2. Needs torch, transformers,
tokenizers and numpy; $BEVATRON is the program. Decoders' samples are read from the dataset and its index here; masked
ones come from peers_batches (`ninja -C build/release peers_batches`), which writes the input of `train`: $BATCHES, or
tests/peers_batches beside the program. ITERS: updates (300); LR: their size (5e-4). Names of families as arguments
choose some. Run from the repository's root."""
import collections
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

hf.logging.disable_progress_bar()

PROGRAM = os.environ.get("BEVATRON", "build/release/bevatron")
BATCHES = os.environ.get("BATCHES", os.path.join(os.path.dirname(PROGRAM), "tests/peers_batches"))
SHARED = os.environ.get("BEVATRON_SHARED", "../shared")
ITERS, B, T, V, EVALS = int(os.environ.get("ITERS", "300")), 8, 64, 2048, 20
LR = float(os.environ.get("LR", "5e-4"))
SIZE = dict(vocab_size=V, num_hidden_layers=2, hidden_size=64, num_attention_heads=4, max_position_embeddings=T)
IDS = dict(bos_token_id=0, eos_token_id=0, pad_token_id=None)
PART = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
FAMILIES = {
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=V, n_positions=T, n_embd=64, n_layer=2, n_head=4, resid_pdrop=0,
                                                     embd_pdrop=0, attn_pdrop=0)),
    "opt": lambda: hf.OPTForCausalLM(hf.OPTConfig(ffn_dim=256, word_embed_proj_dim=64, dropout=0, attention_dropout=0,
                                                 pad_token_id=None, **SIZE)),
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(intermediate_size=160, num_key_value_heads=2, **SIZE)),
    "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(intermediate_size=160, num_key_value_heads=1, head_dim=24,
                                                              sliding_window=20, **SIZE)),
    "phi3": lambda: hf.Phi3ForCausalLM(hf.Phi3Config(intermediate_size=160, num_key_value_heads=2, sliding_window=20,
                                                     rope_parameters=PART, **IDS, **SIZE)),
    "starcoder2": lambda: hf.Starcoder2ForCausalLM(hf.Starcoder2Config(intermediate_size=256, num_key_value_heads=1, **IDS, **SIZE)),
    "stablelm": lambda: hf.StableLmForCausalLM(hf.StableLmConfig(intermediate_size=160, num_key_value_heads=4, use_qkv_bias=True,
                                                                 rope_parameters=PART, **IDS, **SIZE)),
    "nemotron": lambda: hf.NemotronForCausalLM(hf.NemotronConfig(intermediate_size=256, num_key_value_heads=2, **IDS, **SIZE)),
    "gpt_bigcode": lambda: hf.GPTBigCodeForCausalLM(hf.GPTBigCodeConfig(vocab_size=V, n_positions=T, n_embd=64, n_layer=2, n_head=4,
                                                                        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)),
    "bert": lambda: hf.BertForMaskedLM(hf.BertConfig(intermediate_size=256, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
                                                     **SIZE)),
    "roberta": lambda: hf.RobertaForMaskedLM(hf.RobertaConfig(intermediate_size=256, hidden_dropout_prob=0, type_vocab_size=1,
                                                              attention_probs_dropout_prob=0,
                                                              **SIZE | {"max_position_embeddings": T + 2})),
    "t5": lambda: hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=V, d_model=64, d_kv=16, d_ff=256, num_layers=2, num_heads=4,
                                                            dropout_rate=0)),
}
# Their data: the dataset's name, flags of its tokenizer, flags of the samples.
WORDPIECE = ["--tokenizer-type", "BertWordPieceLowerCase", "--vocab-file", "FOLDER/words.txt"]
FAIRSEQ = ["--tokenizer-type", "FairseqTokenizer", "--tokenizer-model", "FOLDER/dict.txt"]
MASKED = {
    "bert": ("bert_text_sentence", WORDPIECE, ["--model", "bert", "--bert-no-binary-head"]),
    "roberta": ("roberta_text_sentence", FAIRSEQ, ["--model", "bert", "--bert-no-binary-head", "--sample-break-mode", "complete",
                                                   "--tokens-per-sample", str(T)]),
    "t5": ("bert_text_sentence", WORDPIECE, ["--model", "t5", "--vocab-extra-ids", "100", "--decoder-seq-length", "32"]),
}


def run(*arguments):
    result = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(arguments)}\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    return result.stdout


def prepare(folder):
    """A tokenizer of V tokens and two datasets, one document per article."""
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


def prepare_masked(folder):
    """WordPieces and a dictionary of words, each with V tokens including those that bevatron adds, and their
    datasets."""
    from tokenizers import BertWordPieceTokenizer
    pieces = BertWordPieceTokenizer(lowercase=True)
    pieces.train(f"{folder}/valid.txt", vocab_size=V - 102, show_progress=False)
    vocabulary = sorted(pieces.get_vocab().items(), key=lambda item: item[1])
    open(f"{folder}/words.txt", "w").writelines(f"{word}\n" for word, _ in vocabulary)
    counts = collections.Counter(open(f"{folder}/valid.txt").read().split())
    counts.pop("<unk>", None)
    with open(f"{folder}/dict.txt", "w") as out:
        out.writelines(f"{word} {count}\n" for word, count in counts.most_common(V - 5))
        out.write("<mask> 1\n")
    for name in ("valid", "test"):
        for kind, flags in (("bert", WORDPIECE), ("roberta", FAIRSEQ)):
            run("preprocess", "--input", f"{folder}/{name}.jsonl", "--output-prefix", f"{folder}/{name}_{kind}", "--workers", "2",
                "--split-sentences", *placed(folder, flags))


def placed(folder, flags):
    return [flag.replace("FOLDER", folder) for flag in flags]


def data_flags(folder, family):
    """Flags for both train and peers_batches."""
    name, tokenizer, samples_flags = MASKED.get(family, (
        "text_document", ["--vocab-file", "FOLDER/t-vocab.json", "--merge-file", "FOLDER/t-merges.txt"], []))
    return ["--train-data-path", f"{folder}/valid_{name}", "--valid-data-path", f"{folder}/test_{name}", "--data-cache-path",
            f"{folder}/cache", *placed(folder, tokenizer), *samples_flags, "--seq-length", str(T), "--micro-batch-size", str(B),
            "--train-iters", str(ITERS), "--lr", str(LR), "--lr-decay-style", "constant", "--weight-decay", "0.1", "--adam-beta2", "0.95",
            "--clip-grad", "1.0", "--eval-iters", str(EVALS), "--eval-interval", str(10 * ITERS), "--log-interval", str(ITERS),
            "--device", "cpu", "--hidden-dropout", "0", "--attention-dropout", "0"]


def ours(folder, model, family):
    out = run("train", "--load", model, "--use-checkpoint-args", "--finetune", *data_flags(folder, family))
    return float(re.search(r"on validation set \| lm loss value: (\S+)", out).group(1))


def masked_batches(folder, family):
    """The micro-batches of training and validation as the arguments and labels of a model of transformers."""
    path = f"{folder}/{family}.batches"
    subprocess.run([BATCHES, *data_flags(folder, family), "--num-layers", "2", "--hidden-size", "64", "--num-attention-heads", "4",
                    "--max-position-embeddings", str(T), "--output", path], check=True)
    words, batches = np.fromfile(path, np.int32), []
    at = 0

    def take(*shape, dtype=np.int32):
        nonlocal at
        at += int(np.prod(shape))
        return torch.from_numpy(words[at - int(np.prod(shape)):at].view(dtype).reshape(shape).copy())
    while at < len(words):
        rows, columns, label_columns, has_types, has_lengths, has_decoder = take(6).tolist()
        model_input = {"input_ids": take(rows, columns).long()}
        labels, mask = take(rows, label_columns).long(), take(rows, label_columns, dtype=np.float32)
        if has_types:
            model_input["token_type_ids"] = take(rows, columns).long()
        if has_lengths:
            model_input["attention_mask"] = (torch.arange(columns) < take(rows)[:, None]).long()
        if has_decoder:
            model_input["decoder_input_ids"] = take(rows, label_columns).long()
        batches.append((model_input, torch.where(mask > 0, labels, -100)))
    assert len(batches) == ITERS + EVALS, len(batches)
    return batches[:ITERS], batches[ITERS:]


def decoder_batches(folder):
    """The same for running text."""
    return [[({"input_ids": torch.from_numpy(rows[i * B:(i + 1) * B, :-1])}, torch.from_numpy(rows[i * B:(i + 1) * B, 1:]))
             for i in range(count)]
            for count, rows in ((ITERS, samples(folder, "valid", "train")), (EVALS, samples(folder, "test", "valid")))]


def theirs(folder, path, family, change=0.0):
    torch.manual_seed(0)
    model = type(FAMILIES[family]()).from_pretrained(path)
    parameters = list(model.parameters())
    with torch.no_grad():
        for p in parameters:
            p.mul_(1 + change * torch.randn(p.shape))
    optimizer = torch.optim.AdamW([{"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
                                   {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}],
                                  lr=LR, betas=(0.9, 0.95), eps=1e-8)

    def loss_of(batch, reduction):
        logits = model(**batch[0]).logits
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), batch[1].reshape(-1), reduction=reduction)
    train, valid = masked_batches(folder, family) if family in MASKED else decoder_batches(folder)
    for batch in train:
        loss_of(batch, "mean").backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        return sum(loss_of(batch, "sum").item() for batch in valid) / sum((batch[1] != -100).sum().item() for batch in valid)


failed = False
with tempfile.TemporaryDirectory() as folder:
    prepare(folder)
    chosen = sys.argv[1:] or list(FAMILIES)
    if set(chosen) & set(MASKED):
        prepare_masked(folder)
    for name in chosen:
        torch.manual_seed(1)
        path = f"{folder}/{name}"
        FAMILIES[name]().save_pretrained(path)
        a, b = math.exp(ours(folder, path, name)), math.exp(theirs(folder, path, name))
        difference = abs(a - b) / b
        failed |= not difference < 0.01
        print(f"{name:10} perplexity after {ITERS} updates: bevatron {a:9.3f}, PyTorch {b:9.3f}, {100 * difference:.4f} % apart", end="")
        if os.environ.get("TWIN"):
            print(f"; PyTorch's twin {100 * abs(math.exp(theirs(folder, path, name, 1e-7)) / b - 1):.4f} %", end="")
        print(flush=True)
sys.exit(failed)
