#!/usr/bin/env python3
"""`bevatron preprocess` beside the way Megatron-LM goes: a pool of processes that tokenize JSON lines, a parent that writes them
with megatron-core's own IndexedDatasetBuilder. Twice: with Hugging Face's fast GPT-2 tokenizer, as Megatron does today, and with
byte-pair encoding in Python and a cache of words, as it did up to core 0.14. And beside `xz -dc` alone. The input is the shared
sample of books (JSONL.xz, 75.6 MB of text), of which the peers get the first lines only, plain, since they read no .xz; their times
are scaled to the whole, and that of `xz -dc` is added. The bytes of .bin and .idx must be equal. Needs pip install megatron-core
transformers regex. ROUNDS, WORKERS ("1 2"), PEER_MEGABYTES (6) can be set; SCALE repeats the sample."""
import json
import lzma
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

BEVATRON = os.environ.get("BEVATRON", "build/release/bevatron")
ROUNDS = int(os.environ.get("ROUNDS", "3"))
WORKERS = [int(n) for n in os.environ.get("WORKERS", "1 2").split()]
PEER_BYTES = float(os.environ.get("PEER_MEGABYTES", "6")) * 1e6
SCALE = int(os.environ.get("SCALE", "1"))
SHARED = pathlib.Path(os.environ.get("BEVATRON_SHARED", "../shared"))
SAMPLE = SHARED / "data/text/books_en_train.jsonl.xz"
GPT2 = SHARED / "data/gpt2"
EOD = 50256

state = {}


class PythonBpe:
    """Byte-level byte-pair encoding with one dictionary of ranks and one of finished words."""

    def __init__(self):
        import regex
        self.ids = json.loads((GPT2 / "vocab.json").read_text(encoding="utf-8"))
        merges = (GPT2 / "merges.txt").read_text(encoding="utf-8").split("\n")[1:]
        self.ranks = {tuple(line.split()): i for i, line in enumerate(merges) if line}
        kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [b for b in range(256) if b not in kept]
        self.letters = {b: chr(b) for b in kept} | {b: chr(256 + i) for i, b in enumerate(others)}
        self.words = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
        self.cache = {}

    def word(self, word):
        parts = [self.letters[b] for b in word.encode("utf-8")]
        while len(parts) > 1:
            best = min(zip(parts, parts[1:]), key=lambda pair: self.ranks.get(pair, 1 << 30))
            if best not in self.ranks:
                break
            joined, i = [], 0
            while i < len(parts):
                if i + 1 < len(parts) and (parts[i], parts[i + 1]) == best:
                    joined.append(parts[i] + parts[i + 1])
                    i += 2
                else:
                    joined.append(parts[i])
                    i += 1
            parts = joined
        return [self.ids[part] for part in parts]

    def encode(self, text):
        out = []
        for word in self.words.findall(text):
            if word not in self.cache:
                self.cache[word] = self.word(word)
            out.extend(self.cache[word])
        return out


def start_worker(kind):
    if kind == "python":
        state["encode"] = PythonBpe().encode
    else:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        from transformers import GPT2TokenizerFast
        tokenizer = GPT2TokenizerFast.from_pretrained(GPT2)
        state["encode"] = lambda text: tokenizer(text)["input_ids"]


def is_ready(_):
    time.sleep(0.2)
    return state["encode"]("ready")


def encode_line(line):
    started = time.process_time()
    ids = state["encode"](json.loads(line)["text"])
    if ids:
        ids.append(EOD)
    return ids, time.process_time() - started


def run_peer(kind, workers, source, prefix):
    """What Megatron's script does: lines to a pool, in order, results to the builder. Prints the time of that alone: imports and
    the start of the pool do not count."""
    import logging
    logging.disable(logging.WARNING)
    import numpy
    import torch
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
    builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=numpy.uint16)
    with multiprocessing.Pool(workers, initializer=start_worker, initargs=(kind,)) as pool, open(source, encoding="utf-8") as lines:
        pool.map(is_ready, range(4 * workers), 1)
        started, cpu = time.perf_counter(), -time.process_time()
        for ids, seconds in pool.imap(encode_line, lines, 1):  # lines are books; 32 at a time would leave workers idle
            builder.add_document(torch.IntTensor(ids), [len(ids)])
            cpu += seconds
        builder.finalize(f"{prefix}.idx")
        print(json.dumps({"wall_s": time.perf_counter() - started, "cpu_s": cpu + time.process_time()}))


def measure(command):
    """Processor and wall time of a command and its children, and the largest memory of one of them. A peer says its times itself."""
    started = time.perf_counter()
    is_peer = command[0] == sys.executable
    process = subprocess.Popen(command, stdout=subprocess.PIPE if is_peer else subprocess.DEVNULL, stderr=subprocess.PIPE)
    message = process.stderr.read()
    said = json.loads(process.stdout.read().splitlines()[-1]) if is_peer else {}
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed: {message.decode()[-2000:]}")
    return {"wall_s": time.perf_counter() - started, "cpu_s": used.ru_utime + used.ru_stime, "memory_mib": used.ru_maxrss / 1024} | said


def make_inputs(folder):
    packed, plain, few = folder / "books.jsonl.xz", folder / "books.jsonl", folder / "few.jsonl"
    # Piece by piece: a child process begins with the memory of this one, and its peak is reported.
    with open(plain, "wb") as target:
        for _ in range(SCALE):
            with lzma.open(SAMPLE) as source:
                shutil.copyfileobj(source, target, 1 << 20)
    with open(packed, "wb") as target:
        for _ in range(SCALE):
            target.write(SAMPLE.read_bytes())
    with open(plain, "rb") as lines, open(few, "wb") as target:
        for line in lines:
            if target.tell() >= PEER_BYTES:
                break
            target.write(line)
    return packed, plain, few


def same(a, b):
    return all(pathlib.Path(f"{a}{end}").read_bytes() == pathlib.Path(f"{b}{end}").read_bytes() for end in (".bin", ".idx"))


def main():
    if not SAMPLE.exists() or not (GPT2 / "vocab.json").exists():
        print(f"skipped: no {SAMPLE} or {GPT2}")
        return
    with tempfile.TemporaryDirectory(dir=os.environ.get("FOLDER")) as name:
        folder = pathlib.Path(name)
        packed, plain, few = make_inputs(folder)
        sizes = {packed: plain.stat().st_size, plain: plain.stat().st_size, few: few.stat().st_size}
        ours = [BEVATRON, "preprocess", "--append-eod", "--vocab-file", str(GPT2 / "vocab.json"), "--merge-file",
                str(GPT2 / "merges.txt")]
        rows = {}
        commands = {"xz -dc": (["xz", "-dc", str(packed)], packed)}
        for n in WORKERS:
            for kind, source in (("plain", plain), ("xz", packed)):
                commands[f"bevatron, {kind}, {n} workers"] = (
                    [*ours, "--input", str(source), "--output-prefix", str(folder / f"ours-{kind}-{n}"), "--workers", str(n)], source)
            for kind in ("hf", "python"):
                commands[f"Megatron's way, {kind}, plain, {n} workers"] = (
                    [sys.executable, __file__, kind, str(n), str(few), str(folder / f"{kind}-{n}")], few)
        for _ in range(ROUNDS):
            for key, (command, source) in commands.items():
                row = measure(command)
                row["mb_s"] = sizes[source] / 1e6 / row["wall_s"]
                row["mb_cpu_s"] = sizes[source] / 1e6 / row["cpu_s"]
                if key not in rows or row["wall_s"] < rows[key]["wall_s"]:
                    rows[key] = row
        for key, row in rows.items():
            print(f"{key:45} {row['wall_s']:8.2f} s {row['cpu_s']:8.2f} s cpu {row['mb_s']:9.2f} MB/s {row['mb_cpu_s']:9.2f} MB/cpu s"
                  f" {row['memory_mib']:7.0f} MiB")
        unpack = rows["xz -dc"]
        for n in WORKERS:
            mine, megabytes = rows[f"bevatron, xz, {n} workers"], sizes[plain] / 1e6
            for kind in ("hf", "python"):
                peer = rows[f"Megatron's way, {kind}, plain, {n} workers"]
                wall, cpu = (megabytes / peer[rate] + unpack[time_] for rate, time_ in (("mb_s", "wall_s"), ("mb_cpu_s", "cpu_s")))
                print(f"JSONL.xz, {n} workers: {wall / mine['wall_s']:.1f} times Megatron's way with {kind} ({cpu / mine['cpu_s']:.1f} by"
                      f" processor time); {mine['wall_s'] / unpack['wall_s']:.2f} of the time of xz -dc alone"
                      f" ({mine['cpu_s'] / unpack['cpu_s']:.2f})")
        check = [*ours, "--input", str(few), "--output-prefix", str(folder / "few")]
        measure(check)
        for n in WORKERS:
            for kind in ("hf", "python"):
                equal = same(folder / "few_text_document", folder / f"{kind}-{n}")
                print(f"bytes of .bin and .idx, {kind}, {n} workers: {'equal' if equal else 'DIFFERENT'}")
                if not equal:
                    sys.exit(1)


if __name__ == "__main__":
    if len(sys.argv) == 5:
        run_peer(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
    else:
        main()
