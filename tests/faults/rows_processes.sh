# Rows 1 to 7: ranks and launchers that die, hang or are slow; signals; restarts.

# A rank is lost before the first checkpoint on disk: at most two iterations are repeated, and the run is back within 15 s.
from_memory() {
    local result=fail back text
    rm -rf "$work/run"
    run_to_end "${launch[@]}" --save "$work/run" --save-interval 100 --checkpoint-in-memory --inject kill:rank=2:step=8:phase=backward
    back=$(back_after "$work/run" "$(fired "$work/run")")
    text=$(grep -a "starting again" "$work/log" | head -n 1)
    [ "$code" = 0 ] && [[ $text =~ from\ iteration\ [67]\ in\ host\ memory ]] && at_most "${back:-99}" 15 && same_weights "$work/run" && result=pass
    report 1 "rank 2 killed, nothing on disk, --checkpoint-in-memory" "$result" "" "$back" "$code" "$text"
}

row_1() {
    local rank phase
    for phase in forward backward reducescatter agree optimizer; do
        for rank in 0 3; do
            survives 1 "rank $rank killed in $phase" --inject "kill:rank=$rank:step=8:phase=$phase"
        done
    done
    survives 1 "rank 2 killed in allreduce" --inject kill:rank=2:step=8:phase=allreduce
    survives 1 "rank 3 killed while it writes a checkpoint" --inject kill:rank=3:step=6:phase=write
    survives 1 "rank 0 killed while it renames a checkpoint" --inject kill:rank=0:step=6:phase=rename
    survives 1 "rank 1 crashes (SIGSEGV)" --inject segv:rank=1:step=8:phase=backward
    survives 1 "rank 1 aborts" --inject abort:rank=1:step=8:phase=forward
    from_memory
    ends 1 "a rank killed, unsupervised" "211 137" 5 "injecting" --inject kill:rank=1:step=8:phase=backward
}

is_training() { grep -aq "iteration        [3-9]/" "$work/log"; }
gone() { ! left_over >/dev/null; }
within() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.1
    done
}

# kill_process PATTERN: SIGKILL for the process of the run whose command line has it; then no rank may be left.
kill_process() {
    local started
    rm -rf "$work/run"
    : >"$work/log"
    "${launch[@]}" --save "$work/run" --train-iters 100000 --save-interval 50 >"$work/log" 2>&1 </dev/null &
    within 120 is_training || return 1
    started=$(now)
    kill -9 "$(pgrep -f -- "$1.*$work/run" | head -n 1)"
    [ "$1" = "launch local" ] || { sleep 1; kill -9 "$(pgrep -f -- "launch local.*$work/run" | head -n 1)"; }
    within 30 gone || return 1
    note="no process is left after $(minus "$(now)" "$started") s"
    run_to_end "${train[@]}" --save "$work/run" --load "$work/run" --train-iters 100000 --exit-interval 1
    [ "$code" = 0 ]
}

row_2() {
    survives 2 "rank 0 killed" --inject kill:rank=0:step=8
    checks 2 "mpirun and launch local killed; the run resumes" kill_process mpirun
    checks 2 "launch local killed; the run resumes" kill_process "launch local"
    tests 2 "the program is replaced under the run" '^parallel/upgrade'
}

row_3() {
    local deadline=(--distributed-timeout-minutes 0.1) phase
    for phase in step forward reducescatter; do
        ends 3 "rank 2 stopped in $phase, deadline 6 s" 212 8 "rank 2" "${deadline[@]}" \
            --inject "stop:rank=2:step=5:phase=$phase"
    done
    ends 3 "rank 0 stopped in forward, deadline 6 s" 212 8 "rank 0" "${deadline[@]}" --inject stop:rank=0:step=5:phase=forward
    ends 3 "rank 2 stopped while it saves, deadline 6 s" 212 8 "rank" "${deadline[@]}" --inject stop:rank=2:step=6:phase=write
    ends 3 "rank 1 loops forever, deadline 6 s" 212 8 "rank 1" "${deadline[@]}" --inject hang:rank=1:step=5:phase=backward
    survives 3 "rank 2 stopped, supervised" "${deadline[@]}" --inject stop:rank=2:step=8:phase=backward
    survives 3 "all ranks stopped, supervised" --progress-timeout-minutes 0.2 --inject stop:rank=all:step=8
}

# names_straggler SECONDS
names_straggler() {
    run_to_end "${train[@]}" --train-iters 60 --log-interval 20 --log-straggler --hidden-size 64 \
        --inject slow:rank=2:step=2-60:phase=forward:times=all:seconds="$1"
    note=$(grep -a "straggler report" "$work/log" | tail -n 1 | sed 's/.*| //; s/ |$//')
    note=$(grep -a "straggler report" "$work/log" | tail -n 1 | grep -o "rank 2 [^|]*" | tail -n 1)
    [ "$code" = 0 ] && [ "$(grep -a "straggler report" "$work/log" | grep -vc "slowest: rank 2")" = 0 ] && [ -n "$note" ]
}
names_nobody() {
    run_to_end "${train[@]}" --train-iters 200 --log-interval 10
    note=$(grep -aE "warning: rank [0-9]+ .*(slow|holds|late)" "$work/log" | head -n 1)
    [ "$code" = 0 ] && [ -z "$note" ]
}
row_4() {
    checks 4 "rank 2 is 50 ms late in each forward pass: named" names_straggler 0.05
    checks 4 "no warning in a run without one" names_nobody
}

# stops_and_resumes FAULT…: the run saves and exits with 210; resumed, it ends with the same weights.
stops_and_resumes() {
    local fault faults=() when
    rm -rf "$work/run"
    for fault in "$@"; do faults+=(--inject "$fault"); done
    run_to_end "${train[@]}" --save "$work/run" --save-interval 3 "${faults[@]}"
    when=$(fired "$work/run")
    note="stopped $(minus "$ended" "${when:-0}") s after the signal"
    [ "$code" = 210 ] || return 1
    "${train[@]}" --save "$work/run" --load "$work/run" "${faults[@]}" >"$work/log" 2>&1 && same_weights "$work/run"
}
row_5() {
    local phase
    for phase in step forward backward agree; do
        checks 5 "SIGTERM for rank 2 in $phase" stops_and_resumes "term:rank=2:step=7:phase=$phase"
    done
    checks 5 "SIGTERM for rank 0 while it saves" stops_and_resumes term:rank=0:step=6:phase=write
    checks 5 "SIGUSR1 for rank 3" stops_and_resumes usr1:rank=3:step=7:phase=forward
    checks 5 "SIGTERM for all ranks" stops_and_resumes term:rank=all:step=7
    checks 5 "SIGUSR1 twice" stops_and_resumes usr1:rank=1:step=7:phase=forward usr1:rank=1:step=7:phase=backward
}

row_6() {
    tests 6 "a real Slurm: warnings, time limits, requeues" '^parallel/slurm'
}

# dies_again PLACE: a rank dies at iteration 3 of each start; the supervisor gives up, and names the place.
dies_again() {
    rm -rf "$work/run"
    run_to_end "${launch[@]}" --save "$work/run" --inject kill:rank=1:step=3:every-start
    local result=fail
    [ "$code" = 217 ] && grep -aqE "times $1 without a new checkpoint" "$work/log" && result=pass
    report 7 "a rank dies at iteration 3 in every start" "$result" "" "" "$code" "$(grep -a "giving up" "$work/log")"
}
row_7() { dies_again 'at iteration 3'; }
