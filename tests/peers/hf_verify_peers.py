"""transformers understands what bevatron writes for Hugging Face, and both read models in the same way.

`checkpoint convert --verify` lets transformers load the result and compares logits: here for every small model of
tests/golden/foreign, unchanged, through our own format and after a step of training, and for models of ours with flags
that are hard to express. Then members of every config.json are removed or set to null, one by one: bevatron and
transformers must understand the rest in the same way.

    BEVATRON=build/release/bevatron python tests/peers/hf_verify_peers.py       (torch, transformers)
"""
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading

import torch
import transformers

PROGRAM = os.path.abspath(os.environ.get("BEVATRON", "build/release/bevatron"))
GOLDEN = "tests/golden/foreign"
torch.set_num_threads(1)
transformers.logging.set_verbosity_error()

# Python and torch take seconds to start, and --verify starts them for every model. So PYTHON names a small script that
# passes its work to this process, which has imported everything, and forks.
WRAPPER = """#!/usr/bin/env python3
import json, socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect({path!r})
link.sendall(json.dumps([sys.argv[2], sys.stdin.read()]).encode())
link.shutdown(socket.SHUT_WR)
code, out, err = json.loads(b"".join(iter(lambda: link.recv(1 << 16), b"")))
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(code)
"""


def answer(link):
    script, text = json.loads(b"".join(iter(lambda: link.recv(1 << 16), b"")))
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        given.write(text)
        given.flush()
        given.seek(0)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for number, file in enumerate((given, out, err)):
                    os.dup2(file.fileno(), number)
                sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")
                exec(script, {"__name__": "__main__"})
                code = 0
            except SystemExit as end:
                code = end.code or 0
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        err.seek(0)
        link.sendall(json.dumps([code, out.read(), err.read()]).encode())
    link.close()


def serve(folder):
    path = f"{folder}/socket"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    threading.Thread(target=lambda: [answer(listener.accept()[0]) for _ in iter(int, 1)], daemon=True).start()
    wrapper = f"{folder}/python"
    with open(wrapper, "w") as file:
        file.write(WRAPPER.format(path=path))
    os.chmod(wrapper, os.stat(wrapper).st_mode | stat.S_IXUSR)
    return wrapper


def run(*arguments, **more):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, **more)


def must(*arguments):
    done = run(*arguments)
    assert done.returncode == 0, (arguments, done.stdout[-500:], done.stderr)
    return done.stdout


def verify(source, folder, *flags):
    out = f"{folder}/verified"
    shutil.rmtree(out, ignore_errors=True)
    said = json.loads(must("checkpoint", "convert", "--input", source, "--output", out, "--to", "huggingface", "--verify", "--json", *flags))
    assert said["read_back"] and said["transformers"] == transformers.__version__, (source, flags, said)
    # transformers 5 treats every T5 as tied and warns if it is not, whatever config.json says; 4.57 warns about its own
    # MegatronBertForMaskedLM.
    warning = said["transformers_warnings"]
    assert warning is None or "we will NOT tie them" in warning or "inherit from `GenerationMixin`" in warning, (source, flags, said)
    assert said["transformers_logits_difference"] < 2e-6, (source, flags, said)
    return said["transformers_logits_difference"]


STEP = ["--mock-data", "--micro-batch-size", "1", "--seq-length", "8", "--lr", "1e-2", "--eval-iters", "0", "--device", "cpu", "--threads", "1",
        "--train-iters", "2", "--save-interval", "2"]
SMALL = ["--hidden-size", "16", "--num-attention-heads", "4", "--max-position-embeddings", "32", "--vocab-size", "40",
         "--make-vocab-size-divisible-by", "1"]
T5 = "--model t5 --normalization RMSNorm --disable-bias-linear --position-embedding-type relative --softmax-scale 1 --decoder-seq-length 6 "
LLAMA = "--model llama --num-layers 2 --ffn-hidden-size 20 "
ROPE = "--position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights "
POST = "--norm-placement post --num-layers 2 "
OURS = {
    "gpt2": "--num-layers 2",
    "gpt2 exact gelu": "--num-layers 2 --no-bias-gelu-fusion --ffn-hidden-size 20",
    "gpt2 centered": "--num-layers 2 --apply-layernorm-1p",
    "gpt2 untied": "--num-layers 2 --untie-embeddings-and-output-weights",
    "opt": "--model opt --num-layers 2",
    "opt narrow": "--model opt --num-layers 2 --word-embedding-size 8",
    "llama": LLAMA,
    "llama tied, groups": LLAMA + "--group-query-attention --num-query-groups 2",
    "llama linear": LLAMA + "--rotary-seq-len-interpolation-factor 2.5 --rotary-base 1234.5",
    "llama3": LLAMA + "--use-rope-scaling --rope-original-length 16 --rope-scaling-factor 4",
    "llama yarn": LLAMA + "--use-rope-scaling --rope-scaling-type yarn --rope-original-length 16 --rope-scaling-factor 2",
    "llama epsilon": LLAMA + "--norm-epsilon 0",
    "mistral": LLAMA + "--sliding-window 3",
    "qwen2": LLAMA + "--add-qkv-bias",
    "qwen3": LLAMA + "--qk-layernorm --kv-channels 8",
    "phi3": LLAMA + "--rotary-percent 0.5",
    "starcoder2": "--num-layers 2 --position-embedding-type rope --sliding-window 3",
    "stablelm": "--num-layers 2 --swiglu --ffn-hidden-size 20 --add-qkv-bias --rotary-percent 0.5 " + ROPE,
    "nemotron": "--num-layers 2 --squared-relu --apply-layernorm-1p --rotary-percent 0.5 " + ROPE,
    "nemotron whole": "--num-layers 2 --squared-relu --rotary-percent 0.5 " + ROPE,
    "gpt_bigcode": "--num-layers 2 --group-query-attention --num-query-groups 1",
    "bert": "--model bert --activation gelu " + POST,
    "bert no pairs": "--model bert --bert-no-binary-head --activation gelu " + POST,
    "megatron-bert": "--model bert --num-layers 2 --activation gelu",
    "megatron-bert no pairs": "--model bert --num-layers 2 --bert-no-binary-head",
    "roberta": "--model roberta --num-layers 2",
    "roberta without types": "--model roberta --num-layers 2 --num-token-types 0",
    "t5": T5 + "--activation relu --scale-tied-output --num-layers 2",
    "umt5": T5 + "--activation gelu_tanh --gated-linear-unit --relative-attention-per-layer --scale-tied-output --num-layers 2",
    "t5 halves": T5 + "--activation relu --scale-tied-output --num-layers 1 --encoder-num-layers 3 --decoder-num-layers 2",
    "t5 unscaled": T5 + "--activation gelu_tanh --gated-linear-unit --num-layers 2",
    "t5 untied": T5 + "--activation gelu_tanh --gated-linear-unit --num-layers 2 --untie-embeddings-and-output-weights",
}


def check_ours(folder):
    worst = 0
    for name, flags in OURS.items():
        trained = f"{folder}/ours"
        shutil.rmtree(trained, ignore_errors=True)
        must("train", *STEP, *SMALL, *flags.split(), "--save", trained)
        for dtype in ([], ["--dtype", "bf16"]):
            worst = max(worst, verify(trained, folder, *dtype))
    print(f"models of ours: {len(OURS)}, each in fp32 and bf16; logits differ by at most {worst:.1e}", flush=True)


def check_golden(folder, models):
    worst = 0
    for name in models:
        source, ours, trained = f"{GOLDEN}/{name}", f"{folder}/golden", f"{folder}/trained"
        for path in (ours, trained):
            shutil.rmtree(path, ignore_errors=True)
        must("checkpoint", "convert", "--input", source, "--output", ours, "--to", "bevatron")
        must("train", *STEP, "--load", source, "--use-checkpoint-args", "--save", trained)
        worst = max([worst] + [verify(path, folder) for path in (source, ours, trained)])
    print(f"golden models: {len(models)}, as they are, through ours, and trained; logits differ by at most {worst:.1e}", flush=True)


def read(folder):
    config = transformers.AutoConfig.from_pretrained(folder).to_dict()
    for key in ("_name_or_path", "transformers_version", "torch_dtype", "dtype", "architectures"):
        config.pop(key, None)
    return config


# Members that do not affect what a model computes, or that we state where transformers leaves them open.
NEUTRAL = {"rope_scaling", "partial_rotary_factor", "rope_theta", "rope_parameters", "n_inner", "head_dim", "n_ctx", "embd_pdrop", "layer_types",
           "word_embed_proj_dim", "position_embedding_type", "scale_decoder_outputs", "tie_word_embeddings"}


def check_members(folder, models):
    tried = agreed = 0
    for name in models:
        original = json.load(open(f"{GOLDEN}/{name}/config.json"))
        changed, written = f"{folder}/changed", f"{folder}/written"
        shutil.rmtree(changed, ignore_errors=True)
        shutil.copytree(f"{GOLDEN}/{name}", changed)
        os.chmod(changed, 0o755)
        os.chmod(f"{changed}/config.json", 0o644)
        for key in original:
            for value in ("absent", None):
                config = {k: v for k, v in original.items() if k != key}
                if value is None:
                    config[key] = None
                json.dump(config, open(f"{changed}/config.json", "w"))
                shutil.rmtree(written, ignore_errors=True)
                tried += 1
                try:
                    theirs = read(changed)
                except Exception:
                    continue  # transformers cannot read it either
                if key == "model_type" or run("checkpoint", "convert", "--input", changed, "--output", written, "--to",
                                              "huggingface").returncode != 0:
                    continue  # refused, which is never wrong
                ours = read(written)
                for member, wanted in theirs.items():
                    if member not in NEUTRAL and wanted is not None:
                        assert ours.get(member) == wanted, (name, key, value, member, wanted, ours.get(member))
                agreed += 1
    print(f"configurations with a member less: {tried}, {agreed} read, all of them as transformers does", flush=True)


with tempfile.TemporaryDirectory() as place:
    os.environ["PYTHON"] = serve(place)
    golden = sorted(m for m in os.listdir(GOLDEN) if os.path.exists(f"{GOLDEN}/{m}/config.json"))
    check_members(place, golden)
    check_ours(place)
    # transformers 5 scales the output of every UMT5, even of those with a separate output matrix, unlike their
    # training.
    check_golden(place, [m for m in golden if m != "umt5_untied" or transformers.__version__.startswith("4.")])
print("hugging face: every export verified")
