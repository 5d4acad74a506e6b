"""TensorBoard on the event files that bench_board made: how long until all is loaded, and its memory.

    build/release/bench/bench_board FOLDER RUNS STEPS [DISTINCT] events
    python bench/bench_board_peers.py FOLDER           (tensorboard)

Loads FOLDER/events as `tensorboard --load_fast=false` does, with its default of 1000 scalars per tag. Without FOLDER,
bench_board makes 4 runs of 25,000 steps first.
"""
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import tensorboard
from tensorboard.backend.event_processing import plugin_event_multiplexer


def load(folder):
    start = time.monotonic()
    multiplexer = plugin_event_multiplexer.EventMultiplexer(
        tensor_size_guidance={"scalars": 1000, "text": 10}, purge_orphaned_data=True)
    multiplexer.AddRunsFromDirectory(folder + "/events")
    multiplexer.Reload()
    seconds = time.monotonic() - start
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"tensorboard {tensorboard.__version__}: {len(multiplexer.Runs())} runs loaded in {seconds:.1f} s, "
          f"{time.process_time():.1f} s of CPU, at most {peak_mb:.0f} MB")


if len(sys.argv) > 1:
    load(sys.argv[1])
else:
    program = pathlib.Path(os.environ.get("BEVATRON", "build/release/bevatron")).parent / "bench" / "bench_board"
    with tempfile.TemporaryDirectory() as made:
        subprocess.run([program, made, "4", "25000", "4", "events"], check=True)
        load(made)
