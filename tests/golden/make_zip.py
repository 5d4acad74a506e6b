"""Packs two of the Megatron checkpoints in foreign/ as zip archives.

megatron_v0.zip         like megatron_lm_345m in NVIDIA's catalogue: compressed, written to a stream, so that the sizes
                        come after the bytes
megatron_v0_tp2.zip     in a separate folder, not compressed, beside an older checkpoint

    python3 tests/golden/make_zip.py
"""
import os
import zipfile

FOREIGN = os.path.join(os.path.dirname(__file__), "foreign")


class Stream:
    """A file that cannot seek."""

    def __init__(self, path):
        self.file = open(path, "wb")

    def write(self, data):
        return self.file.write(data)

    def flush(self):
        self.file.flush()


def files(folder):
    for where, _, names in sorted(os.walk(os.path.join(FOREIGN, folder))):
        for name in sorted(names):
            path = os.path.join(where, name)
            yield path, os.path.relpath(path, os.path.join(FOREIGN, folder))


def add(archive, path, name, method):
    entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
    entry.compress_type = method
    with open(path, "rb") as source, archive.open(entry, "w") as out:
        out.write(source.read())


with zipfile.ZipFile(Stream(f"{FOREIGN}/megatron_v0.zip"), "w") as archive:
    for path, name in files("megatron_v0"):
        add(archive, path, name, zipfile.ZIP_DEFLATED)
with zipfile.ZipFile(f"{FOREIGN}/megatron_v0_tp2.zip", "w") as archive:
    for path, name in files("megatron_v0_tp2"):
        add(archive, path, f"model/{name}", zipfile.ZIP_STORED)
    add(archive, f"{FOREIGN}/megatron_v0/release/mp_rank_00/model_optim_rng.pt", "model/iter_0000050/mp_rank_00/model_optim_rng.pt",
        zipfile.ZIP_DEFLATED)
