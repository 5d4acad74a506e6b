# Sourced by tests that compare the log of several ranks with that of one. Needs tests/cli/common.sh.

# train RANKS FLAGS…: the log of each iteration, without times, goes to $work/log.
train() {
    local ranks=$1
    shift
    expect 0 "iteration" bash tests/parallel/mpirun.sh "$ranks" "$BEVATRON" train "$@"
    grep -oE "iteration +[0-9]+/|(lm |sop )?loss: [^|]*|top[0-9]+_acc: [^|]*|grad norm: [^|]*|params norm: [^|]*|(lm )?loss value: [^|]*" \
        "$work/out" >"$work/log"
}
# same FILE WHAT: the numbers of $work/log equal those of FILE within one part in a hundred thousand.
same() {
    # Norms are printed with three decimals.
    paste -d' ' "$1" "$work/log" | awk '{
            n = NF / 2; d = $n - $NF; d = d < 0 ? -d : d; most = 1e-5 * $n + 0.001 * ($1 == "grad" || $1 == "params")
            bad = bad || ($n + 0 == $n && d > most); rows++
        } END { exit bad || rows < 20 }' && [ "$(wc -l <"$1")" = "$(wc -l <"$work/log")" ] && pass || fail "$2"
}
