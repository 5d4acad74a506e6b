"""The real `wandb sync` uploads an offline run that we wrote to a stand-in of W&B's server, which keeps what it gets:
configuration, every row, the summary and the exit code. Then runs that were killed: files cut at several bytes.

    BEVATRON=build/release/bevatron python tests/peers/wandb_sync_peers.py       (wandb 0.31)
"""
import gzip
import http.server
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse

import wandb

BEVATRON = pathlib.Path(os.environ.get("BEVATRON", "build/release/bevatron")).resolve()
WANDB = pathlib.Path(sys.executable).parent / "wandb"


class Server(http.server.ThreadingHTTPServer):
    """What was uploaded, by the name of the run."""
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.runs = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def run(self, name):
        return self.runs.setdefault(name, {"rows": {}, "summary": {}, "config": {}, "exit_code": None, "project": None})

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return gzip.decompress(data) if self.headers.get("Content-Encoding") == "gzip" else data

    def do_GET(self):
        self.answer({})

    def do_PUT(self):
        self.body()
        self.answer({})

    def do_POST(self):
        data = json.loads(self.body())
        if self.path == "/graphql":
            name = re.search(r"(?:query|mutation)\s+(\w+)", data["query"]).group(1)
            self.answer({"data": self.graphql(name, data.get("variables") or {})})
            return
        [run] = re.fullmatch(r"/files/[^/]+/[^/]+/([^/]+)/file_stream", self.path).groups()
        self.stream(self.server.run(urllib.parse.unquote(run)), data)
        self.answer({"exitcode": None, "limits": {}})

    def graphql(self, name, values):
        if name == "UpsertBucket":
            run = self.server.run(values["name"])
            run["project"] = (values.get("entity"), values.get("project") or values.get("model"))
            run["name"] = values.get("displayName") or run.get("name")
            run["config"].update(json.loads(values.get("config") or "{}"))
            project = {"id": "p", "name": run["project"][1], "entity": {"id": "e", "name": run["project"][0] or "e"}}
            return {"upsertBucket": {"inserted": True, "bucket": {
                "id": "r", "name": values["name"], "displayName": run["name"], "description": None, "config": "{}",
                "sweepName": None, "historyLineCount": 0, "project": project}}}
        if name == "CreateRunFiles":
            return {"createRunFiles": {"runID": "r", "uploadHeaders": [], "files": [
                {"name": file, "uploadUrl": f"http://{self.headers['Host']}/upload"} for file in values["files"]]}}
        return {"viewer": {"id": "v", "entity": "team", "flags": "{}", "teams": {"edges": []}}, "model": None}

    @staticmethod
    def stream(run, data):
        for name, part in (data.get("files") or {}).items():
            if name == "wandb-history.jsonl":
                for i, line in enumerate(part["content"]):
                    run["rows"][part["offset"] + i] = json.loads(line)
            elif name == "wandb-summary.json":
                run["summary"] = json.loads(part["content"][-1])
        if data.get("complete"):
            run["exit_code"] = data.get("exitcode")


def sync(server, folder, home):
    """What the server has of the run after `wandb sync FOLDER`."""
    environment = {**os.environ, "HOME": str(home), "WANDB_BASE_URL": f"http://127.0.0.1:{server.server_port}",
                   "WANDB_API_KEY": "local-" + 40 * "0", "WANDB_ERROR_REPORTING": "false"}
    [file] = folder.glob("run-*.wandb")
    name = file.stem.removeprefix("run-")
    server.runs.pop(name, None)
    done = subprocess.run([WANDB, "sync", folder], env=environment, capture_output=True, text=True, cwd=home, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    run = server.runs.get(name)
    if run:
        assert sorted(run["rows"]) == list(range(len(run["rows"]))), sorted(run["rows"])
        run["rows"] = [run["rows"][i] for i in sorted(run["rows"])]
    return run


def train(save):
    subprocess.run([BEVATRON, "train", "--mock-data", "--num-layers", "1", "--hidden-size", "16", "--num-attention-heads",
                    "2", "--seq-length", "16", "--vocab-size", "50", "--tokenizer-type", "NullTokenizer",
                    "--micro-batch-size", "1", "--lr", "1e-3", "--log-interval", "1", "--eval-iters", "1",
                    "--eval-interval", "100", "--train-iters", "250", "--threads", "1", "--save", save, "--wandb-project",
                    "a project", "--wandb-entity", "team", "--wandb-exp-name", "a name"],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    [folder] = (save / "wandb/wandb").glob("offline-run-*")
    return folder


def check_whole(run, save):
    assert run["project"] == ("team", "a project") and run["name"] == "a name", run
    assert run["exit_code"] == 0 and run["config"]["train_iters"]["value"] == 250, run["config"]
    assert [row["_step"] for row in run["rows"]] == list(range(1, 251))
    last = None
    for line in map(json.loads, (save / "metrics.jsonl").read_text().splitlines()):
        if line["kind"] != "train":
            continue
        last, row = line, run["rows"][line["iteration"] - 1]
        assert math.isclose(row["lm loss"], line["losses"]["lm loss"], rel_tol=1e-12), (row, line)
        assert math.isclose(row["learning-rate"], line["learning_rate"], rel_tol=1e-12), (row, line)
        assert math.isclose(row["grad-norm"], line["grad_norm"], rel_tol=1e-12), (row, line)
        assert row["samples vs steps"] == line["consumed_samples"], (row, line)
    assert run["summary"]["_step"] == 250, run["summary"]
    assert math.isclose(run["summary"]["lm loss"], last["losses"]["lm loss"], rel_tol=1e-12)
    assert "lm loss validation" in run["rows"][99] and "lm loss validation" in run["summary"]


def check_cut(server, folder, whole, home):
    """A killed run: whatever is whole before the cut arrives, in order, and `wandb sync` does not fail."""
    [file] = folder.glob("run-*.wandb")
    content = file.read_bytes()
    cuts = [len(content) - 1, len(content) // 2, 32768, 32768 - 3, 32768 + 3, len(content) // 5]
    counts = []
    for i, size in enumerate(cuts):
        copy = home / f"offline-run-20260101_00000{i}-{folder.name.rsplit('-', 1)[1]}"
        shutil.copytree(folder, copy)
        for mark in copy.glob("*.synced"):
            mark.unlink()
        (copy / file.name).write_bytes(content[:size])
        rows = sync(server, copy, home)["rows"]
        assert rows == whole[:len(rows)], size
        assert len(rows) >= size / len(content) * len(whole) - 12, (size, len(rows))
        counts.append(len(rows))
    return counts


with tempfile.TemporaryDirectory() as made:
    standin = Server()
    path = pathlib.Path(made)
    offline = train(path / "run")
    (path / "home").mkdir()
    uploaded = sync(standin, offline, path / "home")
    check_whole(uploaded, path / "run")
    found = check_cut(standin, offline, uploaded["rows"], path / "home")
print(f"wandb {wandb.__version__}: `wandb sync` uploads all {len(uploaded['rows'])} rows as logged; of cut files {found}")
