"""Writes tasks/: a few documents of each task, made of this repository's pages, and requests.txt: the token ids that
lm-evaluation-harness 0.4.13 makes of them with the vocabulary of bpe/, with 0 and 2 examples, for windows that cut
prompts and for one that cuts none.

Run: python tests/golden/make_tasks.py    (lm-eval 0.4.13; from the repository's root)

A line of requests.txt is TASK SHOTS WINDOW FIRST IDS…: the tokens, of which those from FIRST on are scored."""
import glob
import os
import shutil
import sys
import tempfile

sys.path.insert(0, "tests/peers")
import tasks_peers  # noqa: E402
from lm_eval.api.model import TemplateLM  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window  # noqa: E402
from tokenizers import ByteLevelBPETokenizer  # noqa: E402

FOLDER = "tests/golden/tasks"
VALIDATED = "hellaswag", "piqa", "winogrande", "boolq", "commonsense_qa"
WINDOWS = 128, 4096


class Encoder(TemplateLM):
    vocabulary = ByteLevelBPETokenizer("tests/golden/bpe/vocab.json", "tests/golden/bpe/merges.txt")
    eot_token_id = prefix_token_id = vocabulary.token_to_id("<|endoftext|>")

    def tok_encode(self, string, **more):
        return self.vocabulary.encode(string).ids

    def _loglikelihood_tokens(self, requests, **more):
        return [(context, continuation) for _, context, continuation in requests]

    def loglikelihood_rolling(self, requests, **more):
        raise NotImplementedError

    def generate_until(self, requests, **more):
        raise NotImplementedError


def sequences(encoder, task, window):
    for instance in task.instances:
        if task.OUTPUT_TYPE == "loglikelihood_rolling":
            ids = encoder.tok_encode(instance.args[0])
            for pair in get_rolling_token_windows(ids, encoder.prefix_token_id, window, 1):
                yield make_disjoint_window(pair)
        else:
            yield encoder.loglikelihood([instance])[0]


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    tasks_peers.write_data(FOLDER, 2, 5)
    encoder, lines = Encoder(), []
    with tempfile.TemporaryDirectory() as work:
        tasks_peers.write_yamls(f"{work}/yamls", os.path.abspath(FOLDER))
        manager = TaskManager(include_path=f"{work}/yamls")
        for name in tasks_peers.MAKERS:
            if name == "mmlu":
                continue  # its subjects are tasks of their own there
            for shots in (0, 2):
                if name == "wikitext" and shots > 0:
                    continue
                task = manager.load([f"own_{name}"])["tasks"][f"own_{name}"]
                task.set_config("num_fewshot", shots)
                task.set_fewshot_seed(1234)
                task.build_all_requests(rank=0, world_size=1)
                for window in WINDOWS:
                    for context, continuation in sequences(encoder, task, window):
                        ids = (context + continuation)[-(window + 1):]
                        lines.append(" ".join(map(str, [name, shots, window, len(ids) - len(continuation), *ids])))
    for path in glob.glob(f"{FOLDER}/mmlu_*"):
        shutil.rmtree(path)
    for path in glob.glob(f"{FOLDER}/*/dev.jsonl") + glob.glob(f"{FOLDER}/*/*.jsonl"):
        task, split = path.split("/")[-2:]
        tested = "validation" if task in VALIDATED else "test"
        if task != "core" and os.path.exists(path) and split not in (f"{tested}.jsonl", "dev.jsonl" if task == "mmlu" else "train.jsonl"):
            os.remove(path)
    with open(f"{FOLDER}/requests.txt", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


main()
