#!/usr/bin/env python3
"""Compares BERT WordPiece, tiktoken rank files, Hugging Face's tokenizer.json and fairseq's dictionaries with common
packages: ids of real texts and of 10,000 random Unicode strings per tokenizer must be equal. Needs tokenizers and
tiktoken; $BEVATRON is the program. Tokenizers and texts come from $BEVATRON_SHARED/data (default ../shared); what is
missing is skipped, and that is reported. Further rank files (o200k_base.tiktoken, qwen.tiktoken) come from the folder
$BEVATRON_RANK_FILES; the packages llama-index-core and dashscope hold them. Arguments choose sections: bert, gpt2,
tiktoken, tekken, json, shapes, fairseq, trained."""
import base64
import collections
import hashlib
import json
import lzma
import os
import random
import re
import subprocess
import sys
import tempfile
import unicodedata

BEVATRON = os.environ.get("BEVATRON", "build/release/bevatron")
HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.path.join(os.environ.get("BEVATRON_SHARED", os.path.join(HERE, "../../../shared")), "data")
RANDOM_TEXTS = 10000
failures = 0


def check(what, condition, detail=""):
    global failures
    print(f"  {'ok  ' if condition else 'FAIL'} {what} {detail}", flush=True)
    failures += not condition


def ours(flags, texts, command="encode"):
    """What the program gives for every text (or list of ids), in one run."""
    lines = "".join(json.dumps(text, ensure_ascii=i % 2 == 0) + "\n" for i, text in enumerate(texts))
    done = subprocess.run([BEVATRON, "tokenizer", command, "--json-lines", *flags], input=lines.encode(),
                          capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(flags)}: {done.stderr.decode()}")
    return [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]


def random_texts(count, parts=(), seed=2026):
    """Strings of all planes that tend to cause trouble; `parts` are strings that a tokenizer may treat specially."""
    generator = random.Random(seed)
    plain = list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,;:!?'\"-_#/()\n\t\r ")
    words = ["'s", "'t", "'RE", "'ve", "'M", "'ll", "'d", "'S", "\u2019s", "  ", "   ", "\n\n", "\r\n", " \n ", " the", " and",
             "Hello", "DON'T", "world", "1234567", "3.14", "https://x.org/a_b?c=1", "e\u0301", "\u00e9", "\u03a3\u0391\u03a3",
             "\u039f\u0394\u039f\u03a3", "a\u0308\u0323", "\u212b", "\ufb01", "\u1e9b\u0323", "\u0130", "I\u0307", "\u017f",
             "\u2581", "\u3000", "\u200b", "\u200d", "\ufeff", "\ufffd", "\u00ad", "\x00", "\x01", "\x7f", "\x85", "\u2028",
             "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd", "\ud55c\uad6d\uc5b4",
             "\u1112\u1161\u11ab", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u4f60\u597d",
             "\u3053\u3093\u306b\u3061\u306f", "\u0645\u0631\u062d\u0628\u0627", "\u00bd", "\u2167", "\u00b2", "##a", "[UNK]"]
    words += list(parts) * max(1, 20 // max(1, len(parts)))
    blocks = [(0x80, 0x250), (0x300, 0x370), (0x370, 0x590), (0x590, 0x780), (0x900, 0xD80), (0xE00, 0xE80), (0xE80, 0x1400),
              (0x1100, 0x1200), (0x1680, 0x1D00), (0x1D00, 0x2000), (0x2000, 0x2070), (0x2070, 0x2300), (0x2300, 0x3000),
              (0x3000, 0x3100), (0x3100, 0x4E00), (0x4E00, 0xA000), (0xA000, 0xAC00), (0xAC00, 0xD7A4), (0xD7A4, 0xD800),
              (0xE000, 0xE100), (0xF900, 0xFB00), (0xFB00, 0xFE00), (0xFE00, 0xFF00), (0xFF00, 0xFFF0), (0x10000, 0x12000),
              (0x12000, 0x17000), (0x17000, 0x1D000), (0x1D000, 0x1D400), (0x1D400, 0x1D800), (0x1E000, 0x1F000),
              (0x1F000, 0x1FC00), (0x20000, 0x2A6E0), (0x2A700, 0x2EBF0), (0x2F800, 0x2FA20), (0x30000, 0x32000),
              (0xE0000, 0xE0200), (0xF0000, 0xF0100), (0x10FF00, 0x110000), (0, 0x110000)]
    texts = ["", " ", "  ", "\n", "\u00a0", "\u2581", "\u2581\u2581"]
    for _ in range(count):
        low, high = generator.choice(blocks)
        strange = generator.random()
        out = []
        for _ in range(generator.randint(0, 60)):
            kind = generator.random()
            if kind < 0.1:
                out.append(generator.choice(words))
            elif kind < 0.2:
                out.append(generator.choice((" ", "\n", "\t", "'", "a", "0")) * generator.randint(1, 12))
            elif kind < 0.2 + 0.8 * strange:
                character = generator.randrange(low, high)
                out.append(chr(character) if not 0xD800 <= character < 0xE000 else "\ufffd")
            else:
                out.append(generator.choice(plain))
        texts.append("".join(out))
    for length in (14, 15, 16, 17, 63, 64, 65, 66, 100, 101, 200, 201, 1000, 20000):
        texts += [unit * length for unit in ("a", "ab", " ", "\n", "\u4e16", ".", "9", "\u0301", "\u00e9", "a ", "'", "A")]
    return texts


def every_character():
    """Each character between letters, digits and spaces, so that its class shows in the ids."""
    texts = []
    for begin in range(0, 0x110000, 64):
        if begin >= 0x32400 and begin % 0x10000 >= 0x400 and not 0xE0000 <= begin < 0xE0400:
            continue
        characters = [chr(c) for c in range(begin, begin + 64) if not 0xD800 <= c < 0xE000]
        texts.append("".join(f"a{c}a1{c}1 {c}{c} {c}A{c}b\n" for c in characters))
    return texts


def real_texts(books=5):
    texts = []
    for name in ("text/tinyshakespeare.txt", "text/botchan.txt", "text/taylorswift_wikipedia.txt",
                 "text/wikitext-2/valid.txt", "text/wikitext-2/test.txt", "wiki/wikiextractor_output_sample_wiki_00"):
        path = os.path.join(SHARED, name)
        if os.path.exists(path):
            texts.append(open(path, encoding="utf-8", newline="").read())
    path = os.path.join(SHARED, "text/books_en_train.jsonl.xz")
    if os.path.exists(path):
        with lzma.open(path, "rt", encoding="utf-8") as file:
            texts += [json.loads(next(file))["text"] for _ in range(books)]
    return texts


def compare(what, flags, texts, encode):
    actual = ours(flags, texts)
    wrong = [i for i, text in enumerate(texts) if actual[i] != encode(text)]
    detail = f"({len(texts)} texts, {sum(map(len, actual))} ids)"
    if wrong:
        shortest = min(wrong, key=lambda i: len(texts[i]))
        text = texts[shortest]
        a, e = actual[shortest], encode(text)
        at = next((i for i in range(min(len(a), len(e))) if a[i] != e[i]), min(len(a), len(e)))
        detail = f"{len(wrong)} of {len(texts)} differ: {text[:200]!r}: id {at}: {a[at:at + 8]}, expected {e[at:at + 8]}"
    check(what, not wrong, detail)


def present(name):
    path = os.path.join(SHARED, name)
    if os.path.exists(path):
        return path
    print(f"  left out: {path} is not there")
    return None


# ---- BERT, as in Google's code and Megatron's copy of it ----

class Bert:
    def __init__(self, path, lower):
        self.lower = lower
        self.vocab = {}
        for number, line in enumerate(open(path, encoding="utf-8")):
            self.vocab[line.strip()] = number

    @staticmethod
    def is_cjk(c):
        return any(low <= ord(c) <= high for low, high in (
            (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
            (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)))

    @staticmethod
    def is_punctuation(c):
        return c in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~" or unicodedata.category(c)[0] == "P"

    def clean(self, text):
        out = []
        for c in text:
            if c in "\t\n\r" or unicodedata.category(c) == "Zs":
                out.append(" ")
            elif c in "\0\ufffd" or unicodedata.category(c) in ("Cc", "Cf"):
                continue
            else:
                out.append(f" {c} " if self.is_cjk(c) else c)
        return "".join(out)

    def pieces(self, word):
        if len(word) > 200:
            return [self.vocab["[UNK]"]]
        out, begin = [], 0
        while begin < len(word):
            for end in range(len(word), begin, -1):
                token = ("##" if begin else "") + word[begin:end]
                if token in self.vocab:
                    out.append(self.vocab[token])
                    begin = end
                    break
            else:
                return [self.vocab["[UNK]"]]
        return out

    def __call__(self, text):
        ids = []
        for part in self.clean(text).split():
            if self.lower:
                part = unicodedata.normalize("NFD", part.lower())
                part = "".join(c for c in part if unicodedata.category(c) != "Mn")
            for word in "".join(f" {c} " if self.is_punctuation(c) else c for c in part).split():
                ids += self.pieces(word)
        return ids


def known_to_python(text):
    """Replaces characters that this Python's Unicode does not have by ordinary ones: its classes decide in Google's
    code."""
    return "".join("x" if unicodedata.category(c) == "Cn" else c for c in text)


def bert():
    for name, kind, lower in (("uncased", "BertWordPieceLowerCase", True), ("cased", "BertWordPieceCase", False)):
        path = present(f"bert/bert-base-{name}-vocab.txt")
        if not path:
            continue
        reference = Bert(path, lower)
        flags = ["--tokenizer-type", kind, "--vocab-file", path]
        compare(f"BERT {name}: random texts", flags, list(map(known_to_python, random_texts(RANDOM_TEXTS))), reference)
        compare(f"BERT {name}: every character", flags, list(map(known_to_python, every_character())), reference)
        compare(f"BERT {name}: real texts", flags, real_texts(2), reference)
        today = bert_today(path, lower)
        extra = ["[MASK]", "[SEP]", "<extra_id_0>", "<extra_id_99>"]
        compare(f"BERT {name} as today: random texts", flags + ["--no-legacy-tokenizer"], random_texts(RANDOM_TEXTS, extra),
                lambda text: today.encode(text).ids)


def bert_today(path, lower):
    """What Megatron opens since core 0.15: the tokenizer that transformers makes from a vocab.txt."""
    from tokenizers import BertWordPieceTokenizer
    tokenizer = BertWordPieceTokenizer(path, lowercase=lower)
    if not lower:
        tokenizer.add_special_tokens([f"<extra_id_{i}>" for i in range(100)])
    return tokenizer


def gpt2_today():
    """GPT-2's files with --no-legacy-tokenizer: the text of the special token is that token."""
    from tokenizers import Tokenizer
    files, path = [present(f"gpt2/{name}") for name in ("vocab.json", "merges.txt")], present("gpt2/tokenizer.json")
    if path and all(files):
        tokenizer = Tokenizer.from_file(path)
        compare("GPT-2 as today: random texts", ["--vocab-file", files[0], "--merge-file", files[1], "--no-legacy-tokenizer"],
                random_texts(RANDOM_TEXTS, ["<|endoftext|>"]), lambda text: tokenizer.encode(text).ids)


# ---- tiktoken ----

CL100K = (r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|"""
          r"""\s++$|\s*[\r\n]|\s+(?!\S)|\s""")
LLAMA3 = (r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"""
          r"""\s*[\r\n]+|\s+(?!\S)|\s+""")
UPPER, LOWER = r"""[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]""", r"""[\p{Ll}\p{Lm}\p{Lo}\p{M}]"""
V1 = r"""[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"""
V2 = (rf"""[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|"""
      r"""\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+""")
ENDING = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
PATTERNS = {
    "gpt2": r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s""",
    "cl100k": CL100K,
    "llama3": LLAMA3,
    "qwen": LLAMA3.replace("{1,3}", ""),
    "o200k": V2.replace(f"{LOWER}+|", f"{LOWER}+{ENDING}|").replace(f"{LOWER}*|", f"{LOWER}*{ENDING}|")
               .replace(r"|\p{N}|", r"|\p{N}{1,3}|"),
    "v1": V1,
    "v2": V2,
}


def rank_file(path):
    lines = open(path).read().split("\n")
    return {base64.b64decode(line.split()[0]): int(line.split()[1]) for line in lines if line.strip()}


def llama3_specials():
    names = ["<|begin_of_text|>", "<|end_of_text|>", *(f"<|reserved_special_token_{i}|>" for i in range(4)),
             "<|start_header_id|>", "<|end_header_id|>", "<|reserved_special_token_4|>", "<|eot_id|>",
             *(f"<|reserved_special_token_{i}|>" for i in range(5, 251))]
    return {name: 128000 + i for i, name in enumerate(names)}


def make_p50k(r50k, path):
    """p50k_base is r50k_base with runs of 2 to 25 spaces after <|endoftext|>. The checksum is the one in tiktoken."""
    data = open(r50k, "rb").read()
    data += b"".join(base64.b64encode(b" " * (i + 2)) + b" %d\n" % (50257 + i) for i in range(24))
    check("p50k_base is made", hashlib.sha256(data).hexdigest().startswith("94b5ca7dff4d00767bc256fdd1b27e5b"))
    with open(path, "wb") as file:
        file.write(data)


def tiktoken_files():
    end = {"<|endoftext|>": 50256}
    cl100k = {"<|endoftext|>": 100257, "<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260,
              "<|endofprompt|>": 100276}
    for name, pattern, specials in (("gpt2/r50k_base.tiktoken", "gpt2", end), ("tiktoken/cl100k_base.tiktoken", "cl100k", cl100k),
                                    ("tiktoken/llama3_tokenizer.model", "llama3", llama3_specials())):
        path = present(name)
        if path:
            yield path, pattern, specials
    r50k = present("gpt2/r50k_base.tiktoken")
    if r50k:
        with tempfile.TemporaryDirectory() as made:
            path = os.path.join(made, "p50k_base.tiktoken")
            make_p50k(r50k, path)
            yield path, "gpt2", end
    folder = os.environ.get("BEVATRON_RANK_FILES")
    o200k = {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}
    qwen = {"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645,
            **{f"<|extra_{i}|>": 151646 + i for i in range(205)}}
    for name, pattern, specials in (("o200k_base.tiktoken", "o200k", o200k), ("qwen.tiktoken", "qwen", qwen)):
        path = os.path.join(folder or "", name)
        if folder and os.path.exists(path):
            yield path, pattern, specials
        else:
            print(f"  left out: {name}, which no $BEVATRON_RANK_FILES has")


def tiktoken_section():
    import tiktoken
    for path, pattern, specials in tiktoken_files():
        ranks = rank_file(path)
        encoding = tiktoken.Encoding("x", pat_str=PATTERNS[pattern], mergeable_ranks=ranks, special_tokens=specials)
        name, flags = os.path.basename(path), ["--tokenizer-type", "TikTokenizer", "--tokenizer-model", path]
        texts = random_texts(RANDOM_TEXTS, list(specials)[:5])
        compare(f"{name}: random texts", flags, texts, encoding.encode_ordinary)
        compare(f"{name}: every character", flags, every_character(), encoding.encode_ordinary)
        compare(f"{name}: real texts", flags, real_texts(), encoding.encode_ordinary)
        flags.append("--no-legacy-tokenizer")
        compare(f"{name}: special tokens", flags, texts, lambda text: encoding.encode(text, allowed_special="all"))
        ids = [encoding.encode(text, allowed_special="all") for text in texts[:2000]]
        check(f"{name}: decoding", ours(flags, ids, "decode") == texts[:2000])
    path = present("gpt2/r50k_base.tiktoken")
    if path:
        ranks = rank_file(path)
        for pattern in PATTERNS:
            encoding = tiktoken.Encoding("x", pat_str=PATTERNS[pattern], mergeable_ranks=ranks, special_tokens={})
            flags = ["--tokenizer-type", "TikTokenizer", "--tokenizer-model", path, "--tiktoken-pattern", pattern]
            compare(f"pattern {pattern}: random texts", flags, random_texts(RANDOM_TEXTS, seed=7), encoding.encode_ordinary)
            compare(f"pattern {pattern}: every character", flags, every_character(), encoding.encode_ordinary)
        megatron_json(ranks, tiktoken)


def megatron_json(ranks, tiktoken):
    """Megatron's list needs bytes in the order of their values first; the merged tokens follow in order."""
    tokens = [bytes([byte]) for byte in range(256)] + sorted((t for t in ranks if len(t) > 1), key=ranks.get)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "vocab.json")
        with open(path, "w") as file:
            json.dump([{"rank": i, "token_bytes": base64.b64encode(token).decode(), "token_str": token.decode("utf-8", "replace")}
                       for i, token in enumerate(tokens)], file)
        inner = {token: i + 1000 for i, token in enumerate(tokens[:30000])}
        for pattern, today, named in (("v1", False, ["<unk>", "<s>", "</s>"]),
                                      ("v2", True, ["<unk>", "<s>", "</s>", "<mask>", "<pad>", "<cls>", "<sep>"])):
            specials = {name: i for i, name in enumerate(named + [f"<SPECIAL_{i}>" for i in range(len(named), 1000)])}
            encoding = tiktoken.Encoding("x", pat_str=PATTERNS[pattern], mergeable_ranks=inner, special_tokens=specials)
            flags = ["--tokenizer-type", "TikTokenizer", "--tokenizer-model", path, "--tiktoken-pattern", pattern,
                     "--vocab-size", "31000"] + ["--no-legacy-tokenizer"] * today
            encode = (lambda text: encoding.encode(text, allowed_special="all")) if today else encoding.encode_ordinary
            compare(f"Megatron's JSON, {pattern}: random texts", flags,
                    random_texts(RANDOM_TEXTS, ["<s>", "<mask>", "<SPECIAL_9>"]), encode)


def tekken():
    """Mistral's files from mistral-common, and Whisper's if $BEVATRON_RANK_FILES has them."""
    import mistral_common
    import tiktoken
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer
    folder = os.path.join(os.path.dirname(mistral_common.__file__), "data")
    for name in sorted(name for name in os.listdir(folder) if name.startswith("tekken")):
        path = os.path.join(folder, name)
        tokenizer, flags = Tekkenizer.from_file(path), ["--tokenizer-type", "TikTokenizer", "--tokenizer-model", path]
        for what, texts in (("random texts", random_texts(RANDOM_TEXTS, ["<s>", "[INST]"])), ("every character", every_character()),
                            ("real texts", real_texts(2))):
            compare(f"{name}: {what}", flags, texts, lambda text: tokenizer.encode(text, bos=False, eos=False))
        tokens = ours_tokens(flags)
        check(f"{name}: tokens", len(tokens) == tokenizer.n_words and all(
            tokens[i] == tokenizer.id_to_piece(i) for i in range(tokenizer.num_special_tokens)))
    ranks = os.environ.get("BEVATRON_RANK_FILES", "")
    if not os.path.exists(os.path.join(ranks, "multilingual.tiktoken")):
        print("  left out: multilingual.tiktoken, which no $BEVATRON_RANK_FILES has")
        return
    path = os.path.join(ranks, "multilingual.tiktoken")
    encoding = tiktoken.Encoding("whisper", pat_str=PATTERNS["gpt2"], mergeable_ranks=rank_file(path), special_tokens={})
    compare("Whisper: random texts", ["--tokenizer-type", "TikTokenizer", "--tokenizer-model", path], random_texts(RANDOM_TEXTS),
            encoding.encode_ordinary)


def ours_tokens(flags):
    done = subprocess.run([BEVATRON, "tokenizer", "inspect", "--tokens", *flags], capture_output=True, check=True)
    rows = [line.split("\t") for line in done.stdout.decode("utf-8", "replace").split("\n")[:-1]]
    return {int(number): json.loads(text, strict=False) for number, text in rows}


# ---- tokenizer.json ----

JSON_FILES = ("gpt2/tokenizer.json", "roberta/tokenizer.json", "bert/cased_tokenizer.json", "bert/uncased_tokenizer.json",
              "llama2/tokenizer.json", "t5/tokenizer.json", "hf_json/falcon.json", "hf_json/gpt_neox.json",
              "hf_json/mistral03.json", "hf_json/sqlpilot.json", "hf_json/hw_doc_summarizer.json")


def compare_json(path, texts_of):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    name, flags = os.path.relpath(path, SHARED), ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", path]
    added = [token["content"] for token in json.load(open(path, encoding="utf-8"))["added_tokens"]]
    parts = (added[:10] + added[-10:]) * 2 + [" " + token for token in added[:5]] + [token + " " for token in added[:5]]
    for what, texts in texts_of(parts):
        def encode(text):
            return tokenizer.encode(text).ids
        compare(f"{name}: {what}", flags, texts, encode)
    texts = random_texts(2000, parts)
    compare(f"{name}: without special tokens", flags + ["--tokenizer-hf-no-include-special-tokens"], texts,
            lambda text: tokenizer.encode(text, add_special_tokens=False).ids)
    ids = [tokenizer.encode(text).ids for text in texts]
    actual = ours(flags, ids, "decode")
    wrong = [i for i in range(len(ids)) if actual[i] != tokenizer.decode(ids[i], skip_special_tokens=False)]
    check(f"{name}: decoding", not wrong, f"({len(ids)} texts)" if not wrong else
          f"{len(wrong)} differ: {ids[wrong[0]]}: {actual[wrong[0]]!r}, expected {tokenizer.decode(ids[wrong[0]], skip_special_tokens=False)!r}")


def json_section():
    real = real_texts(2)
    for name in JSON_FILES:
        path = present(name)
        if path:
            compare_json(path, lambda parts: (("random texts", random_texts(RANDOM_TEXTS, parts)),
                                              ("every character", every_character()), ("real texts", real)))


def shapes_section():
    """Small tokenizers with every component."""
    sys.path.insert(0, os.path.join(HERE, "../golden"))
    import make_hf
    from tokenizers import Tokenizer
    texts = random_texts(2500, make_hf.TEXTS, seed=11) + make_hf.TEXTS
    with tempfile.TemporaryDirectory() as folder:
        for name, tokenizer in make_hf.shapes():
            path = os.path.join(folder, "tokenizer.json")
            tokenizer.save(path)
            tokenizer = Tokenizer.from_file(path)
            flags = ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", folder]
            compare(f"shape {name}", flags, texts, lambda text: tokenizer.encode(text).ids)
            ids = [tokenizer.encode(text).ids for text in texts[:500]]
            expected = [tokenizer.decode(i, skip_special_tokens=False) for i in ids]
            actual = ours(flags, ids, "decode")
            wrong = [i for i in range(len(ids)) if actual[i] != expected[i]]
            check(f"shape {name}: decoding", not wrong, "" if not wrong else f"{actual[wrong[0]]!r}, expected {expected[wrong[0]]!r}")


# ---- fairseq ----

class Dictionary:
    """fairseq's dictionary: built from words, saved and loaded."""
    SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"]

    def __init__(self, lines=()):
        self.index = {symbol: i for i, symbol in enumerate(self.SPECIALS)}
        size = len(self.SPECIALS)
        for line in lines:
            symbol, field = line.rstrip().rsplit(" ", 1)
            if field == "#fairseq:overwrite":
                symbol, field = symbol.rsplit(" ", 1)
            self.index[symbol] = size
            size += 1
        self.size = size

    def words(self, text):
        return [self.index.get(word, 3) for word in re.sub(r"\s+", " ", text).strip().split()]

    @classmethod
    def build(cls, text, threshold=-1, most=-1, multiple=8):
        counts = collections.Counter(re.sub(r"\s+", " ", text).strip().split())
        for symbol in cls.SPECIALS:
            counts.pop(symbol, None)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        if most > 0:
            ordered = ordered[:max(0, most - 4)]
        lines = [f"{word} {count}" for word, count in ordered if count >= threshold]
        kept = {line.rsplit(" ", 1)[0] for line in lines}
        number = 0
        while (len(lines) + 4) % multiple:
            name = f"madeupword{number:04d}"
            if name not in kept:
                lines.append(f"{name} 0")
            number += 1
        return lines


def fairseq():
    import tiktoken
    dictionary, ranks = present("roberta/dict.txt"), present("gpt2/r50k_base.tiktoken")
    if dictionary and ranks:
        bpe = tiktoken.Encoding("r50k", pat_str=PATTERNS["gpt2"], mergeable_ranks=rank_file(ranks),
                                special_tokens={"<|endoftext|>": 50256})
        reference = Dictionary(open(dictionary, encoding="utf-8"))
        flags = ["--tokenizer-type", "FairseqTokenizer", "--tokenizer-model", dictionary, "--vocab-file",
                 present("gpt2/vocab.json"), "--merge-file", present("gpt2/merges.txt")]

        def encode(text):
            return [reference.index.get(str(i), 3) for i in bpe.encode_ordinary(text.strip())]
        compare("RoBERTa's dictionary: random texts", flags, random_texts(RANDOM_TEXTS, ["<mask>", "<s>"]), encode)
        compare("RoBERTa's dictionary: real texts", flags, real_texts(), encode)
        path = present("roberta/vocab.json")
        if path:
            vocab = json.load(open(path, encoding="utf-8"))
            gpt2 = json.load(open(present("gpt2/vocab.json"), encoding="utf-8"))
            check("RoBERTa's dictionary: ids of Hugging Face's vocabulary",
                  all(reference.index[str(i)] == vocab[token] for token, i in gpt2.items() if token in vocab))
    with tempfile.TemporaryDirectory() as folder:
        texts = {"random": "\n".join(random_texts(3000, seed=5))}
        texts |= {f"real {i}": text for i, text in enumerate(real_texts(0))}
        for name, text in texts.items():
            source, path = os.path.join(folder, "in.txt"), os.path.join(folder, "dict.txt")
            with open(source, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            for settings in ({}, {"threshold": 3}, {"most": 1001, "multiple": 1}):
                names = {"threshold": "--threshold", "most": "--nwords", "multiple": "--padding-factor"}
                flags = [part for key, value in settings.items() for part in (names[key], str(value))]
                subprocess.run([BEVATRON, "tokenizer", "dictionary", "--input", source, "--output", path, *flags], check=True,
                               stdout=subprocess.DEVNULL)
                lines = open(path, encoding="utf-8", newline="\n").read().split("\n")[:-1]
                check(f"dictionary of {name} {settings}", lines == Dictionary.build(text, **settings), f"({len(lines)} lines)")
            reference = Dictionary(lines)
            compare(f"words of {name}", ["--tokenizer-type", "FairseqTokenizer", "--tokenizer-model", path],
                    [*random_texts(RANDOM_TEXTS), text], reference.words)


def trained():
    """The library can read what `tokenizer train` writes."""
    from tokenizers import Tokenizer
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([BEVATRON, "tokenizer", "train", "--input", os.path.join(HERE, "../golden/bpe/corpus.txt"), "--vocab-size",
                        "500", "--save", folder], check=True, capture_output=True)
        tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        texts = random_texts(3000, ["<|endoftext|>"])
        compare("trained tokenizer.json: ids", ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", folder], texts,
                lambda text: tokenizer.encode(text).ids)
        plain = [text for text in texts if "<|endoftext|>" not in text]
        compare("trained tokenizer.json: ids of vocab.json and merges.txt", [
            "--vocab-file", os.path.join(folder, "vocab.json"), "--merge-file", os.path.join(folder, "merges.txt")],
                [known_to_python(text) for text in plain], lambda text: tokenizer.encode(text).ids)


SECTIONS = {"bert": bert, "gpt2": gpt2_today, "tiktoken": tiktoken_section, "tekken": tekken, "json": json_section, "shapes": shapes_section, "fairseq": fairseq,
            "trained": trained}


def main():
    for name in sys.argv[1:] or SECTIONS:
        SECTIONS[name]()
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
