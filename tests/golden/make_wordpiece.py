#!/usr/bin/env python3
"""Makes tests/golden/wordpiece: a small BERT vocabulary trained by Hugging Face's `tokenizers` on the corpus of
tests/golden/bpe, and the ids of Google's algorithm, as implemented in tests/peers/hf_peers.py, for tricky texts. Needs
the package tokenizers.

  vocab.txt   the vocabulary
  ids.jsonl   {"text", "lower", "case"}: ids of BertWordPieceLowerCase and of BertWordPieceCase
"""
import json
import os
import sys

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../peers"))
import hf_peers  # noqa: E402

TEXTS = ["", " ", "Hello", "The miller's daughter", "the bridge had sunk,they'd say.", "forty-two SACKS!", "\tA tab\nbegan\r\n",
         "Gr\u00fc\u00dfe aus K\u00f6ln", "O\u00f9 est pass\u00e9e l'\u00eele?", "cafe\u0301 CAFE\u0301", "a\u0301\u0323b",
         "\u78e8\u574a\u4e3b\u7684\u5973\u513f", "ab\u78e8cd", "\u6c34\u8eca\u5c0f\u5c4b\u306e\u5a18\u306f", "\uf900\U0002f800",
         "\u039f\u0394\u039f\u03a3 \u03a3\u0391\u03a3", "\u0391\u03a3'", "\u0391'\u03a3\u0391", "abc.\u03a3", "abc'\u03a3 \u03a3",
         "\u0391\u03a3\u00ad\u0391", "\u0130stanbul", "STRASSE \u1e9e", "\ud55c\uad6d\uc5b4", "a\u200bb\u00adc\x00d\x07e\x7ff",
         "a\u2028b\u2029c\u0085d\x0be", "x\ufffdy", "\u00a0blank\u3000ideographic\u2003em", "## [UNK] [MASK] ##ing",
         "it's $5.00 (about 4\u20ac)\u2026", "a" * 200, "a" * 201, "sacks" * 40, "s" + "\u0301" * 300, "miller\u2019s \u201cquote\u201d",
         "\u0928\u092e\u0938\u094d\u0924\u0947", "12 horses", "co\u00f6perate na\u00efve", "\u212b \u2126 \u037e", "\U0001f468\u200d\U0001f469",
         "\ue000private", "e\u0301", "\u0301", "ab\u0301", "a,\u0301b", "THE RIVER", "theriver", "bridgethe"]


def main():
    folder = os.path.join(HERE, "wordpiece")
    os.makedirs(folder, exist_ok=True)
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=420, show_progress=False,
                                        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    text = open(os.path.join(HERE, "bpe/corpus.txt"), encoding="utf-8").read()
    greek = "\u03b1\u03b2\u03b4\u03bf\u03c3\u03c2 \u0391\u03a3\u039f\u0394 "
    tokenizer.train_from_iterator((text + text.lower() + greek * 3).split("\n"), trainer)
    vocab = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    path = os.path.join(folder, "vocab.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(token + "\n" for token, _ in vocab)
    lower, case = hf_peers.Bert(path, True), hf_peers.Bert(path, False)
    with open(os.path.join(folder, "ids.jsonl"), "w", encoding="utf-8") as file:
        for text in TEXTS:
            file.write(json.dumps({"text": text, "lower": lower(text), "case": case(text)}) + "\n")


if __name__ == "__main__":
    main()
