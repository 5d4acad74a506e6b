#!/usr/bin/env python3
"""Compares SentencePiece models with the package sentencepiece: ids and decoded texts, on real and random texts, with
real models ($BEVATRON_SHARED/data) and with models made here with every possible trait; and with Megatron's classic
tokenizer, reimplemented on top of the package. $BEVATRON is the program. Without $BEVATRON_SHARED/data only the models
made here are used."""
import glob
import json
import lzma
import os
import random
import subprocess
import sys
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as model_pb2

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden"))
from make_spm import classic

BEVATRON = os.environ.get("BEVATRON", "build/release/bevatron")
HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.path.join(os.environ.get("BEVATRON_SHARED", os.path.join(HERE, "../../../shared")), "data")
BLANK = "\u2581"
failures = 0


def check(what, condition, detail=""):
    global failures
    print(f"  {'ok  ' if condition else 'FAIL'} {what} {detail}", flush=True)
    failures += not condition


def batch(verb, lines, model, kind="GPTSentencePieceTokenizer", more=()):
    text = "".join(json.dumps(line, ensure_ascii=i % 2 == 0) + "\n" for i, line in enumerate(lines))
    done = subprocess.run([BEVATRON, "tokenizer", verb, "--json-lines", "--tokenizer-type", kind, "--tokenizer-model",
                           model, *more], input=text.encode(), capture_output=True)
    if done.returncode != 0:
        sys.exit(f"tokenizer {verb} with {model}: {done.stderr.decode()}")
    return [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]


# ---- texts ----

def random_texts(count, seed, pieces=()):
    generator = random.Random(seed)
    plain = list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,;:!?'\"-\n\t ")
    parts = ["  ", "   ", " " * 17, "\n\n", "\r\n", " the", " and", "<s>", "</s>", "<unk>", "<pad>", "<0x41>", BLANK,
             BLANK + BLANK, " " + BLANK, "\u0301", "\u0308", "\u200b", "\u00a0", "\u3000", "\ufeff", "\ufffd", "\uff5e",
             "\x00", "\x07", "\x7f", "\x85", "\ufb01", "\u2460", "\ufdfa", "\u1e9b\u0323", "\uac01", "\u1100\u1161",
             "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\u0e33", "\u09cb", "...", "--------",
             "<extra_id_0>", "<extra_id_17>", "<CLS>", "<EOD>", "<MASK>", "[CLS]"]
    blocks = [(0x00, 0x80), (0x80, 0x250), (0x300, 0x370), (0x370, 0x590), (0x590, 0x780), (0x900, 0xD80),
              (0xE00, 0xE80), (0x1100, 0x1200), (0x2000, 0x2070), (0x2070, 0x2300), (0x2580, 0x25A0), (0x3000, 0x3100),
              (0x4E00, 0x9FA6), (0xAC00, 0xD7A4), (0xF900, 0xFB00), (0xFB00, 0xFE00), (0xFE00, 0xFE10),
              (0xFF00, 0xFFF0), (0x1D400, 0x1D800), (0x1F300, 0x1F650), (0x20000, 0x2A6D7), (0xE000, 0xE100),
              (0xE0000, 0xE0200), (0x10000, 0x110000)]
    texts = []
    for _ in range(count):
        low, high = generator.choice(blocks)
        out = []
        for _ in range(generator.randint(0, 120)):
            kind = generator.random()
            if kind < 0.4:
                out.append(generator.choice(plain))
            elif kind < 0.5:
                out.append(generator.choice(parts))
            elif kind < 0.7 and pieces:
                out.append(generator.choice(pieces).replace(BLANK, generator.choice([" ", " ", BLANK])))
            else:
                out.append(chr(generator.randrange(low, high)))
        texts.append("".join(out))
    for length in (1, 2, 14, 15, 16, 17, 39, 40, 41, 63, 64, 65, 1000, 30000):
        texts += [unit * length for unit in ("a", "ab", " ", "\n", "\u4e16", ".", "9", BLANK, "-", "=")]
        texts.append(" " * length + "x" + " " * length)
    return texts


def every_character():
    """Each character between letters and spaces, and after a letter that it may combine with."""
    texts = []
    for begin in range(0, 0x110000, 64):
        characters = [chr(c) for c in range(begin, begin + 64) if not 0xD800 <= c < 0xE000]
        if characters:
            texts.append("".join(f"a{c}e{c} {c}{c} {c}" for c in characters))
    return texts


def real_texts():
    texts = []
    for name in ("text/tinyshakespeare.txt", "text/botchan.txt", "text/taylorswift_wikipedia.txt",
                 "text/wikitext-2/valid.txt", "text/wikitext-2/test.txt", "wiki/wikiextractor_output_sample_wiki_00"):
        path = os.path.join(SHARED, name)
        if os.path.exists(path):
            text = open(path, encoding="utf-8", newline="").read()
            texts += [text] + text.split("\n")[:3000]
    path = os.path.join(SHARED, "text/books_en_train.jsonl.xz")
    if os.path.exists(path):
        with lzma.open(path, "rt", encoding="utf-8") as file:
            texts += [json.loads(line)["text"] for line in file]
    return texts


# ---- comparisons ----

def compare(what, texts, actual, expected):
    wrong = [i for i in range(len(texts)) if actual[i] != expected[i]]
    detail = f"({len(texts)} texts, {sum(len(item) for item in expected)} ids)"
    if wrong:
        i = wrong[0]
        at = next((k for k in range(min(len(actual[i]), len(expected[i]))) if actual[i][k] != expected[i][k]), 0)
        detail = (f"{len(wrong)} differ, first {texts[i][:60]!r} at {at}: {actual[i][at:at + 8]} instead of "
                  f"{expected[i][at:at + 8]}")
    check(what, not wrong, detail)


def compare_decoded(what, model, processor, id_lists):
    actual = batch("decode", id_lists, model)
    expected = [processor.decode(ids) for ids in id_lists]
    wrong = [i for i in range(len(id_lists)) if actual[i] != expected[i]]
    detail = f"({len(id_lists)} lists)"
    if wrong:
        i = wrong[0]
        detail = f"{len(wrong)} differ, first {id_lists[i][:20]}: {actual[i]!r} instead of {expected[i]!r}"
    check(what, not wrong, detail)


def compare_model(name, model, count, real=()):
    processor = sentencepiece.SentencePieceProcessor(model_file=model)
    size = processor.get_piece_size()
    pieces = [processor.id_to_piece(i) for i in range(size)]
    texts = random_texts(count, 7, pieces)
    expected = processor.encode(texts)
    compare(f"{name}: random texts", texts, batch("encode", texts, model), expected)
    generator = random.Random(11)
    lists = expected + [[generator.randrange(size) for _ in range(generator.randint(0, 20))] for _ in range(count // 2)]
    compare_decoded(f"{name}: decoded", model, processor, lists)
    for what, more in (("every character", every_character()), ("real texts", real)):
        if more:
            compare(f"{name}: {what}", more, batch("encode", more, model), processor.encode(more))


# ---- models made to be difficult ----

def random_pieces(generator, alphabet, count):
    """Texts over a small alphabet, including spaces, so that they overlap in every way."""
    texts = set()
    while len(texts) < count:
        texts.add("".join(generator.choice(alphabet) for _ in range(1 if generator.random() < 0.3 else
                                                                  generator.randint(2, 5))))
    return sorted(texts)


def random_model(seed):
    """A model with any mixture of traits. Scores are few, so that many are equal, or many, in no order."""
    generator = random.Random(seed)
    alphabet = generator.sample(["a", "b", "c", "d", "\u00e9", "\u4e16", "\U0001f600", ".", "1", "2", "A"],
                                generator.randint(2, 6)) + [BLANK] * generator.randint(0, 2)
    if generator.random() < 0.1:
        alphabet.append(" ")
    proto = model_pb2.ModelProto()
    types = model_pb2.ModelProto.SentencePiece
    trainer, normaliser = proto.trainer_spec, proto.normalizer_spec
    trainer.model_type = generator.choice([1, 1, 2, 2, 2, 3, 4])
    trainer.byte_fallback = generator.random() < 0.4
    trainer.treat_whitespace_as_suffix = generator.random() < 0.2
    normaliser.add_dummy_prefix = generator.random() < 0.7
    normaliser.remove_extra_whitespaces = generator.random() < 0.5
    normaliser.escape_whitespaces = generator.random() < 0.9
    if generator.random() < 0.3:
        trainer.unk_surface = generator.choice(["?", " UNK ", ""])
    if CHARSMAP and generator.random() < 0.4:
        normaliser.precompiled_charsmap = CHARSMAP

    def add(text, score, kind):
        proto.pieces.add(piece=text, score=score, type=kind)

    add("<unk>", 0, types.UNKNOWN)
    for text in generator.sample(["<s>", "</s>", "<pad>", "<mask>"], generator.randint(0, 4)):
        add(text, 0, types.CONTROL)
    if trainer.byte_fallback:
        for byte in range(256):
            add(f"<0x{byte:02X}>", 0, types.BYTE)
    has_unused, has_symbols = generator.random() < 0.3, generator.random() < 0.5
    few_scores = generator.random() < 0.5
    for text in random_pieces(generator, alphabet, generator.randint(5, 60)):
        score = float(-generator.randint(1, 4)) if few_scores else -generator.uniform(0, 12)
        kind = types.NORMAL
        if has_unused and generator.random() < 0.25:
            kind = types.UNUSED
        if has_symbols and generator.random() < 0.1:
            kind = types.USER_DEFINED
        add(text, score, kind)
    add("zz", -1, types.NORMAL)
    texts = []
    for _ in range(300):
        letters = alphabet + [" ", " ", "  ", BLANK, "x", "\n", "\u0301", "\uff21"]
        texts.append("".join(generator.choice(letters) for _ in range(generator.choice([3, 10, 40, 200]))))
    return proto, texts


def random_models(folder, count):
    wrong, total = [], 0
    path = os.path.join(folder, "random.model")
    for seed in range(count):
        proto, texts = random_model(seed)
        with open(path, "wb") as file:
            file.write(proto.SerializeToString())
        processor = sentencepiece.SentencePieceProcessor(model_file=path)
        expected = processor.encode(texts)
        actual = batch("encode", texts, path)
        generator = random.Random(seed)
        lists = expected + [[generator.randrange(processor.get_piece_size()) for _ in range(12)] for _ in range(100)]
        decoded = batch("decode", lists, path)
        total += len(texts)
        for i, text in enumerate(texts):
            if actual[i] != expected[i]:
                wrong.append(f"seed {seed}: {text!r}: {actual[i][:20]} instead of {expected[i][:20]}")
        for i, ids in enumerate(lists):
            if decoded[i] != processor.decode(ids):
                wrong.append(f"seed {seed}: decoded {ids[:20]}: {decoded[i]!r} instead of {processor.decode(ids)!r}")
    check(f"{count} random models", not wrong, f"({total} texts)" if not wrong else f"{len(wrong)} differ, {wrong[0]}")


def ill_formed(name, model):
    """Bytes that are not UTF-8, one text per line."""
    processor = sentencepiece.SentencePieceProcessor(model_file=model)
    generator = random.Random(3)
    texts = []
    for _ in range(5000):
        text = bytearray("".join(generator.choice("ab c\u00e9\u4e16\U0001f600\u2581") for _ in range(20)).encode())
        for _ in range(generator.randint(1, 6)):
            text[generator.randrange(len(text))] = generator.choice([0x80, 0xC0, 0xE2, 0x96, 0xED, 0xF0, 0xF5, 0xFF, 0x41])
        texts.append(bytes(text))
    done = subprocess.run([BEVATRON, "tokenizer", "encode", "--lines", "--tokenizer-type", "GPTSentencePieceTokenizer",
                           "--tokenizer-model", model], input=b"\n".join(texts) + b"\n", capture_output=True, check=True)
    actual = [[int(i) for i in line.split()] for line in done.stdout.decode().split("\n")[:-1]]
    compare(f"{name}: ill-formed texts", texts, actual, [processor.encode(text) for text in texts])


def compare_megatron(name, model):
    """Megatron's classic types, on texts that contain its tokens."""
    processor = sentencepiece.SentencePieceProcessor(model_file=model)
    encode, _, size, _ = classic(processor, 100)
    texts = random_texts(10000, 23, ["<CLS>", "<SEP>", "<EOD>", "<MASK>", "<extra_id_99>", "</s>", "<pad>", " the", "."])
    more = ("--vocab-extra-ids", "100")
    compare(f"{name}: SentencePieceTokenizer of {size} tokens", texts,
            batch("encode", texts, model, "SentencePieceTokenizer", more), [encode(text) for text in texts])
    if processor.bos_id() >= 0:
        compare(f"{name}: Llama2Tokenizer", texts, batch("encode", texts, model, "Llama2Tokenizer"),
                [[processor.bos_id()] + processor.encode(text) for text in texts])


CHARSMAP = None


def main():
    global CHARSMAP
    quick = sys.argv[1] if len(sys.argv) > 1 else ""
    real = real_texts()
    models = {os.path.relpath(path, SHARED): path for pattern in ("spm/*.model", "t5/*.model", "llama2/*.model")
              for path in sorted(glob.glob(os.path.join(SHARED, pattern)))}
    models |= {"golden " + os.path.basename(path): path
               for path in sorted(glob.glob(os.path.join(HERE, "../golden/spm/*.model")))}
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "trained")
        corpus = os.path.join(HERE, "../golden/bpe/corpus.txt")
        sentencepiece.SentencePieceTrainer.train(input=corpus, model_prefix=prefix, vocab_size=300, minloglevel=2,
                                                 hard_vocab_limit=False)
        CHARSMAP = sentencepiece.SentencePieceProcessor(model_file=prefix + ".model").serialized_model_proto()
        CHARSMAP = model_pb2.ModelProto.FromString(CHARSMAP).normalizer_spec.precompiled_charsmap
        if not quick or quick == "random":
            random_models(folder, int(os.environ.get("MODELS", 400)))
    for name, model in models.items():
        if quick in name:
            compare_model(name, model, 10000 if "golden" not in name else 1000, real if "golden" not in name else ())
            ill_formed(name, model)
            compare_megatron(name, model)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
