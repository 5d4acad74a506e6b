#!/usr/bin/env python3
"""Tokenizers as families of today have them (GLM-4.5, DeepSeek-V3, gpt-oss, Gemma, Command R, Phi-4, OLMo 2, Qwen, Granite,
StableLM 2): each with the pre-tokenizer, normalizer, byte fallback, added tokens and template of the family, and a small
vocabulary that Hugging Face's trainer makes of odd texts. Ids and decoded texts must equal those of the library on random
texts, on each character, and on real texts. Needs tokenizers; $BEVATRON is the program, $BEVATRON_SHARED/data has real texts.
Arguments choose families."""
import json
import os
import sys
import tempfile

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import hf_peers as peers

# Patterns in the words of their tokenizer.json.
ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
CL100K = ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{ENDINGS}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{ENDINGS}?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"""
            r"\s*[\r\n]+|\s+(?!\S)|\s+")
CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"


def bytes_of(*before, prefix=False, regex=False):
    return pre_tokenizers.Sequence([*before, pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)])


def isolated(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def inverted(pattern):
    return pre_tokenizers.Split(Regex(pattern), "removed", invert=True)


def special(*contents):
    return [AddedToken(content, special=True, normalized=False) for content in contents]


def plain(*contents):
    return [AddedToken(content, special=False, normalized=False) for content in contents]


BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"  # a parenthesis, and brackets of a set in a set


# Of each family: normalizer, pre-tokenizer, added tokens, the token that a template puts first, members of the model.
FAMILIES = {
    "glm4.5": (None, bytes_of(isolated(CL100K)), special("<|endoftext|>", "[gMASK]", "<sop>", "<|user|>") + plain("<think>", "</think>"), None, {}),
    "deepseek_v3": (normalizers.Sequence([]), bytes_of(isolated(r"\p{N}{1,3}"), isolated(CJK), isolated(DEEPSEEK)),
                    special("<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>")
                    + plain("<\uff5cUser\uff5c>", "<\uff5ctool\u2581sep\uff5c>"), "<\uff5cbegin\u2581of\u2581sentence\uff5c>", {}),
    "gpt_oss": (None, bytes_of(inverted(O200K)), special("<|startoftext|>", "<|endoftext|>", "<|start|>", "<|message|>", "<|channel|>"), None,
                {"ignore_merges": True}),
    "phi4": (None, bytes_of(inverted(CL100K)), special("<|endoftext|>", "<|im_start|>", "<|im_sep|>")
             + [AddedToken("<|dummy_0|>", lstrip=True, rstrip=True, special=True, normalized=False)], None, {}),
    "phi4_mini": (None, bytes_of(inverted(O200K)), special("<|endoftext|>") + [AddedToken("<|assistant|>", rstrip=True, special=True, normalized=False)],
                  None, {}),
    "olmo2": (None, bytes_of(isolated(CL100K)), special("<|endoftext|>", "<|fim_prefix|>") + plain("|||IP_ADDRESS|||", "<|pad|>"), None, {}),
    "qwen3": (normalizers.NFC(), bytes_of(isolated(CL100K.replace("{1,3}", ""))), special("<|endoftext|>", "<|im_start|>") + plain("<think>", "<tool_call>"),
              None, {}),
    "bloom": (None, bytes_of(isolated(BLOOM)), special("<unk>", "<s>", "</s>", "<pad>"), None, {}),
    "granite3": (None, bytes_of(pre_tokenizers.Digits(individual_digits=True), regex=True), special("<|end_of_text|>", "<fim_prefix>"), None, {}),
    "command_r": (normalizers.NFC(), bytes_of(pre_tokenizers.Digits(individual_digits=True), regex=True),
                  special("<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<|START_OF_TURN_TOKEN|>") + plain("<|YES_TOKEN|>"), "<BOS_TOKEN>", {}),
    "command_r7b": (normalizers.NFC(), bytes_of(isolated(CL100K.replace("{1,3}", ""))), special("<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>"), "<BOS_TOKEN>", {}),
    "stablelm2": (None, bytes_of(isolated(CL100K)), special("<|endoftext|>", "<|fim_pad|>", "<|reg0|>"), None, {"ignore_merges": True}),
    # Runs of line breaks, tabs and marks of spaces are tokens of their own there, which are cut from the text first.
    "gemma": (normalizers.Replace(" ", "\u2581"), pre_tokenizers.Split(" ", "merged_with_previous"),
              special("<bos>", "<eos>", "<start_of_turn>") + plain(*("\n" * i for i in range(2, 6)), *("\t" * i for i in range(2, 5)),
                                                                   *("\u2581" * i for i in range(2, 6)), "<table>", "<unused0>"), "<bos>",
              {"byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>"}),
}


def corpus():
    real = peers.real_texts(1)
    return [text[:300000] for text in real] + peers.random_texts(3000, seed=3)


def build(name, texts):
    """The family's tokenizer, with a vocabulary of its own."""
    normalizer, splitter, added, first, members = FAMILIES[name]
    is_gemma = name == "gemma"
    base = ["<pad>", "<unk>"] + [f"<0x{i:02X}>" for i in range(256)] if is_gemma else []
    tokenizer = Tokenizer(models.BPE(**({"unk_token": "<unk>", "byte_fallback": True} if is_gemma else {})))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    # Gemma's texts are one word each, which no trainer gets through.
    tokenizer.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next") if is_gemma else splitter
    alphabet = [] if is_gemma else pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=3000, special_tokens=base, initial_alphabet=alphabet, limit_alphabet=400, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    written = json.loads(tokenizer.to_str())
    written["model"].update(members)
    written["added_tokens"] = [token for token in written["added_tokens"] if not token["content"].startswith("<0x")]
    tokenizer = Tokenizer.from_str(json.dumps(written))
    tokenizer.pre_tokenizer = splitter
    tokenizer.add_tokens(added)
    if is_gemma:
        tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    else:
        tokenizer.decoder = decoders.ByteLevel()
    if first:
        tokenizer.post_processor = processors.TemplateProcessing(single=f"{first} $A", special_tokens=[(first, tokenizer.token_to_id(first))])
    elif not is_gemma:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def main():
    texts, real = corpus(), peers.real_texts(1)
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or FAMILIES:
            path = os.path.join(folder, f"{name}.json")
            build(name, texts).save(path)
            peers.compare_json(path, lambda parts: (("random texts", peers.random_texts(peers.RANDOM_TEXTS, parts)),
                                                    ("every character", peers.every_character()), ("real texts", real)))
    sys.exit(peers.failures > 0)


main()
