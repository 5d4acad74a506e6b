# Puts the table of faults into docs/reliability.md, between its two marks. Files: kind=cpu and the CSV of run.sh,
# kind=gpu and that of ranks on a GPU, which may be empty, kind=page and the page. Rows have the result of all their cases, the longest times and the exit codes.
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
# Takes a line of a CSV; all counts are by kind.
function take(line,    field, row) {
    read_line(line, field)
    row = field[1] + 0
    if (first[kind] == "" || field[8] < first[kind]) first[kind] = field[8]
    if (field[8] > last[kind]) last[kind] = field[8]
    cases[kind, row]++
    passed[kind, row] += field[3] == "pass"
    skipped[kind, row] += field[3] == "not run"
    # Machines in the order of their rows, and the rows of each.
    if (!((kind, field[9]) in rows_of)) machines[kind] = machines[kind] (machines[kind] == "" ? "" : "|") field[9]
    if (rows_of[kind, field[9]] !~ "(^|, )" row "$") rows_of[kind, field[9]] = rows_of[kind, field[9]] (rows_of[kind, field[9]] == "" ? "" : ", ") row
    if (field[4] != "" && field[4] + 0 >= noticed[kind, row]) noticed[kind, row] = field[4] + 0
    if (field[5] + 0 > back[kind, row]) back[kind, row] = field[5] + 0
    if (field[6] != "" && index(" " codes[kind, row] " ", " " field[6] " ") == 0) codes[kind, row] = codes[kind, row] (codes[kind, row] == "" ? "" : " ") field[6]
    if (field[3] == "fail") missed[kind, row] = missed[kind, row] (missed[kind, row] == "" ? "" : "; ") field[2]
    if (kind == "gpu" && field[3] == "not run") why[field[7]] = why[field[7]] (why[field[7]] == "" ? "" : ", ") row
}
function when() { return first[kind] == last[kind] ? "on " first[kind] : "from " first[kind] " to " last[kind] }
# "4 cores of X", or with several machines which rows were on the later ones.
function where(    list, n, i, text) {
    n = split(machines[kind], list, "|")
    text = list[1]
    for (i = 2; i <= n; i++) text = text (i == 2 ? " (" : "; ") "rows " rows_of[kind, list[i]] " on " list[i]
    return text (n > 1 ? ")" : "")
}
# The result of a row in a word, "" if it has no cases.
function result_of(row,    ran, text) {
    if (!cases[kind, row]) return ""
    ran = cases[kind, row] - skipped[kind, row]
    text = ran == 0 ? "not run" : passed[kind, row] == ran ? "pass" : passed[kind, row] == 0 ? "fail" : "partly: " passed[kind, row] " of " ran
    return text (ran > 0 && skipped[kind, row] > 0 ? " (" skipped[kind, row] " not run)" : "")
}
function longest(times,    row, most) {
    for (row = 1; row <= 27; row++) if (times[kind, row] > most) most = times[kind, row]
    return most + 0
}
function tell_gpu(    row, count, text, reason, order, n, i) {
    kind = "gpu"
    for (row = 1; row <= 27; row++) count += cases[kind, row] - skipped[kind, row]
    print "On a GPU: " count " cases, measured " when() " with four ranks that share one GPU over MPI through the host, in fp32 with `--deterministic-mode`: " where() ". A fault was noticed within " longest(noticed) " s, and a restarted run was back within " longest(back) " s. Every case is in [reliability_gpu.csv](reliability_gpu.csv). Rows without a result there:"
    print ""
    for (reason in why) order[++n] = reason
    for (row = 1; row <= 27; row++)
        for (i = 1; i <= n; i++)
            if (why[order[i]] ~ "^" row "(,|$)") print "- " why[order[i]] ": " order[i] "."
    print ""
}
kind != "page" {
    if (FNR > 1) take($0)
    next
}
/^<!-- table of faults: end -->/ { is_inside = 0 }
!is_inside { print }
/^<!-- table of faults: begin/ {
    is_inside = 1
    has_gpu = first["gpu"] != ""
    kind = "cpu"
    print ""
    print "Measured " when() " with four MPI ranks on " where() ". `make test-faults` measures again and writes this table; every case, with what its log says, is in [reliability.csv](reliability.csv)."
    print ""
    print "| # | fault | cases | result | noticed after | back after | exit codes |" (has_gpu ? " on a GPU |" : "")
    print "|---|---|---|---|---|---|---|" (has_gpu ? "---|" : "")
    for (row = 1; row <= 27; row++) {
        kind = "gpu"
        on_gpu = cases[kind, row] > skipped[kind, row] ? result_of(row) ", " cases[kind, row] - skipped[kind, row] : ""
        if (missed[kind, row] != "") list = list "- " row ", on a GPU: " missed[kind, row] ".\n"
        kind = "cpu"
        if (!cases[kind, row]) continue
        printf "| %d | %s | %d | %s | %s | %s | %s |%s\n", row, names[row], cases[kind, row], result_of(row), (kind, row) in noticed ? noticed[kind, row] " s" : "", back[kind, row] ? back[kind, row] " s" : "", codes[kind, row], has_gpu ? " " on_gpu " |" : ""
        if (missed[kind, row] != "") list = list "- " row ": " missed[kind, row] ".\n"
    }
    print ""
    if (has_gpu) tell_gpu()
    if (list != "") printf "Cases that fail today:\n\n%s\n", list
    kind = "page"
}
