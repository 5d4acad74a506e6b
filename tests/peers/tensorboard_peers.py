"""TensorBoard's own reader, and its event accumulator, on an event file that we wrote.

    BEVATRON=build/release/bevatron python tests/peers/tensorboard_peers.py       (tensorboard)
"""
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
print("tensorboard: its reader sees every tag, step, value and text")
