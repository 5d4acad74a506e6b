#!/usr/bin/env bash
# Two virtual hosts with mpirun between them: a run over the network gives the losses of one machine; when the cable is
# pulled, both sides end within the deadline, each naming the other; a link that is down for seconds ends nothing.
# tier: all
# beside: ranks
# cost: 40
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
skip() { echo "SKIP $1"; exit 77; }
[ "$(id -u)" = 0 ] || skip "network namespaces need root"
$BEVATRON version | grep -q "MPI.*yes" || skip "a build without MPI"
mpirun --version 2>/dev/null | grep -q "Open MPI" || skip "no Open MPI"
hosts=$work/hosts
trap 'bash tests/parallel/virtual_hosts.sh down "$hosts"; rm -rf "$work"' EXIT
bash tests/parallel/virtual_hosts.sh up "$hosts" 2>"$work/out" && "$hosts/on" 2 true 2>>"$work/out" ||
    skip "no network namespaces here: $(tail -n 1 "$work/out")"
network=$(cat "$hosts/network")
[ "$("$hosts/on" 1 hostname)" = host1 ] && [ "$("$hosts/on" 2 hostname)" = host2 ] && pass || fail "hosts without names"

model=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 50
    --tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --log-interval 1 --eval-iters 0
    --threads 1)
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
across=("$hosts/on" 1 mpirun -n 2 --host "$network.1:1,$network.2:1" --bind-to none --mca plm rsh
    --mca plm_rsh_agent "$hosts/agent" --mca orte_keep_fqdn_hostnames 1 --mca btl self,tcp
    --mca btl_tcp_if_include "$network.0/24" --mca oob_tcp_if_include "$network.0/24")

expect 0 "host2" timeout -k 5 900 "${across[@]}" hostname
expect 0 "iteration       20/" timeout -k 5 900 "${across[@]}" "$BEVATRON" train "${model[@]}" --train-iters 20
losses "$work/out" >"$work/got"
expect 0 "iteration       20/" bash tests/parallel/mpirun.sh 2 "$BEVATRON" train "${model[@]}" --train-iters 20
losses "$work/out" >"$work/want"
[ "$(wc -l <"$work/want")" = 20 ] && pass || fail "no 20 losses on one machine"
expect_same "$work/want" "$work/got" "losses across the wire"

# preflight sees two machines.
expect 0 "over 2 ranks (mpi)" timeout -k 5 900 "${across[@]}" "$BEVATRON" preflight --bytes 1048576
grep -q "host1 .* shm " "$work/out" && grep -q "host2 .* shm " "$work/out" && pass || fail "both machines are looked at"

# The cable is pulled in the middle of a run. Each rank writes its own log, since mpirun no longer hears from host2. If
# a busy machine does not run a rank for a whole deadline, the run ends early, and the next try has a longer deadline.
cat >"$work/rank.sh" <<SCRIPT
exec "$BEVATRON" train ${model[*]} --train-iters 10000000 --distributed-timeout-minutes \$1 --save "$work/cut" \
    --save-interval 10000000 >"$work/rank-\$OMPI_COMM_WORLD_RANK.log" 2>&1
SCRIPT
# A link that is down for 5 s delays the run; nothing is lost.
rm -rf "$work/cut"
in_background "$work/mpirun.log" timeout -k 5 900 "${across[@]}" bash "$work/rank.sh" 10
runner=$!
count() { cat "$work/rank-0.log" 2>/dev/null | grep -c "iteration .*lm loss"; }
is_beyond() { [ "$(count)" -gt "$1" ]; }
within 900 is_beyond 100 || fail "no run before the link goes down"
"$hosts/cut"
# What was on its way may still arrive, and be logged late by a busy machine.
stands_still() { seen=$(count) && sleep 4 && [ "$(count)" = "$seen" ]; }
within 900 stands_still && pass || fail "the link is not down"
"$hosts/mend"
within 900 is_beyond $((seen + 100)) && pass || fail "the run does not continue after the link is back"
kill -TERM "$runner"
wait "$runner" 2>/dev/null
are_gone() { ! pgrep -f "train .*--save $work/cut" >/dev/null; }
within 900 are_gone || fail "ranks are still there"

has_ended() { grep -qs "longer than --distributed-timeout-minutes allows" "$work/rank-$1.log"; }
have_ended() { has_ended 0 && has_ended 1; }
trains_or_ended() { grep -qs "iteration      100/" "$work/rank-0.log" || has_gone "$runner"; }
have_ended_or_gone() { have_ended || are_gone; }
for minutes in 0.1 0.5 2; do
    rm -rf "$work/cut" "$work"/rank-*.log
    "$hosts/mend"
    in_background "$work/mpirun.log" timeout -k 5 900 "${across[@]}" bash "$work/rank.sh" "$minutes"
    runner=$!
    within 900 trains_or_ended || fail "no run before the cable is pulled"
    "$hosts/cut"
    within 900 have_ended_or_gone
    have_ended && break
    kill -9 "$runner" 2>/dev/null
    wait "$runner" 2>/dev/null
done
have_ended && pass || fail "not both have ended long after the deadline"
cp "$work/rank-0.log" "$work/out"
has_ended 0 && grep -Eq "(stuck|missing): rank 1 on host2" "$work/rank-0.log" && pass || fail "host1 does not say whom it lost"
cp "$work/rank-1.log" "$work/out"
has_ended 1 && grep -Eq "(stuck|missing): rank 0 on host1" "$work/rank-1.log" && pass || fail "host2 does not say whom it lost"
[ -s "$work/cut/flight-0.jsonl" ] && [ -s "$work/cut/flight-1.jsonl" ] && pass || fail "no flight records"
# The ranks are gone on both sides, whatever mpirun does without the network.
within 900 are_gone && pass || fail "ranks are still there"
# That mpirun may wait for its other half forever, even when told to end.
bash tests/parallel/virtual_hosts.sh down "$hosts"
wait "$runner" 2>/dev/null
finish
