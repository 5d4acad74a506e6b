"""transformers and bevatron read each other's models: small random ones of every family and odd shape, saved by
transformers whole, in shards and as torch files, in fp32, bf16 and fp16. Converted to ours and back they have the same
tensors bit by bit, from_pretrained loads them without a warning and computes the same logits; models trained by
bevatron load as well.

    BEVATRON=build/release/bevatron python tests/peers/hf_convert_peers.py [COUNT [FAMILY…]]

(torch, transformers 4.57 or 5, safetensors)"""
import io
import json
import logging
import os
import random
import subprocess
import sys
import tempfile

import torch
import transformers as hf
from safetensors.torch import load_file

PROGRAM = os.environ.get("BEVATRON", "build/release/bevatron")
IS_OLD = hf.__version__.startswith("4.")
warned = io.StringIO()
logging.getLogger("transformers").addHandler(logging.StreamHandler(warned))
hf.logging.disable_progress_bar()


def run(*arguments):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


def decoder_sizes(r):
    groups = r.choice([1, 2, 3])
    heads = groups * r.choice([1, 2, 4])
    return dict(num_attention_heads=heads, num_key_value_heads=groups, hidden_size=heads * 4, head_dim=r.choice([2, 4, 6, 10]),
                num_hidden_layers=r.choice([1, 2, 5]), intermediate_size=r.choice([7, 20, 33]), vocab_size=r.choice([31, 50, 97]),
                max_position_embeddings=r.choice([16, 70]), tie_word_embeddings=r.random() < 0.5)


def rope(r):
    kind = r.choice(["default", "linear", "llama3"])
    base = {"rope_type": kind, "rope_theta": r.choice([10000.0, 500000.0, 1234.0])}
    if kind == "linear":
        base["factor"] = 2.5
    if kind == "llama3":
        base.update(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8)
    return base


def rotary(parameters):
    """In the form that this release of transformers takes."""
    if not IS_OLD:
        return {"rope_parameters": parameters}
    scaling = {key: value for key, value in parameters.items() if key not in ("rope_theta", "partial_rotary_factor")}
    out = {"rope_theta": parameters["rope_theta"], "rope_scaling": None if scaling["rope_type"] == "default" else scaling}
    if "partial_rotary_factor" in parameters:
        out["partial_rotary_factor"] = parameters["partial_rotary_factor"]
    return out


def part(r):
    """Rotation of some channels of heads of 8."""
    return rotary({"rope_type": "default", "rope_theta": r.choice([10000.0, 1234.0]), "partial_rotary_factor": r.choice([0.25, 0.5, 0.75, 1.0])})


def whole_sizes(r):
    """Heads as wide as hidden size / heads."""
    sizes = decoder_sizes(r)
    del sizes["head_dim"]
    return dict(sizes, hidden_size=sizes["num_attention_heads"] * 8, bos_token_id=0, eos_token_id=0, pad_token_id=None)


def encoder_sizes(r):
    heads = r.choice([1, 3, 5])
    return dict(num_attention_heads=heads, hidden_size=heads * 4, num_hidden_layers=r.choice([1, 3]), intermediate_size=r.choice([7, 20]),
                vocab_size=r.choice([31, 50]), hidden_act=r.choice(["gelu", "gelu_new", "relu"]))


def gpt2(r):
    heads = r.choice([1, 3, 5])
    return hf.GPT2LMHeadModel(hf.GPT2Config(n_head=heads, n_embd=heads * 4, n_layer=r.choice([1, 3]), n_positions=r.choice([16, 40]),
                                            vocab_size=r.choice([31, 50]), n_inner=r.choice([None, 17]), bos_token_id=0, eos_token_id=0,
                                            activation_function=r.choice(["gelu_new", "gelu", "relu"]),
                                            tie_word_embeddings=r.random() < 0.7))


def opt(r):
    heads = r.choice([1, 3, 5])
    return hf.OPTForCausalLM(hf.OPTConfig(num_attention_heads=heads, hidden_size=heads * 4, word_embed_proj_dim=heads * 4,
                                          num_hidden_layers=r.choice([1, 3]), ffn_dim=r.choice([7, 20]), vocab_size=r.choice([31, 50]),
                                          max_position_embeddings=r.choice([16, 40])))


def llama(r):
    return hf.LlamaForCausalLM(hf.LlamaConfig(**decoder_sizes(r), **rotary(rope(r)), rms_norm_eps=r.choice([1e-5, 1e-6])))


def mistral(r):
    return hf.MistralForCausalLM(hf.MistralConfig(**decoder_sizes(r), sliding_window=r.choice([None, 3, 8])))


def qwen2(r):
    sizes = decoder_sizes(r)
    del sizes["head_dim"]
    return hf.Qwen2ForCausalLM(hf.Qwen2Config(**sizes))


def phi3(r):
    return hf.Phi3ForCausalLM(hf.Phi3Config(**whole_sizes(r), **part(r), sliding_window=r.choice([None, 3, 8])))


def starcoder2(r):
    return hf.Starcoder2ForCausalLM(hf.Starcoder2Config(
        **whole_sizes(r), **rotary(rope(r)), sliding_window=r.choice([None, 3, 8]), use_bias=r.random() < 0.5,
        hidden_act=r.choice(["gelu_pytorch_tanh", "gelu", "relu"])))


def stablelm(r):
    return hf.StableLmForCausalLM(hf.StableLmConfig(**whole_sizes(r), **part(r), use_qkv_bias=r.random() < 0.5))


def nemotron(r):
    return hf.NemotronForCausalLM(hf.NemotronConfig(**whole_sizes(r), **part(r), attention_bias=r.random() < 0.3,
                                                    mlp_bias=r.random() < 0.3, hidden_act=r.choice(["relu2", "gelu"])))


def gpt_bigcode(r):
    heads = r.choice([1, 3, 5])
    return hf.GPTBigCodeForCausalLM(hf.GPTBigCodeConfig(
        n_head=heads, n_embd=heads * 4, n_layer=r.choice([1, 3]), n_positions=r.choice([16, 40]), vocab_size=r.choice([31, 50]),
        n_inner=r.choice([None, 17]), bos_token_id=0, eos_token_id=0, multi_query=r.random() < 0.6,
        activation_function=r.choice(["gelu_pytorch_tanh", "gelu", "relu"]), tie_word_embeddings=r.random() < 0.7))


def experts(r, dense=True):
    """Some layers may be dense."""
    sizes = dict(num_experts_per_tok=r.choice([2, 3]), num_experts=r.choice([3, 5, 8]))
    if dense:
        layers = r.choice([{}, {"mlp_only_layers": [0]}, {"decoder_sparse_step": 2}])
        sizes.update(layers, num_hidden_layers=r.choice([2, 3]), moe_intermediate_size=r.choice([5, 16]), norm_topk_prob=r.random() < 0.5)
    return sizes


def mixtral(r):
    sizes = {**decoder_sizes(r), **experts(r, False)}
    sizes["num_local_experts"] = sizes.pop("num_experts")
    return hf.MixtralForCausalLM(hf.MixtralConfig(**sizes, **rotary(rope(r)), router_aux_loss_coef=r.choice([0.02, 0.001])))


def qwen2_moe(r):
    return hf.Qwen2MoeForCausalLM(hf.Qwen2MoeConfig(**{**whole_sizes(r), **experts(r)}, **rotary(rope(r)),
                                                    shared_expert_intermediate_size=r.choice([6, 17]), qkv_bias=r.random() < 0.5))


def qwen3_moe(r):
    return hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(**{**decoder_sizes(r), **experts(r)}, **rotary(rope(r)), attention_bias=r.random() < 0.5))


def olmoe(r):
    return hf.OlmoeForCausalLM(hf.OlmoeConfig(**{**whole_sizes(r), **experts(r, False)}, **rotary(rope(r)), attention_bias=r.random() < 0.5,
                                              norm_topk_prob=r.random() < 0.5))


def bert(r):
    kind = r.choice([hf.BertForPreTraining, hf.BertForMaskedLM])
    return kind(hf.BertConfig(**encoder_sizes(r), max_position_embeddings=r.choice([16, 40]), type_vocab_size=r.choice([2, 3])))


def megatron_bert(r):
    return hf.MegatronBertForPreTraining(hf.MegatronBertConfig(**encoder_sizes(r), max_position_embeddings=r.choice([16, 40])))


def roberta(r):
    return hf.RobertaForMaskedLM(hf.RobertaConfig(**encoder_sizes(r), max_position_embeddings=r.choice([18, 42]), type_vocab_size=1))


def xlm_roberta(r):
    return hf.XLMRobertaForMaskedLM(hf.XLMRobertaConfig(**encoder_sizes(r), max_position_embeddings=r.choice([18, 42]), type_vocab_size=1))


def camembert(r):
    return hf.CamembertForMaskedLM(hf.CamembertConfig(**encoder_sizes(r), max_position_embeddings=r.choice([18, 42]), type_vocab_size=1,
                                                      bos_token_id=5, eos_token_id=6))


def mt5(r):
    model = hf.MT5ForConditionalGeneration(hf.MT5Config(
        d_model=r.choice([8, 12]), num_heads=r.choice([1, 3]), d_kv=r.choice([3, 8]), d_ff=r.choice([7, 20]), num_layers=r.choice([1, 3]),
        num_decoder_layers=r.choice([1, 2]), vocab_size=r.choice([31, 50]), decoder_start_token_id=0,
        feed_forward_proj=r.choice(["relu", "gated-gelu"]), tie_word_embeddings=False))
    model.lm_head.weight = torch.nn.Parameter(torch.zeros_like(model.shared.weight))
    return model


def umt5(r):
    is_tied = not IS_OLD or r.random() < 0.5  # transformers 5 treats all as tied
    return hf.UMT5ForConditionalGeneration(hf.UMT5Config(
        d_model=r.choice([8, 12]), num_heads=r.choice([1, 3]), d_kv=r.choice([3, 8]), d_ff=r.choice([7, 20]), num_layers=r.choice([1, 3]),
        num_decoder_layers=r.choice([1, 2]), vocab_size=r.choice([31, 50]), decoder_start_token_id=0, tie_word_embeddings=is_tied))


def t5(r):
    return hf.T5ForConditionalGeneration(hf.T5Config(
        d_model=r.choice([8, 12]), num_heads=r.choice([1, 3]), d_kv=r.choice([3, 8]), d_ff=r.choice([7, 20]), num_layers=r.choice([1, 3]),
        num_decoder_layers=r.choice([1, 2]), vocab_size=r.choice([31, 50]), decoder_start_token_id=0,
        relative_attention_num_buckets=r.choice([8, 32]), relative_attention_max_distance=r.choice([20, 128]),
        feed_forward_proj=r.choice(["relu", "gated-gelu"]), tie_word_embeddings=r.random() < 0.5))


def tensors(folder):
    index = f"{folder}/model.safetensors.index.json"
    if os.path.exists(index):
        out = {}
        for name in sorted(set(json.load(open(index))["weight_map"].values())):
            out.update(load_file(f"{folder}/{name}"))
        return out
    return load_file(f"{folder}/model.safetensors")


def logits(model, seed):
    generator = torch.Generator().manual_seed(seed)
    vocab = model.config.vocab_size
    inputs = {"input_ids": torch.randint(3, vocab, (2, 9), generator=generator)}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.randint(3, vocab, (2, 5), generator=generator)
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")  # the others have no odd shapes
    with torch.no_grad():
        output = model.eval()(**inputs)
    return output.prediction_logits if "prediction_logits" in output else output.logits


def check(make, seed, folder):
    r = random.Random(f"{make.__name__} {seed}")
    torch.manual_seed(seed)
    model = make(r)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.2)
    model = model.to(r.choice([torch.float32, torch.float32, torch.bfloat16, torch.float16]))
    theirs, ours, back, sharded = (f"{folder}/{name}" for name in ("theirs", "ours", "back", "sharded"))
    model.save_pretrained(theirs, max_shard_size=r.choice(["5GB", "8KB"]))
    source = theirs
    if r.random() < 0.3:  # the same as a torch file, tied matrices twice
        source = f"{folder}/bin"
        model.config.save_pretrained(source)
        # transformers 5 has other names for experts in memory than in files.
        state = tensors(theirs) if make in (mixtral, qwen2_moe, qwen3_moe, olmoe) else model.state_dict()
        torch.save(state, f"{source}/pytorch_model.bin", _use_new_zipfile_serialization=r.random() < 0.5)
    run("checkpoint", "convert", "--input", source, "--output", ours)
    run("checkpoint", "convert", "--input", ours, "--output", back)
    run("checkpoint", "convert", "--input", ours, "--output", sharded, "--max-shard-size", "0.01MB")
    before, after = tensors(theirs), tensors(back)
    if "lm_head.weight" not in before and make is t5:  # one that is tied and not scaled gets a copy, which both releases understand
        assert torch.equal(after.pop("lm_head.weight", before["shared.weight"]), before["shared.weight"]), (make.__name__, seed)
    assert before.keys() == after.keys(), (make.__name__, seed, before.keys() ^ after.keys())
    for name, tensor in before.items():
        assert tensor.dtype == after[name].dtype and torch.equal(tensor, after[name]), (make.__name__, seed, name)
    original = type(model).from_pretrained(theirs, dtype="auto")
    for folder_read in (back, sharded):
        warned.truncate(0)
        warned.seek(0)
        read, info = type(model).from_pretrained(folder_read, dtype="auto", output_loading_info=True)
        # transformers 5 ties every T5 in its configuration, and warns if the file has a separate output matrix.
        is_said = "we will NOT tie them" in warned.getvalue() and "t5" in model.config.model_type
        assert not warned.getvalue() or is_said, (make.__name__, seed, warned.getvalue())
        assert read.dtype == model.dtype, (make.__name__, seed, read.dtype)
        assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], (make.__name__, seed, info)
        assert torch.equal(logits(read, seed), logits(original, seed)), (make.__name__, seed, folder_read)
        for key, value in original.config.to_dict().items():
            if value is not None and key not in ("_name_or_path", "transformers_version"):
                assert read.config.to_dict().get(key) == value, (make.__name__, seed, key, value, read.config.to_dict().get(key))


ROTARY = ["--position-embedding-type", "rope", "--disable-bias-linear", "--untie-embeddings-and-output-weights"]
TRAINED = {  # flags of models that transformers never had, by the family that they are written as
    "gpt2": [],
    "gpt_bigcode": ["--group-query-attention", "--num-query-groups", "1"],
    "llama": [*ROTARY, "--normalization", "RMSNorm", "--swiglu"],
    "phi3": [*ROTARY, "--normalization", "RMSNorm", "--swiglu", "--rotary-percent", "0.5"],
    "starcoder2": ["--position-embedding-type", "rope", "--group-query-attention", "--num-query-groups", "1"],
    "stablelm": [*ROTARY, "--swiglu", "--rotary-percent", "0.25", "--add-qkv-bias"],
    "nemotron": [*ROTARY, "--squared-relu", "--apply-layernorm-1p", "--rotary-percent", "0.5"],
}


def check_trained(folder, family):
    """A model that transformers never had: logits of ours (through greedy text) and theirs agree, and AutoTokenizer
    opens."""
    text = "\n".join(f"the {i} cats sat on the mat and {i % 7} dogs ran." for i in range(300))
    open(f"{folder}/text.txt", "w").write(text)
    run("tokenizer", "train", "--input", f"{folder}/text.txt", "--vocab-size", "300", "--output-prefix", f"{folder}/t")
    run("train", "--mock-data", "--num-layers", "2", "--hidden-size", "48", "--num-attention-heads", "3", "--seq-length", "32",
        "--vocab-file", f"{folder}/t-vocab.json", "--merge-file", f"{folder}/t-merges.txt", "--micro-batch-size", "4", "--lr", "1e-2",
        "--train-iters", "5", "--eval-iters", "0", "--save", f"{folder}/run", "--save-interval", "5", "--device", "cpu",
        "--make-vocab-size-divisible-by", "1", *TRAINED[family])
    run("checkpoint", "convert", "--input", f"{folder}/run", "--output", f"{folder}/hf")
    tokenizer = hf.AutoTokenizer.from_pretrained(f"{folder}/hf")
    warned.truncate(0)
    warned.seek(0)
    model = hf.AutoModelForCausalLM.from_pretrained(f"{folder}/hf").eval()
    assert model.config.model_type == family and not warned.getvalue(), (family, model.config.model_type, warned.getvalue())
    prompt = "the cats sat"
    ids = tokenizer(prompt, return_tensors="pt").input_ids
    said = run("generate", "--load", f"{folder}/run", "--prompt", prompt, "--greedy", "--max-new-tokens", "10", "--ignore-eod", "--device",
               "cpu").strip()
    for _ in range(10):
        ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(-1)], 1)
    assert tokenizer.decode(ids[0]).strip() == said, (tokenizer.decode(ids[0]), said)


def check_finetuned(folder):
    """A chat model that is trained further here keeps its tokens, its template and how it generates, and its weights
    are the trained ones."""
    from tokenizers import Tokenizer, models, pre_tokenizers, decoders, trainers
    text = [f"the {i} cats sat on the mat and {i % 7} dogs ran." for i in range(300)]
    raw = Tokenizer(models.BPE(unk_token="<unk>"))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    raw.train_from_iterator(text, trainers.BpeTrainer(vocab_size=300, special_tokens=["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"],
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="<|im_end|>", unk_token="<unk>", pad_token="</s>",
                                           additional_special_tokens=["<|im_start|>"], padding_side="left", model_max_length=77)
    tokenizer.chat_template = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    model = hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=300, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
                                               num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=4, pad_token_id=2))
    model.generation_config = hf.GenerationConfig(do_sample=True, temperature=0.6, top_p=0.9, eos_token_id=[4, 2], bos_token_id=1, pad_token_id=2)
    theirs, trained, back = f"{folder}/theirs", f"{folder}/trained", f"{folder}/back"
    model.save_pretrained(theirs)
    tokenizer.save_pretrained(theirs)
    for name in ("README.md", "LICENSE", "NOTICE.txt"):
        open(f"{theirs}/{name}", "w").write(name)
    open(f"{folder}/text.jsonl", "w").write("\n".join(json.dumps({"text": line}) for line in text))
    run("preprocess", "--input", f"{folder}/text.jsonl", "--output-prefix", f"{folder}/data", "--tokenizer-type", "HuggingFaceTokenizer",
        "--tokenizer-model", f"{theirs}/tokenizer.json", "--append-eod", "--workers", "1")
    run("train", "--load", theirs, "--use-checkpoint-args", "--data-path", f"{folder}/data_text_document", "--micro-batch-size", "2", "--lr", "1e-2",
        "--seq-length", "16", "--train-iters", "3", "--eval-iters", "0", "--save", trained, "--save-interval", "3", "--device", "cpu")
    run("checkpoint", "convert", "--input", trained, "--output", back)
    for name in sorted(os.listdir(theirs)):
        same = os.path.exists(f"{back}/{name}") and open(f"{back}/{name}", "rb").read() == open(f"{theirs}/{name}", "rb").read()
        assert same or name in ("config.json", "model.safetensors"), name
    after = hf.AutoTokenizer.from_pretrained(back)
    chat = [{"role": "user", "content": "cats?"}, {"role": "assistant", "content": "sat."}]
    assert after.special_tokens_map == tokenizer.special_tokens_map, (after.special_tokens_map, tokenizer.special_tokens_map)
    assert after.apply_chat_template(chat, tokenize=False) == tokenizer.apply_chat_template(chat, tokenize=False)
    assert after.padding_side == "left" and after.model_max_length == 77
    read = hf.AutoModelForCausalLM.from_pretrained(back)
    assert read.generation_config.to_diff_dict() == hf.GenerationConfig.from_pretrained(theirs).to_diff_dict()
    assert not torch.equal(read.model.embed_tokens.weight, model.model.embed_tokens.weight)
    for key, value in hf.AutoConfig.from_pretrained(theirs).to_dict().items():
        assert read.config.to_dict().get(key) == value or key in ("_name_or_path", "transformers_version", "dtype"), (key, value)


count = int(sys.argv[1]) if len(sys.argv) > 1 else 6
FAMILIES = (gpt2, opt, llama, mistral, qwen2, phi3, starcoder2, stablelm, nemotron, gpt_bigcode, mixtral, qwen2_moe, qwen3_moe,
            olmoe, bert, megatron_bert, roberta, xlm_roberta, camembert, t5, mt5, umt5)
for make in FAMILIES:
    if sys.argv[2:] and make.__name__ not in sys.argv[2:]:
        continue
    for seed in range(count):
        with tempfile.TemporaryDirectory() as folder:
            check(make, seed, folder)
    print(f"{make.__name__}: {count} models there and back", flush=True)
for family in TRAINED:
    with tempfile.TemporaryDirectory() as folder:
        check_trained(folder, family)
with tempfile.TemporaryDirectory() as folder:
    check_finetuned(folder)
print("hugging face: both ways agree")
