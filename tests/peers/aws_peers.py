#!/usr/bin/env python3
"""`bevatron cluster` with the real aws and pcluster programs against a simulated AWS (moto as a separate server).

An account is furnished with a VPC, a public and a private subnet, a NAT gateway, a key pair and buckets. `cluster
prepare` must find them and write a file that renders; `--create-key` and `--create-bucket` must create these;
`push-image`, `volume`, `list`, `create --dry-run`, `logs` and `ssh` must get as far as the simulation does.

Needs aws on PATH, and aws-parallelcluster and moto[server] in this Python or in build/peers-pcluster, which is made if
it is missing; if that fails, the check is skipped and says so.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BEVATRON = os.path.abspath(os.environ.get("BEVATRON", os.path.join(ROOT, "build/release/bevatron")))
REGION = "us-west-2"
failed = 0


def check(what, good, detail=""):
    global failed
    failed += not good
    print(("ok   " if good else "FAIL ") + what + ("" if good else ": " + str(detail)[-600:]))


def environment_python():
    """A Python with moto's server and aws-parallelcluster, or None."""
    probe = ["-c", "import moto.server, pcluster.schemas.cluster_schema"]
    folder = os.path.join(ROOT, "build", "peers-pcluster")
    python = os.path.join(folder, "bin", "python")
    for candidate in (sys.executable, python):
        if os.path.exists(candidate) and subprocess.run([candidate] + probe, capture_output=True).returncode == 0:
            return candidate
    subprocess.run([sys.executable, "-m", "venv", folder], capture_output=True)
    subprocess.run([python, "-m", "pip", "install", "-q", "aws-parallelcluster", "moto[server]"], capture_output=True)
    return python if os.path.exists(python) and subprocess.run([python] + probe, capture_output=True).returncode == 0 else None


def start_server(python):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([os.path.join(os.path.dirname(python), "moto_server"), "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(1200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return server, port
        time.sleep(0.1)
    sys.exit("moto's server did not start")


class Account:
    def __init__(self, home, port, python):
        self.home = home
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
        self.environment.update(
            HOME=home,
            PATH=os.path.join(home, "bin") + ":" + os.environ["PATH"] + ":" + os.path.dirname(python),
            AWS_ACCESS_KEY_ID="a",
            AWS_SECRET_ACCESS_KEY="b",
            AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}",
            AWS_DEFAULT_REGION=REGION,
            AWS_EC2_METADATA_DISABLED="true",
        )

    def aws(self, *words):
        done = subprocess.run(["aws", *words, "--output", "json"], env=self.environment, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"aws {' '.join(words)}: {done.stderr}")
        return json.loads(done.stdout) if done.stdout.strip() else {}

    def cluster(self, *words):
        done = subprocess.run([BEVATRON, "cluster", *words], env=self.environment, cwd=self.home, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


def furnish(account):
    """A VPC with one subnet to the internet and one behind a NAT gateway; returns their ids."""
    vpc = account.aws("ec2", "create-vpc", "--cidr-block", "10.1.0.0/16")["Vpc"]["VpcId"]
    ids = []
    for number, zone in ((0, "a"), (1, "a")):
        subnet = account.aws("ec2", "create-subnet", "--vpc-id", vpc, "--cidr-block", f"10.1.{16 * number}.0/20", "--availability-zone", REGION + zone)
        ids.append(subnet["Subnet"]["SubnetId"])
    gateway = account.aws("ec2", "create-internet-gateway")["InternetGateway"]["InternetGatewayId"]
    account.aws("ec2", "attach-internet-gateway", "--internet-gateway-id", gateway, "--vpc-id", vpc)
    address = account.aws("ec2", "allocate-address", "--domain", "vpc")["AllocationId"]
    nat = account.aws("ec2", "create-nat-gateway", "--subnet-id", ids[0], "--allocation-id", address)["NatGateway"]["NatGatewayId"]
    for subnet, target in ((ids[0], ["--gateway-id", gateway]), (ids[1], ["--nat-gateway-id", nat])):
        table = account.aws("ec2", "create-route-table", "--vpc-id", vpc)["RouteTable"]["RouteTableId"]
        account.aws("ec2", "associate-route-table", "--route-table-id", table, "--subnet-id", subnet)
        account.aws("ec2", "create-route", "--route-table-id", table, "--destination-cidr-block", "0.0.0.0/0", *target)
    return vpc, ids


def prepare(account, vpc, subnets):
    path = os.path.join(account.home, "llm.yaml")
    described = ["--name", "llm", "--region", REGION, "--vpc", vpc, "--queue", "gpu p4d.24xlarge 0-4 efa placement-group", "--fsx", "/fsx"]
    code, said = account.cluster("prepare", *described, "--output", path)
    check("prepare without a key pair and a bucket says so", code == 1 and "--create-key NAME makes one" in said and "--create-bucket NAME" in said, said)
    code, said = account.cluster("prepare", "--config", path, "--vpc", vpc, "--create-key", "llm", "--create-bucket", "llm-data")
    check("prepare creates a key pair and a bucket", code == 0, said)
    text = open(path).read()
    check("prepare finds the public and the private subnet", f'head-subnet: "{subnets[0]}"' in text and f'\nsubnet: "{subnets[1]}"' in text, text)
    check("the key pair is there", [k["KeyName"] for k in account.aws("ec2", "describe-key-pairs")["KeyPairs"]] == ["llm"])
    check("its private half is on this machine", "PRIVATE KEY" in open(os.path.join(account.home, ".ssh", "llm.pem")).read())
    check("the bucket is there", [b["Name"] for b in account.aws("s3api", "list-buckets")["Buckets"]] == ["llm-data"])
    code, said = account.cluster("prepare", "--config", path, "--vpc", vpc)
    check("a second time finds nothing to add", code == 0 and "already has everything that was found" in said, said)
    code, said = account.cluster("render", "--config", path)
    check("the file renders", code == 0 and subnets[1] in said and 'KeyName: "llm"' in said, said)
    code, said = account.cluster("create", "--config", path, "--dry-run")
    # The simulation has no images of ParallelCluster; everything before that must work.
    check("create --dry-run comes to the simulation's end", code in (0, 1) and "Traceback" not in said and "Unknown field" not in said, said)
    print("     pcluster said: " + said.strip().splitlines()[-1][:200])


def others(account):
    code, said = account.cluster("list", "--region", REGION)
    check("list", code == 0 and "no clusters in" in said, said)
    for verb in ("ssh", "logs", "status"):
        code, said = account.cluster(verb, "--name", "llm", "--region", REGION)
        check(f"{verb} of a cluster that does not exist", code == 1 and "list-clusters" in said, said)
    code, said = account.cluster("update", "--config", os.path.join(account.home, "llm.yaml"), "--yes")
    check("update of a cluster that does not exist", code == 1 and "does not exist" in said, said)
    os.makedirs(os.path.join(account.home, "bin"), exist_ok=True)
    docker = os.path.join(account.home, "bin", "docker")
    open(docker, "w").write('#!/bin/sh\necho "$*" >>"$HOME/docker.log"\n[ "$1" != login ] || cat >"$HOME/password"\n')
    os.chmod(docker, 0o755)
    code, said = account.cluster("push-image", "--region", REGION, "--tag", "v1")
    check("push-image", code == 0 and f".dkr.ecr.{REGION}.amazonaws.com/bevatron:v1" in said, said)
    check("ECR has the repository", [r["repositoryName"] for r in account.aws("ecr", "describe-repositories")["repositories"]] == ["bevatron"])
    check("docker got a password", len(open(os.path.join(account.home, "password")).read()) > 10)
    code, said = account.cluster("push-image", "--region", REGION, "--tag", "v2")
    check("push-image to a repository that exists", code == 0, said)
    made = account.aws("fsx", "create-file-system", "--file-system-type", "LUSTRE", "--storage-capacity", "1200", "--subnet-ids", "subnet-0123456789abcdef0")
    code, said = account.cluster("volume", "--fsx-id", made["FileSystem"]["FileSystemId"], "--region", REGION)
    lustre = made["FileSystem"].get("LustreConfiguration", {}).get("MountName")
    check("volume of a file system", (code == 0 and made["FileSystem"]["FileSystemId"] in said) if lustre else "--mount-name" in said, said)


def main():
    python = environment_python()
    if not python or not shutil.which("aws"):
        print("SKIP no aws, or no aws-parallelcluster and moto[server], and they cannot be installed here")
        return 0
    server, port = start_server(python)
    try:
        with tempfile.TemporaryDirectory() as home:
            account = Account(home, port, python)
            # Only the VPC made here counts.
            vpc, subnets = furnish(account)
            prepare(account, vpc, subnets)
            others(account)
    finally:
        server.kill()
    print(f"{failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main())
