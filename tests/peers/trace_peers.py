"""Perfetto's trace processor on profiles of one, two and four ranks: its queries give the step times that we logged.

    BEVATRON=build/release/bevatron python tests/peers/trace_peers.py       (perfetto)

TRACE_PROCESSOR names a trace processor that is there already, for a machine that cannot download one
(trace_processor.js).
"""
import gzip
import json
import os
import pathlib
import subprocess
import tempfile

from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

BEVATRON = os.environ.get("BEVATRON", "build/release/bevatron")
SHELL = os.environ.get("TRACE_PROCESSOR")
FIRST, LAST = 3, 6
# The layouts differ in what ranks say to each other: nothing, gradients, activations too.
LAYOUTS = {1: [], 2: [], 4: ["--tensor-model-parallel-size", "2", "--pipeline-model-parallel-size", "2"]}

SLICES = """
    select slice.name, slice.dur, process.pid, process.name as process, slice.category from slice
    join thread_track on slice.track_id = thread_track.id join thread using (utid) join process using (upid)"""
# How much of the iterations the outermost spans of the host fill.
FILLED = """
    select sum(item.dur) * 1.0 / (select sum(dur) from slice where category = 'iteration') as share from slice item
    join thread_track on item.track_id = thread_track.id join thread using (utid)
    where thread.name like 'host%' and item.depth = 0
    and exists (select 1 from slice step join thread_track own on step.track_id = own.id
                join thread theirs on own.utid = theirs.utid
                where step.category = 'iteration' and theirs.upid = thread.upid
                and item.ts >= step.ts and item.ts + item.dur <= step.ts + step.dur)"""


def train(folder, ranks):
    """The times of the iterations in milliseconds, as logged."""
    command = [BEVATRON, "train", "--mock-data", "--vocab-size", "97", "--num-layers", "4", "--hidden-size", "64",
               "--num-attention-heads", "4", "--seq-length", "32", "--micro-batch-size", "1", "--global-batch-size", "8",
               "--lr", "1e-3", "--log-interval", "1", "--eval-iters", "0", "--threads", "1", "--device", "cpu",
               "--train-iters", "8", "--save", folder, "--profile", "--profile-step-start", str(FIRST - 1),
               "--profile-step-end", str(LAST), *LAYOUTS[ranks]]
    launcher = ["bash", "tests/parallel/mpirun.sh", str(ranks)] if ranks > 1 else []
    subprocess.run(launcher + command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = map(json.loads, (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines())
    return {line["iteration"]: line["elapsed_ms"] for line in lines if line["kind"] == "train"}


def check_rank(rows, rank, logged):
    [name] = {row.process for row in rows}
    assert name.startswith(f"rank {rank} on "), name
    steps = {row.name: row.dur / 1e6 for row in rows if row.category == "iteration"}
    assert set(steps) == {f"iteration {i}" for i in range(FIRST, LAST + 1)}, steps
    for i in range(FIRST, LAST + 1):
        # Rank 0 writes the log; others do the same steps by clocks of their own.
        assert rank > 0 or abs(steps[f"iteration {i}"] - logged[i]) < 0.001, (steps, logged)


def check(ranks):
    with tempfile.TemporaryDirectory() as folder:
        logged = train(folder, ranks)
        [path] = pathlib.Path(folder).glob("trace.json*")
        with (gzip.open if path.suffix == ".gz" else open)(path) as file:
            spans = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
        config = TraceProcessorConfig(bin_path=SHELL) if SHELL else TraceProcessorConfig()
        with TraceProcessor(trace=str(path), config=config) as processor:
            rows = list(processor.query(SLICES))
            # Nothing was dropped: every span of the file is a slice.
            assert len(rows) == len(spans), (len(rows), len(spans))
            problems = list(processor.query("select name, value from stats where severity = 'error' and value > 0"))
            assert not problems, [(row.name, row.value) for row in problems]
            assert {row.pid for row in rows} == set(range(ranks))
            for rank in range(ranks):
                own = [row for row in rows if row.pid == rank]
                check_rank(own, rank, logged)
                wanted = {"compute", "data"} | ({"communication"} if ranks > 1 else set())
                assert wanted <= {row.category for row in own}, (rank, {row.category for row in own})
            share = list(processor.query(FILLED))[0].share
            # The rest is what the machine does between two spans.
            assert 0.5 < share <= 1, share
    print(f"perfetto: {len(spans)} spans of {ranks} ranks, steps as logged, spans fill {share:.0%} of them")


for count in LAYOUTS:
    check(count)
