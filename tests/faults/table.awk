# Puts the table of faults into docs/reliability.md, between its two marks. First file: the CSV of run.sh; second: the
# page. Rows have the result of all their cases, the longest times, the exit codes, and the message of the first case.
BEGIN {
    FS = ","
    split("a rank dies|rank 0 or the launcher dies|a rank hangs|a rank is slow|SIGTERM, SIGUSR1|Slurm requeues, time limits|crash loop|disk full, I/O error|crash at every point of a save|damaged checkpoint|garbled marker|hostile files|NaN|silent corruption|out of memory|the clock jumps|network cut or reset|rendezvous|other layout|determinism|other flags on resume|data replaced or truncated|output cannot be written|limits of the system|writer hangs|permissions, links|soak", names, "|")
}
# "…" with commas inside, and quotes that are doubled: fields of a line of the CSV.
function read_line(line, field,    n, inside, i, c) {
    n = 1
    inside = 0
    field[1] = ""
    for (i = 1; i <= length(line); i++) {
        c = substr(line, i, 1)
        if (c == "\"" && inside && substr(line, i + 1, 1) == "\"") field[n] = field[n] substr(line, i++, 1)
        else if (c == "\"") inside = !inside
        else if (c == "," && !inside) field[++n] = ""
        else field[n] = field[n] c
    }
    return n
}
FNR == NR {
    if (FNR == 1) next
    read_line($0, field)
    row = field[1] + 0
    if (first == "" || field[8] < first) first = field[8]
    if (field[8] > last) last = field[8]
    cases[row]++
    passed[row] += field[3] == "pass"
    skipped[row] += field[3] == "not run"
    if (field[4] + 0 > noticed[row]) noticed[row] = field[4] + 0
    if (field[5] + 0 > back[row]) back[row] = field[5] + 0
    if (field[6] != "" && index(" " codes[row] " ", " " field[6] " ") == 0) codes[row] = codes[row] (codes[row] == "" ? "" : " ") field[6]
    if (field[3] == "fail") missed[row] = missed[row] (missed[row] == "" ? "" : "; ") field[2]
    if (message[row] == "" && field[7] != "" && field[7] !~ /^ctest/) message[row] = field[7]
    next
}
/^<!-- table of faults: end -->/ { is_inside = 0 }
!is_inside { print }
/^<!-- table of faults: begin/ {
    is_inside = 1
    print ""
    print "Measured " (first == last ? "on " first : "from " first " to " last) " with four MPI ranks on " machine ". `make test-faults` measures again and writes this table; every case is in [reliability.csv](reliability.csv)."
    print ""
    print "| # | fault | cases | result | noticed after | back after | exit codes |"
    print "|---|---|---|---|---|---|---|"
    for (row = 1; row <= 27; row++) {
        if (!cases[row]) continue
        ran = cases[row] - skipped[row]
        result = ran == 0 ? "not run" : passed[row] == ran ? "pass" : passed[row] == 0 ? "fail" : "partly: " passed[row] " of " ran
        if (ran > 0 && skipped[row] > 0) result = result " (" skipped[row] " not run)"
        printf "| %d | %s | %d | %s | %s | %s | %s |\n", row, names[row], cases[row], result, noticed[row] ? noticed[row] " s" : "", back[row] ? back[row] " s" : "", codes[row]
        if (missed[row] != "") list = list "- " row ": " missed[row] ".\n"
        if (message[row] != "") said = said sprintf("| %d | `%s` |\n", row, substr(message[row], 1, 110))
    }
    if (list != "") printf "\nCases that fail today:\n\n%s", list
    printf "\nWhat the log says, cut after 110 characters:\n\n| # | message |\n|---|---|\n%s\n", said
}
