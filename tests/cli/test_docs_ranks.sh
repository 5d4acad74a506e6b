#!/usr/bin/env bash
# The documents' commands that start ranks, as printed, after the others of their stories: see test_docs.sh.
# tier: all
# label: slow
# cost: 10
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
needs_parts MPI
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
BEVATRON_DOCS_RANKS=yes bash tests/cli/test_docs.sh
exit
