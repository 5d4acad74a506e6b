"""Hugging Face files for a small tokenizer of each kind, as `bevatron tokenizer convert` writes them, and the ids that
their library gives for them. bevatron's own ids must be the same; only then are the files written.

    BEVATRON=build/release/bevatron python tests/golden/make_hf_save.py

hf_save/NAME.json         tokenizer.json
hf_save/NAME.config.json  tokenizer_config.json
hf_save/dict.txt          every token of bpe/vocab.json, for fairseq, from the last to the first
hf_save/ids.jsonl         {"name", "text", "ids"}: a plain call, without what is put around a text

(tokenizers)"""
import json
import os
import shutil
import subprocess
import tempfile

import tough
from tokenizers import Tokenizer

PROGRAM = os.environ.get("BEVATRON", "build/release/bevatron")
folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hf_save")
golden = os.path.relpath(os.path.dirname(os.path.abspath(__file__)))
GPT2 = ["--vocab-file", f"{golden}/bpe/vocab.json", "--merge-file", f"{golden}/bpe/merges.txt"]
KINDS = {
    "gpt2": GPT2,
    "gpt2_today": [*GPT2, "--no-legacy-tokenizer"],
    "spm_bpe": ["--tokenizer-type", "GPTSentencePieceTokenizer", "--tokenizer-model", f"{golden}/spm/bpe.model"],
    "llama2": ["--tokenizer-type", "Llama2Tokenizer", "--tokenizer-model", f"{golden}/spm/bpe.model"],
    "spm_char": ["--tokenizer-type", "GPTSentencePieceTokenizer", "--tokenizer-model", f"{golden}/spm/char.model"],
    "spm_unigram": ["--tokenizer-type", "GPTSentencePieceTokenizer", "--tokenizer-model", f"{golden}/spm/unigram.model"],
    "spm_extra": ["--tokenizer-type", "SentencePieceTokenizer", "--tokenizer-model", f"{golden}/spm/unigram.model", "--vocab-extra-ids", "4"],
    "bert_lower": ["--tokenizer-type", "BertWordPieceLowerCase", "--vocab-file", f"{golden}/wordpiece/vocab.txt", "--vocab-extra-ids", "3"],
    "bert_case": ["--tokenizer-type", "BertWordPieceCase", "--vocab-file", f"{golden}/wordpiece/vocab.txt"],
    "bert_today": ["--tokenizer-type", "BertWordPieceCase", "--vocab-file", f"{golden}/wordpiece/vocab.txt", "--no-legacy-tokenizer"],
    "tiktoken": ["--tokenizer-type", "TikTokenizer", "--tokenizer-model", f"{golden}/tiktoken/small.tiktoken", "--tiktoken-pattern", "cl100k"],
    "tiktoken_megatron": ["--tokenizer-type", "TikTokenizer", "--tokenizer-model", f"{golden}/tiktoken/megatron.json", "--tiktoken-pattern", "v2",
                          "--vocab-size", "300", "--tiktoken-num-special-tokens", "10", "--no-legacy-tokenizer"],
    "tekken": ["--tokenizer-type", "TikTokenizer", "--tokenizer-model", f"{golden}/tiktoken/tekken_own.json"],
    "fairseq_bpe": ["--tokenizer-type", "FairseqTokenizer", "--tokenizer-model", f"{golden}/hf_save/dict.txt", *GPT2],
    "fairseq_words": ["--tokenizer-type", "FairseqTokenizer", "--tokenizer-model", f"{golden}/fairseq/words.txt"],
    "spm_folded": ["--tokenizer-type", "GPTSentencePieceTokenizer", "--tokenizer-model", f"{golden}/spm/folded.model"],
}


def run(*arguments, text=""):
    done = subprocess.run([PROGRAM, "tokenizer", *arguments], input=text, capture_output=True, text=True)
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout


os.makedirs(folder, exist_ok=True)
with open(f"{golden}/bpe/vocab.json", encoding="utf-8") as file:
    count = len(json.load(file))
with open(f"{folder}/dict.txt", "w") as file:
    file.writelines(f"{number} 1\n" for number in reversed(range(count)))
with open(f"{folder}/ids.jsonl", "w", encoding="utf-8") as out:
    for number, (name, flags) in enumerate(KINDS.items()):
        with tempfile.TemporaryDirectory() as scratch:
            run("convert", "--output", scratch, *flags)
            shutil.copy(f"{scratch}/tokenizer.json", f"{folder}/{name}.json")
            shutil.copy(f"{scratch}/tokenizer_config.json", f"{folder}/{name}.config.json")
        tokenizer = Tokenizer.from_file(f"{folder}/{name}.json")
        texts = tough.strings(60, number) + ["a\U0010fffeb\U0010ffff\U0010ffff c\ufdd0\U000ffffe\U000f0000\U000f0001"]
        lines = run("encode", "--json-lines", *flags, text="\n".join(map(json.dumps, texts))).split("\n")[:-1]
        around = len(tokenizer.encode("").ids) if name.endswith("_today") or name == "llama2" else 0
        for text, line in zip(texts, lines, strict=True):
            ids, ours = tokenizer.encode(text, add_special_tokens=False).ids, json.loads(line)
            ours = ours[(around + 1) // 2:len(ours) - around // 2]
            if ids != ours and sorted(ids) == sorted(ours):
                continue  # a run of one character, split in another order; see docs/internals/tokenizer_hf.md
            assert ids == ours, (name, text, ids, ours)
            out.write(json.dumps({"name": name, "text": text, "ids": ids}, ensure_ascii=False) + "\n")
