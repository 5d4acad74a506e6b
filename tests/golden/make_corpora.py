"""Writes corpora.txt: the samples of whole runs (splits, blends, sizes) by megatron-core's dataset builder.

Run: python tests/golden/make_corpora.py > tests/golden/corpora.txt  (needs numpy, torch and megatron-core)

Datasets a, b and c: sequence i of dataset d (0, 1, 2) has 1 + (37 i + 11 d) mod 61 tokens, 50 + 30 d sequences; token j
of its .bin is (7919 j + 13 + 100 d) mod 50000. Lines: "run SEQ SEED TRAIN VALID TEST SPLIT WORDS…" (SPLIT - for
separate data of each split, whose words are then train|valid|test), then for each split "split NAME SAMPLES MD5" over
the int32 tokens of all samples, or "split NAME none". The order of a blend is computed in Python: megatron-core's
compiled helper fuses a multiply and a subtract on aarch64, so its result there differs from x86-64 (see make_blend.py).
"""

import hashlib
import logging
import os
import tempfile
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

import numpy
import torch
from megatron.core.datasets import helpers
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
from megatron.core.datasets.utils import get_blend_from_list


def unfused(dataset_index, dataset_sample_index, weights, count, size, verbose):
    given = [0] * count
    for i in range(size):
        lag = [w * max(float(i), 1.0) - float(g) for w, g in zip(weights, given)]
        j = lag.index(max(lag))
        dataset_index[i], dataset_sample_index[i] = j, given[j]
        given[j] += 1


helpers.build_blending_indices = unfused


class Tokenizer:
    eod, pad, vocab_size = 0, -1, 50000
    unique_identifiers = {"class": "Tokenizer"}


def write(prefix, d):
    builder = IndexedDatasetBuilder(prefix + ".bin", dtype=numpy.uint16)
    j = 0
    for i in range(50 + 30 * d):
        length = 1 + (37 * i + 11 * d) % 61
        builder.add_item(torch.tensor([(7919 * (j + k) + 13 + 100 * d) % 50000 for k in range(length)]))
        builder.end_document()
        j += length
    builder.finalize(prefix + ".idx")


os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29512")
torch.distributed.init_process_group("gloo", rank=0, world_size=1)
folder = tempfile.mkdtemp()
for d, name in enumerate("abc"):
    write(os.path.join(folder, name), d)


def words(text):
    return get_blend_from_list([os.path.join(folder, w) if w.isalpha() else w for w in text.split()])


for seq, seed, sizes, split, text in [
    (16, 1234, (500, 40, 20), "8,1,1", "a"),
    (16, 1234, (500, 40, 20), "8,1,1", "1 a"),
    (16, 1234, (500, 40, 20), "8,1,1", "1 a 3 b"),
    (16, 7, (1000, 64, 32), "90,5,5", "0.25 a 0.25 b 0.5 c"),
    (16, 7, (150, 10, 10), "90,5,5", "a b c"),
    (16, 7, (100000, 10000, 10000), "90,5,5", "a b c"),
    (33, 99, (300, 50, 10), None, "1 a 7 c|b|2 a"),
    (33, 99, (300, 20, 10), None, "a b c|a c|b"),
]:
    config = GPTDatasetConfig(
        random_seed=seed, sequence_length=seq, split=split, path_to_cache=tempfile.mkdtemp(), tokenizer=Tokenizer(),
        blend=words(text) if split else None,
        blend_per_split=None if split else [words(t) for t in text.split("|")],
        reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False, create_attention_mask=False)
    datasets = BlendedMegatronDatasetBuilder(GPTDataset, sizes, lambda: True, config).build()
    print("run", seq, seed, *sizes, split or "-", text)
    for name, dataset in zip(("train", "valid", "test"), datasets):
        if dataset is None:
            print("split", name, "none")
            continue
        total = hashlib.md5()
        for i in range(len(dataset)):
            sample = dataset[i]
            tokens = numpy.append(sample["tokens"].numpy(), sample["labels"].numpy()[-1])
            total.update(tokens.astype(numpy.int32).tobytes())
        print("split", name, len(dataset), total.hexdigest())
