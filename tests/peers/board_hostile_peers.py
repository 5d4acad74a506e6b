"""The board's server under attack, as one program from outside: addresses that lead out of it, garbage, 10,000
connections of which many are slow, wait or never read, and answers that are asked for and dropped. An ordinary client is
served all the while; nothing but the board's own pages and data is ever sent.

    BEVATRON=build/release/bevatron python tests/peers/board_hostile_peers.py       (nothing but Python)
"""
import contextlib
import json
import os
import pathlib
import random
import resource
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time

BEVATRON = pathlib.Path(os.environ.get("BEVATRON", "build/release/bevatron")).resolve()
CONNECTIONS = 10000
SECRET = "a-secret-that-nobody-may-see"


class Board:
    def __init__(self, folder, *flags):
        self.process = subprocess.Popen([BEVATRON, "board", "--logdir", folder, "--port", "0", "--no-cache", *flags],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = int(self.process.stdout.readline().split()[1].split(":")[2].split("/")[0])

    def connect(self):
        client = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        return client

    def exchange(self, request):
        """All bytes that come back."""
        with self.connect() as client, contextlib.suppress(ConnectionError):
            client.sendall(request)
            answer = b""
            while part := client.recv(1 << 16):
                answer += part
        return answer

    def get(self, target, *headers):
        lines = [f"GET {target} HTTP/1.1", "Host: localhost", "Connection: close", *headers, "", ""]
        return self.exchange("\r\n".join(lines).encode("utf-8", "surrogateescape"))

    def memory_mb(self, key="VmRSS"):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split(key + ":")[1].split()[0]) / 1024

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, self.process.returncode


def status_of(answer):
    return int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0


def make_runs(folder):
    (folder / "outside").mkdir()
    (folder / "outside/secret.txt").write_text(SECRET)
    (folder / "outside/metrics.jsonl").write_text(SECRET + "\n")
    (folder / "outside/job.log").write_text(SECRET + "\n")
    # A run whose log is a link to what others may not see, and one that names a file that is not a log.
    for name, log in (("a", folder / "runs/a/link.log"), ("b", folder / "outside/secret.txt/../secret.txt")):
        run = folder / "runs" / name
        run.mkdir(parents=True)
        lines = [{"kind": "run", "time": 1, "iteration": 0, "job_log": str(log)}]
        lines += [{"kind": "train", "time": i, "iteration": i, "losses": {"lm loss": 10 / i}} for i in range(1, 20001)]
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "runs/a/link.log").symlink_to(folder / "outside/job.log")
    return folder / "runs"


def check_traversal(board, ids):
    ways = ["../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..%252f", "..\\", "..%5c", "..;/", "....//", "%c0%ae%c0%ae/", "..%00/",
            "%uff0e%uff0e/", "/./../"]
    targets = ["/" + depth * way + name for way in ways for depth in (1, 2, 4, 8)
               for name in ("outside/secret.txt", "etc/passwd", "outside/metrics.jsonl")]
    targets += ["//etc/passwd", "file:///etc/passwd", "http://127.0.0.1/etc/passwd", "/runs/a/metrics.jsonl", "/.git/config",
                "/board.js/../../outside/secret.txt", "/style.css%00.txt", "/index.html/..%2f..%2foutside/secret.txt"]
    for parameter in ("id", "tag", "x", "from", "lines"):
        targets += [f"/api/{route}?{parameter}={way}outside/secret.txt" for route in ("run", "curves", "log", "runs")
                    for way in ways]
    targets += [f"/api/log?id={run}&lines=1000" for run in ids]
    for target in targets:
        answer = board.get(target)
        assert SECRET.encode() not in answer and b"root:" not in answer, target
        code = status_of(answer)
        asks_api = target.startswith(("/api/runs", "/api/log?id="))
        assert code in (400, 404) or (code == 200 and asks_api), (target, code, answer[:200])
    return len(targets)


def check_garbage(board):
    generator = random.Random(20)
    cases = [generator.randbytes(generator.randrange(1, 3000)) for _ in range(300)]
    head = b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    for i in range(300):
        wrong = bytearray(head + b"X: y\r\n\r\n")
        for _ in range(generator.randrange(1, 8)):
            wrong[generator.randrange(len(wrong))] = generator.randrange(256)
        cases.append(bytes(wrong))
    cases += [head + b"A: " + bytes(20000) + b"\r\n\r\n", head + 3000 * b"A: b\r\n" + b"\r\n", b"GET /" + 70000 * b"a",
              head + b"Content-Length: 99999999999999999999\r\n\r\n", head + b"Content-Length: -1\r\n\r\n",
              head + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", b"GET /api/curves?" + 2000 * b"id=a&" +
              b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"]
    # All at once: the server waits for the rest of some of them.
    poll, clients = select.poll(), {}
    for case in cases:
        client = board.connect()
        with contextlib.suppress(ConnectionError):
            client.sendall(case)
            client.shutdown(socket.SHUT_WR)
        clients[client.fileno()] = client
        poll.register(client, select.POLLIN)
    until = time.monotonic() + 300
    while clients and time.monotonic() < until:
        for number, _ in poll.poll(1000):
            part = b""
            with contextlib.suppress(ConnectionError):
                part = clients[number].recv(1 << 16)
            if not part:
                poll.unregister(number)
                clients.pop(number).close()
    assert not clients, f"{len(clients)} connections were never closed"
    assert status_of(board.get("/")) == 200
    return len(cases)


class Ordinary(threading.Thread):
    """A reader who opens the page and looks at a curve, again and again."""
    def __init__(self, board, run):
        super().__init__(daemon=True)
        self.board, self.run_id, self.ends, self.times, self.errors = board, run, False, [], []

    def run(self):
        while not self.ends:
            for target in ("/", "/api/runs", f"/api/curves?id={self.run_id}&tag=lm+loss&x=step"):
                begin = time.monotonic()
                code = status_of(self.board.get(target))
                self.times.append(time.monotonic() - begin)
                if code not in (200, 503):
                    self.errors.append((target, code))
            time.sleep(0.02)


def check_crowd(board, run):
    """Every kind of client that means harm, 10,000 of them at once."""
    wait = b"GET /api/runs?after=%d HTTP/1.1\r\nHost: localhost\r\n\r\n"
    revision = json.loads(board.get("/api/runs").split(b"\r\n\r\n", 1)[1])["revision"]
    large = f"GET /api/curves?id={run}&x=step&points=2000 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    reader = Ordinary(board, run)
    reader.start()
    clients, drips = [], []
    while len(clients) < CONNECTIONS:
        client = board.connect()
        kind = len(clients) % 10
        with contextlib.suppress(ConnectionError):
            if kind < 3:
                client.sendall(b"GET / HTTP/1.1\r\nX: ")
                drips.append(client)
            elif kind == 3:
                client.sendall(wait % revision)
            elif kind == 4 and len(clients) < 2000:
                client.sendall(20 * large)  # and never reads
        clients.append(client)
    held = board.memory_mb()
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for client in random.sample(drips, 200):
            with contextlib.suppress(OSError):
                client.send(b"x", socket.MSG_DONTWAIT)
    reader.ends = True
    reader.join()
    assert not reader.errors, reader.errors[:5]
    files = board.files()
    # Those who neither send nor read are cut off by and by.
    until, cut = time.monotonic() + 300, 0
    while cut < len(drips) and time.monotonic() < until:
        poll = select.poll()
        for client in drips:
            poll.register(client, select.POLLRDHUP)
        cut = len(poll.poll(1000))
        time.sleep(1)
    assert cut == len(drips), (cut, len(drips))
    for client in clients:
        client.close()
    until = time.monotonic() + 120
    while board.files() > 100 and time.monotonic() < until:
        time.sleep(0.5)
    assert board.files() <= 100, board.files()
    return {"most files": files, "MB with all of them": round(held), "most MB": round(board.memory_mb("VmHWM")),
            "requests served meanwhile": len(reader.times),
            "median ms": round(1000 * sorted(reader.times)[len(reader.times) // 2], 1),
            "slowest ms": round(1000 * max(reader.times))}


def check_token(folder):
    board = Board(folder, "--token", "correct-horse-battery")
    try:
        for header in ((), ("Authorization: Bearer wrong-horse-battery",), ("Cookie: a=b",), ("Authorization: Basic eDp5",)):
            assert status_of(board.get("/api/runs", *header)) == 401, header
        assert status_of(board.get("/api/runs", "Authorization: Bearer correct-horse-battery")) == 200
    finally:
        board.stop()


with tempfile.TemporaryDirectory() as made:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    logs = make_runs(pathlib.Path(made))
    server = Board(logs)
    try:
        names = []
        while len(names) < 2:
            names = [entry["id"] for entry in json.loads(server.get("/api/runs").split(b"\r\n\r\n", 1)[1])["runs"]]
        paths, garbage = check_traversal(server, names), check_garbage(server)
        crowd = check_crowd(server, names[0])
        assert crowd["most MB"] < 200, crowd
    finally:
        server.stop()
    check_token(logs)
print(f"board: {paths} paths and {garbage} pieces of garbage gave nothing away; {CONNECTIONS} connections: {crowd}")
