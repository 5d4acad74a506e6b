#!/usr/bin/env python3
"""Makes tests/golden/tiktoken from the small tokenizer of tests/golden/bpe: the same tokens as a rank file and as
Megatron's JSON list, and the ids of the package tiktoken with each known pattern. Needs tiktoken.

  small.tiktoken  rank file, 598 tokens (one rank left out, as in p50k)
  megatron.json   the first 400 of them in Megatron's format
  ids.jsonl       {"text", one member of ids per pattern}
  megatron.jsonl  {"text", "v1": ordinary text, "v2": special tokens found}, 20 special tokens first
"""
import base64
import json
import os
import sys

import tiktoken

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../peers"))
import hf_peers  # noqa: E402

FOLDER = os.path.join(HERE, "tiktoken")
TEXTS = ["", " ", "  ", "a\n  ", "a \n \n", "a \n \n b", "\n\n\nx", "\r\n\r\nx", " \t x", "x  ", "Hello world", "HELLOworld HeLLo",
         "it's IT'S It'S we'Ll 'Tis 'stre", "don't\u2019s", "'\u017f x'\u017f", "12 horses 1234567 \u00bd\u2167\u0663\u0664\u0665\u0666",
         "3.14 -5 +6", "a.b/c//d/\n/e", "path/to/file.txt\n\n", "!!!\n\n???\r\n", "...word", " ...word", "\u2026 word", "\u00a0word",
         "\u3000\u3000word", "Gr\u00fc\u00dfe e\u0301e\u0301 \u0301a \u0301\u0301ABC \u0301ABc", "\u01c5\u01c6\u01c4 \u02b0A\u02b0a",
         "\u0928\u092e\u0938\u094d\u0924\u0947", "\u78e8\u574a\u4e3b\u7684\u5973\u513f\u6570\u4e86\u6570", "ABC\u4e00DEF \u4e00ABC \u4e00abc",
         "\ud55c\uad6d\uc5b4 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\U0001f600\U0001f468\u200d\U0001f469", "\u0085\u2028x", "\x1c\x1dx",
         "<|endoftext|>", "</s> <s>x<mask>", "a" * 50, "a" * 200, "ab" * 60, " " * 70 + "x", "\n" * 70, "aaaaaaaab" * 9,
         "The miller's daughter counted the sacks, and there were forty-two of them."]


def main():
    os.makedirs(FOLDER, exist_ok=True)
    merges = open(os.path.join(HERE, "bpe/merges.txt"), encoding="utf-8").read().split("\n")[1:-1]
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    character = {byte: chr(byte) for byte in visible}
    character |= {byte: chr(256 + i) for i, byte in enumerate(b for b in range(256) if b not in visible)}
    byte_of = {c: byte for byte, c in character.items()}
    tokens = [bytes([byte]) for byte in range(256)]
    for merge in merges:
        token = bytes(byte_of[c] for c in merge.replace(" ", ""))
        if token not in tokens:
            tokens.append(token)
    ranks = {token: i + (i >= 500) for i, token in enumerate(tokens)}
    with open(os.path.join(FOLDER, "small.tiktoken"), "w") as file:
        file.writelines(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items())
    with open(os.path.join(FOLDER, "ids.jsonl"), "w") as file:
        encodings = {name: tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
                     for name, pattern in hf_peers.PATTERNS.items()}
        for text in TEXTS:
            file.write(json.dumps({"text": text} | {n: e.encode_ordinary(text) for n, e in encodings.items()}) + "\n")
    with open(os.path.join(FOLDER, "megatron.json"), "w") as file:
        json.dump([{"rank": i, "token_bytes": base64.b64encode(token).decode(), "token_str": token.decode("utf-8", "replace")}
                   for i, token in enumerate(tokens[:400])], file, indent=0)
    named = ["<unk>", "<s>", "</s>", "<mask>", "<pad>", "<cls>", "<sep>"]
    inner = {token: i + 20 for i, token in enumerate(tokens[:380])}
    classic = tiktoken.Encoding("v1", pat_str=hf_peers.PATTERNS["v1"], mergeable_ranks=inner, special_tokens={})
    specials = {name: i for i, name in enumerate(named + [f"<SPECIAL_{i}>" for i in range(7, 20)])}
    today = tiktoken.Encoding("v2", pat_str=hf_peers.PATTERNS["v2"], mergeable_ranks=inner, special_tokens=specials)
    with open(os.path.join(FOLDER, "megatron.jsonl"), "w") as file:
        for text in TEXTS + ["<SPECIAL_7><SPECIAL_19><SPECIAL_2>"]:
            file.write(json.dumps({"text": text, "v1": classic.encode_ordinary(text),
                                   "v2": today.encode(text, allowed_special="all")}) + "\n")


if __name__ == "__main__":
    main()
