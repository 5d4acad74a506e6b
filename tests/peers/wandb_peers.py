"""wandb's own reader on an offline run that we wrote: every record, every value; then the file cut at any byte.

    BEVATRON=build/release/bevatron python tests/peers/wandb_peers.py       (wandb, a release that reads in Python: 0.15)

wandb_sync_peers.py uploads such a run with a current release.
"""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import wandb
from wandb.proto import wandb_internal_pb2 as pb

try:
    from wandb.sdk.internal import datastore
except ImportError:
    print(f"wandb {wandb.__version__} has no reader in Python: skipped")
    sys.exit()

wandb._assert_is_internal_process = True
BEVATRON = pathlib.Path(os.environ.get("BEVATRON", "build/release/bevatron")).resolve()
WRITER = BEVATRON.parent / "tests/test_report_wandb"


def read(path):
    """All records; stops like `wandb sync` where the file is torn."""
    store = datastore.DataStore()
    store.open_for_scan(str(path))
    records = []
    try:
        while (data := store.scan_data()) is not None:
            record = pb.Record()
            record.ParseFromString(data)
            records.append(record)
    except AssertionError:
        pass
    for record in records:
        # A field that wandb does not know would be lost here. Old releases know no version in the header.
        size = record.ByteSize()
        record.DiscardUnknownFields()
        assert record.ByteSize() == size or record.WhichOneof("record_type") == "header", record
    return records


def items(fields):
    return {item.key: json.loads(item.value_json) for item in fields}


def only_file(folder):
    (path,) = pathlib.Path(folder).glob("**/offline-run-*/run-*.wandb")
    assert path.parent.name.endswith(path.stem.removeprefix("run")), path
    return path


def check_values(folder):
    subprocess.run([WRITER, "write", folder], check=True)
    path = only_file(folder)
    records = read(path)
    kinds = [record.WhichOneof("record_type") for record in records]
    assert [record.num for record in records] == list(range(1, len(records) + 1)), kinds
    assert kinds == ["header", "run", "history", "summary", "history", "history", "summary", "history", "summary",
                     "exit", "footer"], kinds
    run = records[1].run
    assert (run.project, run.entity, run.display_name) == ("my project", "team", "a name"), run
    assert run.run_id == path.stem.removeprefix("run-") and run.host and run.start_time.seconds > 1_700_000_000
    assert items(run.config.update) == {"lr": 1.5e-4, "save": None, "bf16": True, "split": ["a", 1]}
    rows = [items(record.history.item) for record in records if record.WhichOneof("record_type") == "history"]
    for i, row in enumerate(rows, 1):
        assert row["_step"] == i and row["samples vs steps"] == 8 * i and row["batch-size"] == 8, row
        assert abs(row["lm loss"] - 10 / i) < 1e-12 and abs(row["learning-rate"] - 1e-3 * i) < 1e-15, row
        assert math.isnan(row["grad-norm"]) if i == 2 else row["grad-norm"] == 2, row
        assert row.get("iteration-time") == (0.25 if i % 2 == 0 else None), row
        assert row.get("lm loss validation") == (2 if i == 2 else None), row
        assert 0 <= row["_runtime"] < 60 and row["_timestamp"] > 1_700_000_000, row
    summary = {}
    for record in records:
        summary.update(items(record.summary.update))
    assert summary["_step"] == 4 and summary["lm loss"] == 2.5 and summary["lm loss validation"] == 2, summary
    assert records[-2].exit.exit_code == 213
    # Cut at any byte: the whole records before the cut.
    content, cut = path.read_bytes(), pathlib.Path(folder) / "cut.wandb"
    last = 0
    for size in range(7, len(content)):
        cut.write_bytes(content[:size])
        found = read(cut)
        assert found == records[:len(found)] and last <= len(found) <= last + 1, size
        last = len(found)
    assert last >= len(records) - 1
    return len(records)


def check_training(folder):
    """A real run of many records, over several blocks of the log."""
    save = pathlib.Path(folder) / "run"
    subprocess.run([BEVATRON, "train", "--mock-data", "--num-layers", "1", "--hidden-size", "16", "--num-attention-heads",
                    "2", "--seq-length", "16", "--vocab-size", "50", "--tokenizer-type", "NullTokenizer",
                    "--micro-batch-size", "1", "--lr", "1e-3", "--log-interval", "10", "--eval-iters", "1",
                    "--eval-interval", "100", "--train-iters", "300", "--threads", "1", "--log-validation-ppl-to-tensorboard",
                    "--save", save, "--wandb-project", "p", "--wandb-exp-name", "name"],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    path = only_file(folder)
    assert path.is_relative_to(save / "wandb/wandb"), path
    records = read(path)
    rows = [items(record.history.item) for record in records if record.WhichOneof("record_type") == "history"]
    assert [row["_step"] for row in rows] == list(range(1, 301))
    assert path.stat().st_size > 2 * 32768
    logged = [json.loads(line) for line in (save / "metrics.jsonl").read_text().splitlines()]
    for line in logged:
        if line["kind"] == "train":
            row = rows[line["iteration"] - 1]
            assert row["learning-rate"] == line["learning_rate"] and row["samples vs steps"] == line["consumed_samples"]
            first = 1 if line["iteration"] == 1 else line["iteration"] - 9
            mean = sum(rows[i - 1]["lm loss"] for i in range(first, line["iteration"] + 1)) / (line["iteration"] - first + 1)
            assert abs(mean - line["losses"]["lm loss"]) < 1e-9 * mean, (line, mean)
        # The last iteration is evaluated twice, and the row has the later values.
        if line["kind"] == "eval" and line["set"] == "validation" and line["final"] == (line["iteration"] == 300):
            row = rows[line["iteration"] - 1]
            assert row["lm loss validation"] == line["losses"]["lm loss"], (line, row)
            assert abs(row["lm loss validation ppl"] - math.exp(line["losses"]["lm loss"])) < 1e-6 * row["lm loss validation ppl"]
    run = next(record.run for record in records if record.WhichOneof("record_type") == "run")
    assert items(run.config.update)["train_iters"] == 300
    assert [record.exit.exit_code for record in records if record.WhichOneof("record_type") == "exit"] == [0]
    return len(records)


with tempfile.TemporaryDirectory() as made:
    small = check_values(made)
with tempfile.TemporaryDirectory() as made:
    large = check_training(made)
print(f"wandb {wandb.__version__}: its reader sees all {small} and {large} records with their values, also of files that are cut")
