#!/usr/bin/env python3
"""Makes tests/golden/fairseq from the corpus and the tokenizer of tests/golden/bpe: dictionaries as fairseq builds
them, made by tests/peers/hf_peers.py, and the ids of texts. Needs the package tokenizers.

  words.txt   dictionary of the corpus' words
  bpe.txt     dictionary of the ids of GPT-2's BPE, some left out
  ids.jsonl   {"text", "words", "bpe"}
"""
import json
import os
import sys

from tokenizers import Tokenizer, models, pre_tokenizers

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../peers"))
import hf_peers  # noqa: E402

TEXTS = ["", " ", "the bridge , and the river", " The  miller's\tdaughter\n", "x\u00a0y\u2028z\x1cw", "<s> </s> <unk> <mask> <pad>",
         "forty-two of them.", "Gr\u00fc\u00dfe aus K\u00f6ln \u78e8\u574a", "\u3000the\u3000", "it wasn't THE river", "madeupword0000"]


def main():
    folder = os.path.join(HERE, "fairseq")
    os.makedirs(folder, exist_ok=True)
    tokenizer = Tokenizer(models.BPE.from_file(*(os.path.join(HERE, "bpe", name) for name in ("vocab.json", "merges.txt"))))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    corpus = open(os.path.join(HERE, "bpe/corpus.txt"), encoding="utf-8").read()
    ids = "\n".join(" ".join(map(str, tokenizer.encode(line.strip()).ids)) for line in corpus.split("\n"))
    dictionaries = {"words": hf_peers.Dictionary.build(corpus), "bpe": hf_peers.Dictionary.build(ids, threshold=2)}
    for name, lines in dictionaries.items():
        with open(os.path.join(folder, f"{name}.txt"), "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)
    words, bpe = hf_peers.Dictionary(dictionaries["words"]), hf_peers.Dictionary(dictionaries["bpe"])
    with open(os.path.join(folder, "ids.jsonl"), "w", encoding="utf-8") as file:
        for text in TEXTS:
            file.write(json.dumps({"text": text, "words": words.words(text), "bpe": [
                bpe.index.get(str(i), 3) for i in tokenizer.encode(text.strip()).ids]}) + "\n")


if __name__ == "__main__":
    main()
