# Rows 17, 18, 23, 24 and 27: networks, rendezvous, sinks of output, limits of the system, a soak.

over_tcp() {
    local result
    export OMPI_MCA_btl=tcp,self
    survives 17 "connections of rank 1 are reset (MPI over TCP)" --inject reset:rank=1:step=8:phase=backward
    unset OMPI_MCA_btl
}
row_17() {
    over_tcp
    tests 17 "two virtual hosts, the cable is pulled" '^parallel/netns'
}

# ---- a crowd on every port ----

strangers=10000
. "$(dirname "${BASH_SOURCE[0]}")/../free_port.sh"
# get PORT PATH: the first line of the answer of a server on this machine, within some seconds.
get() {
    timeout 20 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$0" && printf "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nConnection: close\r\n\r\n" "$1" "$0" >&3 && head -n 1 <&3' "$1" "$2" 2>/dev/null
}
# Descriptors and kilobytes of all processes whose command line has this text.
count_files_of() { for p in $(pgrep -f -- "$1"); do ls "/proc/$p/fd" 2>/dev/null; done | wc -l; }
count_memory_of() { for p in $(pgrep -f -- "$1"); do awk '/VmRSS/ { print $2 }' "/proc/$p/status" 2>/dev/null; done | awk '{ sum += $1 } END { print sum + 0 }'; }
is_calm() { [ "$(count_files_of "$1")" -le "$2" ]; }
# crowds TEXT PORT…: all of them at once, held until all are there; sets $made. Then nothing is left of them in the
# processes with this text in their command line.
crowds() {
    local text=$1 port files memory crowd=() fifo=$work/crowd.fifo
    shift
    files=$(count_files_of "$text") memory=$(count_memory_of "$text")
    rm -f "$fifo" && mkfifo "$fifo" && exec 7<>"$fifo"
    for port in "$@"; do
        "$(dirname "$BEVATRON")/tests/crowd" "$port" "$strangers" <&7 >"$work/crowd.$port" 2>&1 &
        crowd+=($!)
    done
    for port in "$@"; do waits 300 test -s "$work/crowd.$port" || return 1; done
    during=$(get "$1" "$path")
    exec 7>&-
    kill "${crowd[@]}"
    wait "${crowd[@]}" 2>/dev/null
    made=$(cat "$work"/crowd.[0-9]* | tr '\n' ' ')
    rm -f "$work"/crowd.[0-9]*
    waits 60 is_calm "$text" "$files" || { note="$(count_files_of "$text") descriptors after, $files before"; return 1; }
    [ "$(count_memory_of "$text")" -lt $((memory + 100000)) ] || { note="memory grows from $memory to $(count_memory_of "$text") kB"; return 1; }
}
last_iteration() { grep -aoE "iteration +[0-9]+/" "$work/log" | tail -n 1 | tr -dc 0-9; }
has_gone_on() { local last; last=$(last_iteration) && [ "${last:-0}" -gt "$1" ]; }
crowded_run() {
    local metrics switch before path=/metrics
    metrics=$(free_port) switch=$(free_port)
    rm -rf "$work/run"
    "${train[@]}" --save "$work/run" --train-iters 10000000 --prometheus-port "$metrics" --log-straggler --straggler-ctrlr-port "$switch" >"$work/log" 2>&1 </dev/null &
    local run=$!
    waits 60 has_gone_on 2 || return 1
    before=$(last_iteration)
    crowds "$work/run" "$metrics" "$switch" || { kill -9 "$run"; return 1; }
    waits 60 has_gone_on $((before + 10)) || { note="no iteration after $before"; kill -9 "$run"; return 1; }
    note="$made connections; during them /metrics answers '$during', afterwards '$(get "$metrics" /metrics)'; iteration $before before, $(last_iteration) after"
    kill -TERM "$run"
    wait "$run"
    code=$?
    [ "$code" = 210 ] && [[ $during == *200* ]] && [[ $note == *"afterwards 'HTTP/1.1 200"* ]]
}
crowded_board() {
    local port path=/
    port=$(free_port)
    mkdir -p "$work/run"
    cp "$work/plain/metrics.jsonl" "$work/run"
    "$BEVATRON" board --logdir "$work/run" --port "$port" >"$work/log" 2>&1 </dev/null &
    local board=$!
    waits 60 grep -q http "$work/log" || return 1
    crowds "board --logdir $work/run" "$port" || { kill -9 "$board"; return 1; }
    note="$made connections; during them it answers '$during', afterwards '$(get "$port" /)'"
    kill -TERM "$board"
    wait "$board"
    [[ $during == *HTTP/1.1* ]] && [[ $note == *"afterwards 'HTTP/1.1"* ]]
}

row_18() {
    checks 18 "$strangers hostile connections each on the metrics and straggler ports of a run" crowded_run
    checks 18 "$strangers hostile connections on the board" crowded_board
    checks 18 "rank 3 joins 5 s late" continues --inject slow:rank=3:phase=rendezvous:seconds=5
    tests 18 "rendezvous: 10,000 strangers, garbage, silent visitors, wrong world sizes" '^comm/tcp'
}

full_output() {
    rm -rf "$work/run"
    "${train[@]}" --save "$work/run" >/dev/full 2>/dev/full </dev/null
    code=$?
    [ "$code" = 0 ] && same_weights "$work/run"
}
closed_pipe() {
    rm -rf "$work/run"
    "${train[@]}" --save "$work/run" 2>&1 </dev/null | head -n 3 >/dev/null
    code=${PIPESTATUS[0]}
    [ "$code" = 0 ] && same_weights "$work/run"
}
no_board() {
    rm -rf "$work/run"
    : >"$work/file"
    run_to_end "${train[@]}" --save "$work/run" --tensorboard-dir "$work/file/below"
    note=$(grep -a "warning: .*--tensorboard-dir" "$work/log" | head -n 1)
    [ "$code" = 0 ] && [ -n "$note" ] && same_weights "$work/run"
}
row_23() {
    checks 23 "stdout and stderr cannot be written (/dev/full)" full_output
    checks 23 "the reader closes the pipe" closed_pipe
    checks 23 "--tensorboard-dir cannot be created" no_board
    tests 23 "a pipe without a reader" '^parallel/pipes'
}

few_files() {
    rm -rf "$work/run"
    (ulimit -n 64 && exec "${train[@]}" --save "$work/run") >"$work/log" 2>&1 </dev/null
    code=$?
    note=$(said)
    [ "$code" = 0 ] && same_weights "$work/run"
}
too_few_files() {
    (ulimit -n 32 && exec "${launch[@]}" --save "$work/few") >"$work/log" 2>&1 </dev/null
    code=$?
    note=$(said)
    [ "$code" = 1 ] && grep -aq "may open 32 files, but starting 4 ranks takes about" "$work/log"
}
small_shm() {
    rm -rf "$work/run"
    unshare -m bash -c 'mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "$@"' - "${train[@]}" --save "$work/run" >"$work/log" 2>&1 </dev/null
    code=$?
    note=$(grep -aiE "shm|shared memory|space" "$work/log" | head -n 1)
    [ "$code" = 0 ] && same_weights "$work/run"
}
shm_files() { find /dev/shm -maxdepth 1 -newer "$work/started" \( -name '*vader*' -o -name 'bevatron*' \) 2>/dev/null | wc -l; }
stale_shm() {
    : >"$work/started"
    kill_process mpirun || return 1
    run_to_end "${train[@]}" --save "$work/run2"
    note="$(shm_files) segments are left in /dev/shm"
    [ "$code" = 0 ] && [ "$(shm_files)" = 0 ]
}
row_24() {
    checks 24 "64 open files (ulimit -n)" few_files
    checks 24 "32 open files: too few, said before anything starts" too_few_files
    checks 24 "64 KiB in /dev/shm" small_shm
    checks 24 "mpirun killed: the next run leaves no shared memory" stale_shm
}

row_27() {
    local count=${SOAK_FAULTS:-24} result=pass
    bash tests/faults/soak.sh "$work/soak" "$count" >"$work/log" 2>&1 || result=fail
    report 27 "a soak of $count seeded faults" "$result" "" "" "" "$(tail -n 1 "$work/log")"
}
