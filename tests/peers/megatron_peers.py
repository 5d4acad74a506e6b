#!/usr/bin/env python3
"""Compares .bin/.idx of `preprocess`, `dataset merge` and of the final passes, byte for byte, with files written by
megatron-core's IndexedDatasetBuilder; and lets megatron-core's IndexedDataset read ours. What Megatron's
preprocess_data.py does around the builder (which sentences are left out, where the end-of-document token goes) is
reimplemented here. Needs megatron-core, torch, tokenizers and NumPy."""
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from megatron.core.datasets.indexed_dataset import DType, IndexedDataset, IndexedDatasetBuilder

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../golden"))
import make_rearrange  # noqa: E402

BEVATRON = os.environ.get("BEVATRON", "build/release/bevatron")
BPE = [os.path.join(HERE, "../golden/bpe", name) for name in ("vocab.json", "merges.txt")]
failures = 0


def check(what, condition, detail=""):
    global failures
    print(f"  {'ok  ' if condition else 'FAIL'} {what} {detail}", flush=True)
    failures += not condition


def bevatron(*arguments):
    done = subprocess.run([BEVATRON, *arguments], capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(arguments)}: {done.stderr.decode()}")
    return done.stdout.decode()


class Null:
    """Text is ids; as in Megatron's NullTokenizer for years, the id after the last one ends a document."""
    def __init__(self, size):
        self.vocab_size, self.eod = size + 1, size
        self.flags = ["--tokenizer-type", "NullTokenizer", "--vocab-size", str(size)]

    def tokenize(self, text):
        return [int(word) for word in text.split()]


class Gpt2:
    """The small byte-level BPE of tests/golden/bpe."""
    def __init__(self):
        self.model = Tokenizer(models.BPE.from_file(*BPE))
        self.model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        vocabulary = json.load(open(BPE[0], encoding="utf-8"))
        self.vocab_size, self.eod = len(vocabulary), vocabulary["<|endoftext|>"]
        self.flags = ["--vocab-file", BPE[0], "--merge-file", BPE[1]]

    def tokenize(self, text):
        return self.model.encode(text).ids


def encode(tokenizer, value, append_eod):
    """Ids of a document and the lengths of its sentences."""
    ids, lengths = [], []
    for sentence in value if isinstance(value, list) else [value]:
        found = tokenizer.tokenize(sentence)
        if found:
            ids += found
            lengths.append(len(found))
    if ids and append_eod:
        ids.append(tokenizer.eod)
        lengths[-1] += 1
    return ids, lengths


def megatron_write(prefix, documents, vocab_size):
    builder = IndexedDatasetBuilder(prefix + ".bin", dtype=DType.optimal_dtype(vocab_size))
    for ids, lengths in documents:
        builder.add_document(torch.IntTensor(ids), lengths)
    builder.finalize(prefix + ".idx")


def is_same(a, b):
    return all(open(a + end, "rb").read() == open(b + end, "rb").read() for end in (".bin", ".idx"))


def read_back(prefix, documents):
    """Does megatron-core see the documents that went in? It cannot open a dataset without tokens."""
    if not any(ids for ids, _ in documents):
        return True
    dataset = IndexedDataset(prefix)
    borders = dataset.document_indices
    if len(borders) != len(documents) + 1:
        return False
    for i, (ids, lengths) in enumerate(documents):
        found = [dataset[j] for j in range(borders[i], borders[i + 1])]
        if [len(part) for part in found] != lengths or (found and np.concatenate(found).tolist() != ids):
            return False
    return True


# ---- documents ----

def random_value(generator, words, nested):
    sentence = lambda: " ".join(generator.choice(words) for _ in range(generator.choice([0, 1, 2, 5, 40])))
    if nested and generator.random() < 0.5:
        return [sentence() for _ in range(generator.choice([0, 1, 2, 7]))]
    return sentence()


def random_lines(generator, words, keys, nested):
    count = generator.choice([1, 2, 30, 700])
    return [{key: random_value(generator, words, nested) for key in keys} for _ in range(count)]


def check_preprocess(what, folder, tokenizer, lines, keys, flags=(), level="document", values=None, order=None):
    """values: what Megatron's builder gets in place of the texts; order: which documents, in which order."""
    source, prefix, theirs = (os.path.join(folder, name) for name in ("in.jsonl", "ours", "theirs"))
    with open(source, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=i % 2 == 0) + "\n" for i, line in enumerate(lines))
    for workers in (1, 3):
        bevatron("preprocess", "--input", source, "--output-prefix", prefix, "--json-keys", *keys, "--workers",
                 str(workers), *tokenizer.flags, *flags)
        for key in keys:
            documents = [encode(tokenizer, line[key], "--append-eod" in flags) for line in values or lines]
            documents = [documents[i] for i in order] if order is not None else documents
            megatron_write(theirs, documents, tokenizer.vocab_size)
            ours = f"{prefix}_{key}_{level}"
            check(f"{what}, key {key}, {workers} workers", is_same(ours, theirs) and read_back(ours, documents),
                  f"({len(documents)} documents, {sum(len(ids) for ids, _ in documents)} tokens)")


def check_random(folder, generator):
    words = [str(i) for i in range(300)]
    for size in (300, 65498, 65499, 100000):
        tokenizer = Null(size)
        for flags in ((), ("--append-eod",)):
            for nested in (False, True):
                keys = ["text", "title", "a b"][:generator.choice([1, 3])]
                check_preprocess(f"ids, vocabulary {size + 1}{', eod' * bool(flags)}{', sentences' * nested}", folder,
                                 tokenizer, random_lines(generator, words, keys, nested), keys, flags)
    text = open(os.path.join(HERE, "../golden/bpe/corpus.txt"), encoding="utf-8").read().split()
    check_preprocess("text, eod", folder, Gpt2(), random_lines(generator, text, ["text"], True), ["text"], ("--append-eod",))


def check_empty(folder):
    for flags in ((), ("--append-eod",)):
        lines = [{"text": value} for value in ("", [], ["", ""], "1 2", ["", "3", ""], "", "4")]
        check_preprocess(f"empty documents first, between, last{', eod' * bool(flags)}", folder, Null(10), lines, ["text"],
                         flags)
        check_preprocess(f"nothing but empty documents{', eod' * bool(flags)}", folder, Null(10), lines[:3], ["text"], flags)


def check_sentences(folder, generator):
    """Sentences on which all rules agree."""
    words = [word for word in open(os.path.join(HERE, "../golden/bpe/corpus.txt"), encoding="utf-8").read().split()
             if word.isascii() and word.isalpha() and word.islower() and len(word) > 4]
    lines, values = [], []
    for _ in range(300):
        sentences = [" ".join(generator.choice(words) for _ in range(generator.randrange(3, 9))).capitalize() +
                     generator.choice(".!?") for _ in range(generator.choice([0, 1, 2, 9]))]
        lines.append({"text": generator.choice([" ", "\n", "\n\n", "  "]).join(sentences)})
        values.append({"text": sentences})
    for flags in (("--split-sentences",), ("--split-sentences", "--append-eod")):
        check_preprocess(" ".join(flags), folder, Gpt2(), lines, ["text"], flags, "sentence", values)


def first_of_equal(documents):
    seen, kept = set(), []
    for i, document in enumerate(documents):
        if document not in seen:
            seen.add(document)
            kept.append(i)
    return kept


def check_rearranged(folder, generator):
    words, keys, tokenizer = ["1", "2"], ["text", "title"], Null(3)
    lines = [{key: random_value(generator, words, True) for key in keys} for _ in range(900)]
    ids = [json.dumps([encode(tokenizer, line[key], True) for key in keys]) for line in lines]
    kept = first_of_equal(ids)
    for seed in (0, 1234):
        shuffle = ["--append-eod", "--shuffle", "--seed", str(seed)]
        check_preprocess(f"--shuffle, seed {seed}", folder, tokenizer, lines, keys, shuffle,
                         order=make_rearrange.order(seed, len(lines)))
        check_preprocess(f"--dedup exact --shuffle, seed {seed}", folder, tokenizer, lines, keys,
                         [*shuffle, "--dedup", "exact"], order=[kept[i] for i in make_rearrange.order(seed, len(kept))])
    check_preprocess("--dedup exact", folder, tokenizer, lines, keys, ["--append-eod", "--dedup", "exact"], order=kept)


def check_merge(folder, generator):
    for vocab_size in (1000, 70000):
        parts = []
        for i in range(40):
            documents = []
            for _ in range(generator.choice([0, 1, 5, 60])):
                lengths = [generator.randrange(1, 30) for _ in range(generator.choice([0, 1, 3]))]
                documents.append(([generator.randrange(vocab_size) for _ in range(sum(lengths))], lengths))
            parts.append(os.path.join(folder, f"part{i:03}"))
            megatron_write(parts[-1], documents, vocab_size)
        builder = IndexedDatasetBuilder(os.path.join(folder, "theirs.bin"), dtype=DType.optimal_dtype(vocab_size))
        # Megatron cannot open a part without tokens (it maps an empty file), so it is left out there; it would only add
        # documents, and our parts without tokens have none either.
        for part in parts:
            if os.path.getsize(part + ".bin"):
                builder.add_index(part)
        builder.finalize(os.path.join(folder, "theirs.idx"))
        kept = [part for part in parts if os.path.getsize(part + ".bin")]
        bevatron("dataset", "merge", *kept, "--output-prefix", os.path.join(folder, "ours"))
        check(f"merge of {len(kept)} parts, vocabulary {vocab_size}",
              is_same(os.path.join(folder, "ours"), os.path.join(folder, "theirs")))
        for part in parts:
            os.remove(part + ".bin")
            os.remove(part + ".idx")


def main():
    generator = random.Random(3)
    with tempfile.TemporaryDirectory() as folder:
        check_random(folder, generator)
        check_empty(folder)
        check_sentences(folder, generator)
        check_rearranged(folder, generator)
        check_merge(folder, generator)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
