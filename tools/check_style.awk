# The rules of check_style, line by line; tools/check_style chooses the files. Errors fail the check, notes only tell.
# Needs c_code.awk before it. Works in mawk and gawk; run under LC_ALL=C, so that a character is a byte.

BEGIN {
    banned = "(^|[^A-Za-z0-9_])(sprintf|vsprintf|strcpy|stpcpy|strcat|strtok|atoi|atol|atoll|atof|gets|alloca|rand|srand" \
             "|assert)[ ]*[(]"
    # Spelled in two halves, so that this file passes its own check.
    unfinished = "(^|[^A-Za-z0-9_])(TO" "DO|FIX" "ME|X" "XX|HA" "CK)([^A-Za-z0-9_]|$)"
}

function begin_file() {
    current = FILENAME
    is_c = current ~ /\.(c|h|cu|cuh)$/
    is_makefile = current ~ /(Makefile|\.mk)$/
    in_comment = depth = linkage = in_function = in_directive = 0
    head = ""
    files++
}

function end_file() {
    if (!is_c)
        return
    if (file_lines > 600)
        error_at(file_lines, "file has " file_lines " lines, more than 600: split it by idea")
    else if (file_lines > 350)
        note_at(file_lines, "file has " file_lines " lines, aim for 350")
}

function check_opening() {
    if (is_c && FNR == 1 && $0 !~ /^(\/\/|\/\*)/)
        error_at(1, "file does not open with a comment that says what it does")
    if (!is_c && FNR == 1)
        has_shebang = $0 ~ /^#!/
    if (!is_c && FNR == 1 + has_shebang && $0 !~ /^(#|""")/)
        error_at(FNR, "file does not open with a comment that says what it does")
}

function check_text(    width) {
    if ($0 ~ /\r$/)
        error_at(FNR, "line ends in CR LF")
    else if ($0 ~ /[ \t]$/)
        error_at(FNR, "blanks at the end of the line")
    if (!is_makefile && $0 ~ /\t/)
        error_at(FNR, "tab character")
    if ($0 ~ unfinished)
        error_at(FNR, "unfinished business: an issue, or nothing")
    if (is_c && length($0) > 120) {
        width = $0
        gsub(/[\200-\277]/, "", width)  # the continuation bytes of UTF-8
        if (length(width) > 120)
            error_at(FNR, "line has " length(width) " characters, more than 120")
    }
}

function check_banned(code,    found) {
    if (match(code, banned)) {
        found = substr(code, RSTART, RLENGTH)
        gsub(/[^A-Za-z_]/, "", found)
        error_at(FNR, "banned function " found "()")
    }
    if (code ~ /(^|[^A-Za-z0-9_>.])system[ ]*[(]/ && name_of(current) !~ /^(src\/cli|tests)\//)
        error_at(FNR, "system() belongs to src/cli")
}

function end_function(    lines) {
    lines = FNR - function_line + 1
    if (lines > 100)
        error_at(function_line, function_name "() has " lines " lines, more than 100: split it by purpose")
    else if (lines > 60)
        note_at(function_line, function_name "() has " lines " lines, aim for 60")
    in_function = 0
}

# A brace at file level opens a function where the text since the last declaration has a parameter list and no '='.
function open_brace() {
    if (depth == 0 && head ~ /extern/ && head !~ /[(=]/) {
        linkage++
        head = ""
        return
    }
    if (depth == 0 && head ~ /[(]/ && head !~ /=/) {
        in_function = 1
        function_line = head_line
        function_name = head
        sub(/[ ]*[(].*/, "", function_name)
        sub(/.*[^A-Za-z0-9_]/, "", function_name)
    }
    depth++
}

function close_brace() {
    if (depth == 0) {
        linkage--
        return
    }
    if (--depth == 0) {
        if (in_function)
            end_function()
        head = ""
    }
}

function follow_braces(code,    delimiter, before) {
    while (code != "") {
        if (match(code, /[{};]/)) {
            delimiter = substr(code, RSTART, 1)
            before = substr(code, 1, RSTART - 1)
            code = substr(code, RSTART + 1)
        } else {
            delimiter = ""
            before = code
            code = ""
        }
        if (depth == 0 && before ~ /[^ ]/) {
            if (head == "")
                head_line = FNR
            head = head " " before
        }
        if (delimiter == "{")
            open_brace()
        else if (delimiter == "}")
            close_brace()
        else if (delimiter == ";" && depth == 0)
            head = ""
    }
}

FNR == 1 {
    if (files)
        end_file()
    begin_file()
}

{
    check_opening()
    check_text()
    file_lines = FNR
}

is_c {
    code = code_of($0)
    check_banned(code)
    directive = in_directive || (!in_comment && code ~ /^[ ]*#/)
    in_directive = directive && $0 ~ /\\$/
    if (!directive)
        follow_braces(code)
}

END {
    if (files)
        end_file()
    printf "check_style: %d files, %d errors, %d notes\n", files, errors, notes
    exit errors > 0
}
