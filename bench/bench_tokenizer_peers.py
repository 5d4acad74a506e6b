#!/usr/bin/env python3
"""One thread of our tokenizers beside the libraries others use, on the same documents: MB of text per second of processor time,
so that other work on the machine counts less. Both are measured cold (the first pass of a new tokenizer) and warm (the better
of two more), a peer over as many documents as take it a few seconds. The ids are compared
first, by their sum times place in the document. --short cuts the documents into some of 2 to 3 kB, as web pages are.
Rounds alternate between us and the peers.

Needs $BEVATRON_SHARED/data (default ../shared) and a build with bench_tokenizer beside $BEVATRON; peers that are not installed
are left out. --text FILE takes other documents (JSON lines with "text", .xz)."""
import argparse
import json
import lzma
import os
import resource
import subprocess
import sys
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.path.join(os.environ.get("BEVATRON_SHARED", os.path.join(HERE, "../../shared")), "data")
BEVATRON = os.environ.get("BEVATRON", "build/release/bevatron")
OURS = os.path.join(os.path.dirname(BEVATRON), "bench/bench_tokenizer")
PEER_SECONDS = 4


def sentencepiece(model):
    import sentencepiece as library
    processor = library.SentencePieceProcessor(model_file=model)
    return lambda text: processor.encode(text)


def gigatoken_spm(model):
    import gigatoken as library
    return library.Tokenizer.from_sentencepiece(model).encode


def tokenizers(path):
    import tokenizers as library
    tokenizer = library.Tokenizer.from_file(path)
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def tokenizers_whole(path):
    """With what the post-processor adds, and without truncation."""
    import tokenizers as library
    tokenizer = library.Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: tokenizer.encode(text).ids


def tokenizers_plain(path):
    import tokenizers as library
    tokenizer = library.Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def tiktoken(pattern):
    def make(path):
        import tiktoken as library
        sys.path.insert(0, os.path.join(HERE, "../tests/peers"))
        import hf_peers
        encoding = library.Encoding("x", pat_str=hf_peers.PATTERNS[pattern], mergeable_ranks=hf_peers.rank_file(path),
                                    special_tokens={})
        return encoding.encode_ordinary
    return make


def gigatoken_hf(path):
    import gigatoken as library
    return library.Tokenizer(path).encode


def gigatoken_tiktoken(path):
    import gigatoken as library
    return library.Tokenizer.from_tiktoken(path).encode


# Name, our type, our model, vocab and merge file ("-" for none), and the peers: name, function, file.
ROWS = [
    ("Llama-2", "GPTSentencePieceTokenizer", ["llama2/tokenizer.model"],
     [("gigatoken", gigatoken_spm, "llama2/tokenizer.model"), ("sentencepiece", sentencepiece, "llama2/tokenizer.model"),
      ("tokenizers", tokenizers, "llama2/tokenizer.json")]),
    ("Mistral 0.1", "GPTSentencePieceTokenizer", ["spm/mistral_v01.model"],
     [("gigatoken", gigatoken_spm, "spm/mistral_v01.model"), ("sentencepiece", sentencepiece, "spm/mistral_v01.model")]),
    ("T5", "GPTSentencePieceTokenizer", ["t5/spiece.model"],
     [("sentencepiece", sentencepiece, "t5/spiece.model")]),
    ("ALBERT", "GPTSentencePieceTokenizer", ["spm/albert_spiece.model"],
     [("sentencepiece", sentencepiece, "spm/albert_spiece.model")]),
    ("BERT uncased", "BertWordPieceLowerCase", ["-", "bert/bert-base-uncased-vocab.txt"],
     [("tokenizers", tokenizers_plain, "bert/uncased_tokenizer.json")]),
    ("BERT cased json", "HuggingFaceTokenizer", ["bert/cased_tokenizer.json"],
     [("tokenizers", tokenizers_whole, "bert/cased_tokenizer.json")]),
    ("BERT json", "HuggingFaceTokenizer", ["bert/uncased_tokenizer.json"],
     [("tokenizers", tokenizers_whole, "bert/uncased_tokenizer.json")]),
    ("GPT-2", "GPT2BPETokenizer", ["-", "gpt2/vocab.json", "gpt2/merges.txt"],
     [("gigatoken", gigatoken_hf, "gpt2/tokenizer.json"), ("tiktoken", tiktoken("gpt2"), "gpt2/r50k_base.tiktoken"),
      ("tokenizers", tokenizers_whole, "gpt2/tokenizer.json")]),
    ("cl100k", "TikTokenizer", ["tiktoken/cl100k_base.tiktoken"],
     [("gigatoken", gigatoken_tiktoken, "tiktoken/cl100k_base.tiktoken"), ("tiktoken", tiktoken("cl100k"), "tiktoken/cl100k_base.tiktoken")]),
    ("Llama-3", "TikTokenizer", ["tiktoken/llama3_tokenizer.model"],
     [("tiktoken", tiktoken("llama3"), "tiktoken/llama3_tokenizer.model")]),
    ("GPT-2 json", "HuggingFaceTokenizer", ["gpt2/tokenizer.json"],
     [("gigatoken", gigatoken_hf, "gpt2/tokenizer.json"), ("tokenizers", tokenizers_whole, "gpt2/tokenizer.json")]),
    ("NeoX json", "HuggingFaceTokenizer", ["hf_json/gpt_neox.json"],
     [("gigatoken", gigatoken_hf, "hf_json/gpt_neox.json"), ("tokenizers", tokenizers_whole, "hf_json/gpt_neox.json")]),
    ("Falcon json", "HuggingFaceTokenizer", ["hf_json/falcon.json"], [("tokenizers", tokenizers_whole, "hf_json/falcon.json")]),
    ("Llama-2 json", "HuggingFaceTokenizer", ["llama2/tokenizer.json"], [("tokenizers", tokenizers_whole, "llama2/tokenizer.json")]),
    ("T5 json", "HuggingFaceTokenizer", ["t5/tokenizer.json"], [("tokenizers", tokenizers_whole, "t5/tokenizer.json")]),
    ("RoBERTa fairseq", "FairseqTokenizer", ["roberta/dict.txt", "gpt2/vocab.json", "gpt2/merges.txt"], []),
]


def shared(name):
    return name if name == "-" else os.path.join(SHARED, name)


def read_documents(path):
    with (lzma.open if path.endswith(".xz") else open)(path, "rt", encoding="utf-8") as file:
        return [json.loads(line)["text"].replace("\0", "") for line in file]


def ours(documents, row):
    done = subprocess.run([OURS, "3", documents, row[1], *map(shared, row[2])], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def measure_peer(encode, texts, takes_bytes):
    """Documents that take PEER_SECONDS, then two passes: MB/s of the first pass and of the best one, and what they encoded
    to. A peer that takes bytes gets them, so that no time goes into making them."""
    given = [text.encode() for text in texts] if takes_bytes else texts
    count, begin = 0, time.process_time()
    while count < len(texts) and time.process_time() - begin < PEER_SECONDS:
        encode(given[count])
        count += 1
    seconds = time.process_time() - begin
    bytes_ = sum(len(text.encode()) for text in texts[:count])
    texts, best = given, 0
    for _ in range(2):
        begin = time.process_time()
        lists = [encode(text) for text in texts[:count]]
        best = max(best, bytes_ / (time.process_time() - begin))
    return bytes_ / seconds / 1e6, best / 1e6, [numpy.asarray(ids, dtype=numpy.uint64) for ids in lists], count


def checksum(lists):
    total = 0
    for ids in lists:
        total += int((ids * numpy.arange(1, len(ids) + 1, dtype=numpy.uint64)).sum(dtype=numpy.uint64))
    return sum(map(len, lists)), total % 2**64


def write_documents(texts, folder, name):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.writelines(text.encode() + b"\0" for text in texts)
    return path


def cut_short(texts):
    """Pieces of 2 to 3 kB that end with a line."""
    short = []
    for text in texts:
        begin = 0
        while begin < len(text):
            end = text.find("\n", begin + 2000) + 1 or len(text)
            short.append(text[begin:end])
            begin = end
    return short


def run_row(row, texts, folder, everything):
    if not all(os.path.exists(shared(name)) or name == "-" for name in row[2]):
        print(f"{row[0]:<14} left out: its files are not there")
        return
    first = ours(everything, row)
    print(f"{row[0]:<14} {'bevatron':<14} cold {first['cold']:7.1f} MB/s   warm {first['warm']:7.1f} MB/s   "
          f"opened in {first['open_seconds']:.3f} s")
    for name, make, file in row[3]:
        try:
            encode = make(shared(file))
        except Exception as problem:  # not installed, or a model it does not know
            print(f"{'':<14} {name:<14} left out: {str(problem)[:90]}")
            continue
        cold, speed, lists, count = measure_peer(encode, texts, name == "gigatoken")
        part = ours(write_documents(texts[:count], folder, "part"), row)
        same = checksum(lists) == (part["ids"], part["checksum"])
        print(f"{'':<14} {name:<14} cold {cold:7.1f} MB/s   warm {speed:7.1f} MB/s   ours on these {count} documents: "
              f"cold {part['cold'] / cold:6.2f} x, warm {part['warm'] / speed:6.2f} x   ids {'equal' if same else 'DIFFER'}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", default=os.path.join(SHARED, "text/books_en_train.jsonl.xz"))
    parser.add_argument("--only", default="", help="rows whose name holds this")
    parser.add_argument("--short", action="store_true", help="documents of 2 to 3 kB")
    options = parser.parse_args()
    if not os.path.exists(options.text) or not os.path.exists(OURS):
        print(f"left out: {options.text} or {OURS} is not there")
        return
    texts = read_documents(options.text)
    if options.short:
        texts = cut_short(texts)
    with tempfile.TemporaryDirectory() as folder:
        everything = write_documents(texts, folder, "all")
        print(f"{os.path.getsize(everything) / 1e6:.1f} MB in {len(texts)} documents")
        for row in ROWS:
            if options.only in row[0]:
                run_row(row, texts, folder, everything)
    print(f"peak memory of this script {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")


if __name__ == "__main__":
    main()
