#!/usr/bin/env python3
# bevatron and a real server that speaks S3: moto, as a separate process, with IAM and signature checks switched on.
#
#   - 1,000 objects, plain and compressed, by a pattern: the dataset equals that of local files, byte for byte
#   - one object of several parts, by ranges; with a proxy in between that cuts, delays, resets, and answers 500 and 503
#   - wrong access key, wrong secret key, a missing bucket, a missing object (moto has no expired tokens, and itself
#     fails on requests that are not signed)
#   - checkpoints: copied, killed with SIGKILL at many moments, and the copy is complete afterwards, as read by boto3
#
# Without moto[server] and boto3 the check is skipped and says so.
# usage: [BEVATRON=PROGRAM] python3 tests/peers/s3_peers.py [KILLS]
import functools, glob, gzip, hashlib, json, os, random, shutil, signal, socket, subprocess, sys, tempfile, threading, time

try:
    import boto3
    import moto.server  # noqa: F401
    from botocore.config import Config
except ImportError as missing:
    sys.exit(print(f"left out: {missing}"))

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
BEVATRON = os.path.abspath(os.environ.get("BEVATRON", os.path.join(ROOT, "build/release/bevatron")))
KILLS = int(sys.argv[1]) if len(sys.argv) > 1 else 24
print = functools.partial(print, flush=True)
WORK = tempfile.mkdtemp(prefix="bevatron-s3-")
failures, passes = 0, 0


def check(condition, what):
    global failures, passes
    if condition:
        passes += 1
    else:
        failures += 1
        print(f"FAIL {what}")
    return condition


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port):
    for _ in range(3000):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("moto did not start")


PORT = free_port()
# The first actions set up a user and her key; from then on every request must be signed by a known key with permission.
SETUP_ACTIONS = 4
server = subprocess.Popen([os.path.join(os.path.dirname(sys.executable), "moto_server"), "-H", "127.0.0.1", "-p", str(PORT)],
                          stdout=subprocess.DEVNULL, stderr=open(os.path.join(WORK, "moto.log"), "w"),
                          env={**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": str(SETUP_ACTIONS)})
wait_for(PORT)
ENDPOINT = f"http://127.0.0.1:{PORT}"
setup = dict(endpoint_url=ENDPOINT, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
iam = boto3.client("iam", **setup)
iam.create_user(UserName="trainer")
policy = iam.create_policy(PolicyName="all", PolicyDocument=json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:*", "sts:*", "iam:*"], "Resource": "*"}]}))
iam.attach_user_policy(UserName="trainer", PolicyArn=policy["Policy"]["Arn"])
key = iam.create_access_key(UserName="trainer")["AccessKey"]
known = dict(setup, aws_access_key_id=key["AccessKeyId"], aws_secret_access_key=key["SecretAccessKey"])
s3 = boto3.client("s3", config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}), **known)
s3.create_bucket(Bucket="corpus")
s3.create_bucket(Bucket="runs")


def environment(**changes):
    env = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    env.update(AWS_ENDPOINT_URL=ENDPOINT, AWS_ACCESS_KEY_ID=key["AccessKeyId"], AWS_REGION="us-east-1",
               AWS_SECRET_ACCESS_KEY=key["SecretAccessKey"], AWS_EC2_METADATA_DISABLED="true", HOME=WORK)
    for name, value in changes.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return env


def run(*arguments, **changes):
    done = subprocess.run([BEVATRON, *arguments], env=environment(**changes), capture_output=True, text=True, timeout=1800)
    check(key["SecretAccessKey"] not in done.stdout + done.stderr, "the secret key was printed")
    return done.returncode, done.stdout + done.stderr


def sums(prefix):
    return [hashlib.sha256(open(f"{prefix}_text_document.{end}", "rb").read()).hexdigest() for end in ("bin", "idx")]


NULL = ["--tokenizer-type", "NullTokenizer", "--vocab-size", "6000"]


def preprocess(output, *inputs, **changes):
    return run("preprocess", *NULL, "--output-prefix", os.path.join(WORK, output), "--input", *inputs, **changes)


# ---- 1,000 objects ----

rng = random.Random(18)
local = os.path.join(WORK, "local")
os.mkdir(local)
for i in range(1000):
    text = "".join(json.dumps({"text": " ".join(str(rng.randrange(6000)) for _ in range(rng.randrange(40)))}) + "\n"
                   for _ in range(rng.randrange(20) + 1)).encode()
    name = f"part {i:04d}&+.jsonl" + (".gz" if i % 3 == 0 else "")
    data = gzip.compress(text, mtime=0) if i % 3 == 0 else text
    open(os.path.join(local, name), "wb").write(data)
    s3.put_object(Bucket="corpus", Key=f"in/{name}", Body=data)
code, text = preprocess("local", local)
check(code == 0, f"local files: {text[-300:]}")
begin = time.time()
code, text = preprocess("remote", "s3://corpus/in/part*")
check(code == 0 and sums(f"{WORK}/remote") == sums(f"{WORK}/local"), f"1,000 objects by a pattern: {text[-300:]}")
print(f"1,000 objects: {time.time() - begin:.1f} s")
code, text = preprocess("prefix", "s3://corpus/in/")
check(code == 0 and sums(f"{WORK}/prefix") == sums(f"{WORK}/local"), f"1,000 objects by a prefix: {text[-300:]}")

# ---- a large object by ranges, and a connection that fails ----

line = json.dumps({"text": " ".join(str(i % 6000) for i in range(2000))}) + "\n"
with open(f"{WORK}/large.jsonl", "w") as out:
    for i in range(2400):
        out.write(line)
s3.upload_file(f"{WORK}/large.jsonl", "corpus", "large.jsonl")
print("a large object")
code, text = preprocess("large_local", f"{WORK}/large.jsonl")
check(code == 0, f"large local file: {text[-300:]}")
code, text = preprocess("large", "s3://corpus/large.jsonl")
check(code == 0 and sums(f"{WORK}/large") == sums(f"{WORK}/large_local"), f"a large object: {text[-300:]}")


class Proxy(threading.Thread):
    """Passes connections on to moto. Of every ten, one is reset at once, one answers 500, one 503, one is cut in the
    middle of its answer and one is delayed."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port, self.count = self.listener.getsockname()[1], 0

    def run(self):
        while True:
            client, _ = self.listener.accept()
            self.count += 1
            threading.Thread(target=self.serve, args=(client, self.count % 10), daemon=True).start()

    def serve(self, client, turn):
        try:
            if turn == 3:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                return client.close()
            if turn in (5, 7):
                client.recv(65536)
                status = b"500 Internal Server Error" if turn == 5 else b"503 Slow Down"
                client.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return client.close()
            if turn == 9:
                time.sleep(1)
            upstream = socket.create_connection(("127.0.0.1", PORT))
            threading.Thread(target=self.pump, args=(client, upstream, None), daemon=True).start()
            self.pump(upstream, client, 700000 if turn == 1 else None)
        except OSError:
            pass

    @staticmethod
    def pump(source, sink, limit):
        passed = 0
        try:
            while data := source.recv(65536):
                if limit is not None and passed + len(data) > limit:
                    sink.sendall(data[:limit - passed])
                    break
                sink.sendall(data)
                passed += len(data)
        except OSError:
            pass
        for each in (source, sink):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


# The Host header that is signed is the proxy's, and moto sees the same one.
proxy = Proxy()
proxy.start()
through = f"http://127.0.0.1:{proxy.port}"
code, text = preprocess("proxied", "s3://corpus/large.jsonl", AWS_ENDPOINT_URL=through)
check(code == 0 and sums(f"{WORK}/proxied") == sums(f"{WORK}/large_local"), f"a large object by a bad line: {text[-300:]}")
check(proxy.count > 5, f"only {proxy.count} connections")
code, text = preprocess("some_local", *sorted(glob.glob(glob.escape(local) + "/part 00*")))
code, text = preprocess("some_proxied", "s3://corpus/in/part 00*", AWS_ENDPOINT_URL=through)
check(code == 0 and sums(f"{WORK}/some_proxied") == sums(f"{WORK}/some_local"), f"100 objects by a bad line: {text[-300:]}")
print(f"{proxy.count} connections through the proxy")

# ---- refusals ----

print("refusals")
for changes, expected in [
    (dict(AWS_ACCESS_KEY_ID="AKIANOBODYKNOWSTHIS1"), "does not know the access key …HIS1"),
    (dict(AWS_SECRET_ACCESS_KEY="wrong"), "the secret key does not belong to the access key"),
]:
    code, text = preprocess("refused", "s3://corpus/in/part*", **changes)
    check(code == 1 and expected in text, f"{changes}: exit code {code}: {text[-300:]}")
for address, expected in [("s3://corpus/absent.jsonl", "no such object"),
                          ("s3://no-such-bucket/x/", "no such bucket"),
                          ("s3://corpus/q*", "no object matches")]:
    code, text = preprocess("refused", address)
    check(code == 1 and expected in text, f"{address}: exit code {code}: {text[-300:]}")

# ---- checkpoints ----

TRAIN = ["train", "--mock-data", "--tokenizer-type", "NullTokenizer", "--vocab-size", "20000", "--num-layers", "1", "--hidden-size",
         "64", "--num-attention-heads", "1", "--seq-length", "8", "--max-position-embeddings", "8", "--micro-batch-size", "1",
         "--lr", "1e-3", "--log-interval", "1", "--eval-iters", "0", "--device", "cpu", "--threads", "1"]


def objects(prefix):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket="runs", Prefix=prefix)
    return {item["Key"]: item["Size"] for page in pages for item in page.get("Contents", [])}


def read(name):
    return s3.get_object(Bucket="runs", Key=name)["Body"].read()


def whole(prefix):
    """Every manifest describes existing objects with its checksums; the marker names one. Returns the number of
    manifests."""
    names = objects(prefix + "/")
    manifests = [name for name in names if name.endswith("/manifest.json")]
    for name in manifests:
        for file in json.loads(read(name))["files"]:
            data = read(os.path.dirname(name) + "/" + file["name"])
            check(hashlib.sha256(data).hexdigest() == file["sha256"], f"{name}: {file['name']}")
    marker = prefix + "/latest_checkpointed_iteration.txt"
    if marker in names:
        latest = f"{prefix}/iter_{int(read(marker)):07d}/manifest.json"
        check(latest in manifests, f"{prefix}: the marker names a checkpoint that is not whole")
    return len(manifests)


def flags(name, iterations):
    return [*TRAIN, "--train-iters", str(iterations), "--save", f"{WORK}/{name}", "--save-interval", "2", "--keep-last", "2",
            "--save-to", f"s3://runs/{name}", "--load", f"s3://runs/{name}"]


print("checkpoints")
code, text = run(*flags("a", 6))
check(code == 0 and "copied the checkpoint of iteration 6" in text, f"--save-to: {text[-500:]}")
check(whole("a") == 2, f"{objects('a/')}")
shutil.rmtree(f"{WORK}/a")
code, text = run(*flags("a", 6))
check(code == 0 and "downloading the checkpoint of iteration 6" in text, f"--load: {text[-500:]}")

# A kill at many moments: after times that spread over the run.
begin = time.time()
code, text = run(*flags("k0", 8))
whole_run = time.time() - begin
kills = starts = 0
while kills < KILLS and starts < 5 * KILLS:
    starts += 1
    child = subprocess.Popen([BEVATRON, *flags("k", 8)], env=environment(), stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    time.sleep(whole_run * rng.random() * 0.7)
    if child.poll() is None:
        child.send_signal(signal.SIGKILL)
        kills += 1
    child.wait()
    whole("k")
    # Every other time the machine is lost, too, and sometimes the run starts over.
    if starts % 2 == 0:
        shutil.rmtree(f"{WORK}/k", ignore_errors=True)
    if starts % 5 == 0:
        for name in objects("k/"):
            s3.delete_object(Bucket="runs", Key=name)
        shutil.rmtree(f"{WORK}/k", ignore_errors=True)
code, text = run(*flags("k", 8))
check(code == 0, f"after {kills} kills: {text[-500:]}")
whole("k")
check(read("k/latest_checkpointed_iteration.txt") == b"8", "the last run did not reach its end")
print(f"killed {kills} times")

server.terminate()
server.wait()
shutil.rmtree(WORK, ignore_errors=True)
print(f"{passes} passed, {failures} failed")
sys.exit(1 if failures else 0)
