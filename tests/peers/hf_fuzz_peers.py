#!/usr/bin/env python3
"""Compares random tokenizer.json files with the package tokenizers, id for id: classes of characters one by one, random
patterns, random pipelines of normalizers, added tokens, pre-tokenizers and models. Files that the package refuses or
crashes on are skipped; a file that we refuse is counted by what the error names, and printed. $BEVATRON is the program,
$ROUNDS how many files of each kind (default 300), $SEED the first seed. Arguments choose sections: classes, real,
patterns, pipelines."""
import collections
import json
import os
import random
import resource
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer

BEVATRON = os.environ.get("BEVATRON", "build/release/bevatron")
ROUNDS = int(os.environ.get("ROUNDS", "300"))
SEED = int(os.environ.get("SEED", "1"))
failures = 0

# Characters that classes, cases and normal forms treat specially.
ALPHABET = list("abcdefgstiklABKST019 _-.,!?$+<=>^`|~'\"/\\[]{}()#&\n\r\t\f\x00\x85\u00a0\u00ad\u00b2\u00b9\u00bd\u00aa\u00e9\u00c9"
                "\u00df\u1e9e\u00b5\u017f\u0130\u0131\u0149\u01c4\u01c5\u01c6\u0301\u0308\u0323\u03a3\u03c3\u03c2\u0391\u03b1"
                "\u0416\u0436\u05d0\u0660\u0967\u0939\u0940\u0e01\u0e33\u1100\u1161\uac00\u2003\u200b\u200c\u200d\u2028\u2029\u2019"
                "\u2026\u20ac\u2167\u2160\u2460\u24d0\u212a\u212b\u2581\u3000\u3001\u3042\u30ab\u4e00\u9fa5\ufb01\ufb06\ufeff\uff21"
                "\uff11\ufffd\U0001f600\U0001f468\U0001f3fd\U0001f1e9\U00020000\U0001d400\ue000\u0378")


def check(what, condition, detail=""):
    global failures
    print(f"  {'ok  ' if condition else 'FAIL'} {what} {detail}", flush=True)
    failures += not condition


def ours(path, texts):
    """Ids of every text, or the error."""
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    done = subprocess.run([BEVATRON, "tokenizer", "encode", "--json-lines", "--tokenizer-type", "HuggingFaceTokenizer",
                           "--tokenizer-model", path], input=lines.encode(), capture_output=True)
    if done.returncode != 0:
        return done.stderr.decode().strip() or f"exit code {done.returncode}"
    return [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]


def theirs(tokenizer, text):
    """Ids; None if the package panics."""
    try:
        return tokenizer.encode(text).ids
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return None


def random_text(generator, parts=()):
    out = []
    for _ in range(generator.randint(0, 14)):
        kind = generator.random()
        if parts and kind < 0.3:
            out.append(generator.choice(parts))
        elif kind < 0.6:
            out.append(generator.choice(ALPHABET))
        elif kind < 0.8:
            out.append(generator.choice("aAsS1 \n") * generator.randint(1, 4))
        else:
            out.append(generator.choice((" ", "ab", "1a", "\r\n", "  ", "st", "ss", "\u4e00\u3042", "a\u0301", "\u2581")))
    return "".join(out)


def letters_model():
    """Every character by itself, the last of a word separately: ids show where words end."""
    vocab = {"<unk>": 0, "<unk></w>": 1}
    for character in ALPHABET:
        vocab.setdefault(character, len(vocab))
        vocab.setdefault(character + "</w>", len(vocab))
    return {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": "</w>",
            "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": []}


def tokenizer_json(model, normalizer=None, pre_tokenizer=None, added=()):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": list(added), "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer, "post_processor": None, "decoder": None, "model": model}


def is_undefined(tokenizer, root):
    """The package loops forever if one of several added tokens is empty after normalization, and takes any of those
    that are then equal."""
    contents = [token["content"] for token in root["added_tokens"] if token["normalized"]]
    if len(contents) > 1 and tokenizer.normalizer:
        contents = [tokenizer.normalizer.normalize_str(content) for content in contents]
    return len(contents) > 1 and (not all(contents) or len(set(contents)) < len(contents))


class Trial:
    """Runs files against texts and keeps count."""

    def __init__(self, what):
        self.what, self.files, self.texts, self.wrong, self.panics = what, 0, 0, 0, 0
        self.refused = collections.Counter()
        self.folder = tempfile.TemporaryDirectory()

    def run(self, root, texts, label):
        path = os.path.join(self.folder.name, "tokenizer.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(root, file)
        try:
            tokenizer = Tokenizer.from_file(path)
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            return
        if is_undefined(tokenizer, root):
            return
        expected = [theirs(tokenizer, text) for text in texts]
        texts = [text for text, ids in zip(texts, expected) if ids is not None]
        self.panics += len(expected) - len(texts)
        expected = [ids for ids in expected if ids is not None]
        actual = ours(path, texts)
        self.files += 1
        if isinstance(actual, str):
            reason = actual.split(" has ", 1)[-1].split(" at byte ")[0] if " at byte " in actual else actual[-160:]
            self.refused[reason] += 1
            if actual.startswith("exit code"):
                self.wrong += 1
                print(f"  {actual}: {label}", flush=True)
            return
        self.texts += len(texts)
        different = [i for i in range(len(texts)) if actual[i] != expected[i]]
        if different:
            self.wrong += 1
            if self.wrong <= 12:
                shortest = min(different, key=lambda i: len(texts[i]))
                print(f"  differs: {label}: {texts[shortest][:300]!r}: {actual[shortest][:60]}, expected "
                      f"{expected[shortest][:60]}", flush=True)

    def end(self):
        self.folder.cleanup()
        for reason, count in self.refused.most_common(30):
            print(f"  refused {count} times: {reason}")
        check(self.what, not self.wrong, f"({self.files} files, {self.texts} texts, {sum(self.refused.values())} refused, "
              f"{self.panics} texts that the package cannot encode)" + (f", {self.wrong} files differ" if self.wrong else ""))


# ---- classes ----

CLASSES = [r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"\h", r"\H", r"\N", r"\O", r"[\w]", r"[^\w]", r"[\W]", r"[\s\S]", r"[^\d]",
           r"\b.", r"\B.", r"\p{L}", r"\p{M}", r"\p{N}", r"\p{P}", r"\p{S}", r"\p{Z}", r"\p{C}", r"\p{Cc}", r"\p{Cf}", r"\p{Cn}",
           r"\p{Lu}", r"\p{Ll}", r"\p{Lt}", r"\p{Lm}", r"\p{Lo}", r"\p{Nd}", r"\p{Zs}", r"\P{L}", r"\p{^L}", r"\p{Word}", r"[\p{Word}]",
           r"\p{Alpha}", r"\p{Alnum}", r"\p{Lower}", r"\p{Upper}", r"\p{Graph}", r"\p{Print}", r"\p{Punct}", r"\p{Space}", r"\p{Blank}",
           r"\p{Cntrl}", r"\p{XDigit}", r"\p{Han}", r"\p{Hiragana}", r"\p{Katakana}", r"\p{Hangul}", r"\p{Latin}", r"\p{Greek}",
           r"\p{Cyrillic}", r"\p{Arabic}", r"\p{Thai}", r"\p{Devanagari}", r"\p{Common}", r"\p{Inherited}", r"\p{Emoji}",
           r"\p{Extended_Pictographic}", r"\p{Ideographic}", r"\p{Cased}", r"\p{Math}", r"[[:alpha:]]", r"[[:alnum:]]", r"[[:punct:]]",
           r"[[:graph:]]", r"[[:print:]]", r"[[:space:]]", r"[[:upper:]]", r"[[:lower:]]", r"[[:word:]]", r"[[:^alpha:]]",
           r"[\p{L}&&[^\p{Han}]]", r"(?i:[a-z])", r"(?i:[\p{Lu}])", r"(?i:[^\p{Lu}])", r"(?i:k)", r"(?i:\u03c3)"]


def classes():
    """All of Unicode, one character between two spaces at a time; a match is removed from the text."""
    vocab = {"<unk>": 0, "<unk></w>": 1, "x": 2, "x</w>": 3}
    model = dict(letters_model(), vocab=vocab)
    step = 1 if ROUNDS >= 1000 else 7
    characters = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and (c < 0x3400 or c % step == 0 or 0xA000 <= c < 0xAC00 or
                                                                               0xF900 <= c < 0x12000 or 0x1D000 <= c < 0x20000)]
    texts = ["x".join(map(chr, characters[begin:begin + 512])) for begin in range(0, len(characters), 512)]
    trial = Trial("classes, character by character")
    for pattern in CLASSES:
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed", "invert": False}
        trial.run(tokenizer_json(model, pre_tokenizer=split), texts, pattern)
    trial.end()


# ---- patterns ----

def random_member(generator):
    return generator.choice([
        lambda: generator.choice(["a", "b", "s", "1", " ", "_", "\\-", ".", "'", "\u00e9", "\u4e00", "\u2167", "\\]", "\\[", "&", "^",
                                  "\\t", "\\n", "\\x{30ab}", "\\u0436", "\\x41", "|", "(", "\\\\"]),
        lambda: generator.choice(["a-f", "A-Z", "0-9", "\u00c0-\u00ff", "\u4e00-\u9fa5", "\\x{3040}-\\x{30ff}", " -/", "\u0430-\u044f"]),
        lambda: generator.choice([r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"\h", r"\p{L}", r"\p{Lu}", r"\P{N}", r"\p{^P}", r"\p{Han}",
                                  r"\p{M}", "[:alpha:]", "[:^punct:]", "[:space:]", "[:upper:]"]),
    ])()


def random_set(generator, depth=0):
    members = "".join(random_member(generator) for _ in range(generator.randint(1, 4)))
    if depth < 2 and generator.random() < 0.25:
        members += random_set(generator, depth + 1)
    if depth < 2 and generator.random() < 0.25:
        members += "&&" + (random_set(generator, depth + 1) if generator.random() < 0.6 else random_member(generator))
    return "[" + ("^" if generator.random() < 0.3 else "") + members + "]"


def random_pattern(generator, depth=0):
    kind = generator.random()
    if depth > 3 or kind < 0.45:
        return generator.choice([
            lambda: generator.choice(["a", "b", "s", "st", "1", " ", "\\.", "'", "\u00e9", "\u4e00", "\u03c3", "k", "\\n", "\\r", "-", "_"]),
            lambda: random_set(generator),
            lambda: generator.choice([r"\w", r"\W", r"\d", r"\s", r"\S", r"\h", r"\H", r"\R", r"\N", r"\O", ".", r"\p{L}", r"\p{N}", r"\P{L}",
                                      r"\p{Han}", r"\p{Z}", r"\p{Cc}", r"\p{Punct}", r"\p{Emoji}", r"\p{^Lu}", r"\p{Greek}", r"\p{Common}"]),
        ])()
    if kind < 0.5:
        return generator.choice([r"\b", r"\B", "^", "$", r"\A", r"\z", r"\Z", r"\G", r"\K"])
    if kind < 0.72:
        inner = random_pattern(generator, depth + 1)
        single = len(inner) == 1 or (inner.startswith("\\") and inner[1] in "wWdsShHRNOpP" and len(inner) < 12) or inner.startswith("[")
        inner = inner if single else f"(?:{inner})"
        return inner + generator.choice(["*", "+", "?", "*?", "+?", "??", "*+", "++", "?+", "{2}", "{1,3}", "{2,}", "{,2}", "{1,2}?", "{2}?", "{1,2}+"])
    if kind < 0.8:
        return random_pattern(generator, depth + 1) + random_pattern(generator, depth + 1)
    if kind < 0.88:
        return "|".join(random_pattern(generator, depth + 1) for _ in range(generator.randint(2, 4)))
    return generator.choice(["(?:%s)", "(%s)", "(?<n>%s)", "(?i:%s)", "(?i)%s", "(?m:%s)", "(?x: %s )", "(?>%s)", "(?=%s)", "(?!%s)", "(?<=%s)",
                             "(?<!%s)", "(?-i:%s)", "(?#note)%s", "(?i-m:%s)"]) % random_pattern(generator, depth + 1)


BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
UPPER_NOT_HAN, LOWER_NOT_HAN = UPPER[:-1] + r"&&[^\p{Han}]]", LOWER[:-1] + r"&&[^\p{Han}]]"
ENDING, TAIL = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"\s*[\r\n]+|\s+(?!\S)|\s+"
# Splits of common tokenizer.json files.
REAL_PATTERNS = [
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{ENDING}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{ENDING}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{TAIL}",
    rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?{UPPER_NOT_HAN}*{LOWER_NOT_HAN}+{ENDING}|[^\r\n\p{{L}}\p{{N}}]?{UPPER_NOT_HAN}+{LOWER_NOT_HAN}*{ENDING}|"
    rf"\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{TAIL}",
    r"\d{1,3}(?=(?:\d{3})*\b)", r"(?=(\d{3})+(?!\d))", r"[0-9][0-9][0-9]", r"\p{N}{1,3}", r"\p{Nd}{1,510}(?=(?>\p{Nd}{3})*(?:\P{Nd}|$))", r"\G\p{Nd}{3}",
    r"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", r"\s?\p{L}+", r"\s?\p{P}+", r"\s+$", "[\r\n]",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|" + TAIL,
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s", " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + TAIL,
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}",
    r"([\t\n]|    |  )", r"<sentinel:[0-9]+>", r"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"\w+|[^\w\s]+", r"\W", r"\s+|[^\s\p{L}\p{M}]|\p{L}[\p{L}\p{M}]*",
    r"[^\r\n\p{L}\p{N}]?(\p{L}\p{M}*)+|\p{N}{1,3}| ?[^\s\p{L}\p{N}\p{M}]+[\r\n]*|" + TAIL, r"(?<=\p{L})(?=\p{N})|(?<=\p{N})(?=\p{L})", r"[[:punct:]]|[[:alpha:]]+",
]


def real():
    """Patterns of common files, with every behavior."""
    trial = Trial("patterns of files in use")
    model = letters_model()
    for number, pattern in enumerate(REAL_PATTERNS):
        generator = random.Random(SEED * 31 + number)
        texts = [random_text(generator, ["'ll", "'S", "1234567", "12345", "\u4e00\u4e8c", "DON'T", " a", "\n\n", "...", "IMGIMGABCZ"]) for _ in range(1000)]
        for behavior in BEHAVIORS:
            split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": number % 2 == 1}
            trial.run(tokenizer_json(model, pre_tokenizer=split), texts, f"{pattern!r} {behavior}")
    trial.end()


def patterns():
    trial = Trial("random patterns")
    model = letters_model()
    for number in range(ROUNDS):
        generator = random.Random(SEED * 1000003 + number)
        pattern = random_pattern(generator)
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": generator.choice(BEHAVIORS), "invert": generator.random() < 0.3}
        texts = [random_text(generator) for _ in range(60)]
        trial.run(tokenizer_json(model, pre_tokenizer=split), texts, f"seed {number}: {pattern!r} {split['behavior']} {split['invert']}")
    trial.end()


# ---- pipelines ----

SHARED = os.path.join(os.environ.get("BEVATRON_SHARED", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../shared")), "data")


def charsmap():
    """T5's, if available."""
    path = os.path.join(SHARED, "t5/tokenizer.json")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)["normalizer"]["precompiled_charsmap"]


CHARSMAP = charsmap()


def random_find(generator):
    if generator.random() < 0.5:
        return {"String": generator.choice([" ", "a", "ab", "  ", "s", "\u2581", "1", "", ".", "\u4e00", "a\u0301"])}
    if generator.random() < 0.5:
        return {"Regex": random_pattern(generator, 2)}
    return {"Regex": generator.choice([r"\\s+", r"^\\s+", r"\\w", "^.", "^", "$", "", r"\\b", "a*", r"\\p{L}+", r"\\d{1,3}", r"\\s+(?!\\S)|\\s+", "(?=a)"])}


def random_normalizer(generator):
    flag = lambda: generator.random() < 0.5
    kinds = [
        lambda: {"type": "Strip", "strip_left": flag(), "strip_right": flag()},
        lambda: {"type": generator.choice(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel"])},
        lambda: {"type": "BertNormalizer", "clean_text": flag(), "handle_chinese_chars": flag(),
                 "strip_accents": generator.choice([True, False, None]), "lowercase": flag()},
        lambda: {"type": "Replace", "pattern": random_find(generator), "content": generator.choice(["", " ", "a", "\u2581", "ab", "\u4e00"])},
        lambda: {"type": "Replace", "pattern": random_find(generator), "content": generator.choice(["", " ", "a", "\u2581", "ab"])},
        lambda: {"type": "Prepend", "prepend": generator.choice(["\u2581", " ", "a", "ab"])},
    ]
    if CHARSMAP:
        kinds.append(lambda: {"type": "Precompiled", "precompiled_charsmap": CHARSMAP})
    return generator.choice(kinds)()


def random_pre_tokenizer(generator):
    flag = lambda: generator.random() < 0.5
    split = lambda: {"type": "Split", "pattern": random_find(generator), "behavior": generator.choice(BEHAVIORS), "invert": flag()}
    metaspace = lambda: {"type": "Metaspace", "replacement": generator.choice(["\u2581", "\u2581", "_", "a"]),
                         "prepend_scheme": generator.choice(["first", "first", "always", "never"]), "split": flag()}
    return generator.choice([
        split, split, metaspace, metaspace,
        lambda: {"type": "ByteLevel", "add_prefix_space": flag(), "trim_offsets": flag(), "use_regex": flag()},
        lambda: {"type": generator.choice(["BertPreTokenizer", "Whitespace", "WhitespaceSplit"])},
        lambda: {"type": "Digits", "individual_digits": flag()},
        lambda: {"type": "Punctuation", "behavior": generator.choice(BEHAVIORS)},
        lambda: {"type": "CharDelimiterSplit", "delimiter": generator.choice(" a_1")},
        lambda: {"type": "FixedLength", "length": generator.randint(1, 4)},
    ])()


def sequence(kind, parts):
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else {"type": "Sequence", kind: parts}


def random_added(generator, vocab):
    out, contents = [], []
    for _ in range(generator.choice([0, 0, 1, 2, 4])):
        content = generator.choice([" ", "  ", "\n", "\t", " \n", "a", "ab", "<s>", "</s>", "S", "\u00e9", "a ", " a", "st", "1", "\u2581", "\u3000", "A"])
        if content in contents:
            continue
        contents.append(content)
        out.append({"id": vocab.get(content, len(vocab) + len(out)), "content": content, "single_word": generator.random() < 0.2,
                    "lstrip": generator.random() < 0.4, "rstrip": generator.random() < 0.4, "normalized": generator.random() < 0.4,
                    "special": generator.random() < 0.4})
    return out, contents


def byte_alphabet():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table, extra = {}, 0
    for byte in range(256):
        table[byte] = chr(byte) if byte in plain else chr(256 + extra)
        extra += byte not in plain
    return list(table.values())


def random_model(generator):
    """Single letters, merges over them or over bytes, pieces with scores, whole words."""
    kind = generator.random()
    letters = list(dict.fromkeys(ALPHABET + byte_alphabet()))
    if kind < 0.5:
        vocab = {"<unk>": 0, "<unk></w>": 1}
        for character in letters:
            vocab.setdefault(character, len(vocab))
            vocab.setdefault(character + "</w>", len(vocab))
        return dict(letters_model(), vocab=vocab)
    pieces = ["<unk>", *letters]
    merges = []
    for _ in range(60):
        left, right = generator.choice(pieces[1:] if kind < 0.6 else pieces[1:90]), generator.choice("aAsSt1 \u2581\u0120")
        if right in pieces and left + right not in pieces:
            merges.append([left, right])
            pieces.append(left + right)
    vocab = {piece: i for i, piece in enumerate(pieces)}
    if kind < 0.8:
        return {"type": "BPE", "dropout": None, "unk_token": generator.choice(["<unk>", None]), "continuing_subword_prefix": None,
                "end_of_word_suffix": None, "fuse_unk": generator.random() < 0.5, "byte_fallback": False,
                "ignore_merges": generator.random() < 0.3, "vocab": vocab, "merges": merges}
    if kind < 0.9:
        return {"type": "Unigram", "unk_id": 0, "vocab": [[piece, -round(generator.uniform(1, 9), 3)] for piece in pieces], "byte_fallback": False}
    if kind < 0.95:
        words = {**vocab, **{"##" + piece: len(vocab) + i for i, piece in enumerate(pieces[1:])}}
        return {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": words}
    return {"type": "WordLevel", "unk_token": "<unk>", "vocab": vocab}


def pipelines():
    trial = Trial("random pipelines")
    for number in range(ROUNDS):
        generator = random.Random(SEED * 7000003 + number)
        model = random_model(generator)
        vocab = model["vocab"] if isinstance(model["vocab"], dict) else {piece: i for i, (piece, _) in enumerate(model["vocab"])}
        added, contents = random_added(generator, vocab)
        normalizer = sequence("normalizers", [random_normalizer(generator) for _ in range(generator.choice([0, 0, 1, 1, 2, 3]))])
        pre_tokenizer = sequence("pretokenizers", [random_pre_tokenizer(generator) for _ in range(generator.choice([0, 1, 1, 2, 3]))])
        texts = [random_text(generator, contents) for _ in range(60)]
        root = tokenizer_json(model, normalizer, pre_tokenizer, added)
        what = json.dumps({"normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "added": [
            {key: value for key, value in token.items() if value} for token in added]}, ensure_ascii=False)
        what = what.replace(CHARSMAP or "none", "T5's")
        trial.run(root, texts, f"seed {number}: {model['type']} {what if len(what) < 900 else what[:900]}")
    trial.end()


SECTIONS = {"classes": classes, "real": real, "patterns": patterns, "pipelines": pipelines}


def main():
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
    for name in sys.argv[1:] or SECTIONS:
        SECTIONS[name]()
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
