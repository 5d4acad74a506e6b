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
    is_page = current ~ /\.(js|css|html)$/
    is_makefile = current ~ /(Makefile|\.mk)$/
    is_document = current ~ /\.md$/
    is_source = is_c && name_of(current) ~ /^src\//
    in_comment = depth = linkage = in_function = in_struct = in_directive = 0
    head = ""
    files++
}

function end_file() {
    if (!is_c && !is_page)
        return
    if (file_lines > 600)
        error_at(file_lines, "file has " file_lines " lines, more than 600: split it by idea")
    else if (file_lines > 350)
        note_at(file_lines, "file has " file_lines " lines, aim for 350")
}

function check_opening() {
    if (is_c && FNR == 1 && $0 !~ /^(\/\/|\/\*)/)
        error_at(1, "file does not open with a comment that says what it does")
    if (is_page) {
        # The comment of an HTML file follows its doctype.
        if (FNR == 1 && $0 !~ /^(\/\/|\/\*|<!doctype html>)/ || FNR == 2 && current ~ /\.html$/ && $0 !~ /^<!--/)
            error_at(FNR, "file does not open with a comment that says what it does")
        return
    }
    if (!is_c && FNR == 1)
        has_shebang = $0 ~ /^#!/
    if (!is_c && FNR == 1 + has_shebang && $0 !~ /^(#|""")/)
        error_at(FNR, "file does not open with a comment that says what it does")
}

# The number of characters of the line; the continuation bytes of UTF-8 do not count.
function width_of(line) {
    gsub(/[\200-\277]/, "", line)
    return length(line)
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
    width = is_c || is_page || is_document ? width_of($0) : 0
    if ((is_c || is_page) && width > 120)
        error_at(FNR, "line has " width " characters, more than 120")
    if (is_document && width >= 200)
        error_at(FNR, "line has " width " characters, and a generated document fewer than 200")
}

# The shell that starts it must empty a log that a test waits on. Lines that read from a pipe or end a group are others.
function check_background() {
    if ($0 ~ / >"\$work\/[^"]*" 2>&1( <\/dev\/null)? &$/ && $0 !~ /<"|^ *[()]/)
        error_at(FNR, "its log may still have the text of an earlier run: start it with in_background")
}

function check_banned(code,    found) {
    if (match(code, banned)) {
        found = substr(code, RSTART, RLENGTH)
        gsub(/[^A-Za-z_]/, "", found)
        error_at(FNR, "banned function " found "()")
    }
    if (code ~ /(^|[^A-Za-z0-9_])goto /)
        error_at(FNR, "goto: clean up in a function of its own, or at the end of this one")
    if (code ~ /(^|[^A-Za-z0-9_>.])system[ ]*[(]/ && name_of(current) !~ /^(src\/cli|tests)\//)
        error_at(FNR, "system() belongs to src/cli")
}

# A struct, enum or union is defined in one file, so that its name says which one is meant wherever it is read.
function check_tags(code,    tag) {
    while (match(code, /(^|[^A-Za-z0-9_])(struct|enum|union) [A-Za-z0-9_]+ [{]/)) {
        tag = substr(code, RSTART, RLENGTH - 2)
        code = substr(code, RSTART + RLENGTH)
        sub(/.* /, "", tag)
        if (!(tag in tag_file)) {
            tag_file[tag] = current
            tag_line[tag] = FNR
        } else if (tag_file[tag] != current) {
            error_at(FNR, tag " is defined in " name_of(tag_file[tag]) ":" tag_line[tag] ", too: name it after what it is for")
        }
    }
}

function check_names(code) {
    check_tags(code)
    if (code ~ /^static [^(]*[ *]run[(]/)
        error_at(FNR, "run() does not say what it runs")
    if (!is_source)
        return
    if (code ~ /^#define OFFSET[^A-Z_]/ && name_of(current) != "src/config/flag_rows.h")
        error_at(FNR, "config/flag_rows.h has OFFSET and the macros for rows of flags")
    if (code ~ /^ *static [^(]*[;={[]/ && code !~ /(^|[^a-z_])const[^a-z_]/ && name_of(current) !~ /^src\/(base|net)\//)
        error_at(FNR, "state of the process belongs to src/base or src/net: pass it down, or make it const")
}

# The parameters of the function whose head is being read. Kernels take what they are launched with, and a callback of
# libmicrohttpd what that calls it with.
function check_parameters(    list, count) {
    if (!is_source || current ~ /\.cuh?$/ || head ~ /enum MHD_Result/)
        return
    list = head
    sub(/^[^(]*[(]/, "", list)
    while (gsub(/[(][^()]*[)]/, "", list))
        continue
    count = gsub(/,/, "", list) + 1
    if (count > 6)
        error_at(head_line, function_name "() has " count " parameters, more than 6: pass a struct")
}

function end_function(    lines) {
    lines = FNR - function_line + 1
    if (lines > 100)
        error_at(function_line, function_name "() has " lines " lines, more than 100: split it by purpose")
    else if (lines > 60)
        note_at(function_line, function_name "() has " lines " lines, aim for 60")
    if (is_source && lines > 80)
        long_functions[++long_count] = function_name "() (" lines " lines)"
    in_function = 0
}

# Members of the struct that is being read, those of structs within it included: a declaration has one for each name.
function count_members(declaration) {
    gsub(/[(][^()]*[)]/, "", declaration)
    members += gsub(/,/, "", declaration) + 1
}

function end_struct() {
    if (is_source && members > 60)
        large_structs[++large_count] = struct_name " (" members " fields)"
    in_struct = 0
}

# Functions over 80 lines and structs over 60 fields: the numbers only fall.
function check_count(what, names, count, most,    i, all) {
    if (count <= most)
        return
    for (i = 1; i <= count; i++)
        all = all " " names[i]
    printf "src: error: %d %s, at most %d may:%s\n", count, what, most, all
    errors++
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
        check_parameters()
    } else if (depth == 0 && head ~ /(^|[^A-Za-z0-9_])struct [A-Za-z0-9_]+ *$/) {
        in_struct = 1
        members = 0
        struct_name = head
        sub(/ *$/, "", struct_name)
        sub(/.*struct /, "", struct_name)
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
        if (in_struct)
            end_struct()
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
        else if (delimiter == ";" && in_struct)
            count_members(before)
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
    if (name_of(current) ~ /^tests\/(cli|parallel)\//)
        check_background()
    file_lines = FNR
}

is_c {
    code = code_of($0)
    check_banned(code)
    check_names(code)
    directive = in_directive || (!in_comment && code ~ /^[ ]*#/)
    in_directive = directive && $0 ~ /\\$/
    if (!directive)
        follow_braces(code)
}

END {
    if (files)
        end_file()
    check_count("functions have more than 80 lines", long_functions, long_count, most_long)
    check_count("structs have more than 60 fields", large_structs, large_count, most_large)
    printf "check_style: %d files, %d errors, %d notes\n", files, errors, notes
    exit errors > 0
}
