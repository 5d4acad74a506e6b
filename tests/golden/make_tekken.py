#!/usr/bin/env python3
"""Makes tests/golden/tiktoken/tekken*: small files in Mistral's format with the tokens of megatron.json, and the ids of
mistral-common. Needs mistral-common.

  tekken.json      version 3: no list of special tokens, a pattern with a dedicated splitter
  tekken_own.json  version 11: its own special tokens, a pattern without one
  tekken.jsonl     {"text", "tekken": ids, "tekken_own": ids, "ranks": ids of small.tiktoken with that pattern}
"""
import json
import os
import sys

import tiktoken
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "tiktoken")
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "../peers"))
import hf_peers  # noqa: E402
import make_tiktoken  # noqa: E402

OWN = r"\p{Han}+|(?i:'s|'ll)|[\w&&[^\d\p{Han}]]++|\d{1,3}(?=(?:\d{3})*(?:\D|$))|\s+$|\s+(?!\S)| ?[^\s\w]+|\s"


def main():
    vocab = json.load(open(os.path.join(FOLDER, "megatron.json"), encoding="utf-8"))
    config = {"num_vocab_tokens": 400, "default_vocab_size": 410, "default_num_special_tokens": 30}
    specials = [{"rank": i, "token_str": name, "is_control": True} for i, name in enumerate(["<unk>", "<s>", "</s>", "[THINK]"])]
    files = {"tekken": {"config": dict(config, pattern=hf_peers.PATTERNS["v2"], version="v3"), "vocab": vocab},
             "tekken_own": {"config": dict(config, pattern=OWN, version="v11"), "vocab": vocab, "special_tokens": specials}}
    tokenizers = {}
    for name, root in files.items():
        path = os.path.join(FOLDER, name + ".json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(root, file, indent=0)
        tokenizers[name] = Tekkenizer.from_file(path)
    ranks = tiktoken.Encoding("own", pat_str=OWN, mergeable_ranks=hf_peers.rank_file(os.path.join(FOLDER, "small.tiktoken")), special_tokens={})
    with open(os.path.join(FOLDER, "tekken.jsonl"), "w", encoding="utf-8") as file:
        for text in make_tiktoken.TEXTS + ["x\u00b2\u200dy 1234567", "[INST]<s>[THINK]", "\u4e00\u4e8ca1b"]:
            ids = {name: tokenizer.encode(text, bos=False, eos=False) for name, tokenizer in tokenizers.items()}
            file.write(json.dumps({"text": text} | ids | {"ranks": ranks.encode_ordinary(text)}) + "\n")


if __name__ == "__main__":
    main()
