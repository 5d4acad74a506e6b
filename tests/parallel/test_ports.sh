#!/usr/bin/env bash
# Ranks of one machine need no ports: nobody else can connect to those of --nproc. What mpirun itself opens is Open MPI's
# affair.
# tier: all
# beside: ranks
# cost: 10
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
mpirun --version 2>/dev/null | grep -q "Open MPI" || { echo "skipped: not Open MPI"; exit 77; }
needs_parts MPI

# below PROCESS: it and all processes below it.
below() {
    local child
    echo "$1"
    for child in $(pgrep -P "$1"); do below "$child"; done
}

# listening PROCESS: the addresses, in hexadecimal, on which it waits for connections.
listening() {
    local link
    for link in "/proc/$1/fd/"*; do
        link=$(readlink "$link") || continue
        [[ $link == socket:* ]] || continue
        awk -v inode="${link//[^0-9]/}" '$4 == "0A" && $10 == inode { print $2 }' /proc/net/tcp /proc/net/tcp6
    done
}

in_background "$work/out" "$BEVATRON" train --mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 \
    --vocab-size 50 --tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 2 --lr 1e-3 --log-interval 1 \
    --eval-iters 0 --threads 1 --train-iters 1000000 --nproc 2
launcher=$!
await_text "iteration        3/"
ranks=0
for process in $(below "$launcher"); do
    [ "$(readlink "/proc/$process/exe")" = "$(realpath "$BEVATRON")" ] || continue
    tr '\0' ' ' <"/proc/$process/cmdline" | grep -q -- "--nproc=1" || continue
    ranks=$((ranks + 1))
    open=$(listening "$process")
    [ -z "$open" ] && pass || fail "rank $process listens on $open"
done
[ $ranks = 2 ] && pass || fail "$ranks ranks instead of 2"
kill -TERM "$launcher"
end_of "$launcher"
finish
