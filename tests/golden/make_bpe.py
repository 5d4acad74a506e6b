#!/usr/bin/env python3
"""Makes tests/golden/bpe: a small byte-level BPE tokenizer trained by Hugging Face's `tokenizers`, and the
results of common libraries for tricky texts. Needs the packages tokenizers and regex.

  corpus.txt            the training text, written here
  vocab.json merges.txt the trained tokenizer in GPT-2's order of ids (bytes, merges, <|endoftext|>)
  pieces.jsonl          {"text", "pieces"}: GPT-2's pattern by the module `regex`
  ids.jsonl             {"text", "ids"}: by `tokenizers`, with the files above
  classes.txt           code point and class (L, N, S, O) of characters that have not changed since Unicode 3.2
"""
import json
import os
import random
import unicodedata

import regex
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bpe")
PATTERN = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
VOCAB_SIZE = 600

SENTENCES = """The miller's daughter counted the sacks, and there were forty-two of them.
It wasn't the river that had risen; it was the bridge that had sunk, they'd say.
We'll go at 7:30, or 19h05, if the 12 horses aren't tired.
    four blanks before this line, and two  inside it
\tA tab began this one.
Grüße aus Köln: die Straße ist überschwemmt, 100 % sicher.
Où est passée l'île? Là-bas, près du phare, à 3,5 km.
Мельник считал мешки: сорок два мешка муки.
磨坊主的女儿数了数麻袋，一共四十二袋。
水車小屋の娘は袋を数えました。
वह नदी के किनारे चल रही थी।
The price rose from €1,000.50 to €2,000.75 … then fell ½ of that.
if (x >= 10 && y != 0) { return x / y; } // code
aaaaaaaaaaaaaaaa bbbbbbbb abababab
"""


def corpus():
    lines = SENTENCES.split("\n")[:-1]
    generator = random.Random(5)
    out = []
    for _ in range(200):
        line = generator.choice(lines)
        out.append(line)
        if generator.random() < 0.1:
            out.append("")
    return "\n".join(out) + "\n"


def train(text):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        min_frequency=2,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    # Lines with their ends, as the library reads files.
    tokenizer.train_from_iterator([line + "\n" for line in text.split("\n")[:-1]], trainer)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in merges]


TRAPS = [
    "",
    " ",
    "  ",
    "a",
    "Hello world",
    "it's it'S IT'S 'street 're've'll'm'd't's",
    "DON'T don't can't've",
    "we\u2019re not ASCII\u2019s apostrophe",
    " 's  's\n's",
    "'", "''", "'''s", "s's",
    "a  b   c    d",
    "a\n\nb\n\n\nc",
    "a \n b\t\tc \t d",
    "trailing blanks   ",
    "trailing newline\n",
    "trailing blank and newline \n",
    "\n\n  \n",
    "x\u00a0y\u3000z\u2003w",
    "x \u00a0y \u3000 z",
    "\u0085\u2028\u2029\u202f\u205f\u1680",
    "\u001c\u001d\u001e\u001f are no blanks, nor \u200b \u180e \ufeff",
    "12345 6.7e-8 1,000 3\u00bd \u2167\u00b2\u0663",
    "abc123def 4x4",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u092e\u0947\u0902",
    "e\u0301cole \u00e9cole",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01",
    "\ud55c\uad6d\uc5b4 \u3072\u3089\u304c\u306a\u30ab\u30bf\u30ab\u30ca",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u05e2\u05d1\u05e8\u05d9\u05ea",
    "\U0001f600\U0001f469\u200d\U0001f4bb\U0001f1e9\U0001f1ea ok",
    "nul \u0000 inside \u0000\u0000",
    "\u0001\u0002\u007f\u0080\u009f",
    "<|endoftext|> is ordinary <|endoftext|>",
    "#version: 0.2\n# comment",
    "http://example.org/a?b=c&d=%20#e",
    "{\"json\": [1, 2.5, null]}\r\n\ttabs\r\n",
    "_under_score-dash--dash---",
    "a" * 63, "a" * 64, "a" * 65, "a" * 66, "ab" * 50,
    "abababababababababababababababababababababababababababababababababababab",
    "\u00e9" * 40,
    " " * 70, " " * 70 + "x", "\n" * 70 + "x",
    "0" * 100,
    "." * 100 + "a",
    "\ufffd\ufffe\uffff\U0010ffff",
    "\u0378 unassigned",
]


def random_texts(count):
    generator = random.Random(11)
    alphabet = (
        list("abcdestrvml'ABT .,;0129\n\t ") + ["  ", "'s", "'ll", "\u00e9", "\u4e16", "\u0301", "\u00bd", "\u3000",
        "\u2019", "\U0001f600", "the ", " and", "\u0439", "\u00a0", "-", "\r\n"]
    )
    return ["".join(generator.choice(alphabet) for _ in range(generator.randint(1, 60))) for _ in range(count)]


def classes():
    def of(character):
        category = unicodedata.category(character)
        if regex.fullmatch(r"\s", character):
            return "S"
        return category[0] if category[0] in "LN" else "O"

    generator = random.Random(3)
    stable = [
        c for c in range(0x110000)
        if not 0xD800 <= c < 0xE000
        and unicodedata.ucd_3_2_0.category(chr(c)) == unicodedata.category(chr(c)) != "Cn"
    ]
    picked = set(generator.sample(stable, 1500)) | set(range(0x180)) | set(range(0x2000, 0x2070)) | {0x3000, 0x1680}
    return [f"{c:04X} {of(chr(c))}\n" for c in sorted(picked & set(stable))]


def write(name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


def main():
    text = corpus()
    merges = train(text)
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(symbols + [a + b for a, b in merges] + ["<|endoftext|>"])}
    write("corpus.txt", text)
    write("vocab.json", json.dumps(vocabulary, ensure_ascii=True) + "\n")
    write("merges.txt", "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))

    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    texts = TRAPS + random_texts(150)
    write("pieces.jsonl", "".join(json.dumps({"text": t, "pieces": regex.findall(PATTERN, t)}) + "\n" for t in texts))
    write("ids.jsonl", "".join(json.dumps({"text": t, "ids": tokenizer.encode(t).ids}) + "\n" for t in texts))
    write("classes.txt", "".join(classes()))


if __name__ == "__main__":
    main()
