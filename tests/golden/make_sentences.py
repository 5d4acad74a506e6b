"""Writes sentences.txt: samples of BERT and T5, made by megatron-core's own dataset classes.

Run: python tests/golden/make_sentences.py > tests/golden/sentences.txt  (needs numpy, torch and megatron-core)

The corpus is computed from numbers: LENGTHS has the sentence lengths of each document; token j of the .bin file is
10 + (7907 j + 13) mod 990. Ids 0 to 9 are special; ids with id mod 5 = 0 continue a word. The sentinels are 1000….

Lines: "bert SEQ COUNT SEED MASK SHORT HEAD" or "t5 SEQ DECODER COUNT SEED MASK SHORT SENTINELS"; "map ROWS MD5" of the
sample index; "sample I …" with all arrays concatenated; "md5 N MD5" over the arrays of the first N samples.
BERT: tokens types labels loss-mask length swapped. T5: tokens decoder-tokens labels loss-mask length decoder-length.
Labels without loss are 0.
"""

import hashlib
import logging
import os
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

import numpy
import torch
from megatron.core.datasets.bert_dataset import BERTMaskedWordPieceDataset, BERTMaskedWordPieceDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder
from megatron.core.datasets.t5_dataset import T5MaskedWordPieceDataset, T5MaskedWordPieceDatasetConfig
from megatron.core.datasets.utils import Split

CLS, SEP, MASK, PAD, BOS, EOS = 1, 2, 3, 0, 4, 5
WORDS = 1000


def documents():
    """Forty documents of 0 to 12 sentences; one has a sentence of 600 tokens, some have only one sentence."""
    state = numpy.random.RandomState(7)
    lengths = []
    for i in range(40):
        lengths.append([int(n) for n in state.randint(1, 40, size=state.randint(0, 13))])
    lengths[11] = [5, 600, 7]
    lengths[17] = [700]
    return lengths


class Tokenizer:
    def __init__(self, sentinels):
        self.cls, self.sep, self.mask, self.pad, self.bos, self.eos = CLS, SEP, MASK, PAD, BOS, EOS
        self.eod = EOS
        self.additional_special_tokens_ids = [WORDS + i for i in range(sentinels)]
        self.inv_vocab = {i: ("##" if i % 5 == 0 and 10 <= i < WORDS else "") + f"t{i}" for i in range(WORDS + sentinels)}
        self.vocab_size = len(self.inv_vocab)

    @property
    def unique_identifiers(self):
        return {"class": "Tokenizer", "size": self.vocab_size}


def write_corpus(prefix):
    builder = IndexedDatasetBuilder(prefix + ".bin", dtype=numpy.uint16)
    j = 0
    for document in documents():
        for length in document:
            builder.add_item(torch.tensor([10 + (7907 * (j + k) + 13) % 990 for k in range(length)]))
            j += length
        builder.end_document()
    builder.finalize(prefix + ".idx")


def config(cls, tokenizer, seq, seed, mask, short, **more):
    return cls(
        random_seed=seed, sequence_length=seq, blend=None, blend_per_split=[None, None, None], split=None,
        path_to_cache=tempfile.mkdtemp(), tokenizer=tokenizer, masking_probability=mask,
        short_sequence_probability=short, masking_do_full_word=True, masking_do_permutation=False,
        masking_use_longer_ngrams=False, **more)


def show(dataset, arrays, explicit, many):
    index = numpy.ascontiguousarray(dataset.sample_index)
    print("map", len(index), hashlib.md5(index.astype(numpy.uint32).tobytes()).hexdigest())
    for i in explicit:
        print("sample", i, *arrays(dataset[i]).tolist())
    total = hashlib.md5()
    for i in range(many):
        total.update(arrays(dataset[i]).astype(numpy.int32).tobytes())
    print("md5", many, total.hexdigest())


def without_loss(labels):
    return numpy.where(labels < 0, 0, labels)


def bert_arrays(s):
    # Megatron's padding mask also hides a random replacement that happens to be [PAD]; the last token is [SEP].
    length = int(numpy.flatnonzero(s["text"])[-1]) + 1
    return numpy.concatenate([s["text"], s["types"], without_loss(s["labels"]), s["loss_mask"], [length, s["is_random"]]])


def t5_arrays(s):
    return numpy.concatenate([s["text_enc"], s["text_dec"], without_loss(s["labels"]), s["loss_mask"],
                              [int(s["enc_mask"].sum()), int(s["dec_mask"].sum())]])


os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29511")
torch.distributed.init_process_group("gloo", rank=0, world_size=1)
folder = tempfile.mkdtemp()
prefix = os.path.join(folder, "corpus")
write_corpus(prefix)
low = IndexedDataset(prefix)
everything = numpy.arange(len(documents()), dtype=numpy.int32)

print("lengths", *[",".join(map(str, d)) or "-" for d in documents()])
for seq, count, seed, mask, short, head in [
    (64, 300, 1234, 0.15, 0.1, True),
    (64, 200, 99, 0.15, 0.1, False),
    (512, 60, 1, 0.15, 0.0, True),
    (32, 500, 4321, 0.4, 0.5, True),
    (20, 100, 7, 0.01, 0.3, True),
]:
    print("bert", seq, count, seed, mask, short, int(head))
    c = config(BERTMaskedWordPieceDatasetConfig, Tokenizer(0), seq, seed, mask, short, masking_max_ngram=3,
               masking_use_geometric_distribution=False, classification_head=head)
    d = BERTMaskedWordPieceDataset(low, prefix, everything, count, Split.train, c)
    show(d, bert_arrays, [0, 1] if seq <= 64 else [], count)
for seq, decoder, count, seed, mask, short, sentinels in [
    (64, 32, 300, 1234, 0.15, 0.1, 20),
    (512, 128, 60, 1234, 0.15, 0.1, 100),
    (40, 60, 400, 5, 0.5, 0.2, 40),
]:
    print("t5", seq, decoder, count, seed, mask, short, sentinels)
    c = config(T5MaskedWordPieceDatasetConfig, Tokenizer(sentinels), seq, seed, mask, short, masking_max_ngram=10,
               masking_use_geometric_distribution=True, sequence_length_decoder=decoder)
    d = T5MaskedWordPieceDataset(low, prefix, everything, count, Split.train, c)
    show(d, t5_arrays, [0, 1] if seq <= 64 else [], count)
