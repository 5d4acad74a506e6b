#!/usr/bin/env python3
"""How far our sentence splitter agrees with NLTK's punkt, which Megatron's --split-sentences calls. Two sets of rules
never agree on every text, so this measures, sorts the differences into kinds, and fails only below a bound. The English
model comes from NLTK's own data (punkt_tab), or from a pickle named by $PUNKT_MODEL. The splitter is compiled into a
library here. Without $BEVATRON_SHARED/data, NLTK or its model nothing is compared, and that is reported. The languages
of --lang are compared with Moses (sentence-splitter) and pysbd if they are installed, on hand-labelled texts."""
import ctypes
import glob
import json
import lzma
import os
import pickle
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../..")
SHARED = os.path.join(os.environ.get("BEVATRON_SHARED", os.path.join(HERE, "../../../shared")), "data")


class Splitter(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char_p), ("length", ctypes.c_size_t), ("keep_newlines", ctypes.c_bool),
                ("position", ctypes.c_size_t), ("language", ctypes.c_void_p)]


class Sentence(ctypes.Structure):
    _fields_ = [("begin", ctypes.c_size_t), ("end", ctypes.c_size_t)]


def compile_splitter(folder):
    library = os.path.join(folder, "sentence.so")
    sources = [os.path.join(ROOT, "src/data", name) for name in
               ("tokenizer/unicode_category.c", "tokenizer/unicode_tables.c")]
    sources += glob.glob(os.path.join(ROOT, "src/data/sentence*.c"))
    sources += glob.glob(os.path.join(ROOT, "src/base/*.c"))
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-w", "-fPIC", "-shared",
                    "-I" + os.path.join(ROOT, "src"), "-o", library, *sources, "-lpthread", "-lm"], check=True)
    code = ctypes.CDLL(library)
    next_sentence, find_language = code.sentence_next, code.sentence_language_find
    next_sentence.restype, find_language.restype = ctypes.c_bool, ctypes.c_void_p

    def split(text, keep_newlines=False, language="english"):
        splitter = Splitter(text, len(text), keep_newlines, 0, find_language(language.encode()))
        sentence, spans = Sentence(), []
        while next_sentence(ctypes.byref(splitter), ctypes.byref(sentence)):
            spans.append((sentence.begin, sentence.end))
        return spans
    return split


def load_punkt():
    try:
        from nltk.tokenize.punkt import PunktTokenizer
    except ImportError:
        return None
    if os.environ.get("PUNKT_MODEL"):
        with open(os.environ["PUNKT_MODEL"], "rb") as file:
            return pickle.load(file)
    try:
        return PunktTokenizer("english")
    except (LookupError, ValueError):  # missing, or not readable by this NLTK
        return None


def punkt_ends(punkt, text):
    """Ends of sentences as byte offsets."""
    ends, position, byte = set(), 0, 0
    for _, end in punkt.span_tokenize(text):
        byte += len(text[position:end].encode())
        position = end
        ends.add(byte)
    return ends


# Why an end may be in one set and not in the other; the first that applies.
KINDS = [
    ("empty line (ours only)", lambda before, after: re.match(rb"\s*\n\s*\n", after)),
    ("reference mark [1]", lambda before, after: re.match(rb"[\"')]*\[\w+\]", after) or re.search(rb"\[\d+\]$", before)),
    ("small letter follows", lambda before, after: re.match(rb"[\"')\]]*\s+[\"'(\[-]*[a-z]", after)),
    ("ellipsis", lambda before, after: re.search(rb"(\.\.|\xe2\x80\xa6)[\"'\])]*$", before)),
    ("abbreviation or initial", lambda before, after: re.search(rb"(\b[A-Za-z]|\.\w|\b[A-Z]?[a-z]{1,4})\.$", before)),
    ("other", lambda before, after: True),
]


def kind(text, end):
    before, after = text[max(0, end - 40):end], text[end:end + 40]
    return next(name for name, fits in KINDS if fits(before, after))


def compare(name, texts, split, punkt, bound):
    ours = theirs = both = 0
    kinds = {}
    for text in texts:
        data = text.encode()
        a, b = {end for _, end in split(data)}, punkt_ends(punkt, text)
        ours, theirs, both = ours + len(a), theirs + len(b), both + len(a & b)
        for end in a ^ b:
            label = kind(data, end)
            side = kinds.setdefault(label, [0, 0])
            side[end not in a] += 1
    score = 2 * both / (ours + theirs)
    print(f"  {'ok  ' if score >= bound else 'FAIL'} {name}: ours {ours}, punkt {theirs}, same {both}, F1 {score:.4f} "
          f"(bound {bound})")
    for label, (only_ours, only_theirs) in sorted(kinds.items(), key=lambda item: -sum(item[1])):
        print(f"         {label}: {only_ours} ours alone, {only_theirs} punkt alone")
    return score >= bound


# ---- other languages ----

CODES = {"german": "de", "dutch": "nl", "swedish": "sv", "danish": "da", "norwegian": "no", "french": "fr", "spanish": "es",
         "italian": "it", "portuguese": "pt", "polish": "pl", "czech": "cs", "slovene": "sl", "estonian": "et",
         "finnish": "fi", "turkish": "tr", "greek": "el", "russian": "ru", "english": "en"}


def labelled_texts():
    """The golden file: language, and the labelled sentences of each text."""
    language = "english"
    with open(os.path.join(ROOT, "tests/golden/sentences_by_language.txt"), encoding="utf-8") as file:
        for line in map(str.strip, file):
            if line.startswith("@"):
                language = line[1:]
            elif line and not line.startswith("#"):
                yield language, line


def inner_ends(sentences):
    """Ends of all sentences except the last, counted in characters that are not white space."""
    ends, position = set(), 0
    for sentence in sentences[:-1]:
        position += len("".join(sentence.split()))
        ends.add(position)
    return ends


def moses(text, language):
    from sentence_splitter import SentenceSplitter
    return SentenceSplitter(language=CODES[language]).split(text)


def pysbd_split(text, language):
    import pysbd
    return pysbd.Segmenter(language=CODES[language], clean=False).segment(text)


def compare_languages(split):
    """Ours and two other splitters on the hand-labelled texts; ours must not be worse than either."""
    def ours(text, language):
        data = text.encode()
        return [data[begin:end].decode() for begin, end in split(data, language=language)]

    scores = {}
    for name, splitter in ("ours", ours), ("Moses", moses), ("pysbd", pysbd_split):
        texts = right = same = wrong = missed = 0
        for language, line in labelled_texts():
            try:
                found = inner_ends(splitter(line.replace("¦", ""), language))
            except Exception:  # not installed, or an unknown language
                continue
            wanted = inner_ends(line.split("¦"))
            texts, right, same = texts + 1, right + (found == wanted), same + len(found & wanted)
            wrong, missed = wrong + len(found - wanted), missed + len(wanted - found)
        if texts:
            scores[name] = 2 * same / (2 * same + wrong + missed)
            print(f"       {name}: {right} of {texts} texts all right, {same} ends found, {wrong} wrong, {missed} missed, "
                  f"F1 {scores[name]:.3f}")
        else:
            print(f"       {name}: not installed")
    good = scores["ours"] >= max(scores.values())
    print(f"  {'ok  ' if good else 'FAIL'} languages")
    return good


def main():
    punkt = load_punkt()
    with tempfile.TemporaryDirectory() as folder:
        split = compile_splitter(folder)
    if not compare_languages(split):
        return 1
    if punkt is None or not os.path.isdir(SHARED):
        print("  skipped: needs NLTK with its English punkt model, and shared/data")
        return 0
    read = lambda name: open(os.path.join(SHARED, name), encoding="utf-8").read()
    lines = lambda name: [json.loads(line)["text"] for line in lzma.open(os.path.join(SHARED, name))]
    good = compare("botchan, a novel", [read("text/botchan.txt")], split, punkt, 0.98)
    good &= compare("Wikipedia, 106 articles", lines("wiki/expected/enwiki-shortened.wikiextractor_new.jsonl.xz"), split,
                    punkt, 0.98)
    good &= compare("an article with reference marks", [read("text/taylorswift_wikipedia.txt")], split, punkt, 0.85)
    books = [text[:200000] for text in lines("text/books_en_train.jsonl.xz")[::9]]
    good &= compare("beginnings of 21 books", books, split, punkt, 0.85)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
