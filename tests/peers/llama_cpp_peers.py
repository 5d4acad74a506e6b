"""llama.cpp runs what `bevatron checkpoint convert --to gguf` writes: small random models of every family that it has,
each kind of tokenizer, in fp32, bf16 and q8_0. Its ids of tough strings equal ours, its logits those of transformers,
its greedy text that of `bevatron generate`. Its own converter accepts our Hugging Face exports and gives the same
tensors.

    LLAMA_CPP=FOLDER BEVATRON=build/release/bevatron python tests/peers/llama_cpp_peers.py       (torch, transformers, sentencepiece)

LLAMA_CPP is a checkout of llama.cpp with shared libraries in build/bin (cmake -B build; cmake --build build --target
llama)."""
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.environ.get("LLAMA_CPP", "")
PROGRAM = os.environ.get("BEVATRON", "build/release/bevatron")
HERE = os.path.dirname(os.path.abspath(__file__))
if not os.path.exists(os.path.join(ROOT, "build/bin/libllama.so")):
    print("llama_cpp_peers: SKIPPED: set LLAMA_CPP to a checkout of llama.cpp with build/bin/libllama.so")
    sys.exit(0)

import numpy as np  # noqa: E402
import sentencepiece as spm  # noqa: E402
import tokenizers as tk  # noqa: E402
import torch  # noqa: E402
import transformers as hf  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "gguf-py"))
import gguf  # noqa: E402

hf.logging.set_verbosity_error()
hf.logging.disable_progress_bar()
WORK = tempfile.mkdtemp(prefix="llama_cpp_peers.")
PEER = os.path.join(WORK, "llama_cpp")
CORPUS = ["The cyclotron accelerates protons in a magnetic field, doesn't it?", "Ein Zyklotron beschleunigt Teilchen im Jahr 1931 auf 80 keV.",
          "粒子加速器は電場を用いて荷電粒子を加速する。", "Ускоритель заряженных частиц, 12345 6789 ½ ² ١٢٣", "def f(x):\n    return x ** 2  # comment\n\n\n",
          "naïve café résumé Ångström ﬁ ﬃ Straße ΑΒΓ αβγς", "🚀🦙 emoji 👩‍👩‍👧‍👦 flags 🇩🇪", "tabs\t\tand  two   three    spaces", "a+b=c; {x} [y] <z> |w| ~ ^ ` \\ / ?!"] * 4


def run(*arguments, ok=True):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)
    assert (done.returncode == 0) == ok, (arguments, done.stdout, done.stderr)
    return done.stdout + done.stderr


def peer(model, *task, lines):
    done = subprocess.run([PEER, model, *task], input="\n".join(lines) + "\n", capture_output=True, text=True)
    assert done.returncode == 0, (model, task, done.stderr[-2000:])
    return done.stdout.splitlines()


def build_peer():
    binaries = os.path.join(ROOT, "build/bin")
    subprocess.run(["cc", "-O1", "-Wall", "-I" + os.path.join(ROOT, "include"), "-I" + os.path.join(ROOT, "ggml/include"),
                    os.path.join(HERE, "llama_cpp.c"), "-o", PEER, "-L" + binaries, "-lllama", "-lggml", "-lggml-base",
                    "-Wl,-rpath," + binaries], check=True)


# ---- tokenizers: each writes its files into a folder and returns bevatron's flags for them ----

def train_bpe(folder, pre, normalizer=None, special="<|endoftext|>"):
    tokenizer = tk.Tokenizer(tk.models.BPE())
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = tk.decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    trainer = tk.trainers.BpeTrainer(vocab_size=600, special_tokens=[special], initial_alphabet=tk.pre_tokenizers.ByteLevel.alphabet(),
                                     show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": special, "bos_token": special}, file)
    return ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", os.path.join(folder, "tokenizer.json")]


def split_by(pattern):
    return tk.pre_tokenizers.Sequence([tk.pre_tokenizers.Split(tk.Regex(pattern), "isolated"),
                                       tk.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")


def gpt2_json(folder):
    return train_bpe(folder, tk.pre_tokenizers.ByteLevel(add_prefix_space=False))


def llama3_json(folder):
    return train_bpe(folder, split_by(LLAMA3))


def qwen2_json(folder):
    return train_bpe(folder, split_by(QWEN2))


def digits_json(folder):
    return train_bpe(folder, tk.pre_tokenizers.Sequence([tk.pre_tokenizers.Digits(individual_digits=True),
                                                         tk.pre_tokenizers.ByteLevel(add_prefix_space=False)]))


def gpt2_files(folder):
    other = os.path.join(folder, "other")
    os.mkdir(other)
    gpt2_json(other)
    model = json.load(open(os.path.join(other, "tokenizer.json")))["model"]
    shutil.rmtree(other)
    json.dump(model["vocab"], open(os.path.join(folder, "vocab.json"), "w"))
    with open(os.path.join(folder, "merges.txt"), "w") as file:
        file.write("#version: 0.2\n" + "".join(" ".join(pair) + "\n" for pair in model["merges"]))
    return ["--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", os.path.join(folder, "vocab.json"),
            "--merge-file", os.path.join(folder, "merges.txt")]


def train_spm(folder, name, **options):
    text = os.path.join(folder, "text")
    open(text, "w").write("\n".join(CORPUS))
    spm.SentencePieceTrainer.train(input=text, model_prefix=os.path.join(folder, name[:-6]), minloglevel=9, **options)
    os.remove(text)
    os.remove(os.path.join(folder, name[:-6] + ".vocab"))
    return os.path.join(folder, name)


def spm_bpe(folder):
    path = train_spm(folder, "tokenizer.model", model_type="bpe", vocab_size=500, byte_fallback=True, normalization_rule_name="identity",
                     remove_extra_whitespaces=False, character_coverage=0.98)
    return ["--tokenizer-type", "Llama2Tokenizer", "--tokenizer-model", path]


def spm_unigram(folder):
    path = train_spm(folder, "spiece.model", model_type="unigram", vocab_size=300, hard_vocab_limit=False, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    return ["--tokenizer-type", "GPTSentencePieceTokenizer", "--tokenizer-model", path]


def wordpiece(folder):
    words = sorted({piece for line in CORPUS for piece in tk.normalizers.BertNormalizer(lowercase=True).normalize_str(line)} - {" ", "\n", "\t"})
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + words + ["##" + word for word in words] + ["the", "##tron", "cyclo", "pro", "##ton"]
    open(os.path.join(folder, "vocab.txt"), "w").write("\n".join(dict.fromkeys(tokens)) + "\n")
    return ["--tokenizer-type", "BertWordPieceLowerCase", "--vocab-file", os.path.join(folder, "vocab.txt")]


def strings(count):
    r = random.Random(5)
    plain = [" ", "  ", "", "\n", "\r\n", " \n ", "a", " a", "a ", "  a  b  ", "I'LL we'Ve it's", "x" * 70, "1234567890", "3.14e-5", "\u00a0nbsp", "e\u0301",
             "<|endoftext|", "</s", "<unk> </s> <s> <|endoftext|>", "don't", "ﬁ", "½²", "한국어", "ไทย", "हिन्दी", "עברית", "\t\tx", "...!!!???", "a\n\n\nb", "UPPERlower", "snake_case CamelCase"]
    alphabet = list("abcdefghij ABC 0123 .,;:!?'\"-+*/=<>()[]{}_\n\t  ") + list("äöüßéñçøåλπЖжשא中文日本語한글😀½²①")
    mixed = ["".join(r.choice(alphabet) for _ in range(r.randrange(1, 40))) for _ in range(count)]
    words = [" ".join(r.choice(r.choice(CORPUS).split()) for _ in range(r.randrange(1, 12))) for _ in range(count)]
    return plain + CORPUS[:9] + mixed + words


# ---- models ----

def rotary(**more):
    return {**dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=3, intermediate_size=96,
                   max_position_embeddings=128, tie_word_embeddings=False), **more}


def llama(**more):
    return lambda v: hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=v, **rotary(**more)))


LLAMA3_ROPE = dict(rope_parameters=dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                        original_max_position_embeddings=32))
LINEAR_ROPE = dict(rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=2.5))
YARN_ROPE = dict(rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32))
YARN_OWN = dict(rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32, beta_fast=20.0,
                                     beta_slow=2.0, attention_factor=1.3))


def t5(gated, tied, decoder):
    return lambda v: hf.T5ForConditionalGeneration(hf.T5Config(
        vocab_size=v, d_model=48, d_kv=8, num_heads=4, d_ff=64, num_layers=3, num_decoder_layers=decoder, tie_word_embeddings=tied,
        feed_forward_proj="gated-gelu" if gated else "relu", decoder_start_token_id=0, pad_token_id=0, eos_token_id=1))


def experts(config, model, groups=2, **more):
    """Sizes whose scores of experts are not nearly equal."""
    sizes = {**rotary(num_key_value_heads=groups), "num_experts_per_tok": 2, **more}
    return lambda v: model(config(vocab_size=v, **sizes))


BERT = dict(hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96)
DECODERS = {
    "gpt2": lambda v: hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=v, n_embd=64, n_head=4, n_layer=3, n_positions=128)),
    "gpt2_untied": lambda v: hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=v, n_embd=64, n_head=4, n_layer=3, n_positions=128, n_inner=80, tie_word_embeddings=False)),
    "llama": llama(),
    "llama_tied": llama(tie_word_embeddings=True, num_key_value_heads=4),
    "llama_wide": llama(head_dim=24),
    "llama_biases": llama(attention_bias=True, mlp_bias=True),
    "llama3": llama(**LLAMA3_ROPE),
    "llama_linear": llama(**LINEAR_ROPE),
    "llama_yarn": llama(**YARN_ROPE),
    "llama_yarn_own": llama(**YARN_OWN),
    "mistral": lambda v: hf.MistralForCausalLM(hf.MistralConfig(vocab_size=v, sliding_window=None, **rotary())),
    "qwen2": lambda v: hf.Qwen2ForCausalLM(hf.Qwen2Config(vocab_size=v, **rotary())),
    "qwen2_yarn": lambda v: hf.Qwen2ForCausalLM(hf.Qwen2Config(vocab_size=v, **rotary(**YARN_ROPE))),
    "qwen3": lambda v: hf.Qwen3ForCausalLM(hf.Qwen3Config(vocab_size=v, head_dim=24, **rotary(tie_word_embeddings=True))),
    "starcoder2": lambda v: hf.Starcoder2ForCausalLM(hf.Starcoder2Config(vocab_size=v, use_bias=True, sliding_window=None, **rotary())),
    "phi3": lambda v: hf.Phi3ForCausalLM(hf.Phi3Config(vocab_size=v, pad_token_id=0, sliding_window=None, **rotary())),
    "mixtral": experts(hf.MixtralConfig, hf.MixtralForCausalLM, num_local_experts=4, sliding_window=None),
    "qwen3_moe": experts(hf.Qwen3MoeConfig, hf.Qwen3MoeForCausalLM, num_experts=6, moe_intermediate_size=40, head_dim=24, norm_topk_prob=True,
                         mlp_only_layers=[], decoder_sparse_step=1),
    "olmoe": experts(hf.OlmoeConfig, hf.OlmoeForCausalLM, 4, num_experts=6, norm_topk_prob=False, pad_token_id=0, bos_token_id=0, eos_token_id=0),
    "qwen2_moe": experts(hf.Qwen2MoeConfig, hf.Qwen2MoeForCausalLM, num_experts=6, moe_intermediate_size=40, shared_expert_intermediate_size=48,
                         norm_topk_prob=False, mlp_only_layers=[], decoder_sparse_step=1),
    "gpt_oss": experts(hf.GptOssConfig, hf.GptOssForCausalLM, num_local_experts=6, head_dim=24, sliding_window=5, bos_token_id=0, eos_token_id=0, pad_token_id=0,
                       rope_parameters=dict(rope_type="yarn", rope_theta=150000.0, factor=32.0, original_max_position_embeddings=32)),
    "glm4": lambda v: hf.Glm4ForCausalLM(hf.Glm4Config(vocab_size=v, head_dim=24, attention_bias=True, pad_token_id=0, eos_token_id=0, **rotary(
        rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)))),
    "glm4_moe": experts(hf.Glm4MoeConfig, hf.Glm4MoeForCausalLM, head_dim=24, n_routed_experts=6, n_group=1, topk_group=1, n_shared_experts=2,
                        moe_intermediate_size=40, first_k_dense_replace=1, routed_scaling_factor=2.5, use_qk_norm=True, attention_bias=True, num_mtp_layers=0,
                        pad_token_id=0, rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)),
    "deepseek_v3": experts(hf.DeepseekV3Config, hf.DeepseekV3ForCausalLM, 4, n_routed_experts=8, n_group=4, topk_group=2, n_shared_experts=1,
                           moe_intermediate_size=40, first_k_dense_replace=1, q_lora_rank=24, kv_lora_rank=32, qk_nope_head_dim=32, qk_rope_head_dim=8,
                           v_head_dim=24, num_mtp_layers=0, rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, mscale=1.0,
                                                                                 mscale_all_dim=1.0, original_max_position_embeddings=32)),
    "deepseek_v2": experts(hf.DeepseekV2Config, hf.DeepseekV2ForCausalLM, 4, n_routed_experts=6, n_group=1, topk_group=1, n_shared_experts=2, topk_method="greedy",
                           moe_intermediate_size=40, first_k_dense_replace=1, q_lora_rank=None, kv_lora_rank=32, qk_nope_head_dim=32, qk_rope_head_dim=8,
                           v_head_dim=24, norm_topk_prob=False, rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, mscale=0.707,
                                                                                     mscale_all_dim=0.707, original_max_position_embeddings=32)),
    "stablelm": lambda v: hf.StableLmForCausalLM(hf.StableLmConfig(vocab_size=v, partial_rotary_factor=0.25, use_qkv_bias=True, **rotary())),
    "stablelm_heads": lambda v: hf.StableLmForCausalLM(hf.StableLmConfig(vocab_size=v, partial_rotary_factor=0.25, qk_layernorm=True,
                                                                         use_parallel_residual=True, **rotary())),
    "nemotron": lambda v: hf.NemotronForCausalLM(hf.NemotronConfig(vocab_size=v, head_dim=16, partial_rotary_factor=0.5, **rotary())),
    "gpt_bigcode": lambda v: hf.GPTBigCodeForCausalLM(hf.GPTBigCodeConfig(vocab_size=v, n_embd=64, n_head=4, n_layer=3, n_positions=128, multi_query=True)),
}
ENCODERS = {
    "bert": lambda v: hf.BertForMaskedLM(hf.BertConfig(vocab_size=v, max_position_embeddings=64, **BERT)),
    "roberta": lambda v: hf.RobertaForMaskedLM(hf.RobertaConfig(vocab_size=v, max_position_embeddings=66, type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2, **BERT)),
}
SEQUENCES = {"t5": t5(False, True, 3), "t5_v1_1": t5(True, False, 3), "t5_flat": t5(True, False, 2),
             "umt5": lambda v: hf.UMT5ForConditionalGeneration(hf.UMT5Config(
                 vocab_size=v, d_model=48, d_kv=8, num_heads=4, d_ff=64, num_layers=2, num_decoder_layers=2, decoder_start_token_id=0))}
# What llama.cpp would not load, or would compute differently.
REFUSED = {"opt": (lambda v: hf.OPTForCausalLM(hf.OPTConfig(vocab_size=v, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64,
                                                            word_embed_proj_dim=64, max_position_embeddings=64)), "gpt2_json", "the family opt cannot be written as GGUF"),
           "t5_deep": (t5(False, False, 5), "spm_unigram", "decoder that is deeper than its encoder"),
           "gpt2_relu": (lambda v: hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=v, n_embd=64, n_head=4, n_layer=2, activation_function="relu")), "gpt2_json", "has no activation relu"),
           "qwen2_llama3": (lambda v: hf.Qwen2ForCausalLM(hf.Qwen2Config(vocab_size=v, **rotary(**LLAMA3_ROPE))), "qwen2_json", "--rope-scaling-type llama3"),
           "qwen2_yarn_own": (lambda v: hf.Qwen2ForCausalLM(hf.Qwen2Config(vocab_size=v, **rotary(**YARN_OWN))), "qwen2_json", "YaRN with values other")}
# Where llama.cpp looks an activation up in fp16.
COARSE = {"gpt2", "gpt2_untied", "starcoder2", "gpt_bigcode", "bert", "roberta", "t5_v1_1", "t5_flat", "umt5"}
TOKENIZERS = {"gpt2_files": gpt2_files, "gpt2_json": gpt2_json, "llama3_json": llama3_json, "qwen2_json": qwen2_json, "digits_json": digits_json,
              "spm_bpe": spm_bpe, "spm_unigram": spm_unigram, "wordpiece": wordpiece}
USUAL = {"gpt2": "gpt2_files", "gpt2_untied": "gpt2_json", "llama": "spm_bpe", "llama3": "llama3_json", "qwen2": "qwen2_json", "qwen2_yarn": "qwen2_json",
         "qwen3": "qwen2_json", "qwen3_moe": "qwen2_json", "qwen2_moe": "qwen2_json", "olmoe": "gpt2_json", "gpt_oss": "gpt2_json", "glm4": "gpt2_json", "glm4_moe": "gpt2_json", "deepseek_v2": "gpt2_json", "deepseek_v3": "gpt2_json", "starcoder2": "digits_json", "gpt_bigcode": "digits_json", "bert": "wordpiece", "roberta": "gpt2_json",
         "stablelm": "gpt2_json", "stablelm_heads": "gpt2_json", "t5": "spm_unigram", "t5_v1_1": "spm_unigram", "t5_flat": "spm_unigram", "umt5": "spm_unigram"}


def make(name, build, kind):
    """A Hugging Face folder with random weights that are large enough to distinguish tokens, and bevatron's tokenizer
    flags."""
    folder = os.path.join(WORK, name + "." + kind)
    os.mkdir(folder)
    flags = TOKENIZERS[kind](folder)
    # Some padding rows after the tokens, which must not occur in greedy text of transformers: bevatron and llama.cpp
    # never draw them.
    tokens = len(encode(flags, ["x"])[1])
    size = (tokens + 7) // 8 * 8 + 8
    torch.manual_seed(len(name))
    model = build(size).eval()
    if hasattr(model, "set_experts_implementation"):  # fused kernels have no float64
        model.set_experts_implementation("eager")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.25 if parameter.shape[0] != size else 0.6)
                if parameter.shape[0] == size:
                    parameter[tokens:] = 0
                    parameter[0] = 0  # SentencePiece's unknown token, which both programs write in their own way
            else:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder)
    return folder, flags, model


def encode(flags, texts):
    lines = "\n".join(json.dumps(text) for text in texts)
    done = subprocess.run([PROGRAM, "tokenizer", "encode", "--json-lines", *flags], input=lines + "\n", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shown = subprocess.run([PROGRAM, "tokenizer", "inspect", "--json", *flags], capture_output=True, text=True)
    size = json.loads(shown.stdout).get("vocab_size", 0) if shown.returncode == 0 else 0
    return [json.loads(line) for line in done.stdout.splitlines()], range(size)


def convert(folder, name, *more):
    path = os.path.join(WORK, name + ".gguf")
    run("checkpoint", "convert", "--input", folder, "--output", path, "--to", "gguf", *more)
    return path


def check_ids(path, flags, kind):
    texts = strings(600)
    ours = encode(flags, texts)[0]
    # Hugging Face's tokenizers find special tokens in text, Megatron's do not.
    task = "parse" if "HuggingFaceTokenizer" in flags else "tokenize"
    theirs = [[int(i) for i in line.split()] for line in peer(path, task, lines=[text.encode().hex() for text in texts])]
    if kind == "wordpiece":
        theirs = [ids[1:-1] for ids in theirs]
    wrong = [(text, a, b) for text, a, b in zip(texts, ours, theirs) if a != b]
    assert not wrong, (kind, len(wrong), len(texts), wrong[:3])
    return len(texts)


def distance(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def check_logits(path, name, model, prompt, bound):
    ids = torch.tensor([prompt])
    with torch.no_grad():
        if name in SEQUENCES:
            wanted = model(input_ids=ids, decoder_input_ids=torch.tensor([[0]])).logits[0, -1]
        elif name in ENCODERS:
            wanted = model.base_model(ids).last_hidden_state[0]
        else:
            wanted = model(ids).logits[0, -1]
    task = "hidden" if name in ENCODERS else "logits"
    found = np.array([[float(x) for x in line.split()] for line in peer(path, task, lines=[" ".join(map(str, prompt))])])
    off = distance(found.reshape(-1), wanted.double().numpy().reshape(-1))
    assert off < bound, (name, off, bound)
    return off


def check_greedy(path, folder, name, model, flags, prompt):
    text = "The cyclotron accelerates"
    ids = encode(flags, [text])[0][0]
    if name in SEQUENCES:
        ids = ids + [1]
    theirs, piece = peer(path, "greedy", "24", lines=[" ".join(map(str, ids))])
    with torch.no_grad():
        made = model.generate(torch.tensor([ids]), max_new_tokens=24, min_new_tokens=24, do_sample=False, eos_token_id=None, pad_token_id=0)[0]
    wanted = made[1:] if name in SEQUENCES else made[len(ids):]
    assert [int(i) for i in theirs.split()] == wanted.tolist(), (name, theirs, wanted.tolist())
    if name in SEQUENCES:
        return
    written = subprocess.run([PROGRAM, "generate", "--load", folder, "--prompt", text, "--greedy", "--ignore-eod", "--max-new-tokens", "24",
                              "--device", "cpu"], capture_output=True)
    assert written.returncode == 0, written.stderr
    # Tokens of single bytes do not always form characters.
    ours, theirs = (re.sub("\ufffd+", "\ufffd", text.decode(errors="replace")) for text in (written.stdout, bytes.fromhex(piece)))
    assert theirs.strip() in ours, (name, theirs, ours)


def check_family(name, build):
    kind = USUAL.get(name, "spm_bpe")
    folder, flags, model = make(name, build, kind)
    model = model.double()
    prompt = [int(i) for i in np.random.default_rng(3).integers(3, 90, 12)]
    path = convert(folder, name)
    bound = 3e-3 if name in COARSE else 2e-5
    off = check_logits(path, name, model, prompt, bound)
    count = check_ids(path, flags, kind)
    if name not in ENCODERS:
        check_greedy(path, folder, name, model, flags, prompt)
    half = check_logits(convert(folder, name + ".bf16", "--dtype", "bf16"), name, model, prompt, 0.2)
    eighth = check_logits(convert(folder, name + ".q8_0", "--dtype", "q8_0"), name, model, prompt, 0.3)
    print(f"{name:14} {kind:12} {count} texts with the same ids; logits off by {off:.1e}, bf16 {half:.1e}, q8_0 {eighth:.1e}; same greedy text", flush=True)
    print(" " * 14, check_converter(name, folder, path), flush=True)


# ---- llama.cpp's own converter ----

# It recognizes byte-level tokenizers by a hash of some ids, and ours are not on its list.
CONVERTER = """
import runpy, sys
sys.path[:0] = [{root!r}, {root!r} + "/gguf-py"]
from conversion.base import TextModel
TextModel.get_vocab_base_pre = lambda self, tokenizer: {pre!r}
sys.argv = ["convert_hf_to_gguf.py", {folder!r}, "--outfile", {out!r}, "--outtype", "f32"]
runpy.run_path({root!r} + "/convert_hf_to_gguf.py", run_name="__main__")
"""
# Families that it does not convert, and why.
UNKNOWN = {"roberta": "RobertaForMaskedLM is not supported", "glm4": "<|user|>", "glm4_moe": "KeyError"}
# What its converter drops although the model needs it, or assumes.
LOST_THERE = {"llama_yarn_own"}
# It assumes that GPT-2's MLP is four times as wide as the rest; Megatron's tokenizers have additional tokens after
# those of the file.
MORE_TOKENS = ("tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.scores")
OTHER_KEYS = {"gpt2_untied": ("gpt2.feed_forward_length",), "llama_yarn_own": ("llama.rope.scaling.attn_factor",),
              "bert": MORE_TOKENS, "t5": MORE_TOKENS, "t5_v1_1": MORE_TOKENS, "t5_flat": MORE_TOKENS, "umt5": MORE_TOKENS}


def value_of(reader, key):
    field = reader.get_field(key)
    return None if field is None else field.contents()


def tensors_of(path):
    """Elements by name; what is separate in one of the two files is joined."""
    found = {tensor.name: tensor.data for tensor in gguf.GGUFReader(path).tensors}
    for name in [name for name in found if name.endswith("attn_q.weight") and name.replace("attn_q", "attn_k") in found]:
        parts = [name.replace("attn_q", "attn_" + part) for part in "qkv"]
        found[name.replace("attn_q", "attn_qkv")] = np.concatenate([found.pop(part) for part in parts])
    return found


def check_converter(name, folder, path):
    out, export = path[:-5] + ".theirs.gguf", folder + ".export"
    run("checkpoint", "convert", "--input", folder, "--output", export, "--to", "huggingface")
    pre = value_of(gguf.GGUFReader(path), "tokenizer.ggml.pre")
    done = subprocess.run([sys.executable, "-c", CONVERTER.format(root=ROOT, pre=pre, folder=export, out=out)], capture_output=True, text=True)
    if name in UNKNOWN:
        assert done.returncode != 0 and UNKNOWN[name] in done.stderr, done.stderr[-2000:]
        return "not known to its converter"
    assert done.returncode == 0, (name, done.stderr[-2500:])
    ours, theirs = tensors_of(path), tensors_of(out)
    # One of the files may have a tied output as a copy.
    for one, other in ((ours, theirs), (theirs, ours)):
        if "output.weight" not in one and "output.weight" in other:
            one["output.weight"] = one["token_embd.weight"]
    if name in LOST_THERE:
        ours.pop("rope_freqs.weight")
    assert sorted(ours) == sorted(theirs), (name, sorted(set(ours) ^ set(theirs)))
    for tensor in ours:
        if tensor == "rope_freqs.weight":
            assert np.allclose(ours[tensor], theirs[tensor], rtol=1e-5), (name, tensor)
        elif not (name in ("t5", "umt5") and tensor == "dec.output_norm.weight"):  # it does not scale T5's logits
            assert np.array_equal(ours[tensor], theirs[tensor]), (name, tensor)
    a, b = gguf.GGUFReader(path), gguf.GGUFReader(out)
    prefix = value_of(a, "general.architecture") + "."
    keys = [key for key in b.fields if key.startswith((prefix, "tokenizer.ggml.")) and key in a.fields and not key.endswith("_token_id")]
    wrong = [(key, value_of(a, key), value_of(b, key)) for key in keys if value_of(a, key) != value_of(b, key)]
    wrong = [row for row in wrong if row[0] not in OTHER_KEYS.get(name, ())]
    assert not wrong, (name, [(key, str(x)[:200], str(y)[:200]) for key, x, y in wrong])
    return f"its converter makes the same {len(ours)} tensors and {len(keys)} keys"


# ---- models that bevatron trained itself, with each of its tokenizers ----

GOLDEN = os.path.join(os.path.dirname(HERE), "golden")
BPE_FILES = ["--vocab-file", GOLDEN + "/bpe/vocab.json", "--merge-file", GOLDEN + "/bpe/merges.txt"]
OURS = {
    "own_gpt2": ["--model", "gpt", "--tokenizer-type", "GPT2BPETokenizer", *BPE_FILES],
    "own_today": ["--model", "llama", "--tokenizer-type", "GPT2BPETokenizer", "--no-legacy-tokenizer", *BPE_FILES],
    "own_ranks": ["--model", "llama", "--tokenizer-type", "TikTokenizer", "--tokenizer-model", GOLDEN + "/tiktoken/small.tiktoken", "--tiktoken-pattern", "llama3"],
    "own_ranks_gpt2": ["--model", "gpt", "--tokenizer-type", "TikTokenizer", "--tokenizer-model", GOLDEN + "/tiktoken/small.tiktoken", "--tiktoken-pattern", "gpt2"],
    "own_llama2": ["--model", "llama", "--tokenizer-type", "Llama2Tokenizer", "--tokenizer-model", GOLDEN + "/gguf_bpe.model"],
    "own_spm": ["--model", "llama", "--tokenizer-type", "GPTSentencePieceTokenizer", "--tokenizer-model", GOLDEN + "/gguf_bpe.model"],
    "own_extra": ["--model", "llama", "--tokenizer-type", "SentencePieceTokenizer", "--vocab-extra-ids", "10", "--tokenizer-model", GOLDEN + "/gguf_bpe.model"],
    "own_unigram": ["--model", "llama", "--tokenizer-type", "GPTSentencePieceTokenizer", "--tokenizer-model", GOLDEN + "/gguf_unigram.model"],
    "own_fairseq": ["--model", "roberta", "--tokenizer-type", "FairseqTokenizer", "--tokenizer-model", WORK + "/dictionary.txt", *BPE_FILES],
    "own_wordpiece": ["--model", "bert", "--norm-placement", "post", "--tokenizer-type", "BertWordPieceLowerCase", "--vocab-file", GOLDEN + "/wordpiece/vocab.txt"],
}


def check_ours(name, flags):
    folder, text = os.path.join(WORK, name), "The end of it all"
    if name == "own_fairseq":
        size = len(json.load(open(GOLDEN + "/bpe/vocab.json")))
        open(WORK + "/dictionary.txt", "w").write("".join(f"{(7 * i) % size} 1\n" for i in range(size)))
    run("train", *flags, "--num-layers", "2", "--hidden-size", "64", "--ffn-hidden-size", "96", "--num-attention-heads", "4", "--seq-length", "32",
        "--max-position-embeddings", "64", "--micro-batch-size", "2", "--global-batch-size", "2", "--train-iters", "2", "--lr", "1e-3", "--eval-iters", "0",
        "--init-method-std", "0.3", "--save", folder, "--save-interval", "2", "--mock-data", "--device", "cpu", "--threads", "1")
    path = convert(folder, name)
    tokenizer = [flag for i, flag in enumerate(flags) if flag not in ("--model", "--norm-placement") and (i == 0 or flags[i - 1] not in ("--model", "--norm-placement"))]
    texts = strings(300)
    if name == "own_extra":  # finds control pieces in text, which llama.cpp does only on request, and then all of them
        texts = [text for text in texts if "<unk>" not in text]
    if name == "own_wordpiece":  # llama.cpp strips accents differently there
        texts = [text for text in texts if not re.search("[\u0900-\u0d7f\uac00-\ud7a3]", text)]
    if name == "own_fairseq":  # removes the spaces around a text
        texts = [text.strip() for text in texts]
    ours = encode(tokenizer, texts)[0]
    task = "parse" if "--no-legacy-tokenizer" in flags else "tokenize"
    theirs = [[int(i) for i in line.split()] for line in peer(path, task, lines=[text.encode().hex() for text in texts])]
    if "roberta" in flags or "bert" in flags:
        theirs = [ids[1:-1] for ids in theirs]  # what models of this kind put around a text
    wrong = [(text, a, b) for text, a, b in zip(texts, ours, theirs) if a != b]
    assert not wrong, (name, len(wrong), len(texts), wrong[:3])
    said = "same ids"
    if "roberta" not in flags and "bert" not in flags:
        made, piece = peer(path, "greedy", "16", lines=[" ".join(map(str, encode(tokenizer, [text])[0][0]))])
        written = subprocess.run([PROGRAM, "generate", "--load", folder, "--prompt", text, "--greedy", "--ignore-eod", "--max-new-tokens", "16", "--device", "cpu"],
                                 capture_output=True)
        ours, theirs = (re.sub("\ufffd+", "\ufffd", text.decode(errors="replace")) for text in (written.stdout, bytes.fromhex(piece)))
        if name == "own_extra":  # bevatron writes special tokens with spaces around them, like Megatron
            ours, theirs = ours.replace(" ", ""), theirs.replace(" ", "")
        assert written.returncode == 0 and theirs.strip() in ours, (name, theirs, ours, made)
        said += " and greedy text"
    print(f"{name:14} {len(texts)} texts: {said}", flush=True)


def check_refused(name, build, kind, message):
    folder = make(name, build, kind)[0]
    path = os.path.join(WORK, name + ".gguf")
    said = run("checkpoint", "convert", "--input", folder, "--output", path, "--to", "gguf", ok=False)
    assert message in said and not os.path.exists(path), (name, said)
    print(f"{name:14} refused: {message}", flush=True)


def main():
    build_peer()
    wanted, failed = sys.argv[1:], []
    for name, build in {**DECODERS, **ENCODERS, **SEQUENCES}.items():
        if not wanted or name in wanted:
            try:
                check_family(name, build)
            except AssertionError as error:
                failed.append(name)
                print(f"{name}: FAILED: {str(error)[:1500]}", flush=True)
    for name, flags in OURS.items():
        if not wanted or name in wanted:
            try:
                check_ours(name, flags)
            except AssertionError as error:
                failed.append(name)
                print(f"{name}: FAILED: {str(error)[:1500]}", flush=True)
    for name, (build, kind, message) in REFUSED.items():
        if not wanted or name in wanted:
            check_refused(name, build, kind, message)
    assert not failed, failed
    shutil.rmtree(WORK)


main()
