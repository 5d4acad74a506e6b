#!/usr/bin/env python3
"""Makes tests/golden/hf: small tokenizer.json files of common configurations, trained on the corpus of
tests/golden/bpe by Hugging Face's `tokenizers`, and the ids and texts of that package. tests/peers/hf_peers.py also
compares shapes() on random texts: every component with every setting. Needs the package tokenizers.

  NAME.json    a tokenizer
  NAME.jsonl   {"text", "ids", "plain": ids without what the post-processor adds, "decoded"}
"""
import json
import os

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
CUTS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"


def corpus():
    return open(os.path.join(HERE, "bpe/corpus.txt"), encoding="utf-8").read()


def trained(model, trainer, normalizer=None, pre_tokenizer=None):
    tokenizer = Tokenizer(model)
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    text = corpus()
    tokenizer.train_from_iterator(text.split("\n"), trainer)
    return tokenizer


def byte_level(size=400, **model):
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer = trained(models.BPE(), trainer, None, pre_tokenizers.ByteLevel(add_prefix_space=False))
    if model:
        base = json.loads(tokenizer.to_str())["model"]
        tokenizer.model = models.BPE(base["vocab"], [tuple(m) for m in base["merges"]], **model)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def gpt2_like():
    tokenizer = byte_level()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", normalized=True)])
    return tokenizer


def llama3_like():
    tokenizer = byte_level(ignore_merges=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="$A $B", special_tokens=[("<|begin_of_text|>", begin)])])
    return tokenizer


def neox_like():
    tokenizer = byte_level()
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)])
    tokenizer.add_special_tokens(["<|endoftext|>", "<|padding|>"])
    return tokenizer


def roberta_like():
    tokenizer = byte_level()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.add_special_tokens(["<s>", "</s>", AddedToken("<mask>", lstrip=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", tokenizer.token_to_id("</s>")),
                                                            ("<s>", tokenizer.token_to_id("<s>")))
    return tokenizer


def falcon_like():
    tokenizer = byte_level()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.Digits(False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")])
    tokenizer.add_special_tokens([">>TITLE<<", "<|endoftext|>"])
    return tokenizer


def marked(size=500, fallback=True, **model):
    """BPE over characters with U+2581 for spaces, and byte tokens."""
    specials = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] * fallback
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=specials, show_progress=False, limit_alphabet=60)
    tokenizer = trained(models.BPE(unk_token="<unk>"), trainer, None, pre_tokenizers.Metaspace())
    base = json.loads(tokenizer.to_str())
    again = Tokenizer(models.BPE(base["model"]["vocab"], [tuple(m) for m in base["model"]["merges"]], unk_token="<unk>",
                                 byte_fallback=fallback, **model))
    again.add_special_tokens(["<unk>", "<s>", "</s>"])
    return again


def llama2_like():
    tokenizer = marked(fuse_unk=True)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1",
                                                             special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    return tokenizer


def mistral_like():
    tokenizer = llama2_like()
    tokenizer.normalizer = None
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return tokenizer


def bert_like(lower=True):
    trainer = trainers.WordPieceTrainer(vocab_size=400, show_progress=False,
                                        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tokenizer = trained(models.WordPiece(unk_token="[UNK]"), trainer, normalizers.BertNormalizer(lowercase=lower),
                        pre_tokenizers.BertPreTokenizer())
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def unigram(byte_fallback=False):
    trainer = trainers.UnigramTrainer(vocab_size=300, show_progress=False, unk_token="<unk>", special_tokens=["<pad>", "</s>", "<unk>"])
    tokenizer = trained(models.Unigram(), trainer, normalizers.NFKC(), pre_tokenizers.Metaspace())
    if byte_fallback:
        base = json.loads(tokenizer.to_str())["model"]
        vocab = [tuple(item) for item in base["vocab"]] + [(f"<0x{byte:02X}>", 0.0) for byte in range(256)]
        again = Tokenizer(models.Unigram(vocab, base["unk_id"], True))
        again.normalizer, again.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
        tokenizer = again
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def t5_like():
    tokenizer = unigram()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>",
                                                             special_tokens=[("</s>", tokenizer.token_to_id("</s>"))])
    return tokenizer


def word_level():
    trainer = trainers.WordLevelTrainer(vocab_size=200, show_progress=False, special_tokens=["<unk>"])
    return trained(models.WordLevel(unk_token="<unk>"), trainer, normalizers.Lowercase(), pre_tokenizers.Whitespace())


def clip_like():
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=["[UNK]"], end_of_word_suffix="</w>", show_progress=False)
    tokenizer = trained(models.BPE(unk_token="[UNK]", end_of_word_suffix="</w>"), trainer, normalizers.Lowercase(),
                        pre_tokenizers.Whitespace())
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    return tokenizer


def continuing():
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=["[UNK]"], continuing_subword_prefix="##", show_progress=False)
    return trained(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##"), trainer, None, pre_tokenizers.WhitespaceSplit())


def with_added():
    tokenizer = byte_level()
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.add_tokens([AddedToken("miller", single_word=True), AddedToken("[L]", lstrip=True), AddedToken("[R]", rstrip=True),
                          AddedToken("[B]", lstrip=True, rstrip=True, normalized=False), AddedToken("[LR"), AddedToken("RAW", normalized=False),
                          AddedToken("W\u00e9", single_word=True, normalized=False), AddedToken("[LRX]", lstrip=True)])
    return tokenizer


GOLDEN = {"gpt2": gpt2_like, "llama3": llama3_like, "neox": neox_like, "roberta": roberta_like, "falcon": falcon_like,
          "llama2": llama2_like, "mistral": mistral_like, "bert": bert_like, "t5": t5_like, "words": word_level, "clip": clip_like,
          "added": with_added}


def variants():
    """Every component by itself, with a model that shows its effect."""
    for name, normalizer in {
            "NFC": normalizers.NFC(), "NFD": normalizers.NFD(), "NFKC": normalizers.NFKC(), "NFKD": normalizers.NFKD(),
            "Lowercase": normalizers.Lowercase(), "StripAccents": normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
            "StripAccents alone": normalizers.StripAccents(), "Nmt": normalizers.Nmt(), "Strip": normalizers.Strip(),
            "lstrip": normalizers.Strip(right=False), "rstrip": normalizers.Strip(left=False),
            "Replace": normalizers.Replace("a", "bb"), "Replace regex": normalizers.Replace(Regex(r"\s{2,}|[0-9]+"), " "),
            "Prepend": normalizers.Prepend("x "), "ByteLevel": normalizers.ByteLevel(),
            "Bert without cleaning": normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, lowercase=True),
            "Bert accents": normalizers.BertNormalizer(strip_accents=True, lowercase=False),
            "Bert lower, accents kept": normalizers.BertNormalizer(strip_accents=False, lowercase=True)}.items():
        tokenizer = byte_level()
        tokenizer.normalizer = normalizer
        yield f"normalizer {name}", tokenizer
    cutters = {"Whitespace": pre_tokenizers.Whitespace(), "WhitespaceSplit": pre_tokenizers.WhitespaceSplit(),
               "Bert": pre_tokenizers.BertPreTokenizer(), "Digits": pre_tokenizers.Digits(False), "digits": pre_tokenizers.Digits(True),
               "delimiter": pre_tokenizers.CharDelimiterSplit("a"), "GPT-2 pattern": pre_tokenizers.Split(
                   Regex(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"), "isolated"),
               "case-blind": pre_tokenizers.Split(Regex(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"), "isolated"),
               "lines": pre_tokenizers.Split(Regex(r"^.|.$|\bz"), "isolated"), "words": pre_tokenizers.Split(Regex(r"\w+|\W"), "isolated"),
               "braces": pre_tokenizers.Split(Regex(r"[a-z]{1,2}+"), "isolated"), "empty": pre_tokenizers.Split(Regex(r"x*"), "isolated"),
               "BLOOM": pre_tokenizers.Split(Regex(" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"), "isolated"),
               "StarCoder": pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(False)]),
               "DeepSeek": pre_tokenizers.Sequence([
                   pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"),
                   pre_tokenizers.Split(Regex("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"), "isolated"),
                   pre_tokenizers.Split(Regex(r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
                                              r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), "isolated")])}
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        cutters[f"Punctuation {behavior}"] = pre_tokenizers.Punctuation(behavior)
        cutters[f"Split {behavior}"] = pre_tokenizers.Split(Regex(r"\s+|[aeiou]"), behavior)
        cutters[f"Split inverted {behavior}"] = pre_tokenizers.Split(Regex(r"\s+|[aeiou]"), behavior, invert=True)
        cutters[f"Split string {behavior}"] = pre_tokenizers.Split("th", behavior)
        cutters[f"Split known {behavior}"] = pre_tokenizers.Split(Regex(CUTS), behavior)
    for name, cutter in cutters.items():
        tokenizer = byte_level()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cutter, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        yield f"pre-tokenizer {name}", tokenizer
    for scheme in ("always", "first", "never"):
        for split in (True, False):
            tokenizer = marked(fuse_unk=False)
            tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
            tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme, split=split)
            yield f"Metaspace {scheme} {split}", tokenizer
    yield "unknown characters fused", marked(fallback=False, fuse_unk=True)
    yield "unknown characters", marked(fallback=False, fuse_unk=False)
    yield "Unigram", unigram()
    yield "Unigram with bytes", unigram(True)
    yield "BERT cased", bert_like(False)
    yield "continuing prefix", continuing()
    for name, pattern in {"o200k": None}.items():
        tokenizer = byte_level()
        letters, smalls = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
        ending = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        pattern = (rf"[^\r\n\p{{L}}\p{{N}}]?{letters}*{smalls}+{ending}|[^\r\n\p{{L}}\p{{N}}]?{letters}+{smalls}*{ending}|"
                   r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "removed", invert=True),
                                                           pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        yield name, tokenizer
    tokenizer = byte_level(ignore_merges=True)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3.replace("{1,3}", "")), "isolated"),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    yield "Qwen", tokenizer


def reread(tokenizer):
    """As stored in the file: scores may lose their last bit on the way."""
    return Tokenizer.from_str(tokenizer.to_str())


def shapes():
    for name, make in GOLDEN.items():
        yield name, reread(make())
    for name, tokenizer in variants():
        yield name, reread(tokenizer)


TEXTS = ["", " ", "  ", "Hello world", "The miller's daughter counted the sacks, and there were forty-two of them.", "  two  blanks\n\nlines\r\n",
         "Gr\u00fc\u00dfe aus K\u00f6ln, cafe\u0301 \u212b", "\u78e8\u574a\u4e3b\u7684\u5973\u513f\u6570\u4e86", "1234567 3.14", "it's IT'S don't",
         "<s>x</s> <mask> y", "a  <mask>  b<mask>", "<|endoftext|> <|begin_of_text|>[MASK] [SEP]", "[L]  [R]  x [B] y[LRX] [lr [Lr", "miller millers amiller MILLER",
         "RAW raw W\u00e9 w\u00e9 xW\u00e9", "\u2581 \u2581\u2581x", "\U0001f600 \u0928\u092e\u0938\u094d\u0924\u0947", "x\u0000y\u200bz\u00ad", ">>TITLE<< 12345 --- ...a",
         " " * 30 + "x", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "\ufb01 \u2168 \uff21", "\u0130\u03a3"]


def main():
    folder = os.path.join(HERE, "hf")
    os.makedirs(folder, exist_ok=True)
    for name, make in GOLDEN.items():
        tokenizer = reread(make())
        with open(os.path.join(folder, f"{name}.json"), "w", encoding="utf-8") as file:
            file.write(tokenizer.to_str() + "\n")
        with open(os.path.join(folder, f"{name}.jsonl"), "w", encoding="utf-8") as file:
            for text in TEXTS:
                ids = tokenizer.encode(text).ids
                file.write(json.dumps({"text": text, "ids": ids, "plain": tokenizer.encode(text, add_special_tokens=False).ids,
                                       "decoded": tokenizer.decode(ids, skip_special_tokens=False)}) + "\n")


if __name__ == "__main__":
    main()
