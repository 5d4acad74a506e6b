"""Our board on event files that TensorBoard's own writer, PyTorch and tensorboardX write: while they are written, whole,
and cut at many bytes. TensorBoard's reader says what is in them.

    BEVATRON=build/release/bevatron python tests/peers/board_peers.py       (tensorboard, tensorboardX, torch)

A writer that is not installed is left out.
"""
import contextlib
import json
import math
import os
import pathlib
import random
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util import tensor_util

BEVATRON = pathlib.Path(os.environ.get("BEVATRON", "build/release/bevatron")).resolve()
STEPS = 400
CUTS = 60


class OwnWriter:
    """TensorBoard's own writer with the interface of the others: scalars as tensors, as TensorFlow 2 writes them."""
    def __init__(self, folder):
        self.writer = EventFileWriter(folder)

    def add_scalar(self, tag, value, step):
        metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"))
        item = Summary.Value(tag=tag, tensor=tensor_util.make_tensor_proto(float(value), dtype="float32"), metadata=metadata)
        self.writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=[item])))

    def flush(self):
        self.writer.flush()

    def close(self):
        self.writer.close()


def writers():
    found = {"tensorboard": OwnWriter}
    with contextlib.suppress(ImportError):
        from torch.utils.tensorboard import SummaryWriter
        found["torch"] = SummaryWriter
    with contextlib.suppress(ImportError):
        from tensorboardX import SummaryWriter
        found["tensorboardX"] = SummaryWriter
    return found


@contextlib.contextmanager
def board(folder):
    """A function that asks the board of a folder: ask("/api/runs")."""
    server = subprocess.Popen([BEVATRON, "board", "--logdir", folder, "--port", "0", "--no-cache"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
    try:
        address = server.stdout.readline().split()[1]
        yield lambda target: json.load(urllib.request.urlopen(address.rstrip("/") + target, timeout=60))
    finally:
        server.terminate()
        server.wait()


def runs_by_name(ask):
    return {run["name"]: run for run in ask("/api/runs")["runs"]}


def curve(ask, run, tag):
    """[(step, value)]; every value of a curve that is short enough to be exact."""
    query = urllib.parse.urlencode({"id": run["id"], "tag": tag, "x": "step", "points": 2000})
    [found] = ask("/api/curves?" + query)["curves"]
    assert found["exact"], (run["name"], tag)
    return [(int(point[0]), math.nan if point[1] is None else point[1]) for point in found["points"]]


def truth(folder):
    """What TensorBoard's reader finds: {tag: [(step, value)]}."""
    reader = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    reader.Reload()
    found = {tag: [(event.step, event.value) for event in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}
    for tag in reader.Tags()["tensors"]:
        if reader.SummaryMetadata(tag).plugin_data.plugin_name == "scalars":
            found[tag] = [(event.step, float(tensor_util.make_ndarray(event.tensor_proto))) for event in reader.Tensors(tag)]
    return found


def same(ours, theirs):
    return len(ours) == len(theirs) and all(
        a[0] == b[0] and (math.isnan(a[1]) if not math.isfinite(b[1]) else math.isclose(a[1], b[1], rel_tol=1e-6))
        for a, b in zip(ours, theirs))


def await_last(ask, name, tag, step):
    """Waits until the board has read this step."""
    until = time.monotonic() + 300
    while time.monotonic() < until:
        run = runs_by_name(ask).get(name)
        if run and tag in run["tags"]:
            points = curve(ask, run, tag)
            if points and points[-1][0] >= step:
                return points
        time.sleep(0.2)
    raise AssertionError(f"{name}: step {step} of {tag} was not shown")


def check_live(folder, kinds):
    """All writers write at the same time; the board follows each of them."""
    folder.mkdir()
    with board(folder) as ask:
        opened = {name: make(str(folder / name)) for name, make in kinds.items()}
        for begin in range(0, STEPS, STEPS // 4):
            for step in range(begin, begin + STEPS // 4):
                for writer in opened.values():
                    writer.add_scalar("Loss/train", 10 / (step + 1), step)
                    writer.add_scalar("lr", 1e-4 * step if step % 50 else math.inf, step)
                    if step % 10 == 0:
                        writer.add_scalar("eval/ünïcode loss", 1 / (step + 3), step)
            for name, writer in opened.items():
                writer.flush()
                assert len(await_last(ask, name, "Loss/train", begin + STEPS // 4 - 1)) == begin + STEPS // 4
        for writer in opened.values():
            writer.close()
        count = 0
        for name in kinds:
            run, wanted = runs_by_name(ask)[name], truth(folder / name)
            assert set(run["tags"]) == set(wanted) and len(wanted) == 3, (name, run["tags"], set(wanted))
            for tag, points in wanted.items():
                ours = curve(ask, run, tag)
                assert same(ours, points), (name, tag, ours[:3], points[:3])
                count += len(points)
        return count


def check_cut(source, folder, kinds):
    """Files cut at random bytes, each a run of its own: TensorBoard's reader and ours agree."""
    generator, made = random.Random(19), []
    for kind in kinds:
        [file] = (source / kind).iterdir()
        content = file.read_bytes()
        for size in sorted(generator.sample(range(len(content)), CUTS)):
            cut = folder / f"{kind}-{size}"
            cut.mkdir(parents=True)
            (cut / file.name).write_bytes(content[:size])
            made.append(cut)
    with board(folder) as ask:
        until = time.monotonic() + 300
        while ask("/api/runs")["scanning"] is not None or len(runs_by_name(ask)) < len(made):
            assert time.monotonic() < until, "the board does not come to an end"
            time.sleep(0.2)
        runs = runs_by_name(ask)
        for cut in made:
            wanted, until = truth(cut), time.monotonic() + 60
            while set(runs[cut.name]["tags"]) != set(wanted) and time.monotonic() < until:
                time.sleep(0.2)
                runs = runs_by_name(ask)
            for tag, points in wanted.items():
                assert same(curve(ask, runs[cut.name], tag), points), (cut.name, tag)
            assert set(runs[cut.name]["tags"]) == set(wanted), (cut.name, runs[cut.name]["tags"], set(wanted))
    return len(made)


with tempfile.TemporaryDirectory() as made_folder:
    root, installed = pathlib.Path(made_folder), writers()
    values = check_live(root / "live", installed)
    files = check_cut(root / "live", root / "cut", installed)
print(f"board: {values} values of {', '.join(installed)} as TensorBoard reads them, while written and of {files} cut files")
