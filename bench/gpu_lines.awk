# What gpu_goals.awk and gpu_table.awk both need: values of a line of JSON, and ratios.

function text(key) {
    return match($0, "\"" key "\": \"[^\"]*\"") ? substr($0, RSTART + length(key) + 5, RLENGTH - length(key) - 6) : ""
}

# The micro-batch: ours has it among its flags.
function micro_batch(value) {
    if (!match($0, /"micro[-_]batch(-size)?": *"?[0-9]+/))
        return 0
    value = substr($0, RSTART, RLENGTH)
    gsub(/[^0-9]/, "", value)
    return value + 0
}

function number(key) {
    return match($0, "\"" key "\": [-+0-9.e]+") ? substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 4) + 0 : 0
}

function ratio(a, b) {
    return a > 0 && b > 0 ? sprintf("%.3f", a / b) : "-"
}
