#!/usr/bin/env python3
"""Writes tests/golden/presets.txt: for every preset the vocabulary its published model has and the number of its parameters,
counted by transformers on models of the same configuration that are built without memory (device meta).

Needs torch and transformers. Run from the repository's root."""
import torch
from transformers import (BertConfig, BertForPreTraining, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM,
                          MistralConfig, MistralForCausalLM, MegatronBertConfig, MegatronBertForPreTraining, OPTConfig, OPTForCausalLM,
                          RobertaConfig, RobertaForMaskedLM, T5Config, T5ForConditionalGeneration)

rows = []


def add(name, model, config, untied=0):
    with torch.device("meta"):
        built = model(config)
    # Tied matrices are one parameter.
    count = sum(p.numel() for p in {id(p): p for p in built.parameters()}.values())
    rows.append((name, config.vocab_size, count + untied))


def gpt(name, layers, hidden, heads, positions, vocab=50257):
    add(name, GPT2LMHeadModel, GPT2Config(n_layer=layers, n_embd=hidden, n_head=heads, n_positions=positions, vocab_size=vocab))


for name, layers, hidden, heads in (("124m", 12, 768, 12), ("355m", 24, 1024, 16), ("774m", 36, 1280, 20), ("1558m", 48, 1600, 25)):
    gpt("gpt2-" + name, layers, hidden, heads, 1024)
for name, layers, hidden, heads in (("125m", 12, 768, 12), ("126m", 12, 768, 12), ("350m", 24, 1024, 16), ("760m", 24, 1536, 16),
                                    ("1.3b", 24, 2048, 16), ("2.7b", 32, 2560, 32), ("6.7b", 32, 4096, 32), ("13b", 40, 5120, 40),
                                    ("175b", 96, 12288, 96)):
    gpt("gpt3-" + name, layers, hidden, heads, 2048)
gpt("megatron-345m", 24, 1024, 16, 1024, 50304)
gpt("megatron-gpt2-8b", 42, 4096, 32, 1024, 51200)
for name, layers, hidden, heads in (("1.7b", 24, 2304, 24), ("3.6b", 30, 3072, 32), ("7.5b", 36, 4096, 32), ("18b", 40, 6144, 48),
                                    ("39b", 48, 8192, 64), ("76b", 60, 10240, 80), ("145b", 80, 12288, 96), ("310b", 96, 16384, 128),
                                    ("530b", 105, 20480, 128), ("1t", 128, 25600, 160)):
    gpt("megatron-" + name, layers, hidden, heads, 2048, 51200)
for name, layers, hidden, heads in (("125m", 12, 768, 12), ("1.3b", 24, 2048, 32), ("2.7b", 32, 2560, 32), ("6.7b", 32, 4096, 32),
                                    ("13b", 40, 5120, 40), ("30b", 48, 7168, 56), ("66b", 64, 9216, 72), ("175b", 96, 12288, 96)):
    add("opt-" + name, OPTForCausalLM, OPTConfig(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                                                 ffn_dim=4 * hidden, word_embed_proj_dim=hidden))
add("opt-350m", OPTForCausalLM, OPTConfig(num_hidden_layers=24, hidden_size=1024, num_attention_heads=16, ffn_dim=4096,
                                          word_embed_proj_dim=512, do_layer_norm_before=False))
for name, layers, hidden, heads, groups, ffn, vocab, tied in (
        ("llama-7b", 32, 4096, 32, 32, 11008, 32000, False), ("llama-13b", 40, 5120, 40, 40, 13824, 32000, False),
        ("llama-33b", 60, 6656, 52, 52, 17920, 32000, False), ("llama-65b", 80, 8192, 64, 64, 22016, 32000, False),
        ("llama2-7b", 32, 4096, 32, 32, 11008, 32000, False), ("llama2-13b", 40, 5120, 40, 40, 13824, 32000, False),
        ("llama2-70b", 80, 8192, 64, 8, 28672, 32000, False), ("llama3-8b", 32, 4096, 32, 8, 14336, 128256, False),
        ("llama3-70b", 80, 8192, 64, 8, 28672, 128256, False), ("llama3.1-8b", 32, 4096, 32, 8, 14336, 128256, False),
        ("llama3.1-70b", 80, 8192, 64, 8, 28672, 128256, False), ("llama3.1-405b", 126, 16384, 128, 8, 53248, 128256, False),
        ("llama3.2-1b", 16, 2048, 32, 8, 8192, 128256, True), ("llama3.2-3b", 28, 3072, 24, 8, 8192, 128256, True)):
    add(name, LlamaForCausalLM, LlamaConfig(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                                            num_key_value_heads=groups, intermediate_size=ffn, vocab_size=vocab,
                                            tie_word_embeddings=tied))
add("mistral-7b", MistralForCausalLM, MistralConfig())
for name, layers, hidden, heads in (("base", 12, 768, 12), ("large", 24, 1024, 16)):
    add("bert-" + name, BertForPreTraining, BertConfig(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                                                       intermediate_size=4 * hidden))
    add("roberta-" + name, RobertaForMaskedLM, RobertaConfig(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                                                             intermediate_size=4 * hidden, vocab_size=50265, type_vocab_size=1,
                                                             max_position_embeddings=514))
add("megatron-bert-345m", MegatronBertForPreTraining, MegatronBertConfig(vocab_size=30592))
for name, layers, hidden, heads, channels, ffn in (("small", 6, 512, 8, 64, 2048), ("base", 12, 768, 12, 64, 3072),
                                                   ("large", 24, 1024, 16, 64, 4096), ("3b", 24, 1024, 32, 128, 16384),
                                                   ("11b", 24, 1024, 128, 128, 65536)):
    add("t5-" + name, T5ForConditionalGeneration, T5Config(num_layers=layers, d_model=hidden, num_heads=heads, d_kv=channels, d_ff=ffn))
for name, layers, hidden, heads, ffn in (("small", 8, 512, 6, 1024), ("base", 12, 768, 12, 2048), ("large", 24, 1024, 16, 2816),
                                         ("xl", 24, 2048, 32, 5120), ("xxl", 24, 4096, 64, 10240)):
    # The released files have an output matrix of their own, which transformers ties until it finds one.
    add("t5-1.1-" + name, T5ForConditionalGeneration,
        T5Config(num_layers=layers, d_model=hidden, num_heads=heads, d_kv=64, d_ff=ffn, feed_forward_proj="gated-gelu"),
        untied=32128 * hidden)

with open("tests/golden/presets.txt", "w") as out:
    for row in rows:
        print(*row, file=out)
