#!/usr/bin/env python3
"""Tasks as scored by lm-evaluation-harness: a small model of each family is trained for some steps and exported, tasks
are made of this repository's own pages in the form of the public files, and both programs score them on the CPU in
fp32. Per document the log-likelihoods must agree within 1e-4 and the choices must be the same; scores and standard
errors must agree within 1e-6 (perplexities relatively). The tasks of CORE are scored by nanochat's rules, written down
here a second time.

    BEVATRON=build/release/bevatron python tests/peers/tasks_peers.py [DOCUMENTS [FAMILY…]]

(torch, transformers, lm-eval 0.4.13; run from the repository's root)"""
import glob
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error"}
import lm_eval  # noqa: E402
import torch  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

PROGRAM = os.path.abspath(os.environ.get("BEVATRON", "build/release/bevatron"))
COUNT = int(sys.argv[1]) if len(sys.argv) > 1 and __name__ == "__main__" else 40
GOLDEN = os.path.abspath("tests/golden")
GPT2 = ["--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", f"{GOLDEN}/bpe/vocab.json", "--merge-file", f"{GOLDEN}/bpe/merges.txt"]
SPM = ["--tokenizer-type", "Llama2Tokenizer", "--tokenizer-model", f"{GOLDEN}/spm/bpe.model"]
WINDOW = 768
FAMILIES = {
    "gpt2": GPT2 + ["--num-attention-heads", "2"],
    "llama": SPM + ["--model", "llama", "--num-attention-heads", "4", "--num-query-groups", "2", "--group-query-attention"],
    "qwen2": GPT2 + ["--model", "llama", "--num-attention-heads", "4", "--add-qkv-bias"],
}
r = random.Random(7)


def run(*arguments):
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 0, f"{arguments[:3]}: {done.stdout[-1000:]}{done.stderr[-3000:]}"
    return done.stdout


# ---- documents of our own ----

# transformers takes "</s>" in a text for the special token, bevatron for text; such sentences are left out.
def sentences():
    text = " ".join(open(name, encoding="utf-8").read() for name in sorted(glob.glob("docs/*.md")))
    text = re.sub(r"[|`#*]", " ", text)
    return [s.strip() for s in re.split(r"(?<=[.!?])\s+", text) if 20 < len(s) < 300 and "\n\n" not in s and "<" not in s]


SENTENCES = sentences()
PUNCTUATION = [" @-@ ", " @,@ ", " , ", " . ", " ; ", " ( x y ) ", ' " z " ', " 's ", " \n = = H = = \n ", "  ", " ° ", " N "]


def sentence():
    return r.choice(SENTENCES)


def words(n):
    return " ".join(sentence().split()[:n])


def labelled(question, options=4, letters="ABCDE"):
    return {question: sentence(), "choices": {"text": [words(r.randint(1, 6)) for _ in range(options)], "label": list(letters[:options])},
            "answerKey": r.choice(letters[:options])}


def hellaswag():
    ends = [words(8) + r.choice(["", " [step] More [ok", "  two  spaces", " [title] Next", "  "]) for _ in range(4)]
    return {"ind": r.randint(0, 9), "activity_label": words(2), "ctx_a": sentence() + r.choice(["", " [header] A [x]b"]),
            "ctx_b": r.choice(["", "the Man", "a ÄPFEL [unclosed"]), "endings": ends, "label": str(r.randint(0, 3))}


def cloze():
    text = " ".join(sentence() for _ in range(r.randint(1, 5)))
    return {"text": text.rstrip(".!?") + r.choice(["", "", " "])} if r.random() < 0.9 else {"text": text.replace("\n", " ")}


def winogrande():
    a, b = words(1), words(2)
    return {"sentence": f"{words(6)} _ {words(5)}.", "option1": a, "option2": b, "answer": r.choice("12")}


def page():
    return {"page": "".join(sentence() + r.choice(PUNCTUATION) for _ in range(r.randint(1, 30)))}


def core_choices(delimited):
    return {"query": "Question: " + sentence() + ("" if delimited else "\nAnswer:"), "choices": r.sample(["A", "B", "C", "D"], 3) if r.random() < 0.2
            else ["the " + words(r.randint(1, 5)) + f" {i}" for i in range(4)], "gold": r.randint(0, 2)}


def core_contexts():
    start = words(6)
    return {"context_options": [f"{start} {words(2)} a", f"{start} {words(1)} b"], "continuation": words(4) + ".", "gold": r.randint(0, 1)}


def core_ending():
    return {"context": sentence() + r.choice(["", " ", "\n"]), "continuation": words(r.randint(1, 3))}


MAKERS = {
    "hellaswag": hellaswag,
    "lambada_openai": cloze,
    "arc_easy": lambda: labelled("question", r.choice([3, 4, 4, 4, 5])),
    "arc_challenge": lambda: labelled("question", letters="1234"),
    "piqa": lambda: {"goal": sentence(), "sol1": words(9), "sol2": words(7), "label": r.randint(0, 1)},
    "winogrande": winogrande,
    "openbookqa": lambda: labelled("question_stem") | {"answerKey": r.choice(" ABCD").strip() or " A"},
    "boolq": lambda: {"passage": sentence() + " " + sentence(), "question": words(7).lower(), "label": r.randint(0, 1)},
    "sciq": lambda: {"support": r.choice(["", " ", "\n"]) + sentence(), "question": sentence(), "distractor1": words(1), "distractor2": words(2),
                     "distractor3": words(3), "correct_answer": words(2)},
    "commonsense_qa": lambda: labelled("question", 5),
    "mmlu": lambda: {"question": " " + sentence() + "\n", "subject": r.choice(["high_school_fish", "old_maps"]),
                     "choices": [words(3) for _ in range(4)], "answer": r.randint(0, 3)},
    "wikitext": page,
}
CORE = {"arc_easy": ("choices", lambda: core_choices(True), 10, "\nAnswer: ", 25), "jeopardy": ("ending", core_ending, 10, "\nAnswer: ", 0),
        "bigbench_cs_algorithms": ("ending", core_ending, 10, " ", 0), "commonsense_qa": ("choices", lambda: core_choices(False), 10, " ", 20),
        "winogrande": ("contexts", core_contexts, 0, " ", 50), "copa": ("choices", lambda: core_choices(True), 0, " ", 50)}
CORE_FILES = {"jeopardy": "jeopardy_all"}


def write(path, documents):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(d, ensure_ascii=r.random() < 0.5) + "\n" for d in documents)


def write_data(folder, documents_each, examples):
    for task, make in MAKERS.items():
        for split, count in [("train", examples), ("validation", documents_each), ("test", documents_each), ("dev", examples)]:
            documents = [make() for _ in range(count)]
            if split == "train":
                documents[3] = documents[4]  # copies are drawn twice
            write(f"{folder}/{task}/{split}.jsonl", documents)
    for name, (_, make, _, _, _) in CORE.items():
        write(f"{folder}/core/{CORE_FILES.get(name, name)}.jsonl", [make() for _ in range(documents_each)])


# ---- the harness ----

YAMLS = {"hellaswag": "hellaswag/hellaswag", "lambada_openai": "lambada/lambada_openai", "arc_easy": "arc/arc_easy",
         "arc_challenge": "arc/arc_challenge", "piqa": "piqa/piqa", "winogrande": "winogrande/default", "openbookqa": "openbookqa/openbookqa",
         "boolq": "super_glue/boolq/default", "sciq": "sciq/sciq", "commonsense_qa": "commonsense_qa/default",
         "wikitext": "wikitext/wikitext", "mmlu": "mmlu/default/_default_template_yaml"}


def write_yamls(folder, data):
    root = os.path.join(os.path.dirname(lm_eval.__file__), "tasks")
    os.makedirs(folder)
    for task, name in YAMLS.items():
        subjects = ["high_school_fish", "old_maps"] if task == "mmlu" else [None]
        for subject in subjects:
            files = {split: f"{data}/{task}/{split}.jsonl" for split in ("train", "validation", "test", "dev")}
            own = f"own_{task}_{subject}" if subject else f"own_{task}"
            text = f"task: {own}\n"
            if subject:
                for split in files:
                    path = f"{data}/mmlu_{subject}/{split}.jsonl"
                    documents = [json.loads(line) for line in open(files[split], encoding="utf-8")]
                    write(path, [d for d in documents if d["subject"] == subject])
                    files[split] = path
                about = subject.replace("_", " ")
                text += 'description: "The following are multiple choice questions (with answers) about ' + about + '.\\n\\n"\n'
            path = f"{root}/{name}" + ("" if task == "mmlu" else ".yaml")
            text = f"include: {path}\n" + text + "dataset_path: json\ndataset_name: null\ntag: null\ndataset_kwargs:\n  data_files:\n"
            text += "".join(f"    {split}: {path}\n" for split, path in files.items())
            with open(f"{folder}/{own}.yaml", "w", encoding="utf-8") as file:
                file.write(text)
    with open(f"{folder}/own_mmlu.yaml", "w", encoding="utf-8") as file:
        file.write("group: own_mmlu\ntask:\n  - own_mmlu_high_school_fish\n  - own_mmlu_old_maps\n"
                   "aggregate_metric_list:\n  - metric: acc\n    weight_by_size: true\n")


def harness(model, yamls, tasks, shots, data):
    manager = TaskManager(include_path=yamls)
    out = lm_eval.simple_evaluate(model=model, tasks=[f"own_{task}" for task in tasks], num_fewshot=shots, task_manager=manager, log_samples=True,
                                  bootstrap_iters=100000, verbosity="ERROR")
    scores, documents = {}, {}
    for task in tasks:
        results = out["results"][f"own_{task}"]
        for key, value in results.items():
            name, _, _ = key.partition(",")
            if isinstance(value, float) and not name.endswith("_stderr"):
                error = results.get(f"{name}_stderr,none")
                scores[task, name] = value, error if isinstance(error, float) else None
        names = [f"own_{task}"] if task != "mmlu" else ["own_mmlu_high_school_fish", "own_mmlu_old_maps"]
        documents[task] = [[float(resp[0][0]) if isinstance(resp[0], (tuple, list)) else float(resp[0]) for resp in sample["resps"]]
                           for name in names for sample in sorted(out["samples"][name], key=lambda s: s["doc_id"])]
    return scores, documents


# ---- CORE by nanochat's rules ----

def common(lists):
    length = 0
    while length < min(map(len, lists)) and len({ids[length] for ids in lists}) == 1:
        length += 1
    return length


def core(model, tokenizer, prefix, path, kind, shots, delimiter):
    rows = [json.loads(line) for line in open(path, encoding="utf-8")]
    random.Random(1337).shuffle(rows)

    def prompts(row, answered):
        if kind == "choices":
            return [row["query"] + delimiter + (row["choices"][row["gold"]] if answered else choice) for choice in row["choices"]]
        if kind == "contexts":
            return [(row["context_options"][row["gold"]] if answered else c) + delimiter + row["continuation"] for c in row["context_options"]]
        start = row["context"].strip() + delimiter
        return [start + row["continuation"]] if answered else [start, start + row["continuation"]]

    right, sums = [], []
    for place, row in enumerate(rows):
        others = [other for i, other in enumerate(rows) if i != place]
        before = "".join(prompts(other, True)[0] + "\n\n" for other in random.Random(1234 + place).sample(others, shots))
        texts = [before + text for text in prompts(row, False)]
        if kind == "ending":
            texts[0] = texts[0].strip()
        lists = [[prefix] + tokenizer.encode(text, add_special_tokens=False) for text in texts]
        if kind == "contexts":
            shared = common([ids[::-1] for ids in lists])
            firsts = [len(ids) - shared for ids in lists]
        else:
            firsts = [common(lists)] * len(lists)
        results = []
        for ids, first in list(zip(lists, firsts))[kind == "ending":]:
            cut = max(0, len(ids) - WINDOW)
            ids, first = ids[cut:], max(first - cut, 1)
            logits = model(torch.tensor([ids])).logits[0, :-1].float()
            losses = torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="none")[first - 1:]
            greedy = bool((logits.argmax(-1) == torch.tensor(ids[1:]))[first - 1:].all())
            results.append((-losses.double().sum().item(), greedy, len(losses)))
        sums.append([ll for ll, _, _ in results])
        means = [-ll / n for ll, _, n in results]
        right.append(results[0][1] if kind == "ending" else means.index(min(means)) == row["gold"])
    return sum(right) / len(right), sums


# ---- comparison ----

def ours(checkpoint, data, tasks, folder, *more):
    path = f"{folder}/documents.jsonl"
    out = json.loads(run(PROGRAM, "evaluate", "--load", checkpoint, "--device", "cpu", "--micro-batch-size", "4", "--tasks", ",".join(tasks),
                         "--task-data", data, "--task-documents", path, "--json", *more))
    documents = {}
    for line in map(json.loads, open(path, encoding="utf-8")):
        documents.setdefault(line["task"], []).append(line)
    return {(s["task"], s["metric"]): (s["value"], s["error"]) for s in out["scores"]}, documents


def differ(a, b, bound):
    return (a is None) != (b is None) or (a is not None and abs(a - b) > bound * max(1, abs(a)))


def compare(family, work):
    worst = 0.0
    checkpoint, export, data, yamls = f"{work}/run", f"{work}/export", f"{work}/data", f"{work}/yamls"
    flags = FAMILIES[family]
    run(PROGRAM, "train", *flags, "--data-path", f"{work}/text.jsonl", "--num-layers", "2", "--hidden-size", "32", "--seq-length", str(WINDOW),
        "--max-position-embeddings", str(WINDOW), "--micro-batch-size", "2", "--lr", "1e-2", "--train-iters", "30", "--eval-iters", "0",
        "--split", "1,0,0", "--device", "cpu", "--hidden-dropout", "0", "--attention-dropout", "0", "--init-method-std", "0.2",
        "--save", checkpoint, "--save-interval", "30")
    run(PROGRAM, "checkpoint", "convert", "--input", checkpoint, "--output", export, "--to", "huggingface")
    model = HFLM(pretrained=export, dtype="float32", device="cpu", batch_size=8)
    tasks = list(MAKERS)
    for shots in (0, 3):
        wanted = [task for task in tasks if shots == 0 or task != "wikitext"]
        theirs, their_documents = harness(model, yamls, wanted, shots, data)
        scores, documents = ours(checkpoint, data, wanted, work, "--num-shots", str(shots))
        for task in wanted:
            lines = documents[task]
            if task == "mmlu":
                lines = sorted(lines, key=lambda d: d["group"])
            assert len(lines) == len(their_documents[task]) == COUNT, (family, task, len(lines))
            for n, (line, lls) in enumerate(zip(lines, their_documents[task])):
                off = max(abs(x - y) for x, y in zip(line["log_likelihoods"], lls, strict=True))
                # A page of text sums thousands of losses.
                bound = 1e-4 * max(1, line["tokens"][0] / 100)
                worst = max(worst, off / bound * 1e-4)
                assert off < bound, f"{family}, {task}, {shots} shots, document {n}: {line['log_likelihoods']}, theirs {lls}"
        for key, (value, error) in theirs.items():
            assert key in scores, f"{family}: no {key}"
            assert not differ(value, scores[key][0], 1e-6), f"{family}, {key}, {shots} shots: {scores[key]}, theirs {value, error}"
            assert not differ(error, scores[key][1], 1e-5), f"{family}, {key}, {shots} shots: {scores[key]}, theirs {value, error}"
    prefix = model.prefix_token_id
    scores, documents = ours(checkpoint, data, [f"core_{name}" for name in CORE], work)
    for name, (kind, _, shots, delimiter, chance) in CORE.items():
        with torch.no_grad():
            acc, sums = core(model.model, model.tokenizer, prefix, f"{data}/core/{CORE_FILES.get(name, name)}.jsonl", kind, shots, delimiter)
        for n, (line, lls) in enumerate(zip(documents[f"core_{name}"], sums, strict=True)):
            off = max(abs(x - y) for x, y in zip(line["log_likelihoods"], lls, strict=True))
            worst = max(worst, off)
            assert off < 1e-4, f"{family}, core_{name}, document {n}: {line['log_likelihoods']}, nanochat {lls}"
        assert scores[f"core_{name}", "acc"][0] == acc, f"{family}, core_{name}: {scores[f'core_{name}', 'acc']}, nanochat {acc}"
        assert math.isclose(scores[f"core_{name}", "centered"][0], (acc - chance / 100) / (1 - chance / 100), abs_tol=1e-9)
    print(f"{family}: {len(tasks)} tasks with 0 and 3 shots, {len(CORE)} of CORE, {COUNT} documents each: log-likelihoods within {worst:.1e}")


def main():
    for family in sys.argv[2:] or FAMILIES:
        with tempfile.TemporaryDirectory() as work:
            write_data(f"{work}/data", COUNT, 60)
            write_yamls(f"{work}/yamls", f"{work}/data")
            write(f"{work}/text.jsonl", [{"text": s} for s in SENTENCES])
            compare(family, work)


if __name__ == "__main__":
    main()
