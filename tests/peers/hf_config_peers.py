#!/usr/bin/env python3
"""Odd configurations of Hugging Face models: bevatron computes what transformers does, or names the member that it does
not support.

Each configuration starts from a config.json of tests/golden/foreign and changes one to three of its members. Those are
all that transformers' class of the family has or its program reads, each set to null, left out, or given another value,
and every kind of rotary scaling, in rope_scaling, in rope_parameters or in both. transformers makes a model of it with
random weights. Then either bevatron's logits equal transformers' within 1e-4 of the largest, and a conversion to a checkpoint of ours
and back gives a folder whose logits in transformers are the same to the bit; or bevatron's error names one of the
members that were changed, another one that contradicts it, or its flag. What transformers itself refuses is not counted.
Before that, every golden model is exported as every family ($EXPORTS=0 skips this): what is not refused must load in
transformers and compute the same.

    BEVATRON=build/release/bevatron MODEL=build/release/tests/peers_model python tests/peers/hf_config_peers.py [COUNT [FAMILY…]]

COUNT: configurations for each golden model (default 12). $SEED: the first one's (default 1). Needs torch, transformers
and safetensors, and `ninja -C build/release peers_model`."""
import collections
import copy
import dataclasses
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import warnings

import torch
import transformers as hf
from safetensors.torch import save_file

PROGRAM = os.environ.get("BEVATRON", "build/release/bevatron")
MODEL = os.environ.get("MODEL", os.path.join(os.path.dirname(PROGRAM), "tests/peers_model"))
GOLDEN = "tests/golden/foreign"
SEED = int(os.environ.get("SEED", "1"))
VERBOSE = "VERBOSE" in os.environ
IS_OLD = hf.__version__.startswith("4.")  # does not read rope_parameters
hf.logging.set_verbosity_error()
hf.logging.disable_progress_bar()
warnings.simplefilter("ignore")
torch.set_num_threads(1)

# Not of the model: how it is run, drawn or generated from. Sizes so large that they would take all memory are not tried.
UNTRIED = {"model_type", "architectures", "dtype", "torch_dtype", "transformers_version", "quantization_config", "name_or_path", "_name_or_path",
           "vocab_size", "id2label", "label2id", "_attn_implementation", "attn_implementation", "output_attentions", "output_hidden_states",
           "return_dict", "use_return_dict", "num_labels", "from_dict", "from_pretrained", "to_dict", "update", "get_text_config", "save_pretrained",
           "_experts_implementation", "problem_type", "torchscript", "chunk_size_feed_forward"}
WORDS = ["gelu", "gelu_new", "relu", "silu", "gelu_pytorch_tanh", "mish", "default", "softmax", "sigmoid", "greedy", "group_limited_greedy",
         "noaux_tc", "rms_norm", "layer_norm", "full_attention", "sliding_attention", "relative_key", "absolute", "relu2"]


def members_of(config, kind):
    """Members that the class of the configuration has, and those that the program of the model reads."""
    names = set(config.to_dict()) | {field.name for field in dataclasses.fields(config)} if dataclasses.is_dataclass(config) else set(config.to_dict())
    program = open(sys.modules[kind.__module__].__file__).read() + open(sys.modules[type(config).__module__].__file__).read()
    names |= set(re.findall(r"\bconfig\.([a-z]\w*)", program)) | set(re.findall(r"getattr\((?:self\.)?config, \"(\w+)\"", program))
    names |= set(re.findall(r"kwargs\.(?:pop|get)\(\"(\w+)\"", program))
    return sorted(name for name in names if name not in UNTRIED and not name.startswith("_") and not name.startswith("base_model_"))


def odd_value(r, value):
    if r.random() < 0.25:
        return None
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return r.choice([0, 1, 2, 3, 4, max(1, value // 2), value + 1, value * 2, float(value)] if value < 1000 else [0, value // 2, 1])
    if isinstance(value, float):
        return r.choice([0.0, 1.0, value / 2, 0.5, 2.0, int(value)])
    if isinstance(value, str):
        return r.choice(WORDS)
    if isinstance(value, list) and value:
        other = [r.choice(value) for _ in value]
        return r.choice([other, list(reversed(value)), value[:-1], []])
    if value is None:
        return r.choice([True, False, 0, 1, 2, 4, 0.5, 1.0, 8.0, "gelu"])
    return r.choice([{}, [], 1])


def odd_rope(r, base, positions):
    """A rotary kind with its members, some of them null, absent or 0."""
    kind = r.choice(["default", "linear", "dynamic", "llama3", "yarn", "yarn", "longrope"])
    numbers = {key: value for key, value in base.items() if type(value) is int and value > 0}
    head = numbers.get("head_dim") or numbers.get("qk_rope_head_dim") or numbers.get("hidden_size", 8) // numbers.get("num_attention_heads", 1)
    pairs = max(1, head // 2)
    out = {"rope_type": kind}
    more = {"default": {}, "linear": {"factor": 3.0}, "dynamic": {"factor": 2.0},
            "llama3": {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": max(2, positions // 2)},
            "yarn": {"factor": 4.0, "original_max_position_embeddings": max(2, positions // 4)},
            "longrope": {"factor": 2.0, "short_factor": [1.0 + 0.1 * i for i in range(pairs)], "long_factor": [1.5 + i for i in range(pairs)],
                         "original_max_position_embeddings": max(2, positions // 2)}}[kind]
    out.update(more)
    if kind == "yarn":
        for key, values in {"truncate": [None, 0, False, True, 1], "attention_factor": [None, 0.0, 1.3], "beta_fast": [None, 0, 16.0],
                            "beta_slow": [None, 0, 2.0], "mscale": [None, 0.7, 1.0, 0], "mscale_all_dim": [None, 1.1, 0, 0.7]}.items():
            if r.random() < 0.3:
                out[key] = r.choice(values)
    if r.random() < 0.3:
        out["rope_theta"] = r.choice([777.0, 10000.0, 10000, None, 0])
    if r.random() < 0.2:
        out["partial_rotary_factor"] = r.choice([0.5, 1.0, None])
    if r.random() < 0.2:
        out["type"] = out.pop("rope_type")
    if more and r.random() < 0.15:
        key = r.choice(sorted(more))
        out[key] = r.choice([None, 0, 1.0])
        if r.random() < 0.5:
            del out[key]
    return out


def change_rope(r, config):
    """Returns the members that were changed."""
    positions = config.get("max_position_embeddings")
    positions = positions if type(positions) is int and positions > 0 else 32
    where = r.choice(["rope_scaling", "rope_parameters", "both", "base", "empty"])
    changed = {"rope_scaling", "rope_parameters", "rope_theta", "partial_rotary_factor"}
    if where == "base":
        key = r.choice(["rope_theta", "partial_rotary_factor", "rotary_pct", "rotary_emb_base", "rope_local_base_freq", "rotary_dim"])
        config[key] = r.choice([None, 0, 0.5, 1.0, 123.0, 10000])
        return changed | {key}
    if where == "empty":
        config[r.choice(["rope_scaling", "rope_parameters"])] = r.choice([{}, None])
        return changed
    if where in ("rope_scaling", "both"):
        config["rope_scaling"] = odd_rope(r, config, positions)
    if where in ("rope_parameters", "both"):
        nested = isinstance(config.get("rope_parameters"), dict) and any(isinstance(v, dict) for v in config["rope_parameters"].values())
        config["rope_parameters"] = {k: odd_rope(r, config, positions) for k in config["rope_parameters"]} if nested and r.random() < 0.7 else odd_rope(r, config, positions)
    elif r.random() < 0.5:
        config.pop("rope_parameters", None)
    if r.random() < 0.3:
        config["rope_theta"] = r.choice([777.0, 5000.0, None])
    return changed


def flat_rope(base):
    """The configuration as releases before 5 read it; None if they cannot express it."""
    base = dict(base)
    rope = base.pop("rope_parameters", None) or {}
    if any(isinstance(value, dict) for value in rope.values()):
        return None
    rope = dict(rope)
    for theirs, outer in (("rope_theta", "rotary_emb_base" if base["model_type"] == "gpt_neox" else "rope_theta"),
                          ("partial_rotary_factor", "rotary_pct" if base["model_type"] == "gpt_neox" else "partial_rotary_factor")):
        if theirs in rope:
            base.setdefault(outer, rope.pop(theirs))
            rope.pop(theirs, None)
    if rope.get("rope_type", "default") != "default":
        base["rope_scaling"] = rope
    return base


def mutate(r, base, defaults, members):
    config, changed = copy.deepcopy(base), set()
    for _ in range(r.choice([1, 1, 1, 2, 3])):
        if r.random() < 0.3 and ("rope_parameters" in base or "rope_scaling" in base or "rope_theta" in base or "rotary_dim" in base):
            changed |= change_rope(r, config)
            continue
        name = r.choice(members)
        changed.add(name)
        if name in config and r.random() < 0.25:
            del config[name]
        elif name in ("hidden_size", "d_model", "n_embd") and isinstance(config.get(name), int):
            config[name] = config[name] * 2
        else:
            config[name] = odd_value(r, config.get(name, defaults.get(name)))
    if IS_OLD:
        config.pop("rope_parameters", None)
    # Numbers that stood in the object are missing then.
    return config, changed | ({"rope_theta", "partial_rotary_factor"} if changed & {"rope_parameters", "rope_scaling"} else set())


def make(kind, config, seed):
    torch.manual_seed(seed)
    model = kind(config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.randn(p.shape) * 0.2 * min(1, (16 / p.shape[-1]) ** 0.5 if p.dim() > 1 else 1) + (p.dim() == 1 and "norm" in name and "bias" not in name))
        for name, b in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                b.copy_(torch.randn(b.shape) * 0.2)
    return model.eval()


def form_of(config):
    return "t5" if config.is_encoder_decoder else "bert" if "bert" in config.model_type or config.model_type == "camembert" else "gpt"


def inputs_of(config, seed):
    torch.manual_seed(seed)
    form, vocab = form_of(config), config.vocab_size
    positions = next((getattr(config, key) for key in ("max_position_embeddings", "n_positions", "max_seq_len") if isinstance(getattr(config, key, None), int)), 12)
    T = max(1, min(12, positions - (2 if form == "bert" and config.model_type in ("roberta", "xlm-roberta", "camembert") else 0)))
    data = {"tokens": torch.randint(min(3, vocab - 1), vocab, (1, T)), "labels": torch.zeros(1, 5 if form == "t5" else T, dtype=torch.long)}
    data["mask"] = torch.ones(data["labels"].shape)
    if form != "gpt":
        data["lengths"] = torch.full((1,), T)
    if form == "bert":
        data["types"] = torch.zeros(1, T, dtype=torch.long)
    if form == "t5":
        data["decoder_tokens"] = torch.randint(3, vocab, (1, 5))
    return form, T, data


def theirs(model, form, data):
    more = {"decoder_input_ids": data["decoder_tokens"]} if form == "t5" else {"token_type_ids": data["types"]} if form == "bert" else {}
    with torch.no_grad():
        out = model(input_ids=data["tokens"], use_cache=False, return_dict=True, **more) if form == "gpt" else model(input_ids=data["tokens"], return_dict=True, **more)
    return out.prediction_logits if "prediction_logits" in out else out.logits


def attend(config):
    """Falcon's plain attention adds the biases of ALiBi a second time (transformers 5.23), since its mask has them too."""
    config._attn_implementation = "sdpa" if getattr(config, "alibi", False) else "eager"
    return config


def ours(folder, form, T, data, vocab):
    save_file({k: v.to(torch.float32 if v.is_floating_point() else torch.int32).contiguous() for k, v in data.items()}, f"{folder}/samples.safetensors")
    if form == "bert":
        data = dict(data, pair_labels=torch.zeros(1, dtype=torch.long))
        save_file({k: v.to(torch.float32 if v.is_floating_point() else torch.int32).contiguous() for k, v in data.items()}, f"{folder}/samples.safetensors")
    done = subprocess.run([MODEL, "--load", f"{folder}/theirs", "--use-checkpoint-args", "--finetune", "--samples", f"{folder}/samples.safetensors",
                           "--logits", f"{folder}/logits", "--mock-data", "--vocab-size", str(vocab), "--micro-batch-size", "1", "--seq-length", str(T),
                           "--train-iters", "1", "--lr", "1e-3", "--hidden-dropout", "0", "--attention-dropout", "0",
                           *(["--decoder-seq-length", "5"] if form == "t5" else [])], capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr.strip() or f"exit code {done.returncode}"
    return torch.frombuffer(bytearray(open(f"{folder}/logits", "rb").read()), dtype=torch.float32), None


def back(folder, kind, form, data, expected):
    """What is wrong with the way to a checkpoint of ours and back; None if nothing is."""
    for source, target, form_to in (("theirs", "ours", "bevatron"), ("ours", "back", "huggingface")):
        done = subprocess.run([PROGRAM, "checkpoint", "convert", "--input", f"{folder}/{source}", "--output", f"{folder}/{target}", "--to", form_to],
                              capture_output=True, text=True)
        if done.returncode:
            return None if form_to == "huggingface" and " cannot " in done.stderr else f"convert to {form_to}: {done.stderr[-300:]}"
    try:
        model = kind.from_pretrained(f"{folder}/back", config=attend(hf.AutoConfig.from_pretrained(f"{folder}/back")), dtype=torch.float32).eval()
        if hasattr(model, "set_experts_implementation"):
            model.set_experts_implementation("eager")
        found = theirs(model, form, data)
    except Exception as error:
        return f"the export cannot be loaded: {type(error).__name__}: {str(error)[-200:]}"
    return None if torch.equal(found, expected) else f"logits of the round trip differ by {(found - expected).abs().max():.2g}"


class Trial:
    def __init__(self):
        self.counts = collections.Counter()
        self.wrong = []

    def fail(self, kind, what, told):
        self.counts[kind] += 1
        self.wrong.append((kind, what, told))
        print(f"  {kind}: {what}: {told}", flush=True)

    def one(self, name, base, kind, defaults, members, seed):
        r = random.Random(f"{name} {seed}")
        changed_config, changed = mutate(r, base, defaults, members)
        what = f"{name} {seed} " + json.dumps({k: changed_config.get(k, "absent") for k in sorted(changed) if changed_config.get(k, "absent") != base.get(k, "absent")})
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(f"{folder}/theirs")
            path = f"{folder}/theirs/config.json"
            json.dump(changed_config, open(path, "w"))
            try:
                config = attend(hf.AutoConfig.from_pretrained(f"{folder}/theirs"))
                model = make(kind, config, seed)
                if hasattr(model, "set_experts_implementation"):
                    model.set_experts_implementation("eager")
                form, T, data = inputs_of(config, seed)
                model.save_pretrained(f"{folder}/theirs")
                json.dump(changed_config, open(path, "w"))
                for other in ("generation_config.json",):
                    if os.path.exists(f"{folder}/theirs/{other}"):
                        os.remove(f"{folder}/theirs/{other}")
                model = kind.from_pretrained(f"{folder}/theirs", config=attend(hf.AutoConfig.from_pretrained(f"{folder}/theirs")), dtype=torch.float32).eval()
                if hasattr(model, "set_experts_implementation"):
                    model.set_experts_implementation("eager")
                expected = theirs(model, form, data)
                assert torch.isfinite(expected).all()
            except Exception as error:
                self.counts["refused by transformers"] += 1
                if VERBOSE:
                    print(f"  transformers: {what}: {type(error).__name__}: {str(error)[:150]}")
                return
            found, error = ours(folder, form, T, data, config.vocab_size)
            if error:
                # A member that a change contradicts may be the one that is named, or its flag.
                names = changed | {key for key in changed_config if f'"{key}"' in error}
                if any(re.search(rf"\b{re.escape(name)}\b", error) for name in names) or "rotary" in error and "rope_scaling" in changed or " --" in error:
                    self.counts["refused by name"] += 1
                    if VERBOSE:
                        print(f"  refused: {what}: {error[-300:]}")
                else:
                    self.fail("refused without a name", what, error.replace(folder, "")[:400])
                return
            if found.numel() != expected.numel():
                return self.fail("silent", what, f"{found.numel()} logits, expected {tuple(expected.shape)}")
            off = (found.reshape(expected.shape) - expected).abs().max().item() / max(1, expected.abs().max().item())
            if not off < 1e-4:
                return self.fail("silent", what, f"logits off by {off:.2g}")
            wrong = back(folder, kind, form, data, expected)
            if wrong:
                return self.fail("round trip", what, wrong)
            self.counts["equal"] += 1


def families_of_ours():
    told = subprocess.run([PROGRAM, "checkpoint", "convert", "--input", f"{GOLDEN}/gpt2", "--output", "/tmp/none", "--to", "huggingface", "--family", "none"],
                          capture_output=True, text=True).stderr
    return sorted(set(re.findall(r"[\w-]+", told.split("known families:")[1]))) if "known families:" in told else []


def class_of(base):
    """transformers' class of a config.json; None if it has none."""
    try:
        config = hf.AutoConfig.for_model(**base) if base.get("model_type") in hf.CONFIG_MAPPING else None
    except Exception:
        return None, None
    kind = getattr(hf, (base.get("architectures") or [""])[0], None)
    if config is not None and kind is None:
        kind = (hf.AutoModelForSeq2SeqLM if config.is_encoder_decoder else hf.AutoModelForCausalLM)._model_mapping.get(type(config), None)
    return config, kind


def logits_of(folder, seed=1):
    base = json.load(open(f"{folder}/config.json"))
    kind = getattr(hf, base["architectures"][0])
    config = attend(hf.AutoConfig.from_pretrained(folder))
    model, info = kind.from_pretrained(folder, config=config, dtype=torch.float32, output_loading_info=True)
    assert not info["missing_keys"] and not info["mismatched_keys"], info
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")
    form, _, data = inputs_of(config, seed)
    return theirs(model.eval(), form, data)


def exports(trial, names):
    """Every golden model as every family that takes it: transformers loads it and computes the same."""
    families = families_of_ours()
    for name in names:
        base = json.load(open(f"{GOLDEN}/{name}/config.json"))
        if "quantization_config" in base or base["model_type"] not in hf.CONFIG_MAPPING or class_of(base)[1] is None:
            continue
        expected = None
        for family in families:
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([PROGRAM, "checkpoint", "convert", "--input", f"{GOLDEN}/{name}", "--output", f"{folder}/out", "--to", "huggingface", "--family", family],
                                      capture_output=True, text=True)
                if done.returncode:
                    if "cannot express" in done.stderr:
                        trial.counts["export refused by name"] += 1
                    else:
                        trial.fail("export refused otherwise", f"{name} as {family}", done.stderr[-400:])
                    continue
                if family not in hf.CONFIG_MAPPING:
                    continue
                if expected is None:
                    with tempfile.TemporaryDirectory() as own:
                        shutil.copytree(f"{GOLDEN}/{name}", f"{own}/m")
                        os.chmod(f"{own}/m", 0o755), os.chmod(f"{own}/m/config.json", 0o644)
                        json.dump(dict(base, architectures=[class_of(base)[1].__name__]), open(f"{own}/m/config.json", "w"))
                        try:
                            expected = logits_of(f"{own}/m")
                        except AssertionError:  # transformers does not know these names of tensors, e.g. fused ones
                            break
                try:
                    off = (logits_of(f"{folder}/out") - expected).abs().max().item()
                except Exception as error:
                    trial.fail("export cannot be loaded", f"{name} as {family}", f"{type(error).__name__}: {str(error)[:300]}")
                    continue
                if off < 1e-5:
                    trial.counts["export equal"] += 1
                else:
                    trial.fail("export differs", f"{name} as {family}", f"{off:.2g}")


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    wanted = sys.argv[2:]
    trial = Trial()
    if os.environ.get("EXPORTS", "1") != "0":
        exports(trial, [name for name in sorted(os.listdir(GOLDEN)) if os.path.exists(f"{GOLDEN}/{name}/config.json") and (not wanted or name in wanted)])
    for name in sorted(os.listdir(GOLDEN)):
        path = f"{GOLDEN}/{name}/config.json"
        if not os.path.exists(path) or (wanted and name not in wanted) or name.endswith(("_fp8", "_mxfp4")):
            continue
        base = json.load(open(path))
        base.pop("transformers_version", None)
        base = flat_rope(base) if IS_OLD else base
        if base is None:
            print(f"{name}: transformers {hf.__version__} cannot express its rope_parameters", flush=True)
            continue
        config, kind = class_of(base)
        if config is None or kind is None:
            print(f"{name}: transformers {hf.__version__} has no class of it", flush=True)
            continue
        members, defaults = members_of(config, kind), config.to_dict()
        before = dict(trial.counts)
        for seed in range(SEED, SEED + count):
            trial.one(name, base, kind, defaults, members, seed)
        print(f"{name}: {({k: v - before.get(k, 0) for k, v in trial.counts.items() if v > before.get(k, 0)})}", flush=True)
    print(f"transformers {hf.__version__}, seed {SEED}, {sum(trial.counts.values())} configurations: {dict(trial.counts)}")
    sys.exit(bool(trial.wrong))


if __name__ == "__main__":
    main()
