#!/usr/bin/env python3
"""Text that is barely text: for every kind of tokenizer 10,000 strings with lone surrogates (as JSON escapes), and
10,000 of ill-formed UTF-8, against the reference implementations. A lone surrogate is U+FFFD to all of them. So are
ill-formed bytes to those that work on characters, one for each maximal part as in Python's "replace"; tokenizers of
bytes keep them, and their ids must decode to the same bytes. GPT-2's classic files are also compared on 10,000 strings
of all planes. Needs the packages of hf_peers.py and spm_peers.py; without $BEVATRON_SHARED/data there is little to
compare."""
import json
import os
import random
import subprocess
import sys

import sentencepiece
import tiktoken
from tokenizers import Tokenizer

import hf_peers
from hf_peers import BEVATRON, PATTERNS, Bert, check, known_to_python, present, random_texts, rank_file

COUNT = 10000


def run(flags, form, data):
    done = subprocess.run([BEVATRON, "tokenizer", "encode", form, *flags], input=data, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(flags)}: {done.stderr.decode()}")
    return done.stdout.decode().split("\n")[:-1]


def surrogate_texts():
    """Strings in which a fifth of the characters are halves of surrogate pairs, some next to their other half."""
    generator, texts = random.Random(17), []
    for text in random_texts(COUNT)[:COUNT]:
        characters = [chr(generator.randrange(0xD800, 0xE000)) if generator.random() < 0.2 else c for c in text[:80]]
        texts.append("".join(characters))
    return texts


def as_read(text):
    """What a JSON parser makes of a string with halves in it: complete pairs are joined, single halves are replaced."""
    joined = json.loads(json.dumps(text))
    return "".join("\ufffd" if 0xD800 <= ord(c) < 0xE000 else c for c in joined)


def byte_texts(known=False):
    """Lines of UTF-8 with bytes changed, removed and inserted; with `known`, made of characters that Python knows."""
    generator, texts = random.Random(18), []
    for text in random_texts(COUNT)[:COUNT]:
        text = known_to_python(text) if known else text
        data = bytearray(text.replace("\n", " ").replace("\r", " ")[:80].encode())
        for _ in range(generator.randint(1, 6)):
            at = generator.randrange(len(data) + 1)
            kind = generator.random()
            if kind < 0.3:
                del data[at:at + 1]
            else:
                data[at:at + (kind < 0.6)] = bytes([generator.choice([0x80, 0xBF, 0xC0, 0xC3, 0xE2, 0xED, 0xA0, 0xF0, 0xF4,
                                                                      0xF5, 0xFE, 0xFF, generator.randrange(128, 256)])])
        texts.append(bytes(b if b not in b"\r\n" else 32 for b in data))
    return texts


def difference(texts, actual, expected):
    for text, a, b in zip(texts, actual, expected):
        if a != b:
            return f"{text!r}: ours {a}, theirs {b}"
    return "" if len(actual) == len(expected) else f"{len(actual)} lines of {len(expected)}"


def compare_surrogates(name, flags, reference, known=False):
    texts = surrogate_texts()
    if known:
        texts = [known_to_python(text) for text in texts]
    data = "".join(json.dumps(text) + "\n" for text in texts).encode()
    actual = [json.loads(line) for line in run(flags, "--json-lines", data)]
    wrong = difference(texts, actual, [reference(as_read(text)) for text in texts])
    check(f"{name}: lone surrogates", not wrong, wrong or f"({len(texts)} texts)")


def compare_bytes(name, flags, reference, known=False):
    texts = byte_texts(known)
    if known:
        texts = [text for text in texts if known_to_python(text.decode("utf-8", "replace")) == text.decode("utf-8", "replace")]
    actual = [[int(i) for i in line.split()] for line in run(flags, "--lines", b"".join(text + b"\n" for text in texts))]
    wrong = difference(texts, actual, [reference(text.decode("utf-8", "replace")) for text in texts])
    check(f"{name}: ill-formed bytes", not wrong, wrong or f"({len(texts)} texts)")


def give_bytes_back(name, flags, tokens, strip=False):
    """tokens: the bytes of every id."""
    texts = byte_texts()
    actual = run(flags, "--lines", b"".join(text + b"\n" for text in texts))
    back = [b"".join(tokens[int(i)] for i in line.split()) for line in actual]
    wrong = difference(texts, back, [text.strip() if strip else text for text in texts])
    check(f"{name}: ill-formed bytes come back", not wrong, wrong or f"({len(texts)} texts)")


def gpt2():
    files, ranks = [present(f"gpt2/{name}") for name in ("vocab.json", "merges.txt")], present("gpt2/r50k_base.tiktoken")
    if not (ranks and all(files)):
        return
    flags = ["--vocab-file", files[0], "--merge-file", files[1]]
    encoding = tiktoken.Encoding("r50k", pat_str=PATTERNS["gpt2"], mergeable_ranks=rank_file(ranks),
                                 special_tokens={"<|endoftext|>": 50256})
    hf_peers.compare("GPT-2: random texts of all planes", flags,
                     [known_to_python(text) for text in random_texts(COUNT, ["<|endoftext|>"])], encoding.encode_ordinary)
    compare_surrogates("GPT-2", flags, encoding.encode_ordinary, known=True)
    give_bytes_back("GPT-2", flags, {rank: token for token, rank in rank_file(ranks).items()})


def bert():
    for name, kind, lower in (("uncased", "BertWordPieceLowerCase", True), ("cased", "BertWordPieceCase", False)):
        path = present(f"bert/bert-base-{name}-vocab.txt")
        if path:
            flags, reference = ["--tokenizer-type", kind, "--vocab-file", path], Bert(path, lower)
            compare_surrogates(f"BERT {name}", flags, reference, known=True)
            compare_bytes(f"BERT {name}", flags, reference, known=True)


def sentencepiece_models():
    for name in ("llama2/tokenizer.model", "t5/spiece.model", "spm/albert_spiece.model",
                 "spm/test_sentencepiece_with_bytefallback.model", "spm/test_sentencepiece_bpe_char.model"):
        path = present(name)
        if path:
            processor = sentencepiece.SentencePieceProcessor(model_file=path)
            flags = ["--tokenizer-type", "GPTSentencePieceTokenizer", "--tokenizer-model", path]
            compare_surrogates(name, flags, processor.encode)


def hugging_face():
    for name in ("gpt2/tokenizer.json", "llama2/tokenizer.json", "roberta/tokenizer.json", "t5/tokenizer.json",
                 "bert/uncased_tokenizer.json", "bert/cased_tokenizer.json", "hf_json/gpt_neox.json", "hf_json/falcon.json",
                 "hf_json/mistral03.json"):
        path = present(name)
        if path:
            tokenizer = Tokenizer.from_file(path)
            tokenizer.no_truncation()
            tokenizer.no_padding()
            flags = ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", path]
            encode = lambda text: tokenizer.encode(text).ids
            compare_surrogates(name, flags, encode)
            compare_bytes(name, flags, encode)


def tiktoken_files():
    for name, pattern in (("gpt2/r50k_base.tiktoken", "gpt2"), ("tiktoken/cl100k_base.tiktoken", "cl100k")):
        path = present(name)
        if path and pattern in PATTERNS:
            ranks = rank_file(path)
            encoding = tiktoken.Encoding(name, pat_str=PATTERNS[pattern], mergeable_ranks=ranks, special_tokens={})
            flags = ["--tokenizer-type", "TikTokenizer", "--tokenizer-model", path]
            compare_surrogates(name, flags, encoding.encode_ordinary)
            give_bytes_back(name, flags, {rank: token for token, rank in ranks.items()})


def fairseq():
    path = present("roberta/dict.txt")
    if not path:
        return
    reference = hf_peers.Dictionary(open(path, encoding="utf-8"))
    compare_surrogates("words of fairseq", ["--tokenizer-type", "FairseqTokenizer", "--tokenizer-model", path], reference.words)
    ranks = rank_file(present("gpt2/r50k_base.tiktoken"))
    bpe = tiktoken.Encoding("r50k", pat_str=PATTERNS["gpt2"], mergeable_ranks=ranks, special_tokens={})
    compare_surrogates("RoBERTa's dictionary", [
        "--tokenizer-type", "FairseqTokenizer", "--tokenizer-model", path, "--vocab-file", present("gpt2/vocab.json"),
        "--merge-file", present("gpt2/merges.txt")],
                       lambda text: [reference.index.get(str(i), 3) for i in bpe.encode_ordinary(text.strip())])


def main():
    sections = {"gpt2": gpt2, "bert": bert, "sentencepiece": sentencepiece_models, "json": hugging_face,
                "tiktoken": tiktoken_files, "fairseq": fairseq}
    for name in sys.argv[1:] or sections:
        sections[name]()
    sys.exit(hf_peers.failures > 0)


if __name__ == "__main__":
    main()
