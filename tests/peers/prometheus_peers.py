"""Prometheus's own parser (prometheus_client) on the textfile and the endpoint of a run.

    BEVATRON=build/release/bevatron python tests/peers/prometheus_peers.py       (prometheus-client)
"""
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import time
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

BEVATRON = pathlib.Path(os.environ.get("BEVATRON", "build/release/bevatron")).resolve()
MODEL = ["--mock-data", "--num-layers", "1", "--hidden-size", "16", "--num-attention-heads", "2", "--seq-length", "16",
         "--vocab-size", "50", "--tokenizer-type", "NullTokenizer", "--micro-batch-size", "1", "--lr", "1e-3",
         "--log-interval", "5", "--eval-iters", "1", "--eval-interval", "10", "--threads", "1", "--log-throughput"]


def parse(text, run):
    """Samples by name and labels. Every family has a type and a help text, and every sample the label of the run."""
    values = {}
    for family in text_string_to_metric_families(text):
        assert family.type in ("gauge", "counter") and family.documentation, family
        assert family.name.startswith("bevatron_"), family
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("run") == run, sample
            key = (sample.name, *sorted(labels.items()))
            assert key not in values, key
            values[key] = sample.value
    return values


with tempfile.TemporaryDirectory() as folder:
    # A name that needs every escape there is.
    save = pathlib.Path(folder) / 'a "run"\\with\nall'
    textfile = pathlib.Path(folder) / "node/run.prom"
    subprocess.run([BEVATRON, "train", *MODEL, "--train-iters", "20", "--save", save, "--prometheus-textfile", textfile],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    values = parse(textfile.read_text(), str(save))
    lines = [json.loads(line) for line in (save / "metrics.jsonl").read_text().splitlines()]
    last = [line for line in lines if line["kind"] == "train"][-1]
    assert values["bevatron_iteration",] == 20 and values["bevatron_samples_total",] == last["consumed_samples"]
    assert abs(values["bevatron_loss", ("loss", "lm loss")] - last["losses"]["lm loss"]) < 1e-9
    assert abs(values["bevatron_tokens_per_second",] / last["tokens_per_second"] - 1) < 1e-9
    assert values["bevatron_run_state", ("state", "finished")] == 1 and values["bevatron_run_state", ("state", "running")] == 0
    assert values["bevatron_events_total", ("event", "saved")] == 1
    assert values["bevatron_checkpoint_iteration",] == 20
    assert values["bevatron_teraflops_per_device",] > 0 and values["bevatron_memory_bytes",] > 1e6
    assert any(key[0] == "bevatron_evaluation_loss" for key in values)
    names = {key[0] for key in values}
    assert os.listdir(textfile.parent) == ["run.prom"], os.listdir(textfile.parent)

    # Every name is in the documents, and no other.
    page = (pathlib.Path(__file__).parents[2] / "docs/events.md").read_text()
    rows = [row for row in page.splitlines() if row.startswith("| `bevatron_")]
    documented = {name for row in rows for name in row.split("|")[1].replace("`", "").replace(",", " ").split()}
    assert documented - names <= {"bevatron_grad_norm"}, documented - names
    assert names <= documented, names - documented

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    run = subprocess.Popen([BEVATRON, "train", *MODEL, "--train-iters", "100000000", "--metrics-file", f"{folder}/m.jsonl",
                            "--prometheus-port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
                    values = parse(answer.read().decode(), f"{folder}/m.jsonl")
                if values["bevatron_iteration",] >= 5:
                    break
            except OSError:
                pass
            time.sleep(0.1)
        assert values["bevatron_iteration",] >= 5 and values["bevatron_run_state", ("state", "running")] == 1
    finally:
        run.terminate()
        run.wait()
print(f"prometheus: its parser reads all {len(names)} metrics of the file and of the endpoint")
