#!/usr/bin/env python3
"""Exports as seen by transformers: each kind of tokenizer with each family of models that may have it. A small random
model of transformers is trained for a step by bevatron with that tokenizer, and exported. Then AutoTokenizer must load
the folder without a warning and give the same ids as bevatron for COUNT tough strings (10,000 with a kind's first
family, a tenth of that with the others), and the same text back; the special tokens of tokenizer and config.json must
be the same; the loss of a text must agree within 1e-6, and greedy text must be equal.

    BEVATRON=build/release/bevatron python tests/peers/export_peers.py [COUNT [KIND or KIND×FAMILY…]]

With OTHER_PYTHON=… the same is done with that interpreter, so that one run covers both releases of transformers. Real
tokenizers are those of $BEVATRON_SHARED/data; small ones of tests/golden replace missing ones. Losses need `ninja -C
build/release peers_model`. (torch, transformers 4.57 or 5, safetensors, sentencepiece; run from the repository's
root)"""
import io
import json
import logging
import os
import subprocess
import sys
import tempfile

import sentencepiece
import torch
import torch.nn.functional as F
import transformers as hf
from safetensors.torch import save_file

sys.path.insert(0, "tests/golden")
import tough  # noqa: E402

PROGRAM = os.environ.get("BEVATRON", "build/release/bevatron")
MODEL = os.environ.get("MODEL", os.path.join(os.path.dirname(PROGRAM), "tests/peers_model"))
DATA = os.path.join(os.environ.get("BEVATRON_SHARED", "../shared"), "data")
GOLDEN = "tests/golden"
T, S = 16, 8
warned = io.StringIO()
logging.getLogger("transformers").addHandler(logging.StreamHandler(warned))
hf.logging.disable_progress_bar()


def file(real, small):
    return f"{DATA}/{real}" if os.path.exists(f"{DATA}/{real}") else f"{GOLDEN}/{small}"


FOLDED = tempfile.TemporaryDirectory()


def folded():
    """A SentencePiece model that folds cases. Its table has hundreds of kilobytes, so it is not stored in
    tests/golden."""
    sentencepiece.SentencePieceTrainer.train(input="README.md", model_prefix=f"{FOLDED.name}/folded", model_type="bpe", vocab_size=600,
                                             byte_fallback=True, normalization_rule_name="nmt_nfkc_cf", hard_vocab_limit=False, minloglevel=5)
    return f"{FOLDED.name}/folded.model"


GPT2 = ["--vocab-file", file("gpt2/vocab.json", "bpe/vocab.json"), "--merge-file", file("gpt2/merges.txt", "bpe/merges.txt")]
SPM = ["--tokenizer-model", file("llama2/tokenizer.model", "spm/bpe.model")]
UNIGRAM = ["--tokenizer-model", file("t5/spiece.model", "spm/unigram.model")]
DECODERS = ["llama", "gpt2", "opt", "gpt_bigcode", "mistral", "qwen2", "qwen3", "phi3", "starcoder2", "stablelm", "nemotron"]
SOME = ["llama", "qwen2", "gpt2"]
# Flags of each kind, and families of models, the first of which gets all strings.
KINDS = {
    "gpt2": (["--tokenizer-type", "GPT2BPETokenizer", *GPT2], ["gpt2", *[family for family in DECODERS if family != "gpt2"]]),
    "gpt2-today": (["--tokenizer-type", "GPT2BPETokenizer", "--no-legacy-tokenizer", *GPT2], SOME),
    "llama2": (["--tokenizer-type", "Llama2Tokenizer", *SPM], DECODERS),
    "spm-bpe": (["--tokenizer-type", "GPTSentencePieceTokenizer", *SPM], SOME),
    "spm-bpe-extra": (["--tokenizer-type", "SentencePieceTokenizer", "--vocab-extra-ids", "20", *SPM], ["llama", "t5"]),
    "spm-bpe-rules": (["--tokenizer-type", "GPTSentencePieceTokenizer", "--tokenizer-model",
                       file("spm/test_sentencepiece_bpe.model", "spm/bpe.model")], SOME),
    "spm-folded": (["--tokenizer-type", "GPTSentencePieceTokenizer", "--tokenizer-model", folded()], ["llama"]),
    "spm-char": (["--tokenizer-type", "GPTSentencePieceTokenizer", "--tokenizer-model",
                  file("spm/test_sentencepiece_bpe_char.model", "spm/char.model")], ["llama"]),
    "unigram": (["--tokenizer-type", "GPTSentencePieceTokenizer", *UNIGRAM], SOME),
    "unigram-bytes": (["--tokenizer-type", "GPTSentencePieceTokenizer", "--tokenizer-model",
                       file("spm/test_sentencepiece_with_bytefallback.model", "spm/unigram.model")], ["llama"]),
    "unigram-symbols": (["--tokenizer-type", "SentencePieceTokenizer", "--tokenizer-model",
                         file("spm/albert_spiece.model", "spm/unigram.model")], ["llama"]),
    "unigram-extra": (["--tokenizer-type", "SentencePieceTokenizer", "--vocab-extra-ids", "100", *UNIGRAM], ["t5", "mt5", "llama"]),
    "bert-lower": (["--tokenizer-type", "BertWordPieceLowerCase", "--vocab-extra-ids", "100", "--vocab-file",
                    file("bert/bert-base-uncased-vocab.txt", "wordpiece/vocab.txt")], ["bert", "megatron-bert", "t5", "gpt2"]),
    "bert-case": (["--tokenizer-type", "BertWordPieceCase", "--vocab-file", file("bert/bert-base-cased-vocab.txt", "wordpiece/vocab.txt")],
                  ["bert", "megatron-bert"]),
    "bert-today": (["--tokenizer-type", "BertWordPieceCase", "--no-legacy-tokenizer", "--vocab-file",
                    file("bert/bert-base-cased-vocab.txt", "wordpiece/vocab.txt")], ["bert"]),
    "ranks": (["--tokenizer-type", "TikTokenizer", "--tiktoken-pattern", "cl100k", "--tokenizer-model",
               file("tiktoken/cl100k_base.tiktoken", "tiktoken/small.tiktoken")], DECODERS),
    "ranks-llama3": (["--tokenizer-type", "TikTokenizer", "--tiktoken-pattern", "llama3", "--tokenizer-model",
                      file("tiktoken/llama3_tokenizer.model", "tiktoken/small.tiktoken")], SOME),
    "ranks-today": (["--tokenizer-type", "TikTokenizer", "--tiktoken-pattern", "llama3", "--no-legacy-tokenizer", "--tokenizer-model",
                     file("tiktoken/llama3_tokenizer.model", "tiktoken/small.tiktoken")], ["llama", "mistral"]),
    "tekken": (["--tokenizer-type", "TikTokenizer", "--tokenizer-model", f"{GOLDEN}/tiktoken/tekken_own.json"], ["mistral", "llama"]),
    "fairseq-bpe": (["--tokenizer-type", "FairseqTokenizer", *GPT2, "--tokenizer-model", file("roberta/dict.txt", "hf_save/dict.txt")],
                    ["roberta", "xlm-roberta", "camembert"]),
    "fairseq-words": (["--tokenizer-type", "FairseqTokenizer", "--tokenizer-model", f"{GOLDEN}/fairseq/words.txt"], ["gpt2"]),
    "json": (["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", file("hf_json/gpt_neox.json", "hf/neox.json")], SOME),
}


def decoder(vocab):
    return dict(vocab_size=vocab, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, intermediate_size=24,
                max_position_embeddings=64, bos_token_id=0, eos_token_id=0, pad_token_id=None, tie_word_embeddings=True)


def learned(vocab):
    return dict(vocab_size=vocab, n_embd=16, n_layer=1, n_head=2, n_positions=64, bos_token_id=0, eos_token_id=0)


def encoder(vocab, positions=64):
    return dict(vocab_size=vocab, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24,
                max_position_embeddings=positions)


def seq2seq(vocab, **more):
    return dict(vocab_size=vocab, d_model=16, d_kv=8, d_ff=24, num_layers=1, num_heads=2, decoder_start_token_id=0, **more)


def untied(model):
    model.lm_head.weight = torch.nn.Parameter(torch.zeros_like(model.shared.weight))
    return model


FAMILIES = {
    "gpt2": lambda v: hf.GPT2LMHeadModel(hf.GPT2Config(**learned(v))),
    "gpt_bigcode": lambda v: hf.GPTBigCodeForCausalLM(hf.GPTBigCodeConfig(**learned(v))),
    "opt": lambda v: hf.OPTForCausalLM(hf.OPTConfig(vocab_size=v, hidden_size=16, word_embed_proj_dim=16, num_hidden_layers=1,
                                                    num_attention_heads=2, ffn_dim=24, max_position_embeddings=64)),
    "llama": lambda v: hf.LlamaForCausalLM(hf.LlamaConfig(**decoder(v))),
    "mistral": lambda v: hf.MistralForCausalLM(hf.MistralConfig(sliding_window=None, **decoder(v))),
    "qwen2": lambda v: hf.Qwen2ForCausalLM(hf.Qwen2Config(**decoder(v))),
    "qwen3": lambda v: hf.Qwen3ForCausalLM(hf.Qwen3Config(head_dim=8, **decoder(v))),
    "phi3": lambda v: hf.Phi3ForCausalLM(hf.Phi3Config(**decoder(v) | {"tie_word_embeddings": False})),
    "starcoder2": lambda v: hf.Starcoder2ForCausalLM(hf.Starcoder2Config(**decoder(v))),
    "stablelm": lambda v: hf.StableLmForCausalLM(hf.StableLmConfig(**decoder(v) | {"tie_word_embeddings": False})),
    "nemotron": lambda v: hf.NemotronForCausalLM(hf.NemotronConfig(**decoder(v) | {"tie_word_embeddings": False})),
    "bert": lambda v: hf.BertForPreTraining(hf.BertConfig(**encoder(v))),
    "megatron-bert": lambda v: hf.MegatronBertForPreTraining(hf.MegatronBertConfig(**encoder(v))),
    "roberta": lambda v: hf.RobertaForMaskedLM(hf.RobertaConfig(type_vocab_size=1, **encoder(v, 66))),
    "xlm-roberta": lambda v: hf.XLMRobertaForMaskedLM(hf.XLMRobertaConfig(type_vocab_size=1, **encoder(v, 66))),
    "camembert": lambda v: hf.CamembertForMaskedLM(hf.CamembertConfig(type_vocab_size=1, **encoder(v, 66))),
    "t5": lambda v: hf.T5ForConditionalGeneration(hf.T5Config(**seq2seq(v))),
    "mt5": lambda v: untied(hf.MT5ForConditionalGeneration(hf.MT5Config(**seq2seq(v, tie_word_embeddings=False)))),
}


def run(program, *arguments, text=None):
    done = subprocess.run([program, *arguments], input=text, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, (arguments, done.stdout[-1500:], done.stderr[-1500:])
    return done.stdout


def lines(command, flags, values):
    out = run(PROGRAM, "tokenizer", command, "--json-lines", *flags, text="".join(json.dumps(value) + "\n" for value in values))
    return [json.loads(line) for line in out.split("\n")[:-1]]


def export(flags, family, size, folder):
    """A random model with this many rows, a step of training with the tokenizer, and the export. Returns ours and
    theirs."""
    torch.manual_seed(1)
    model = FAMILIES[family](-(-size // 128) * 128)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape) * 0.3 + (1 if p.dim() == 1 else 0))
    model.save_pretrained(f"{folder}/random")
    more = ["--decoder-seq-length", str(S)] if "t5" in family else []
    run(PROGRAM, "train", "--load", f"{folder}/random", "--use-checkpoint-args", "--finetune", "--mock-data", "--train-iters", "1",
        "--micro-batch-size", "2", "--seq-length", str(T), "--lr", "1e-3", "--eval-iters", "0", "--device", "cpu", "--threads", "1", "--save",
        f"{folder}/ours", "--save-interval", "1", "--no-save-optim", *more, *flags)
    run(PROGRAM, "checkpoint", "convert", "--input", f"{folder}/ours", "--output", f"{folder}/theirs", "--family", family)
    return f"{folder}/ours", f"{folder}/theirs"


def load_tokenizer(folder):
    warned.truncate(0)
    warned.seek(0)
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    assert not warned.getvalue(), warned.getvalue()
    return tokenizer


def check_ids(kind, tokenizer, texts, ours):
    """How many have the same tokens in another order, which only ties of Unigram may cause."""
    adds = "today" in kind or kind in ("llama2", "json")
    theirs = tokenizer(texts, add_special_tokens=adds, verbose=False)["input_ids"]
    orders = 0
    for text, a, b in zip(texts, ours, theirs, strict=True):
        if a != b:
            assert "unigram" in kind and sorted(a) == sorted(b), (text, a, b)
            orders += 1
    return orders


def check_special_text(kind, tokenizer, flags):
    """Text of special tokens becomes those tokens; if training takes it as ordinary text, it gives training's ids."""
    names = [token for token in tokenizer.all_special_tokens if token]
    for name in names:
        assert tokenizer(name, add_special_tokens=False)["input_ids"] == [tokenizer.convert_tokens_to_ids(name)], name
    if kind in ("gpt2", "llama2", "spm-bpe", "ranks", "ranks-llama3"):
        texts = [text for text in tough.strings(500, 3, names) if any(name in text for name in names)]
        ours = lines("encode", flags, texts)
        theirs = tokenizer(texts, add_special_tokens=kind == "llama2", split_special_tokens=True, verbose=False)["input_ids"]
        assert ours == theirs and len(texts) > 20, [pair for pair in zip(texts, ours, theirs) if pair[1] != pair[2]][:3]


def check_texts(tokenizer, flags, ours):
    """Ids back to text, except unknown tokens, which each program writes differently."""
    specials = set(tokenizer.all_special_ids)
    plain = [[id for id in ids if id not in specials] for ids in ours]
    for a, b in zip(lines("decode", flags, plain), tokenizer.batch_decode(plain), strict=True):
        assert a == b, (a, b)


def check_roles(kind, family, tokenizer, config):
    for role in ("bos", "eos", "pad"):
        id = getattr(config, f"{role}_token_id", None)
        named = getattr(tokenizer, f"{role}_token_id")
        if family in DECODERS or "t5" in family and role != "bos":
            assert id == named, (role, id, named)
    before = tokenizer("a")["input_ids"]
    if kind == "llama2":
        assert before[0] == config.bos_token_id and tokenizer.bos_token == "<s>"
    if "bert" in family:
        assert before[0] == tokenizer.cls_token_id and before[-1] == tokenizer.sep_token_id and tokenizer.mask_token
    generation = os.path.join(config._name_or_path, "generation_config.json")
    if os.path.exists(generation):
        said = json.load(open(generation)).get("eos_token_id", config.eos_token_id)
        assert tokenizer.eos_token_id in (said if isinstance(said, list) else [said]), said


def load_model(family, folder):
    warned.truncate(0)
    warned.seek(0)
    kind = hf.AutoModelForSeq2SeqLM if "t5" in family else hf.AutoModelForPreTraining if "bert" in family else hf.AutoModelForCausalLM
    model = kind.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    # transformers 5 warns about every mT5 with a separate output layer, even one it has written itself.
    assert not warned.getvalue() or family == "mt5", warned.getvalue()
    return model


def check_loss(family, tokenizer, ours, model, folder):
    """Next tokens for decoders; the token itself for encoders and, given the same text, for T5."""
    text = "The miller's daughter counted the sacks, and  the river 12345 ran past the mill; nobody said a word to her." * 3
    ids = torch.tensor(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
    data = {"tokens": ids[:T][None], "mask": torch.ones(1, T)}
    data["labels"] = ids[1:T + 1][None] if family in DECODERS else data["tokens"]
    arguments = {"input_ids": data["tokens"]}
    if "t5" in family:
        data |= {"decoder_tokens": ids[:S][None], "labels": ids[1:S + 1][None], "mask": torch.ones(1, S)}
        arguments["decoder_input_ids"] = data["decoder_tokens"]
    if family not in DECODERS:
        data["lengths"] = torch.tensor([T])
    if "bert" in family:
        data["types"] = torch.zeros(1, T, dtype=torch.long)
    if hasattr(model, "cls") and hasattr(model.cls, "seq_relationship"):
        data["pair_labels"] = torch.tensor([0])
    save_file({name: value.to(torch.float32 if value.is_floating_point() else torch.int32).contiguous() for name, value in data.items()},
              f"{folder}/samples.safetensors")
    out = run(MODEL, "--load", ours, "--use-checkpoint-args", "--finetune", "--samples", f"{folder}/samples.safetensors", "--mock-data",
              "--micro-batch-size", "1", "--seq-length", str(T), "--train-iters", "1", "--lr", "1e-3", "--hidden-dropout", "0", "--attention-dropout",
              "0", "--logits", f"{folder}/logits", "--gradients", f"{folder}/gradients", "--save", f"{folder}/after", "--save-interval", "10",
              *(["--decoder-seq-length", str(S)] if "t5" in family else []))
    loss = next(float(line.split()[0]) for line in out.splitlines() if len(line.split()) == 4)
    with torch.no_grad():
        output = model(**arguments)
    logits = output.prediction_logits if "prediction_logits" in output else output.logits
    expected = F.cross_entropy(logits[0], data["labels"][0]).item()
    assert abs(loss - expected) <= 1e-6 * max(1, abs(expected)), (loss, expected)
    return abs(loss - expected)


def check_greedy(tokenizer, ours, model):
    """What follows the prompt. Padding rows of the vocabulary are not tokens, and bevatron never draws one."""
    prompt = "The miller's daughter"
    out = subprocess.run([PROGRAM, "generate", "--load", ours, "--prompt", prompt, "--greedy", "--max-new-tokens", "12", "--ignore-eod",
                          "--device", "cpu"], capture_output=True, check=True).stdout.decode(errors="replace")
    inputs = tokenizer(prompt, return_tensors="pt")
    with torch.no_grad():
        ids = model.generate(**inputs, max_new_tokens=12, min_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0,
                             suppress_tokens=list(range(len(tokenizer), model.config.vocab_size)) or None)[0]
    if not model.config.is_encoder_decoder:
        ids = ids[inputs["input_ids"].shape[1]:]
    texts = [tokenizer.decode(ids, skip_special_tokens=skip).strip() for skip in (True, False)]
    if any(text in out for text in texts):
        return "equal"
    assert "\ufffd" in texts[0] or tokenizer.unk_token_id in ids or set(ids.tolist()) & set(tokenizer.all_special_ids), (out, texts)
    return "not comparable"


def check(kind, family, count):
    flags = KINDS[kind][0]
    with tempfile.TemporaryDirectory() as folder:
        size = json.loads(run(PROGRAM, "tokenizer", "inspect", "--json", *flags))["vocab_size"]
        ours, theirs = export(flags, family, size, folder)
        tokenizer = load_tokenizer(theirs)
        texts = tough.strings(count, 16)
        ids = lines("encode", flags, texts)
        orders = check_ids(kind, tokenizer, texts, ids)
        if kind != "json":
            check_texts(tokenizer, flags, ids)
        check_special_text(kind, tokenizer, flags)
        model = load_model(family, theirs)
        check_roles(kind, family, tokenizer, model.config)
        loss = check_loss(family, tokenizer, ours, model, folder)
        greedy = check_greedy(tokenizer, ours, model) if "bert" not in family else "-"
    return f"{count} strings" + (f" ({orders} with tied pieces in another order)" if orders else "") + f", loss {loss:.0e}, greedy {greedy}"


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10000
    chosen = sys.argv[2:]
    failed = 0
    for kind, (_, families) in KINDS.items():
        for number, family in enumerate(families):
            if chosen and kind not in chosen and f"{kind}×{family}" not in chosen:
                continue
            try:
                print(f"transformers {hf.__version__} {kind} × {family}: {check(kind, family, count if number == 0 else count // 10)}", flush=True)
            except Exception as problem:
                failed += 1
                print(f"transformers {hf.__version__} {kind} × {family}: FAILED: {type(problem).__name__} {str(problem)[:600]}", flush=True)
    other = os.environ.pop("OTHER_PYTHON", None)
    if other:
        failed += subprocess.run([other, __file__, *sys.argv[1:]]).returncode
    sys.exit(failed > 0)


main()
