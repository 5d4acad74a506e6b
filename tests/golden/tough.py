"""Strings on which tokenizers differ: runs of spaces, control characters, emoji, marks in and out of order, many
scripts, code, long words, text that reads like bytes or special tokens, normal forms."""
import random
import unicodedata

WORDS = "the of and Hello world tokenizer don't I'M we'll naïve façade Straße ΟΔΟΣ İstanbul ﬁne №5 ½ 3.14159 1e-9 0xFF".split()
CODE = ["int main(void) {\n\treturn a[0] == b->c;\n}\n", "def f(x):\n    if x != 0:\n        yield x ** 2\n", "<div class=\"a\">&nbsp;</div>",
        "SELECT * FROM t WHERE a >= 1;", "#include <stdio.h>\r\n", "{\"k\": [1, null]}", "x += 1  # done", "/* ---- */",
        "http://a.b/c?d=e&f=g#h", "C:\\dir\\file.txt", "$\\frac{a}{b}$"]
EMOJI = ["😀", "👩‍👩‍👧‍👦", "👍🏽", "🇩🇪🇫🇷", "1️⃣", "❤️", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "☺", "👨🏿‍🚀"]
SCRIPTS = ["你好，世界", "東京都", "こんにちは", "ｶﾞｷﾞ", "한국어", "مرحبا بالعالم", "שָׁלוֹם", "नमस्ते", "ไทยแลนด์ น้ำ", "Привет", "Ελλάδας", "Việt Nam", "ქართული",
           "አማርኛ", "ﻻ", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "𠮷野家", "ＡＢＣ１２３", "ⅨⅫ", "①②", "㍿"]
SPACES = [" ", "  ", "   ", " " * 17, "\t", "\t\t", "\n", "\n\n\n", "\r\n", " \n ", "\u00a0", "\u3000", "\u2003", "\u200b", "\u202f", "\u2028", "\x0b",
          "\x0c", "\x85", "\ufeff", "▁", "▁▁"]
CONTROLS = [chr(c) for c in [*range(32), 127, 0x80, 0x9F, 0xAD, 0x200E, 0x2060, 0xFFFD, 0xE000]]
MARKS = ["\u0301", "\u0308", "\u0323", "\u0302", "\u20dd", "\u3099", "\u064e", "\u05b8", "\u093c", "\u0e48", "\ufe0f", "\u200d"]
LITERAL = ["<0x41>", "<0x0A>", "##ing", "[x]", "<|x|>", "<extra", "</", "_"]
FIRST = ["", " ", "  ", "\n", "a", " a", "a ", "a  b", "\t", "▁", "\u0301", "\r\n", "  leading", "trailing  "]
RANGES = [(0x20, 0x7F), (0xA0, 0x250), (0x250, 0x3000), (0x3000, 0xA000), (0xA000, 0x10000), (0x10000, 0x20000), (0x20000, 0x32000)]


def any_character(r):
    while True:
        c = r.randrange(*r.choice(RANGES))
        if not 0xD800 <= c < 0xE000:
            return chr(c)


def accented(r):
    return "".join(r.choice("aeiouncsAOU") + "".join(r.choice(MARKS[:4]) for _ in range(r.choice((1, 1, 1, 2)))) for _ in range(r.randrange(1, 4)))


def piece(r, specials):
    kinds = [(28, lambda: r.choice(WORDS) + r.choice(SPACES[:1] * 6 + SPACES)), (8, lambda: r.choice(SPACES)), (8, lambda: r.choice(CODE)),
             (8, lambda: r.choice(SCRIPTS)), (6, lambda: r.choice(EMOJI)), (5, lambda: accented(r)),
             (3, lambda: any_character(r) + r.choice(MARKS)), (4, lambda: r.choice(CONTROLS)),
             (8, lambda: "".join(any_character(r) for _ in range(r.randrange(1, 6)))), (4, lambda: str(r.randrange(10 ** r.randrange(1, 15)))),
             (4, lambda: r.choice("abcxyz-=._*#~!") * r.randrange(2, 40)),
             (2, lambda: "".join(r.choice("abcdefghijklmnopqrstuvwxyzABC") for _ in range(r.choice((5, 30, 250))))),
             (3, lambda: r.choice(LITERAL)), (6, lambda: r.choice(".,;:!?'\"()[]{}<>/\\|@#$%^&*+=~`-_"))]
    if specials:
        kinds.append((3, lambda: r.choice(specials)))
    return r.choices([make for _, make in kinds], [weight for weight, _ in kinds])[0]()


def strings(count, seed, specials=()):
    """`count` strings, always the same for a seed. Some contain texts of special tokens."""
    r = random.Random(seed)
    out = FIRST[:count]
    while len(out) < count:
        text = "".join(piece(r, specials) for _ in range(r.randrange(1, 9)))
        form = r.choices(["", "NFD", "NFC", "NFKC", "upper"], [86, 5, 5, 2, 2])[0]
        out.append(text.upper() if form == "upper" else unicodedata.normalize(form, text) if form else text)
    return out
