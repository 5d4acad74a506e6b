#!/usr/bin/env python3
"""Splitting by the patterns of many tokenizers: GPT-2's vocabulary with other pre-tokenizers, beside `tokenizers`. First the
ids of tough strings must be equal: random characters of all kinds, marks, numbers, contractions,
line ends. Then MB of text per second of processor time of one thread, cold (the first pass) and warm (the best of more), each
pattern in turn with GPT-2's, whose speed the last column compares with.

Needs what bench_tokenizer_peers.py needs. --rounds N repeats the speeds, --strings N is the number of strings."""
import argparse
import json
import os
import random
import tempfile

import bench_tokenizer_peers as bench

CONTRACTIONS = "'s|'t|'re|'ve|'m|'ll|'d"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
CAPITALS, SMALLS = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"


def words_by_case(head, but=""):
    capitals, smalls = f"[{CAPITALS}{but}]", f"[{SMALLS}{but}]"
    return (rf"{head}[^\r\n\p{{L}}\p{{N}}]?{capitals}*{smalls}+(?i:{CONTRACTIONS})?|"
            rf"[^\r\n\p{{L}}\p{{N}}]?{capitals}+{smalls}*(?i:{CONTRACTIONS})?|\p{{N}}{{1,3}}|")


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def byte_level(use_regex):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


LLAMA3 = rf"(?i:{CONTRACTIONS})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{SPACES}"
PATTERNS = [
    ("GPT-2", [byte_level(True)]),
    ("Llama 3, GLM 4, cl100k", [split(LLAMA3), byte_level(False)]),
    ("Qwen 2 and 3", [split(LLAMA3.replace("{1,3}", "")), byte_level(False)]),
    ("Qwen 3.5", [split(rf"(?i:{CONTRACTIONS})|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}|"
                        rf" ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{SPACES}"), byte_level(False)]),
    ("o200k", [split(words_by_case("") + rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{SPACES}"), byte_level(False)]),
    ("Kimi K2", [split(words_by_case(r"[\p{Han}]+|", r"&&[^\p{Han}]") + rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{SPACES}"),
                 byte_level(False)]),
    ("DeepSeek V3", [split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"),
                     split(r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
                           rf" ?[\p{{P}}\p{{S}}]+[\r\n]*|{SPACES}"), byte_level(False)]),
    ("StarCoder", [{"type": "Digits", "individual_digits": True}, byte_level(True)]),
    ("Bloom", [split(r" ?[^(\s|[.,!?…。，、।۔،])]+"), byte_level(False)]),
]
KINDS = ["a", "b", "the", "A", "HTML", "camelCase", "'s", "'S", "'t", "'ll", "'LL", "'re", "'vE", "'d", "'m", "'", "'x", "ſ", "'ſ", " ", " ", " ",
         "  ", "   ", "\t", "\n", "\n", "\r\n", "\r", "\n\n", "\v", "\f", "1", "12", "123", "1234567", ".", "!", "-", "...", "/", "//", '"', "(",
         "é", "É", "’", "“", "\u00a0", "\u3000", "\u2003", "\u0085", "\u200b", "\u200d", "中", "文字", "カ", "・", "ひ", "д", "Д", "½", "٣", "Ⅷ",
         "😀", "👩\u200d🚀", "𝐀", "e\u0301", "\u0301", "क्षि", "ǅ", "ʰ", "ß", "İ", "\u0001", "\u0000", "\ufeff", "\U000e0001", "|", "_", "[", ")"]


def tough_strings(count):
    """Each ends where a document of the bench ends, so none holds a NUL."""
    chance = random.Random(20261119)
    strings = []
    for _ in range(count):
        parts = []
        for _ in range(chance.randrange(1, 60)):
            kind = chance.random()
            if kind < 0.9:
                parts.append(chance.choice(KINDS))
            else:
                code = chance.choice([chance.randrange(0x80), chance.randrange(0x3000), chance.randrange(0x11000), chance.randrange(0x110000)])
                parts.append(chr(code) if not 0xD800 <= code < 0xE000 else "?")
        strings.append("".join(parts).replace("\0", ""))
    return strings


def write_tokenizer(steps, folder, name):
    with open(bench.shared("gpt2/tokenizer.json"), encoding="utf-8") as file:
        tokenizer = json.load(file)
    tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(tokenizer, file)
    return path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", default=os.path.join(bench.SHARED, "text/books_en_train.jsonl.xz"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--strings", type=int, default=10000)
    parser.add_argument("--documents", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=2, help="of a peer's passes")
    options = parser.parse_args()
    bench.PEER_SECONDS = options.seconds
    texts, strings = bench.read_documents(options.text)[:options.documents], tough_strings(options.strings)
    with tempfile.TemporaryDirectory() as folder:
        documents, tough = bench.write_documents(texts, folder, "all"), bench.write_documents(strings, folder, "tough")
        rows = [(name, "HuggingFaceTokenizer", [write_tokenizer(steps, folder, f"{i}.json")]) for i, (name, steps) in enumerate(PATTERNS)]
        print(f"{os.path.getsize(documents) / 1e6:.1f} MB; ids of {len(strings)} tough strings")
        best = {}
        for _ in range(options.rounds):
            for row in rows:
                speeds = bench.ours(documents, row)
                before = best.get(row[0], speeds)
                best[row[0]] = {key: max(before[key], speeds[key]) for key in ("cold", "warm")}
        first = best[rows[0][0]]
        for row in rows:
            ours, peers = best[row[0]], []
            try:
                encode = bench.tokenizers(row[2][0])
                cold, warm, _, _ = bench.measure_peer(encode, texts, False)
                ids = [bench.numpy.asarray(encode(text), dtype=bench.numpy.uint64) for text in strings]
                part = bench.ours(tough, row)
                same = bench.checksum(ids) == (part["ids"], part["checksum"])
                peers.append(f"tokenizers {cold:5.2f}, {warm:5.2f} MB/s, ids {'equal' if same else 'DIFFER'}")
            except ImportError:
                peers.append("tokenizers is not installed")
            print(f"{row[0]:<24} {ours['cold']:6.1f} cold, {ours['warm']:6.1f} warm MB/s   {ours['cold'] / first['cold']:4.2f}, "
                  f"{ours['warm'] / first['warm']:4.2f} of GPT-2's   {'   '.join(peers)}", flush=True)


if __name__ == "__main__":
    main()
