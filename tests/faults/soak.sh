#!/usr/bin/env bash
# soak.sh FOLDER FAULTS [SEED]: trains on four ranks, on each of SOAK_LAYOUTS (all by default), with seeded faults at
# random ranks, iterations and phases, under `launch local` and, with the same faults, under a plain loop of restarts
# (SOAK_LOOP=no leaves that out). The weights must be those of a run without faults, and nothing may be left behind.
# Several seeds at a time: soaks.sh, which looks for shared memory itself (SOAK_IS_ALONE=no).
# SOAK_KINDS, SOAK_ITERATIONS and SOAK_FLAGS change what is drawn, from how many iterations, and the flags of all runs.
# Effective time: how long a run without faults takes, as a share of the time with them.
# Writes FOLDER/soak.csv; the last line of output sums it up.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
folder=${1:?folder} faults=${2:?number of faults} seed=${3:-1}
BEVATRON=${BEVATRON:-build/release/bevatron}
mkdir -p "$folder" || exit 1
results=$folder/soak.csv
. tests/faults/common.sh || exit
echo "layout,seed,faults,fired,restarts,iterations,seconds,effective,loop_restarts,loop_seconds,loop_effective,result" >"$results"

# More iterations than faults, so that most of them are alone in a save interval.
iterations=${SOAK_ITERATIONS:-$((faults * 5 > 100 ? faults * 5 : 100))}
# shellcheck disable=SC2206
soak=("${model[@]}" --train-iters "$iterations" --save-interval 5 --keep-last 3 --hidden-size 64 --seq-length 64
    --inject-seed "$seed" --inject-count "$faults" ${SOAK_FLAGS:-})
# The flags of runs with faults: the deadlines of hangs, of which a busy machine needs more, and the kinds.
minutes=${SOAK_DEADLINE_MINUTES:-0.1}
# Ranks that open a shared GPU take a while to start.
silence=0.5
[ "$device" != cuda ] || silence=1
# shellcheck disable=SC2207
with_faults=(--distributed-timeout-minutes "$minutes" $(limit --save-timeout-minutes "$minutes"))
# shellcheck disable=SC2206
with_faults+=(${SOAK_KINDS:+--inject-kinds $SOAK_KINDS})
last=iter_$(printf %07d "$iterations")

count_shm() { find /dev/shm -maxdepth 1 2>/dev/null | wc -l; }
# seconds COMMAND…: sets $code and $seconds.
timed() {
    local started
    started=$(now)
    "$@" >"$folder/log" 2>&1 </dev/null
    code=$?
    seconds=$(minus "$(now)" "$started")
}
share() { awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.0f", 100 * a / b }'; }
# The largest memory and number of descriptors of the supervisor after the first restart and at the end.
watch_supervisor() {
    local status
    while status=$(cat "/proc/$1/status" 2>/dev/null) && [ -n "$status" ]; do
        echo "$(awk '/VmRSS/ { print $2 }' <<<"$status") $(ls "/proc/$1/fd" 2>/dev/null | wc -l)" >>"$folder/supervisor"
        sleep 1
    done
}

# What a run has left behind, in words.
find_leaks() {
    local before=$1 growth
    [ -z "$(find "$work" -name '*.tmp.*')" ] || echo "temporary files"
    [ -z "$(pgrep -f -- "$work/run")" ] || echo "processes"
    [ "${SOAK_IS_ALONE:-yes}" = no ] || [ "$(count_shm)" -le "$before" ] || echo "shared memory"
    growth=$(awk 'NR == 3 { kb = $1; fd = $2 } END { if (NR > 3 && ($1 > kb + 1024 || $2 > fd + 2)) print "memory or descriptors of the supervisor" }' "$folder/supervisor")
    [ -z "$growth" ] || echo "$growth"
    # The folder in which launchers note what a killed mpirun leaves stays; it must be empty.
    [ -z "$(find "$TMPDIR" -maxdepth 2 -path "$TMPDIR/bevatron*" -type f)" ] || echo "files in TMPDIR"
}

# Starts the run again until it succeeds, as scripts do that know nothing of it.
loop() {
    local tries=0
    until "$BEVATRON" train --nproc "$ranks" "$@" --load "$work/loop"; do
        tries=$((tries + 1))
        [ "$tries" -lt 1000 ] || return 1
    done
    echo "$tries" >"$folder/tries"
}

# supervise FLAGS…: sets $code; fails if the run has no new fault behind it.
supervise() {
    local before
    before=$(grep -c . "$work/run/injected-faults.txt" 2>/dev/null)
    (
        "$BEVATRON" launch local -n "$ranks" --max-restarts 1000 --progress-timeout-minutes "$silence" "${soak[@]}" "${with_faults[@]}" "$@" --save "$work/run" \
            >>"$folder/log" 2>&1 </dev/null &
        watch_supervisor $! &
        wait %1
        echo $? >"$folder/code"
    )
    code=$(cat "$folder/code")
    [ "$(grep -c . "$work/run/injected-faults.txt")" -gt "${before:-0}" ]
}

# soak_layout NAME FLAGS…
total_fired=0 total_restarts=0 failed=0 ours=0 loops=0 pure=0
soak_layout() {
    local name=$1 result=pass shm plain fired restarts leaks
    shift
    rm -rf "$work/whole" "$work/run" "$work/loop" "$folder/supervisor" "$folder/tries"
    timed "$BEVATRON" train --nproc "$ranks" "${soak[@]}" "$@" --inject-count 0 --save "$work/whole"
    [ "$code" = 0 ] || { echo "$name: the run without faults fails"; tail -n 3 "$folder/log"; failed=1; return; }
    plain=$seconds
    shm=$(count_shm)
    local started given_up=0
    started=$(now)
    : >"$folder/log"
    # Three faults that are drawn for one iteration make the supervisor give up, as it should.
    while supervise "$@" && [ "$code" = 217 ]; do given_up=$((given_up + 1)); done
    seconds=$(minus "$(now)" "$started")
    cp "$folder/log" "$folder/log.$name"
    fired=$(grep -c . "$work/run/injected-faults.txt")
    restarts=$(grep -ac "starting again" "$folder/log")
    leaks=$(find_leaks "$shm" | tr '\n' ' ')
    [ -z "$leaks" ] || result="left: $leaks"
    same_tensors "$work/whole/$last" "$work/run/$last" || result="other weights"
    [ "$code" = 0 ] || result="exit code $code"
    [ "$result" != pass ] || [ "$given_up" = 0 ] || result="pass; given up $given_up times after three faults at one iteration"
    local own_seconds=$seconds
    seconds=0
    [ "${SOAK_LOOP:-yes}" = no ] || timed loop "${soak[@]}" "${with_faults[@]}" "$@" --save "$work/loop"
    echo "$name,$seed,$faults,$fired,$restarts,$iterations,$own_seconds,$(share "$plain" "$own_seconds"),$(cat "$folder/tries" 2>/dev/null),$seconds,$(share "$plain" "$seconds"),$result" >>"$results"
    local in_loop=", $seconds s in a loop"
    [ "$seconds" != 0 ] || in_loop=
    echo "$name: $fired of $faults faults fired, $restarts restarts, $own_seconds s ($plain s without faults$in_loop): $result"
    total_fired=$((total_fired + fired))
    total_restarts=$((total_restarts + restarts))
    ours=$(awk -v a="$ours" -v b="$own_seconds" 'BEGIN { print a + b }')
    loops=$(awk -v a="$loops" -v b="$seconds" 'BEGIN { print a + b }')
    pure=$(awk -v a="$pure" -v b="$plain" 'BEGIN { print a + b }')
    [[ $result == pass* ]] || failed=1
}

# The flags of a layout of four ranks.
flags_of() {
    case $1 in
    DP4) ;;
    TP2xPP2) echo --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 ;;
    EP2) echo --num-experts 4 --moe-router-topk 2 --expert-model-parallel-size 2 ;;
    *) echo "soak: there is no layout $1" >&2 && exit 2 ;;
    esac
}
layouts=${SOAK_LAYOUTS:-DP4 TP2xPP2$(grep -q '^| `--expert-model-parallel-size' <<<"$flags" && echo " EP2")}
for layout in $layouts; do
    flags_of_layout=$(flags_of "$layout") || exit
    # shellcheck disable=SC2086
    soak_layout "$layout" $flags_of_layout
done
verdict="weights equal to the bit, nothing left behind"
[ "$failed" = 0 ] || verdict="FAILED"
echo "$total_fired faults, $total_restarts restarts on $layouts: $verdict; effective time $(share "$pure" "$ours") %$([ "$loops" = 0 ] || echo ", plain loop $(share "$pure" "$loops") %")"
exit "$failed"
