#!/usr/bin/env python3
"""Writes tests/golden/foreign/fairseq_roberta (a folder with model.pt, as fairseq 0.12 saves it) and
fairseq_roberta_old.pt (as its first releases did), each with the tokens and the logits of transformers' RoBERTa in
float64. The names are those of fairseq; transformers' own conversion gives the pairs. Needs torch, transformers and
safetensors. Run from the repository's root."""
import argparse
import collections
import os

import torch
import transformers as hf
from safetensors.torch import save_file

FOLDER = "tests/golden/foreign"
SIZES = dict(vocab_size=43, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
             max_position_embeddings=13, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1)


def make(activation):
    config = hf.RobertaConfig(**SIZES, hidden_act=activation)
    model = hf.RobertaForMaskedLM(config).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.randn(parameter.shape).double() * 0.2 + ("LayerNorm.weight" in name or "layer_norm.weight" in name))
            parameter.copy_(parameter.float().double())
        model.roberta.embeddings.token_type_embeddings.weight.zero_()  # fairseq has none
    return model


def names(model, is_old):
    """The model's tensors under fairseq's names."""
    state = {key: tensor.float() for key, tensor in model.state_dict().items()}
    stack = ("decoder" if is_old else "encoder") + ".sentence_encoder."
    head = ("decoder" if is_old else "encoder") + ".lm_head."
    out = collections.OrderedDict()
    out[stack + "embed_tokens.weight"] = state["roberta.embeddings.word_embeddings.weight"]
    out[stack + "embed_positions.weight"] = state["roberta.embeddings.position_embeddings.weight"]
    for layer in range(SIZES["num_hidden_layers"]):
        theirs, ours = f"roberta.encoder.layer.{layer}.", f"{stack}layers.{layer}."
        for kind in ("weight", "bias"):
            parts = {x: state[f"{theirs}attention.self.{y}.{kind}"] for x, y in (("q", "query"), ("k", "key"), ("v", "value"))}
            if is_old:
                out[f"{ours}self_attn.in_proj_{kind}"] = torch.cat([parts["q"], parts["k"], parts["v"]])
            else:
                for x in "kvq":
                    out[f"{ours}self_attn.{x}_proj.{kind}"] = parts[x]
            for a, b in (("self_attn.out_proj", "attention.output.dense"), ("self_attn_layer_norm", "attention.output.LayerNorm"),
                         ("fc1", "intermediate.dense"), ("fc2", "output.dense"), ("final_layer_norm", "output.LayerNorm")):
                out[f"{ours}{a}.{kind}"] = state[f"{theirs}{b}.{kind}"]
    for kind in ("weight", "bias"):
        out[f"{stack}{'emb_layer_norm' if is_old else 'layernorm_embedding'}.{kind}"] = state[f"roberta.embeddings.LayerNorm.{kind}"]
        out[f"{head}dense.{kind}"] = state[f"lm_head.dense.{kind}"]
        out[f"{head}layer_norm.{kind}"] = state[f"lm_head.layer_norm.{kind}"]
    out[head + "weight"] = out[stack + "embed_tokens.weight"]
    out[head + "bias"] = state["lm_head.bias"]
    return out


def arguments():
    return argparse.Namespace(arch="roberta_base", encoder_layers=2, encoder_embed_dim=24, encoder_ffn_embed_dim=40,
                              encoder_attention_heads=3, activation_fn="gelu", dropout=0.1, attention_dropout=0.1, max_positions=11,
                              bpe="gpt2", task="masked_lm", untie_weights_roberta=False)


def expect(name, model):
    tokens = torch.randint(4, SIZES["vocab_size"], (2, 9))
    with torch.no_grad():
        logits = model(tokens).logits
    save_file({"tokens": tokens.int(), "labels": tokens.int(), "logits": logits.float().contiguous()}, f"{FOLDER}/{name}.safetensors")


def seed():
    """Small ones for tests/fuzz; the second has a dtype that is refused."""
    global SIZES
    SIZES |= dict(hidden_size=2, num_hidden_layers=1, num_attention_heads=1, intermediate_size=3, vocab_size=5, max_position_embeddings=4)
    small = arguments()
    small.encoder_attention_heads = 1
    os.makedirs("tests/fuzz/seeds/roberta", exist_ok=True)
    model = names(make("gelu"), True)
    for name, dtype in (("small", torch.float32), ("double", torch.float64)):
        torch.save({"args": small, "model": {key: value.to(dtype) for key, value in model.items()}}, f"tests/fuzz/seeds/roberta/{name}.pt",
                   _use_new_zipfile_serialization=False)


torch.manual_seed(11)
os.makedirs(f"{FOLDER}/fairseq_roberta", exist_ok=True)
new = make("gelu")
torch.save({"args": None, "cfg": {"_name": None, "model": arguments(), "task": {"_name": "masked_lm"}}, "model": names(new, False),
            "optimizer_history": [{"num_updates": 7, "optimizer_name": "FairseqAdam"}], "extra_state": {"epoch": 1},
            "last_optimizer_state": {"state": {}}}, f"{FOLDER}/fairseq_roberta/model.pt")
expect("fairseq_roberta", new)
old = make("gelu")
torch.save({"args": arguments(), "model": names(old, True), "optimizer_history": [], "extra_state": {}},
           f"{FOLDER}/fairseq_roberta_old.pt", _use_new_zipfile_serialization=False)
expect("fairseq_roberta_old.pt", old)
seed()
