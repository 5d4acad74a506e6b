#!/usr/bin/env python3
"""Loads the configurations that `bevatron cluster` writes with the schemas of the aws-parallelcluster package itself.

Then `bevatron cluster` drives the package's own pcluster, without credentials and without a network, and must say what
is missing.

If this Python has no aws-parallelcluster, a virtual environment with it is made once in build/peers-pcluster; if
that fails, the check is skipped and says so.
"""

import os
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
BEVATRON = os.path.abspath(os.environ.get("BEVATRON", os.path.join(ROOT, "build/release/bevatron")))
ID = "0123456789abcdef0"
NODE = ["--name", "llm", "--region", "us-west-2", "--subnet", f"subnet-{ID}", "--key", "k"]
CLUSTERS = [["--config", f"examples/clusters/{name}.yaml"] for name in ("p4d-ultracluster", "p4d-roberta", "p4de-nemo")] + [
    NODE + ["--queue", f"gpu p5.48xlarge 2-2 efa capacity-block reservation=cr-{ID} exclusive gpu-health-check"],
    NODE + ["--queue", "cpu c6i.32xlarge,m6i.32xlarge 8 spot", "--queue", f"big p4d.24xlarge 1 efa placement-group=near ami=ami-{ID}"],
    NODE
    + ["--queue", "gpu p4d.24xlarge 4 efa", "--fsx", "/fsx", "--fsx-type", "PERSISTENT_2", "--fsx-size", "2400", "--fsx-throughput"]
    + ["125", "--fsx-s3", "s3://bucket/data", "--tag", "a=b: 'c'", "--slurm-setting", "KillWait=120", "--on-node-configured"]
    + ["s3://bucket/node-setup.sh one two", "--security-group", f"sg-{ID}", "--no-ssm", "--head-disk", "0", "--compute-disk", "0"],
    NODE
    + ["--queue", "gpu p4d.24xlarge 4 efa", "--bucket", "bucket", "--pyxis", "--os", "alinux2", "--accounting", "db.example.com:3306"]
    + ["--accounting-user", "slurm", "--accounting-secret", "arn:aws:secretsmanager:us-west-2:123456789012:secret:slurm", "--accounting-database", "llm"]
    + ["--apps", "/apps", "--apps-iops", "4000", "--apps-throughput", "500", "--head-disk-throughput", "300", "--compute-disk-iops", "6000"],
    NODE + ["--queue", "gpu p4d.24xlarge 4 efa", "--fsx", "/fsx", "--fsx-id", f"fs-{ID}", "--os", "ubuntu2404", "--scratch", "/nvme"],
]


def package_python():
    """A Python that has aws-parallelcluster, or None."""
    probe = ["-c", "import pcluster.schemas.cluster_schema"]
    environment = os.path.join(ROOT, "build", "peers-pcluster")
    python = os.path.join(environment, "bin", "python")
    for candidate in (sys.executable, python):
        if os.path.exists(candidate) and subprocess.run([candidate] + probe, capture_output=True).returncode == 0:
            return candidate
    made = subprocess.run([sys.executable, "-m", "venv", environment], capture_output=True).returncode == 0
    made = made and subprocess.run([python, "-m", "pip", "install", "-q", "aws-parallelcluster"], capture_output=True).returncode == 0
    return python if made and subprocess.run([python] + probe, capture_output=True).returncode == 0 else None


def render(flags):
    return subprocess.run([BEVATRON, "cluster"] + flags, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def load(folder):
    """In the package's Python: every file of the folder through its schema."""
    os.environ["AWS_DEFAULT_REGION"] = "us-west-2"
    import yaml
    from marshmallow import ValidationError
    from pcluster.schemas.cluster_schema import ClusterSchema
    from pcluster.schemas.imagebuilder_schema import ImageBuilderSchema

    failed = 0
    for name in sorted(os.listdir(folder)):
        document = yaml.safe_load(open(os.path.join(folder, name)))
        is_image, is_broken = name.startswith("image"), name.startswith("broken")
        schema = ImageBuilderSchema() if is_image else ClusterSchema(cluster_name="llm")
        try:
            schema.load(document)
            outcome = "accepted"
        except ValidationError as error:
            outcome = f"refused: {error.messages}"
        good = outcome.startswith("refused") if is_broken else outcome == "accepted"
        failed += not good
        print(("ok   " if good else "FAIL ") + name + " " + outcome[:300])
    return failed


def drive(python, folder):
    """The real program, which can only refuse here: each refusal is one line with a remedy."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    environment.update(PATH=os.path.dirname(python) + ":" + os.environ["PATH"], HOME=folder, AWS_EC2_METADATA_DISABLED="true")
    cluster = ["--name", "llm", "--region", "us-west-2"]
    cases = [
        (["status"] + cluster, "Unable to locate credentials; give credentials"),
        (["create", "--yes", "--output", os.path.join(folder, "x.yaml")] + CLUSTERS[0], "Unable to locate credentials; give credentials"),
        (["list", "--region", "us-west-2"], "Unable to locate credentials; give credentials"),
        (["ssh"] + cluster, "Unable to locate credentials; give credentials"),
        (["logs"] + cluster, "Unable to locate credentials; give credentials"),
        (["update", "--yes", "--output", os.path.join(folder, "x.yaml")] + CLUSTERS[0], "Unable to locate credentials; give credentials"),
        (["stop"] + cluster, "Unable to locate credentials; give credentials"),
        (["delete", "--yes"] + cluster, "Unable to locate credentials; give credentials"),
        (["status", "--name", "llm", "--region", "us-nowhere-1"], "invalid or unsupported region 'us-nowhere-1'; check --region"),
        (["status", "--name", "llm"], "region needs to be set; give --region"),
    ]
    failed = 0
    for words, message in cases:
        done = subprocess.run([BEVATRON, "cluster"] + words, cwd=ROOT, env=environment, capture_output=True, text=True)
        last = done.stderr.strip().splitlines()[-1:]
        good = done.returncode == 1 and last and message in last[0]
        failed += not good
        print(("ok   " if good else "FAIL ") + "pcluster " + words[0] + ": " + (last[0] if last else "")[:200])
    return failed


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "--load":
        return load(sys.argv[2])
    python = package_python()
    if not python:
        print("SKIP no aws-parallelcluster, and it cannot be installed here")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        for number, flags in enumerate(CLUSTERS):
            open(os.path.join(folder, f"cluster-{number}.yaml"), "w").write(render(["render"] + flags))
        image = ["build-image", "--dry-run", "--image-id", "bb", "--region", "us-west-2", "--parent", f"ami-{ID}", "--script", "s3://b/x.sh"]
        open(os.path.join(folder, "image.yaml"), "w").write(render(image))
        # The schema does refuse: an unknown field.
        broken = render(["render"] + CLUSTERS[0]).replace("HeadNode:", "HeadNode:\n  Instancetype: x", 1)
        open(os.path.join(folder, "broken.yaml"), "w").write(broken)
        loaded = subprocess.run([python, os.path.abspath(__file__), "--load", folder], stderr=subprocess.DEVNULL).returncode
    with tempfile.TemporaryDirectory() as home:
        return loaded + drive(python, home)


if __name__ == "__main__":
    sys.exit(main())
