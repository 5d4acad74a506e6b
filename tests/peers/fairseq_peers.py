#!/usr/bin/env python3
"""Compares `dataset import` with fairseq's own reader and writer. fairseq is the installed package, or the source tree
named by $FAIRSEQ_SOURCE (its indexed_dataset.py is loaded by itself, since the package as a whole does not install on
every Python). It must read our golden files as we do, write them byte for byte, and everything it writes from random
items and from WikiText-2 ($BEVATRON_SHARED/data) must be imported unchanged. Without fairseq this is skipped, and says
so."""
import importlib.util
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import types

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../golden"))
import make_import  # noqa: E402

BEVATRON = os.environ.get("BEVATRON", "build/release/bevatron")
SHARED = os.path.join(os.environ.get("BEVATRON_SHARED", os.path.join(HERE, "../../../shared")), "data")
failures = 0


def check(what, condition, detail=""):
    global failures
    print(f"  {'ok  ' if condition else 'FAIL'} {what} {detail}", flush=True)
    failures += not condition


def load_fairseq():
    """fairseq.data.indexed_dataset, or None."""
    source = os.environ.get("FAIRSEQ_SOURCE")
    if not source:
        try:
            from fairseq.data import indexed_dataset
            return indexed_dataset
        except ImportError:
            return None

    class Anything:
        exists = staticmethod(os.path.exists)
        _HDR_MAGIC = b"HUFFIDX\x00\x00"

    names = {"fairseq": {}, "fairseq.dataclass": {}, "fairseq.dataclass.constants": {"DATASET_IMPL_CHOICES": []},
             "fairseq.data": {"FairseqDataset": object}, "fairseq.data.fasta_dataset": {"FastaDataset": Anything},
             "fairseq.file_io": {"PathManager": Anything},
             "fairseq.data.huffman": {"HuffmanMMapIndexedDataset": Anything, "HuffmanMMapIndex": Anything}}
    for name, members in names.items():
        module = sys.modules[name] = types.ModuleType(name)
        module.__path__ = []
        module.__dict__.update(members)
    spec = importlib.util.spec_from_file_location("fairseq.data.indexed_dataset",
                                                  os.path.join(source, "fairseq/data/indexed_dataset.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(fairseq, prefix, lines, kind, vocab_size):
    import torch
    builder = fairseq.make_builder(prefix + ".bin", kind, vocab_size=vocab_size)
    for line in lines:
        builder.add_item(torch.IntTensor(line))
    builder.finalize(prefix + ".idx")


def read_ours(prefix):
    """Sequences and document boundaries of a Megatron pair, read here by the format."""
    index = open(prefix + ".idx", "rb").read()
    code, sequences, boundaries = struct.unpack_from("<BQQ", index, 17)
    dtype = {4: np.int32, 8: np.uint16}[code]
    lengths = np.frombuffer(index, np.int32, sequences, 34)
    documents = np.frombuffer(index, np.int64, boundaries, 34 + 12 * sequences)
    tokens = np.fromfile(prefix + ".bin", dtype)
    return [part.tolist() for part in np.split(tokens, np.cumsum(lengths)[:-1])] if sequences else [], documents.tolist()


def expected_documents(lines):
    """Boundaries by the rule: a document ends before the first line after an empty one that follows one of its
    lines."""
    borders, seen, empty = [0], False, False
    sequences = 0
    for line in lines:
        is_empty = line in ([], [2])
        if not is_empty and seen and empty:
            borders.append(sequences)
            seen = False
        seen, empty = seen or not is_empty, seen and is_empty
        sequences += len(line) > 0
    return borders + [sequences] if sequences else borders


def check_import(what, fairseq, lines, kind, vocab_size, folder, flags=()):
    prefix, out = os.path.join(folder, "train"), os.path.join(folder, "out")
    write(fairseq, prefix, lines, kind, vocab_size)
    done = subprocess.run([BEVATRON, "dataset", "import", prefix, "--output-prefix", out, "--json", *flags],
                          capture_output=True)
    if done.returncode != 0:
        check(what, False, done.stderr.decode())
        return
    sequences, documents = read_ours(out)
    check(what, sequences == [line for line in lines if line] and documents == expected_documents(lines),
          f"({len(lines)} lines, {len(documents) - 1} documents)")
    check(what + ": summary", json.loads(done.stdout)["tokens"] == sum(map(len, lines)))


def random_lines(generator, vocab_size):
    lines = []
    for _ in range(generator.randrange(400)):
        kind = generator.random()
        length = 0 if kind < 0.3 else generator.randrange(1, 40) if kind < 0.97 else generator.randrange(1, 20000)
        lines.append([generator.randrange(4, vocab_size) for _ in range(length)] + [2])
    return lines


def wikitext_lines(folder):
    """WikiText-2 as words with a dictionary of ours, by fairseq's rules for a line."""
    text = open(os.path.join(SHARED, "text/wikitext-2/valid.txt"), encoding="utf-8").read()
    path = os.path.join(folder, "dict.txt")
    subprocess.run([BEVATRON, "tokenizer", "dictionary", "--input", os.path.join(SHARED, "text/wikitext-2/valid.txt"),
                    "--output", path], check=True, capture_output=True)
    symbols = [line.rsplit(" ", 1)[0] for line in open(path, encoding="utf-8")]
    ids = {symbol: i + 4 for i, symbol in enumerate(symbols)}
    ids.update({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3})
    lines = [[ids.get(word, 3) for word in line.split()] + [2] for line in text.split("\n")[:-1]]
    return lines, len(symbols) + 4


def roberta_lines():
    """WikiText-2 as in the RoBERTa recipe: GPT-2's BPE of each stripped line, its ids as symbols of dict.txt."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    tokenizer = Tokenizer(models.BPE.from_file(*(os.path.join(SHARED, "gpt2", n) for n in ("vocab.json", "merges.txt"))))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    ids = {line.rsplit(" ", 1)[0]: i + 4 for i, line in enumerate(open(os.path.join(SHARED, "roberta/dict.txt")))}
    text = open(os.path.join(SHARED, "text/wikitext-2/test.txt"), encoding="utf-8").read()
    return [[ids.get(str(i), 3) for i in tokenizer.encode(line.strip()).ids] + [2] for line in text.split("\n")[:-1]]


def check_text(what, lines, name, folder, flags):
    """`dataset import --text` against the output of fairseq's two programs."""
    for workers in ("1", "3"):
        out = os.path.join(folder, "text")
        done = subprocess.run([BEVATRON, "dataset", "import", "--text", os.path.join(SHARED, "text/wikitext-2", name),
                               "--output-prefix", out, "--tokenizer-type", "FairseqTokenizer", "--workers", workers, *flags],
                              capture_output=True)
        if done.returncode != 0:
            check(what, False, done.stderr.decode())
            return
        sequences, documents = read_ours(out)
        check(f"{what}, {workers} workers", sequences == lines and documents == expected_documents(lines))


def main():
    fairseq = load_fairseq()
    if fairseq is None:
        print("  skipped: fairseq is not installed; name its source tree with FAIRSEQ_SOURCE")
        return 0
    golden = os.path.join(HERE, "../golden/import")
    for name, reader in (("mmap_u16", fairseq.MMapIndexedDataset), ("mmap_i64", fairseq.MMapIndexedDataset)):
        items = reader(os.path.join(golden, name))
        check(f"fairseq reads {name}", [items[i].tolist() for i in range(len(items))] == make_import.LINES)
    items = fairseq.IndexedDataset(os.path.join(golden, "torchnet_i32"), fix_lua_indexing=True)
    check("fairseq reads torchnet_i32", [items[i].tolist() for i in range(len(items))] == make_import.LINES)
    with tempfile.TemporaryDirectory() as folder:
        for name, kind, vocab_size in (("mmap_u16", "mmap", 20), ("torchnet_i32", "cached", None)):
            write(fairseq, os.path.join(folder, "x"), make_import.LINES, kind, vocab_size)
            for extension in (".bin", ".idx"):
                ours, theirs = (open(os.path.join(*path) + extension, "rb").read() for path in ((golden, name), (folder, "x")))
                check(f"fairseq writes {name}{extension} byte for byte", ours == theirs)
        generator = random.Random(5)
        for i in range(12):
            for kind, vocab_size in (("mmap", 300), ("mmap", 65499), ("mmap", 65500), ("mmap", 200000), ("cached", 200000)):
                check_import(f"random items {i}, {kind}, {vocab_size} symbols", fairseq,
                             random_lines(generator, vocab_size), kind, vocab_size, folder)
        if os.path.isdir(SHARED):
            lines, size = wikitext_lines(folder)
            check_text("text of WikiText-2 as words", lines, "valid.txt", folder,
                       ["--tokenizer-model", os.path.join(folder, "dict.txt")])
            check_text("text of WikiText-2 for RoBERTa", roberta_lines(), "test.txt", folder,
                       ["--tokenizer-model", os.path.join(SHARED, "roberta/dict.txt"), "--vocab-file",
                        os.path.join(SHARED, "gpt2/vocab.json"), "--merge-file", os.path.join(SHARED, "gpt2/merges.txt")])
            for kind in ("mmap", "cached"):
                check_import(f"WikiText-2, {kind}", fairseq, lines, kind, size, folder,
                             ("--dictionary", os.path.join(folder, "dict.txt")))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
