# The rows of the table on ranks that share one GPU: cases in which the device, its memory or the work that is queued on it
# takes part. A row whose fault does not reach the device says so. Sourced after the other rows, whose functions it uses.

# elsewhere ROW WHY
elsewhere() { report "$1" "on the GPU" "not run" "" "" "" "$2"; }

gpu_row_1() {
    local phase
    for phase in forward backward reducescatter optimizer; do
        survives 1 "rank 3 killed in $phase" --inject "kill:rank=3:step=8:phase=$phase"
    done
    survives 1 "rank 3 killed while it writes a checkpoint" --inject kill:rank=3:step=6:phase=write
    survives 1 "rank 1 crashes (SIGSEGV)" --inject segv:rank=1:step=8:phase=backward
    ends 1 "a rank killed, unsupervised" "211 137" 5 "injecting" --inject kill:rank=1:step=8:phase=backward
}
gpu_row_2() {
    survives 2 "rank 0 killed" --inject kill:rank=0:step=8
    checks 2 "launch local killed; the run resumes" kill_process "launch local"
}
gpu_row_3() {
    local deadline=(--distributed-timeout-minutes 0.1)
    ends 3 "rank 2 stopped in forward, deadline 6 s" 212 8 "rank 2" "${deadline[@]}" --inject stop:rank=2:step=5:phase=forward
    ends 3 "rank 2 stopped in reducescatter, deadline 6 s" 212 8 "rank 2" "${deadline[@]}" --inject stop:rank=2:step=5:phase=reducescatter
    ends 3 "rank 0 stopped in forward, deadline 6 s" 212 8 "rank 0" "${deadline[@]}" --inject stop:rank=0:step=5:phase=forward
    ends 3 "rank 1 loops forever, deadline 6 s" 212 8 "rank 1" "${deadline[@]}" --inject hang:rank=1:step=5:phase=backward
    survives 3 "rank 2 stopped, supervised" "${deadline[@]}" --inject stop:rank=2:step=8:phase=backward
    # Ranks that open a shared GPU take a while to start.
    survives 3 "all ranks stopped, supervised" --progress-timeout-minutes 0.5 --inject stop:rank=all:step=8
}
gpu_row_4() {
    # Ranks that share a GPU wait for their turns, which takes milliseconds; so none is named without a fault.
    checks 4 "rank 2 is 300 ms late in each forward pass: named" names_straggler 0.3
}
gpu_row_5() {
    checks 5 "SIGTERM for rank 2 in backward" stops_and_resumes term:rank=2:step=7:phase=backward
    checks 5 "SIGTERM for rank 0 while it saves" stops_and_resumes term:rank=0:step=6:phase=write
    checks 5 "SIGUSR1 for rank 3" stops_and_resumes usr1:rank=3:step=7:phase=forward
}
gpu_row_6() { elsewhere 6 "job scripts are the same on any device"; }
# The results of a GPU arrive up to two iterations later.
gpu_row_7() { dies_again '(before its first iteration|at iteration [23])'; }
gpu_row_8() {
    checks 8 "one write of rank 0 fails (ENOSPC)" continues --inject enospc:rank=0:step=6
    checks 8 "one write fails with --async-save" continues --async-save --inject enospc:rank=0:step=6
}
gpu_row_9() {
    checks 9 "rank 0 killed before write 2 of a save" killed_in_save write 2 0
    checks 9 "rank 0 killed before fsync 3 of a save" killed_in_save fsync 3 0
    checks 9 "rank 0 killed before rename 1 of a save" killed_in_save rename 1 0
    checks 9 "rank 3 killed before its first write of a save" killed_in_save write 1 3
}
gpu_row_10() {
    checks 10 "four ranks fall back to the checkpoint before it" falls_back
}
gpu_row_11() { elsewhere 11 "files are read and checked on the host"; }
gpu_row_12() { elsewhere 12 "files are read and checked on the host"; }
gpu_row_13() { row_13; }
gpu_row_14() { row_14; }
gpu_row_15() {
    checks 15 "a model that does not fit: a table, and no allocation" too_large
}
gpu_row_16() { elsewhere 16 "only the clock of the host"; }
gpu_row_17() { over_tcp; }
gpu_row_18() { elsewhere 18 "ranks meet before they open a device"; }
gpu_row_19() {
    checks 19 "a checkpoint of DP4 resumed on TP2 x PP2" other_layout
}
gpu_row_20() { row_20; }
gpu_row_21() { elsewhere 21 "flags are compared on the host"; }
gpu_row_22() {
    checks 22 "a .bin is truncated under the run" truncated_data
}
gpu_row_23() { elsewhere 23 "output is the host's"; }
gpu_row_24() { elsewhere 24 "limits of the host; the driver itself needs more files than some"; }
gpu_row_25() {
    # shellcheck disable=SC2207
    local deadline=(--distributed-timeout-minutes 0.1 $(limit --save-timeout-minutes 0.1))
    ends 25 "an fsync of rank 0 never returns, deadline 6 s" "212" 8 "sav" "${deadline[@]}" --inject stuck-fsync:rank=0:step=6
    ends 25 "an fsync of rank 3 never returns, --async-save, deadline 6 s" "212" 8 "sav" "${deadline[@]}" --async-save --inject stuck-fsync:rank=3:step=6
    checks 25 "an fsync takes 12 s, twice the deadline of collectives" continues --distributed-timeout-minutes 0.1 --inject stuck-fsync:rank=0:step=6:seconds=12
    survives 25 "an fsync never returns, supervised" "${deadline[@]}" --inject stuck-fsync:rank=0:step=6
}
gpu_row_26() { elsewhere 26 "files are the host's"; }
# Restarts take most of the time, so there are few faults, of the kinds that reach the device in different ways. Flips are found
# in the iteration in which they happen. This seed draws every kind, and each rank fails once or more.
gpu_row_27() {
    local count=${SOAK_FAULTS:-8} result=pass
    SOAK_LAYOUTS=${SOAK_LAYOUTS:-DP4} SOAK_LOOP=no SOAK_IS_ALONE=no SOAK_ITERATIONS=40 SOAK_FLAGS="--check-replicas 1" \
        SOAK_KINDS="kill segv hang flip enospc eio" bash tests/faults/soak.sh "$work/soak" "$count" "${SOAK_SEED:-43}" >"$work/log" 2>&1 || result=fail
    report 27 "a soak of $count seeded faults: kills, crashes, a hang, a flip, failed saves" "$result" "" "" "" "$(tail -n 1 "$work/log")"
}
