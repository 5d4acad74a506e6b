"""Writes megatron_flags.txt: the names of all flags of every release of Megatron-LM, one per line, sorted.

Run: python tests/golden/make_megatron_flags.py MEGATRON_LM_CLONE MORE_NAMES > tests/golden/megatron_flags.txt

Names come from the add_argument calls of each tag's argument parsers. Later releases make many flags from the fields of
dataclasses; their names, one per line as printed by that release's --help, are in the file MORE_NAMES.
"""

import re
import subprocess
import sys

FILES = {"arguments.py", "megatron/arguments.py", "megatron/training/arguments.py"}


def git(*arguments):
    return subprocess.run(["git", "-C", sys.argv[1], *arguments], capture_output=True, check=True).stdout.decode()


names = {line.strip() for line in open(sys.argv[2]) if line.strip()}
for tag in [t for t in git("tag").split() if re.fullmatch(r"v[12]\.\d|core_v0\.\d+\.0|2[0-9]\.[01][0-9]", t)]:
    for file in FILES.intersection(git("ls-tree", "-r", "--name-only", tag).splitlines()):
        source = git("show", f"{tag}:{file}")
        for call in re.finditer(r"add_argument\(\s*((?:['\"]--?[\w-]+['\"],?\s*)+)", source):
            names.update(re.findall(r"['\"](--[\w-]+)['\"]", call.group(1)))
print(*sorted(names), sep="\n")
