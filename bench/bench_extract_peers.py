#!/usr/bin/env python3
"""`bevatron extract wiki` beside WikiExtractor (pip install wikiextractor, with no templates on either side) and beside bzip2
and lbzip2 (which takes a dump apart as we do, where it is installed) alone. Counted is the processor time of everything a
command starts, so that what else the machine does matters little, and the time on the wall, which means something on a quiet
machine; rounds are interleaved and the best of each counts. The dump is the shared sample repeated 20 times (122 MB of XML), or the
.bz2 file named by DUMP. ROUNDS: how many."""
import bz2
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

BEVATRON = os.environ.get("BEVATRON", "build/release/bevatron")
ROUNDS = int(os.environ.get("ROUNDS", "3"))
SHARED = pathlib.Path(os.environ.get("BEVATRON_SHARED", "../shared"))
SAMPLE = SHARED / "data/wiki/enwiki-shortened.xml.bz2"


def make_dump(folder):
    """The sample's pages 20 times, plain and compressed."""
    plain, packed = folder / "dump.xml", folder / "dump.xml.bz2"
    if "DUMP" in os.environ:
        packed.symlink_to(pathlib.Path(os.environ["DUMP"]).resolve())
        with bz2.open(packed) as source, open(plain, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        return plain, packed
    text = bz2.decompress(SAMPLE.read_bytes())
    begin, end = text.index(b"  <page>"), text.rindex(b"</mediawiki>")
    # Piece by piece: a child process begins with the memory of this one, and its peak is reported.
    with open(plain, "wb") as target:
        target.write(text[:begin])
        for _ in range(20):
            target.write(text[begin:end])
        target.write(text[end:])
    subprocess.run(["bzip2", "-k", str(plain)], check=True)
    return plain, packed


def measure(command):
    """Processor and wall time of a command and its children, and the largest memory of one of them."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        print(f"{' '.join(command)} failed with {process.returncode}", file=sys.stderr)
        return None
    return {"cpu_s": round(used.ru_utime + used.ru_stime, 3), "wall_s": round(time.perf_counter() - started, 3),
            "most_memory_mib": round(used.ru_maxrss / 1024)}


def main():
    if "DUMP" not in os.environ and not SAMPLE.exists():
        print(f"skipped: no {SAMPLE}")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        plain, packed = make_dump(folder)
        extract = [BEVATRON, "extract", "wiki", "--output", str(folder / "out.jsonl"), "--input"]
        commands = {
            "bevatron, plain XML, 1 worker": [*extract, str(plain), "--workers", "1"],
            "bevatron, bz2, 1 worker": [*extract, str(packed), "--workers", "1"],
            "bevatron, bz2, 2 workers": [*extract, str(packed), "--workers", "2"],
            "bzip2 -dc": ["bzip2", "-dc", str(packed)],
            "bzip2 -dc, two at once": ["sh", "-c", 'bzip2 -dc "$0" & bzip2 -dc "$0"; wait', str(packed)],
            "WikiExtractor, plain XML, 1 process": [
                sys.executable, "-m", "wikiextractor.WikiExtractor", "--json", "--no-templates", "-q", "--processes", "1", "-o",
                str(folder / "out"), str(plain)],
        }
        if shutil.which("lbzip2"):
            commands["lbzip2 -dc, 1 thread"] = ["lbzip2", "-n", "1", "-dc", str(packed)]
            commands["lbzip2 -dc, 2 threads"] = ["lbzip2", "-n", "2", "-dc", str(packed)]
        best = {}
        for _ in range(ROUNDS):
            for key, command in commands.items():
                row = measure(command)
                if row and "two at once" in key:
                    row["cpu_s"] /= 2
                if row and (key not in best or row["cpu_s"] < best[key]["cpu_s"]):
                    best[key] = row
        size = plain.stat().st_size
        for key, row in best.items():
            print(json.dumps({"name": key, "xml_mb_per_cpu_s": round(size / 1e6 / row["cpu_s"], 1), **row}))
        for ours, theirs in (("bevatron, plain XML, 1 worker", "WikiExtractor, plain XML, 1 process"),
                             ("bevatron, bz2, 1 worker", "bzip2 -dc"), ("bevatron, bz2, 2 workers", "bzip2 -dc, two at once"),
                             ("bevatron, bz2, 1 worker", "lbzip2 -dc, 1 thread"), ("bevatron, bz2, 2 workers", "lbzip2 -dc, 2 threads")):
            if ours in best and theirs in best:
                share = 0.5 if "two at once" in theirs else 1  # of the time on the wall: two dumps were read in it
                cpu, wall = (best[ours][time_] / best[theirs][time_] for time_ in ("cpu_s", "wall_s"))
                print(f"{ours}: {cpu:.2f} of {theirs} by processor time, {wall / share:.2f} on the wall")


main()
