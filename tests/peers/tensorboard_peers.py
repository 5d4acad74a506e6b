"""TensorBoard's own reader, and its event accumulator, on an event file that we wrote, whole and cut at every byte, and
on the file of a real run.

    BEVATRON=build/release/bevatron python tests/peers/tensorboard_peers.py       (tensorboard)
"""
import json
import math
import os
import pathlib
import subprocess
import tempfile
import time

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

PROGRAM = pathlib.Path(os.environ.get("BEVATRON", "build/release/bevatron")).parent / "tests/test_report_tensorboard"

with tempfile.TemporaryDirectory() as folder:
    subprocess.run([PROGRAM, "write", folder], check=True)
    files = list(pathlib.Path(folder).iterdir())
    assert len(files) == 1 and files[0].name.startswith("events.out.tfevents."), files
    events = list(EventFileLoader(str(files[0])).Load())
    assert len(events) == 52 and events[0].file_version == "brain.Event:2", len(events)
    assert all(abs(event.wall_time - time.time()) < 60 for event in events)

    board = EventAccumulator(folder)
    board.Reload()
    expected = {}
    for tag, value in (("learning-rate", lambda i: 1e-3 * i), ("batch-size", lambda i: 8),
                       ("lm loss", lambda i: 10 / i), ("loss-scale", lambda i: 1), ("world-size", lambda i: 4),
                       ("grad-norm", lambda i: 2)):
        expected[tag] = [(i, value(i)) for i in (2, 4, 6)]
        expected[tag + " vs samples"] = [(8 * i, value(i)) for i in (2, 4, 6)]
    expected["iteration-time"] = [(3, 0.25), (6, 0.25)]
    expected["iteration-time vs samples"] = [(24, 0.25), (48, 0.25)]
    expected["throughput"] = [(3, 400), (6, 400)]
    for tag, value in (("lm loss validation", 2), ("lm loss validation ppl", math.exp(2))):
        expected[tag] = [(6, value)]
        expected[tag + " vs samples"] = [(48, value)]
    found = set(board.Tags()["scalars"]) or set(board.Tags()["tensors"])
    texts = {"num_layers": "12", "lr": "1.5e-4", "save": "None", "bf16": "True", "split": "[a, 1]"}
    assert found - {f"{tag}/text_summary" for tag in texts} == set(expected), found ^ set(expected)
    for tag, points in expected.items():
        got = [(event.step, event.value) for event in board.Scalars(tag)]
        assert len(got) == len(points), (tag, got)
        for (step, value), (want_step, want) in zip(got, points):
            assert step == want_step and abs(value - want) <= 1e-6 * abs(want), (tag, got, points)
    for tag, text in texts.items():
        tensor = board.Tensors(f"{tag}/text_summary")[0].tensor_proto
        assert tensor.string_val[0].decode() == text, (tag, tensor)
        assert board.SummaryMetadata(f"{tag}/text_summary").plugin_data.plugin_name == "text"

    # Cut at any byte: all whole records before the cut, as they were.
    content = files[0].read_bytes()
    cut_folder = pathlib.Path(folder) / "cut"
    cut_folder.mkdir()
    cut, last = cut_folder / files[0].name, 0
    for size in range(len(content)):
        cut.write_bytes(content[:size])
        found = list(EventFileLoader(str(cut)).Load())
        assert [event.SerializeToString() for event in found] == [event.SerializeToString() for event in
                                                                 events[:len(found)]], size
        assert last <= len(found) <= last + 1, (size, last, len(found))
        last = len(found)
    assert last == len(events) - 1

# A run with all that is logged: every value of metrics.jsonl is there under Megatron's tags.
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([os.environ.get("BEVATRON", "build/release/bevatron"), "train", "--mock-data", "--num-layers", "1",
                    "--hidden-size", "16", "--num-attention-heads", "2", "--seq-length", "16", "--vocab-size", "50",
                    "--tokenizer-type", "NullTokenizer", "--micro-batch-size", "1", "--lr", "1e-3", "--log-interval", "1",
                    "--eval-iters", "1", "--eval-interval", "5", "--train-iters", "20", "--threads", "1", "--log-throughput",
                    "--log-params-norm", "--log-num-zeros-in-grad", "--log-timers-to-tensorboard",
                    "--log-validation-ppl-to-tensorboard", "--log-world-size-to-tensorboard", "--tensorboard-dir",
                    f"{folder}/board", "--save", f"{folder}/run"],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    board = EventAccumulator(f"{folder}/board", size_guidance={"scalars": 0, "tensors": 0})
    board.Reload()
    lines = [json.loads(line) for line in pathlib.Path(folder, "run/metrics.jsonl").read_text().splitlines()]
    compared = set()
    for line in lines:
        if line["kind"] == "train":
            wanted = {"lm loss": line["losses"]["lm loss"], "learning-rate": line["learning_rate"],
                      "batch-size": line["global_batch_size"], "grad-norm": line["grad_norm"],
                      "params-norm": line["params_norm"], "num-zeros": line["num_zeros"],
                      "loss-scale": line["loss_scale"], "iteration-time": line["elapsed_ms"] / 1e3,
                      "throughput": line["teraflops"], "world-size": 1}
        elif line["kind"] == "eval":
            wanted = {f"lm loss {line['set']}": line["losses"]["lm loss"],
                      f"lm loss {line['set']} ppl": math.exp(line["losses"]["lm loss"])}
        else:
            continue
        for tag, value in wanted.items():
            for name, step in ((tag, line["iteration"]), (tag + " vs samples", line["consumed_samples"])):
                if name == "throughput vs samples":
                    continue
                got = [event.value for event in board.Scalars(name) if event.step == step]
                # The last iteration is evaluated twice: at its interval and at the end.
                assert any(abs(number - value) <= 1e-5 * abs(value) for number in got), (name, step, got, value)
                compared.add(name)
    scalars = {tag for tag in board.Tags()["scalars"] + board.Tags()["tensors"] if not tag.endswith("/text_summary")}
    assert compared == scalars, compared ^ scalars
print("tensorboard: its reader sees every tag, step, value and text, also of files that are cut")
