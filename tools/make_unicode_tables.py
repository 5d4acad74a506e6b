#!/usr/bin/env python3
"""Writes src/data/tokenizer/unicode_tables.c: general categories of Unicode 16.0 with the age of each character as far as
the tokenizers need it, the categories that Unicode 8.0 had otherwise, and lower case.

The references use several versions of Unicode. The patterns of tiktoken and of Hugging Face's tokenizers know 16.0, BERT's
cleaning there knows 8.0, normal forms 9.0, lower case the version of the Rust compiler. So this asks the packages
themselves: categories come from tiktoken's regular expressions, lower case and the exceptions from tokenizers; ages come
from Perl, which knows them up to 14.0.

usage: tools/make_unicode_tables.py    (needs tiktoken, tokenizers, perl)
"""
import os
import subprocess

import tiktoken
from tokenizers import normalizers, pre_tokenizers

CATEGORIES = "Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
IN_TURN = 31  # in place of a category: Lu, Ll, Lu, …
LAST = 0x10FFFF
CHARACTERS = [c for c in range(LAST + 1) if not 0xD800 <= c < 0xE000]
HERE = os.path.dirname(os.path.abspath(__file__))


def categories():
    """Number in CATEGORIES of every character, by matching blocks of text with tiktoken."""
    found = [0] * (LAST + 1)
    ranks = {bytes([byte]): byte for byte in range(256)}
    for number, name in enumerate(CATEGORIES[1:], 1):
        encoding = tiktoken.Encoding(name, pat_str=rf"\p{{{name}}}", mergeable_ranks=ranks, special_tokens={})
        for begin in range(0, len(CHARACTERS), 4096):
            text = "".join(map(chr, CHARACTERS[begin:begin + 4096]))
            for character in encoding.decode_bytes(encoding.encode_ordinary(text)).decode():
                found[ord(character)] = number
    return found


def ages():
    """0 for characters of Unicode 8.0 and before, 1 for those of 9.0, 2 for later ones."""
    script = r'use Unicode::UCD "prop_invmap"; my ($l, $m) = prop_invmap("Age"); print "$l->[$_] $m->[$_]\n" for 0..$#$l'
    lines = subprocess.run(["perl", "-e", script], capture_output=True, text=True, check=True).stdout.split("\n")
    rows = [line.split() for line in lines if line] + [[LAST + 1, "Unassigned"]]
    out = [2] * (LAST + 1)
    for (begin, age), (end, _) in zip(rows, rows[1:]):
        if age != "Unassigned" and float(age.replace("V", "").replace("_", ".")) <= 9:
            level = 1 if float(age.replace("V", "").replace("_", ".")) == 9 else 0
            for c in range(int(begin), int(end)):
                out[c] = level
    return out


def runs(values):
    out = []
    for c, value in enumerate(values):
        if not out or out[-1][1] != value:
            out.append((c, value))
    return out


def exceptions(category, age):
    """Characters whose category in Unicode 8.0 differs in a way that BERT's steps show: punctuation, Mn, other."""
    clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    strip = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    split = pre_tokenizers.BertPreTokenizer()
    ascii_punctuation = set(map(ord, "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"))
    out = []
    for c in CHARACTERS:
        name = CATEGORIES[category[c]] if age[c] == 0 else "Cn"
        text = f"a{chr(c)}b"
        punctuation = len(split.pre_tokenize_str(text)) == 3
        mark = strip.normalize_str(text) == "ab"
        other = clean.normalize_str(text) == "ab" and c not in (0, 0xFFFD)
        expected = (name[0] == "P" or c in ascii_punctuation, name == "Mn",
                    name in ("Cc", "Cf", "Co") and c not in (9, 10, 13) and c != 0)
        if (punctuation, mark, other) != expected:
            out.append((c, "Po" if punctuation else "Mn" if mark else "Cf" if other else "Cn"))
    return out


def lower_runs():
    """(first, last, step, difference) of characters whose lower case is one other character."""
    lower = normalizers.Lowercase()
    pairs = []
    for c in CHARACTERS:
        text = lower.normalize_str(chr(c))
        if text != chr(c) and len(text) == 1:
            pairs.append((c, ord(text) - c))
    out = []
    for c, difference in pairs:
        if out and out[-1][3] == difference:
            first, last, step, _ = out[-1]
            if (first == last and c - last <= 2) or (first != last and c - last == step):
                out[-1] = (first, c, c - last, difference)
                continue
        out.append((c, c, 1, difference))
    return out


def rows(table):
    """A number for each run: length << 7 | age << 5 | category. Capital and small letters in turn are one run."""
    lengths = [end - first for (first, _), (end, _) in zip(table, [*table[1:], (LAST + 1, None)])]
    out, at = [], 0
    while at < len(table):
        category, level = table[at][1]
        turns = 0
        while at + turns < len(table) and lengths[at + turns] == 1 and table[at + turns][1] == (1 + turns % 2, level):
            turns += 1
        if turns > 2:
            out.append(turns << 7 | level << 5 | IN_TURN)
        else:
            turns = 1
            out.append(lengths[at] << 7 | level << 5 | category)
        at += turns
    return out


def write_items(file, texts):
    line = "   "
    for text in texts:
        if len(line) + len(text) + 2 > 120:
            file.write(line + "\n")
            line = "   "
        line += f" {text},"
    file.write(line + "\n")


def write_numbers(file, name, numbers, kind="uint32_t"):
    file.write(f"const {kind} {name}[] = {{\n")
    write_items(file, map(str, numbers))
    file.write(f"}};\nconst size_t {name}_count = sizeof {name} / sizeof {name}[0];\n")


def main():
    category, age = categories(), ages()
    table = runs([(category[c], age[c] if category[c] else 0) for c in range(LAST + 1)])
    path = os.path.join(HERE, "../src/data/tokenizer/unicode_tables.c")
    with open(path, "w", encoding="utf-8") as file:
        file.write("// Written by tools/make_unicode_tables.py; unicode_category.c says what the numbers mean.\n"
                   '#include "data/tokenizer/unicode_category.h"\n\n// clang-format off\n'
                   "// Runs of characters, one after another: length << 7 | age << 5 | category.\n")
        write_numbers(file, "unicode_runs", rows(table))
        file.write("\n// Characters of another category in Unicode 8.0: character << 5 | category.\n")
        write_numbers(file, "unicode_8_exceptions",
                      [c << 5 | CATEGORIES.index(name) for c, name in exceptions(category, age)])
        file.write("\n// Lower case: first, last, step, difference.\n")
        write_numbers(file, "unicode_lower_runs", [number for run in lower_runs() for number in run], "int32_t")
        file.write("// clang-format on\n")


if __name__ == "__main__":
    main()
