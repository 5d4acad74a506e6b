#!/usr/bin/env python3
"""Makes tests/golden/spm: small SentencePiece models, trained on tests/golden/bpe/corpus.txt or handmade, and the
results of the package sentencepiece (0.2.2) for tricky texts.

  *.model      unigram: custom normalization rules, byte fallback, a user-defined symbol; bpe: like Llama-2's; unused:
               the same with unused pieces; suffix: spaces at the end of words, no tidying; char, word; odd: pieces
               across spaces, equal scores, a denormalizer; folded: folds case, as nmt_nfkc_cf does for these letters
  ids.jsonl    {"model", "text", "ids", "decoded"}: by the package
  megatron.jsonl  {"model", "extra_ids", "text", "ids", "decoded"}: by Megatron's classic SentencePieceTokenizer, whose
               rules are reimplemented here
Also makes tests/fuzz/seeds/spm: the length of a text in two bytes, the text, a model.
"""
import json
import os
import random
import struct
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as model_pb2

here = os.path.dirname(os.path.abspath(__file__))
folder = os.path.join(here, "spm")
seeds = os.path.join(here, "../fuzz/seeds/spm")
BLANK = "\u2581"
RULES = {"\t": " ", "\n": " ", "\u00a0": " ", "\u3000": " ", "\u200b": "", "\ufb01": "fi", "e\u0301": "\u00e9",
         "\uff21": "A", "\u2026": "...", "\u00bd": "1/2", "\u2121": " TEL ", "\u2160": "I", "\u2161": "II"}
# Some of the rules of nmt_nfkc_cf: folded letters, alone and before a mark, and letters that become two.
FOLDED = RULES | {chr(c): chr(c + 32) for c in range(ord("A"), ord("Z") + 1)} | {
    "\u00c9": "\u00e9", "E\u0301": "\u00e9", "\u00dc": "\u00fc", "U\u0308": "\u00fc", "u\u0308": "\u00fc", "\u00df": "ss", "\u1e9e": "ss",
    "\u03a3": "\u03c3", "\u03c2": "\u03c3", "\u0130": "i\u0307", "I\u0307": "i\u0307", "\uff21": "a", "\u2121": " tel ", "\u2160": "i",
    "\u2161": "ii"}

TEXTS = ["", " ", "  ", "\n", "Hello", " Hello", "Hello world", "  two  blanks  ", "The miller's daughter counted the sacks.",
         "It wasn't the river; it was the bridge, they'd say.", "a", "aa", "aaa", "aaaa", "aaaaa", "abababab", "bbbbb",
         "........", "-----", "Grüße aus Köln", "Gru\u0308ße", "café cafe\u0301", "\ufb01sh", "½ of … then",
         "Ａ\u3000wide\u00a0blank", "磨坊主的女儿", "水車小屋の娘", "नदी के किनारे", "Мельник считал мешки", "\U0001f600",
         "a\U0001f468\u200d\U0001f469b", "\x00", "a\x00b", "\x7f\x80", "\ufffd", BLANK, BLANK + "a", "a" + BLANK + " b",
         BLANK * 3, "<s>", "</s><unk>", "<0x41>", "<x>", "a<x>b", " <x> ", "<x><x>", "@@@", "@@@@@", "\u2121\u2160\u2161",
         "\u200b", " \u200b ", "12345", "€1,000.50", "if (x >= 10) { return; } // code", "\ttab\nline\r\nend ",
         "thethethethethe", "THE MILLER'S É Ü ẞ", "E\u0301 U\u0308 \u0130 I\u0307 ΟΔΟΣ", "x" * 50, "the" * 40, " " * 40, "a b " * 30]


def write(name, proto):
    with open(os.path.join(folder, name + ".model"), "wb") as file:
        file.write(proto.SerializeToString())


def train(**options):
    with tempfile.TemporaryDirectory() as scratch:
        rules = os.path.join(scratch, "rules.tsv")
        with open(rules, "w", encoding="utf-8") as file:
            for source, target in options.pop("table", RULES).items():
                file.write(" ".join(f"{ord(c):X}" for c in source) + "\t" + " ".join(f"{ord(c):X}" for c in target) + "\n")
        if options.pop("rules", False):
            options["normalization_rule_tsv"] = rules
        else:
            options["normalization_rule_name"] = "identity"
        prefix = os.path.join(scratch, "model")
        sentencepiece.SentencePieceTrainer.train(input=os.path.join(here, "bpe/corpus.txt"), model_prefix=prefix,
                                                 minloglevel=2, num_threads=1, character_coverage=1.0, **options)
        proto = model_pb2.ModelProto()
        with open(prefix + ".model", "rb") as file:
            proto.ParseFromString(file.read())
    for field in ("input", "model_prefix"):
        proto.trainer_spec.ClearField(field)
    proto.normalizer_spec.ClearField("normalization_rule_tsv")
    return proto


def by_hand():
    """Pieces across spaces, equal scores, a control piece of one character, and a denormalizer that undoes a rule."""
    proto = model_pb2.ModelProto()
    types = model_pb2.ModelProto.SentencePiece
    proto.trainer_spec.model_type = 2
    proto.trainer_spec.unk_surface = "?"
    proto.normalizer_spec.remove_extra_whitespaces = False
    for text, score, kind in (("<unk>", 0, types.UNKNOWN), ("<s>", 0, types.CONTROL), ("\n", 0, types.CONTROL),
                              (BLANK, -5, 1), ("a", -5, 1), ("b", -5, 1), ("t", -5, 1), ("h", -5, 1), ("e", -5, 1),
                              ("a" + BLANK, -1, 1), (BLANK + "b", -1, 1), ("a" + BLANK + "b", -2, 1), ("aa", -1, 1),
                              ("th", -1, 1), ("he", -1, 1), ("the", -1, 1), (BLANK * 2, -3, 1), (BLANK * 4, -3, 1),
                              ("ab", -4, types.UNUSED), ("the" + BLANK, -2, types.USER_DEFINED)):
        proto.pieces.add(piece=text, score=score, type=kind)
    proto.denormalizer_spec.CopyFrom(train(model_type="char", rules=True).normalizer_spec)
    proto.denormalizer_spec.add_dummy_prefix = False
    proto.denormalizer_spec.remove_extra_whitespaces = False
    proto.denormalizer_spec.escape_whitespaces = False
    return proto


def models():
    write("unigram", train(model_type="unigram", vocab_size=500, rules=True, byte_fallback=True, user_defined_symbols=["<x>"],
                           pad_id=3))
    bpe = train(model_type="bpe", vocab_size=560, byte_fallback=True, remove_extra_whitespaces=False, split_digits=True,
                allow_whitespace_only_pieces=True, user_defined_symbols=["@@@"])
    write("bpe", bpe)
    generator = random.Random(1)
    for piece in bpe.pieces:
        if piece.type == 1 and len(piece.piece) > 1 and generator.random() < 0.4:
            piece.type = model_pb2.ModelProto.SentencePiece.UNUSED
    write("unused", bpe)
    write("suffix", train(model_type="unigram", vocab_size=220, treat_whitespace_as_suffix=True,
                          remove_extra_whitespaces=False, bos_id=-1, eos_id=-1))
    write("char", train(model_type="char", rules=True, user_defined_symbols=["<x>"]))
    write("word", train(model_type="word", vocab_size=60))
    write("odd", by_hand())
    write("folded", train(model_type="unigram", vocab_size=450, rules=True, table=FOLDED, byte_fallback=True))


def classic(processor, extra_ids):
    """Megatron's tokenizer up to core 0.14, with the classic special tokens."""
    vocab = {processor.id_to_piece(i): i for i in range(processor.get_piece_size())}
    special = {}

    def add(token):
        vocab.setdefault(token, len(vocab))
        special[token] = vocab[token]

    for token in ("<CLS>", "<SEP>", "<EOD>", "<MASK>"):
        add(token)
    for number, instead in ((processor.pad_id(), "<PAD>"), (processor.bos_id(), "<BOS>"), (processor.eos_id(), "<EOS>")):
        add(processor.id_to_piece(number) if number >= 0 else instead)
    for i in range(extra_ids):
        add(f"<extra_id_{i}>")
    names = {number: token for token, number in special.items()}

    def encode(text):
        ids = []
        while True:
            found = {token: text.index(token) for token in special if token in text}
            if not found:
                return ids + processor.encode(text)
            token = min(found, key=found.get)
            ids += processor.encode(text[:found[token]]) + [special[token]]
            text = text[found[token] + len(token):]

    def decode(ids):
        text, begin = "", 0
        for i, number in enumerate(ids):
            if number in names:
                text += processor.decode(ids[begin:i]) + " " + names[number] + " "
                begin = i + 1
        return text + processor.decode(ids[begin:])

    return encode, decode, len(vocab), special["<EOD>"]


def goldens():
    names = ["bpe", "char", "odd", "suffix", "unigram", "unused", "word", "folded"]
    ids = open(os.path.join(folder, "ids.jsonl"), "w", encoding="utf-8")
    megatron = open(os.path.join(folder, "megatron.jsonl"), "w", encoding="utf-8")
    for name in names:
        processor = sentencepiece.SentencePieceProcessor(model_file=os.path.join(folder, name + ".model"))
        for text in TEXTS:
            encoded = processor.encode(text)
            row = {"model": name, "text": text, "ids": encoded, "decoded": processor.decode(encoded)}
            ids.write(json.dumps(row) + "\n")
        for extra_ids in (0, 3):
            encode, decode, size, eod = classic(processor, extra_ids)
            for text in ("", "a<EOD>b", "<s>The <MASK> daughter</s>", "<extra_id_1><extra_id_2> <extra_id_3>", "<PAD><pad><BOS>",
                         "the river<CLS> \n<SEP>", "<EO<EOD>D>"):
                encoded = encode(text)
                row = {"model": name, "extra_ids": extra_ids, "vocab_size": size, "eod": eod, "text": text, "ids": encoded,
                       "decoded": decode(encoded)}
                megatron.write(json.dumps(row) + "\n")


def make_seeds():
    os.makedirs(seeds, exist_ok=True)
    for name, text in (("odd", "a b  the the ab\n"), ("char", "Gru\u0308ße <x>"), ("word", "the river \u2581 it")):
        with open(os.path.join(folder, name + ".model"), "rb") as file:
            model = file.read()
        data = text.encode()
        with open(os.path.join(seeds, name), "wb") as file:
            file.write(struct.pack("<H", len(data)) + data + model)


if __name__ == "__main__":
    os.makedirs(folder, exist_ok=True)
    models()
    goldens()
    make_seeds()
