# Shared by check_style and check_includes: what of a line of C is code. Comments and the contents of string and
# character literals are dropped, so that a banned name in a message or a brace in a literal misleads no check.
# The caller sets current = FILENAME and in_comment = 0 at the start of each file and hands over every line in order.

function code_of(line,    out, rest, token) {
    out = ""
    rest = line
    while (rest != "") {
        if (in_comment) {
            if (!match(rest, /\*\//))
                return out
            rest = substr(rest, RSTART + 2)
            in_comment = 0
            out = out " "
            continue
        }
        if (!match(rest, /"|'|\/\/|\/\*/))
            return out rest
        token = substr(rest, RSTART, RLENGTH)
        out = out substr(rest, 1, RSTART - 1)
        rest = substr(rest, RSTART + RLENGTH)
        if (token == "//")
            return out
        if (token == "/*") {
            in_comment = 1
            continue
        }
        out = out token token
        rest = after_literal(rest, token)
    }
    return out
}

# What follows the closing quote of a literal whose opening quote was just taken.
function after_literal(rest, quote,    character) {
    while (rest != "") {
        character = substr(rest, 1, 1)
        if (character == "\\") {
            rest = substr(rest, 3)
            continue
        }
        rest = substr(rest, 2)
        if (character == quote)
            return rest
    }
    return ""
}

# The file's name as people know it: relative to the root that was checked.
function name_of(path) {
    if (substr(path, 1, length(root) + 1) == root "/")
        return substr(path, length(root) + 2)
    return path
}

function error_at(line_number, text) {
    print name_of(current) ":" line_number ": error: " text
    errors++
}

function note_at(line_number, text) {
    print name_of(current) ":" line_number ": note: " text
    notes++
}
