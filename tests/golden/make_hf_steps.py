#!/usr/bin/env python3
"""Makes tests/golden/hf/steps.jsonl: ids of the package tokenizers for pipelines that are easy to get wrong, and for
random ones of tests/peers/hf_fuzz_peers.py. Ids show every character and where words end.

  steps_model.json   the model of all of them
  steps.jsonl        {"steps": other members of tokenizer.json, "texts": [...], "ids": [[...]]}
"""
import json
import os
import random
import sys

from tokenizers import Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../peers"))
import hf_fuzz_peers as fuzz

SPLIT_TEXTS = ["ab ba  aab", "aaa", "b\u00b2\u00bdb 1\u00b9", " a\n", "\u4e00a\u3042"]


def split(pattern, behavior, invert=False):
    kind = "String" if pattern == "" else "Regex"
    return {"pre_tokenizer": {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}}


def added(content, lstrip, rstrip, normalized=False, number=0):
    return {"id": 1000 + number, "content": content, "single_word": False, "lstrip": lstrip, "rstrip": rstrip, "normalized": normalized,
            "special": False}


def by_hand():
    for behavior in fuzz.BEHAVIORS:
        for pattern in ("", "a*", r"\b", "(?=a)", r"\s*", "^|$"):
            for invert in (False, True):
                yield split(pattern, behavior, invert), SPLIT_TEXTS
    for pattern in (r"\w+", r"\W+", r"\b", r"\B", r"[\w]+", r"[^\w]+"):
        yield split(pattern, "Isolated"), ["x\u00b2y", "\u00bd cup", "1\u00b9\u00b3 \u00bc\u00be", "a\u00b5\u00aa_\u2460\u24d0"]
    first = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}
    space = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    for normalizer in ({"type": "Strip", "strip_left": True, "strip_right": True},
                       {"type": "Replace", "pattern": {"Regex": "^a"}, "content": ""},
                       {"type": "Replace", "pattern": {"String": "ab"}, "content": "c"},
                       {"type": "Replace", "pattern": {"String": " "}, "content": "b"},
                       {"type": "Prepend", "prepend": "ab"}, {"type": "NFD"}, {"type": "Lowercase"}, {"type": "ByteLevel"},
                       {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": True, "lowercase": True}):
        for pre_tokenizer in (first, {"type": "Sequence", "pretokenizers": [space, first]}):
            for tokens in ([], [added("<s>", False, False)]):
                yield ({"normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "added_tokens": tokens},
                       [" a b", "a b", "ab ab", "\u00e9a", "\u4e00 a", "<s>a b", " <s> a"])
    for lstrip in (False, True):
        for rstrip in (False, True):
            for normalized in (False, True):
                for normalizer in (None, {"type": "Strip", "strip_left": True, "strip_right": False}):
                    yield ({"normalizer": normalizer, "added_tokens": [added(" \n", lstrip, rstrip, normalized), added("<s>", rstrip, lstrip, False, 1)]},
                           [" \n", "a \n b", "a \n \n b", "<s> \n <s>", "  \n<s>\n \n  a", " \n  \n"])
    for individual in (False, True):  # numbers that came with Unicode 17.0
        yield {"pre_tokenizer": {"type": "Digits", "individual_digits": individual}}, ["a\U00011de1\U00011de2a", "b \U00016ff41", "12a\u00b2"]
    for pattern in fuzz.REAL_PATTERNS:
        yield split(pattern, "Isolated"), ["DON'T 1234567 it'll\n\n x", "\u4e00\u4e8cA b\u3042 12", "a\u0301 \u00b2.. $1/\n"]


def by_chance():
    for number in range(60):
        generator = random.Random(number)
        tokens, contents = fuzz.random_added(generator, {})
        tokens = [dict(token, id=1000 + i) for i, token in enumerate(tokens)]
        normalizer = fuzz.sequence("normalizers", [fuzz.random_normalizer(generator) for _ in range(generator.choice([0, 1, 2]))])
        pre_tokenizer = fuzz.sequence("pretokenizers", [fuzz.random_pre_tokenizer(generator) for _ in range(generator.choice([1, 2]))])
        steps = {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "added_tokens": tokens}
        if "charsmap" not in json.dumps(steps):
            yield steps, [fuzz.random_text(generator, contents) for _ in range(6)]


def main():
    letters = list(dict.fromkeys(fuzz.ALPHABET + fuzz.byte_alphabet()))
    vocab = {"<unk>": 0, "<unk></w>": 1}
    for character in letters:
        vocab[character], vocab[character + "</w>"] = len(vocab), len(vocab) + 1
    model = dict(fuzz.letters_model(), vocab=vocab)
    with open(os.path.join(HERE, "hf/steps_model.json"), "w", encoding="utf-8") as file:
        json.dump(model, file)
        file.write("\n")
    with open(os.path.join(HERE, "hf/steps.jsonl"), "w", encoding="utf-8") as file:
        for steps, texts in [*by_hand(), *by_chance()]:
            root = fuzz.tokenizer_json(model, steps.get("normalizer"), steps.get("pre_tokenizer"), steps.get("added_tokens", []))
            try:
                tokenizer = Tokenizer.from_str(json.dumps(root))
            except Exception:
                continue
            if fuzz.is_undefined(tokenizer, root):
                continue
            pairs = [(text, fuzz.theirs(tokenizer, text)) for text in texts]
            pairs = [(text, ids) for text, ids in pairs if ids is not None]
            line = {"steps": json.dumps(steps)[1:-1], "texts": [text for text, _ in pairs], "ids": [ids for _, ids in pairs]}
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
