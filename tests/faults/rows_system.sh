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

row_18() {
    checks 18 "rank 3 joins 5 s late" continues --inject slow:rank=3:phase=rendezvous:seconds=5
    tests 18 "strangers, garbage, silent visitors, wrong world sizes" '^comm/tcp'
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
    note=$(grep -a "warning" "$work/log" | head -n 1)
    [ "$code" = 0 ] && same_weights "$work/run"
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
    { [ "$code" = 0 ] && same_weights "$work/run"; } || grep -aq "open files" "$work/log"
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
    { [ "$code" = 0 ] && same_weights "$work/run"; } || [ -n "$note" ]
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
