#!/usr/bin/env python3
"""Compares the tokenizer with common libraries, on real and random texts: ids with tiktoken and Hugging Face's
tokenizers, also for every single character, trained merges with Hugging Face's trainer. Needs tiktoken, tokenizers and
numpy; $BEVATRON is the program. GPT-2's files and texts come from $BEVATRON_SHARED/data (default ../shared); what is
missing is skipped, and that is reported."""
import base64
import json
import lzma
import os
import random
import subprocess
import sys
import tempfile
import unicodedata

import numpy
import tiktoken
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

BEVATRON = os.environ.get("BEVATRON", "build/release/bevatron")
HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.path.join(os.environ.get("BEVATRON_SHARED", os.path.join(HERE, "../../../shared")), "data")
PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
failures = 0


def check(what, condition, detail=""):
    global failures
    print(f"  {'ok  ' if condition else 'FAIL'} {what} {detail}")
    failures += not condition


def run(*arguments):
    done = subprocess.run([BEVATRON, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(arguments)}: {done.stderr}")
    return done.stdout


def ours(folder, texts, files, workers):
    """Ids of every text, through preprocess and the dataset it writes."""
    source, prefix = os.path.join(folder, "in.jsonl"), os.path.join(folder, "out")
    with open(source, "w", encoding="utf-8") as file:
        for i, text in enumerate(texts):
            file.write(json.dumps({"text": text}, ensure_ascii=i % 2 == 0) + "\n")
    run("preprocess", "--input", source, "--output-prefix", prefix, "--workers", str(workers),
        "--vocab-file", files[0], "--merge-file", files[1])
    index = open(prefix + "_text_document.idx", "rb").read()
    dtype = {4: numpy.int32, 8: numpy.uint16}[index[17]]
    sequences, boundaries = numpy.frombuffer(index, "<u8", 2, 18)
    lengths = numpy.frombuffer(index, "<i4", int(sequences), 34)
    documents = numpy.frombuffer(index, "<i8", int(boundaries), 34 + 12 * int(sequences))
    tokens = numpy.fromfile(prefix + "_text_document.bin", dtype)
    ends = numpy.concatenate([[0], numpy.cumsum(lengths)])
    return [tokens[ends[documents[i]]:ends[documents[i + 1]]].tolist() for i in range(len(documents) - 1)]


def random_texts(count):
    generator = random.Random(2026)
    plain = list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,;:!?'\"-\n\t ")
    parts = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "  ", "   ", "\n\n", "\r\n", " the", " and", "<|endoftext|>"]
    blocks = [(0x80, 0x250), (0x300, 0x370), (0x370, 0x590), (0x590, 0x780), (0x900, 0xD80), (0xE00, 0xE80),
              (0x1100, 0x1200), (0x2000, 0x2070), (0x2070, 0x2300), (0x3000, 0x3100), (0x4E00, 0x9FA6),
              (0xAC00, 0xD7A4), (0xFE00, 0xFE10), (0xFF00, 0xFFF0), (0x1D400, 0x1D800), (0x1F300, 0x1F650),
              (0x20000, 0x2A6D7), (0xE000, 0xE100)]
    texts = []
    for _ in range(count):
        low, high = generator.choice(blocks)
        out = []
        for _ in range(generator.randint(0, 120)):
            kind = generator.random()
            if kind < 0.5:
                out.append(generator.choice(plain))
            elif kind < 0.65:
                out.append(generator.choice(parts))
            else:
                character = chr(generator.randrange(low, high))
                out.append(character if unicodedata.category(character) != "Cn" else "x")
        texts.append("".join(out))
    for length in (14, 15, 16, 17, 63, 64, 65, 66, 1000, 100000):
        texts += ["a" * length, "ab" * length, " " * length, "\u4e16" * length, "." * length, "9" * length]
    return texts


def every_character():
    """Each assigned character between letters, digits and spaces, so that its class shows in the ids."""
    texts = []
    for begin in range(0, 0x110000, 64):
        characters = [chr(c) for c in range(begin, begin + 64) if not 0xD800 <= c < 0xE000]
        characters = [c for c in characters if unicodedata.category(c) != "Cn"]
        if characters:
            texts.append("".join(f"a{c}a1{c}1 {c}{c} {c}" for c in characters))
    return texts


def real_texts():
    texts = []
    for name in ("text/tinyshakespeare.txt", "text/botchan.txt", "text/taylorswift_wikipedia.txt",
                 "text/wikitext-2/valid.txt", "wiki/wikiextractor_output_sample_wiki_00"):
        path = os.path.join(SHARED, name)
        if os.path.exists(path):
            texts.append(open(path, encoding="utf-8", newline="").read())
    path = os.path.join(SHARED, "text/books_en_train.jsonl.xz")
    if os.path.exists(path):
        with lzma.open(path, "rt", encoding="utf-8") as file:
            texts += [json.loads(next(file))["text"] for _ in range(20)]
    return texts


def compare(what, texts, actual, encode):
    wrong = [i for i, text in enumerate(texts) if actual[i] != encode(text)]
    detail = f"({len(texts)} texts, {sum(map(len, actual))} ids)"
    check(what, not wrong, detail if not wrong else f"first at {texts[wrong[0]][:60]!r}")


def huggingface(files):
    tokenizer = Tokenizer(models.BPE.from_file(*files))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return lambda text: tokenizer.encode(text).ids


def gpt2(folder):
    files = (os.path.join(SHARED, "gpt2/vocab.json"), os.path.join(SHARED, "gpt2/merges.txt"))
    if not os.path.exists(files[0]):
        print(f"  left out: {files[0]} is not there")
        return
    lines = open(os.path.join(SHARED, "gpt2/r50k_base.tiktoken")).read().split("\n")
    ranks = {base64.b64decode(line.split()[0]): int(line.split()[1]) for line in lines if line}
    r50k = tiktoken.Encoding("r50k", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})
    for what, texts in (("random texts", random_texts(10000)), ("every character", every_character()),
                        ("real texts", real_texts())):
        actual = ours(folder, texts, files, 2)
        compare(f"GPT-2, {what}: tiktoken", texts, actual, r50k.encode_ordinary)
        compare(f"GPT-2, {what}: tokenizers", texts, actual, huggingface(files))


def small(folder):
    files = [os.path.join(HERE, "../golden/bpe", name) for name in ("vocab.json", "merges.txt")]
    texts = random_texts(10000)
    compare("small vocabulary, random texts: tokenizers", texts, ours(folder, texts, files, 3), huggingface(files))


def train(folder, what, path, vocab_size, texts=None):
    prefix = os.path.join(folder, "trained")
    run("tokenizer", "train", "--input", path, "--vocab-size", str(vocab_size), "--output-prefix", prefix)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, min_frequency=2, special_tokens=["<|endoftext|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    if texts:
        tokenizer.train_from_iterator(texts, trainer)
    else:
        tokenizer.train([path], trainer)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    merges = [" ".join(m) if isinstance(m, list) else m for m in merges]
    actual = open(prefix + "-merges.txt", encoding="utf-8").read().split("\n")[1:-1]
    check(f"trained merges, {what}", merges == actual, f"({len(actual)} merges)")


def training(folder):
    train(folder, "golden corpus", os.path.join(HERE, "../golden/bpe/corpus.txt"), 500)
    path = os.path.join(folder, "random.jsonl")
    texts = random_texts(3000)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in texts)
    train(folder, "random documents", path, 2000, texts)
    for name in ("text/tinyshakespeare.txt", "text/taylorswift_wikipedia.txt"):
        if os.path.exists(os.path.join(SHARED, name)):
            train(folder, name, os.path.join(SHARED, name), 8000)


def main():
    with tempfile.TemporaryDirectory() as folder:
        small(folder)
        gpt2(folder)
        training(folder)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
