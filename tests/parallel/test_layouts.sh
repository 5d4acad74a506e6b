#!/usr/bin/env bash
# A sample of all layouts of up to eight ranks, with every pair of kinds of parallelism that can be combined: 20 steps
# of a GPT, a Llama, a BERT, a T5 and a mixture of experts give the losses and weights of one rank. make test-layouts runs all of them.
# tier: all
# label: slow
# cost: 18
# parts: 4
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
layouts=$(dirname "${BEVATRON:?the program under test}")/tests/layouts
[ -x "$layouts" ] || { echo "skipped: built without MPI"; exit 77; }
SHARE=${BEVATRON_TEST_PART:-1/1} exec bash tests/layouts/run.sh "$layouts" sample
