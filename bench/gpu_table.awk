# From lines of JSON as bevatron bench step, torch_step.py and llmc.sh print them, with "config" added: a row for each model, or for
# the one that `only` names, then without the heading. Of several lines of one program the mean counts, of llm.c the best.
# llm.c is compared with ours of the same micro-batch, or not at all. A value is not there if its program did not end; its place is then "-".

# With `scale` and `digits`, or "-".
function shown(value, scale, digits) {
    return value > 0 ? sprintf("%." digits "f", value * scale) : "-"
}

/^\{/ {
    config = text("config")
    who = text("name")
    tokens = number("tokens_per_second")
    if (config == "" || tokens <= 0)
        next
    if (!(config in seen)) {
        seen[config] = 1
        order[++models] = config
    }
    if (who == "llm.c") {
        if (tokens > speed[config, who])
            speed[config, who] = tokens
    } else {
        count = ++lines[config, who]
        speed[config, who] += (tokens - speed[config, who]) / count
        joules[config, who] += (number("joules_per_token") - joules[config, who]) / count
    }
    batch[config, who] = micro_batch()
    if (!((config, who) in memory))
        memory[config, who] = number("device_gb")
}

END {
    format = "%-16s %9s %9s %6s | %9s %6s %6s | %9s %6s | %9s %6s | %6s %6s %6s | %6s %6s %6s\n"
    if (only == "")
        printf format, "model", "ours t/s", "PyTorch", "ratio", "fp8 t/s", "/bf16", "/PyT", "llm.c", "ratio", "floor", "ratio",
            "GB", "fp8", "PyT", "mJ/tok", "fp8", "PyT"
    for (i = 1; i <= models; i++) {
        c = order[i]
        if (only != "" && c != only)
            continue
        ours = speed[c, "bevatron"]
        eight = speed[c, "bevatron fp8"]
        peer = speed[c, "PyTorch compiled"]
        who = (c, "bevatron beside llm.c") in speed ? "bevatron beside llm.c" : "bevatron"
        beside = batch[c, who] == batch[c, "llm.c"] ? speed[c, who] : 0
        printf format, c, shown(ours, 1, 0), shown(peer, 1, 0), ratio(ours, peer), shown(eight, 1, 0), ratio(eight, ours),
            ratio(eight, peer), shown(speed[c, "llm.c"], 1, 0), ratio(beside, speed[c, "llm.c"]), shown(speed[c, "floor"], 1, 0),
            ratio(ours, speed[c, "floor"]), shown(memory[c, "bevatron"], 1, 1), shown(memory[c, "bevatron fp8"], 1, 1),
            shown(memory[c, "PyTorch compiled"], 1, 1), shown(joules[c, "bevatron"], 1000, 2),
            shown(joules[c, "bevatron fp8"], 1000, 2), shown(joules[c, "PyTorch compiled"], 1000, 2)
    }
}
