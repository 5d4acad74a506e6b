# The rules of check_includes; tools/check_includes chooses the files, all below ROOT/src. Needs c_code.awk before it.
# The order of folders is DESIGN's: a folder may include itself and what stands below it, nothing above.

BEGIN {
    count = split("base net shell config data tensor ops comm parallel model optim report store formats cluster step plan recovery evaluate train cli", \
                  order, " ")
    for (i = 1; i <= count; i++)
        level[order[i]] = i
    nvidia = "^(cuda|cublas|cudnn|curand|cusparse|cusolver|nvrtc|nvml|nvtx|nvToolsExt|cooperative_groups)"
}

function begin_file(    inside) {
    current = FILENAME
    in_comment = includes = conditionals = opens_guard = 0
    guard = guarded = ""
    inside = name_of(current)
    sub(/^src\//, "", inside)
    path_in_src = inside
    folder = inside
    if (!sub(/\/.*/, "", folder))
        folder = ""
    if (!(folder in level))
        error_at(1, "folder src/" folder " has no place in the order of layers")
    own_header = inside
    own_header = sub(/\.(c|cu)$/, ".h", own_header) ? own_header : ""
    is_header = current ~ /\.(h|cuh)$/
    files++
}

function end_file() {
    if (is_header && guarded == "")
        error_at(1, "header has no include guard")
}

function exists(path,    line, found) {
    found = (getline line < path) >= 0
    close(path)
    return found
}

function check_project_include(name,    target) {
    target = name
    if (!sub(/\/.*/, "", target) || !(target in level)) {
        error_at(FNR, "\"" name "\" must be named from src/, as in \"base/error.h\"")
        return
    }
    if (level[target] > level[folder])
        error_at(FNR, "src/" folder " stands below src/" target " and may not include " name)
    if (name ~ /\/internal\.h$/ && target != folder)
        error_at(FNR, "only src/" target " includes " name)
    if (name ~ /^comm\/(mpi|nccl)_library\.h$/ && path_in_src !~ /^comm\/((mpi|nccl)(_library)?\.c|mpi_sums\.[ch])$/)
        error_at(FNR, "only the backend itself calls the library: include comm/backend.h")
    if (folder == "step" && name ~ /^config\//)
        error_at(FNR, "src/step knows no flags: src/plan/setup.c makes values of them")
    if (folder == "step" && name == "base/log.h")
        error_at(FNR, "src/step prints nothing: return a value that src/train logs")
    if (!exists(root "/src/" name))
        error_at(FNR, "src/" name " does not exist")
    includers[name]++
    if (folder ~ /^(model|parallel|optim|store|formats)$/ && name ~ /^config\// && name != "config/model_value.h")
        includes_of_config++
    if (target == folder && unit_of(name) != unit_of(path_in_src))
        edges[unit_of(path_in_src)] = edges[unit_of(path_in_src)] " " unit_of(name)
}

function unit_of(path) {
    sub(/\.[a-z]+$/, "", path)
    return path
}

# Whether includes lead from `unit` back to `goal`; marks what it passes in seen[].
function leads_to(unit, goal, seen,    list, count, i) {
    count = split(edges[unit], list, " ")
    for (i = 1; i <= count; i++) {
        if (list[i] == goal)
            return 1
        if (!(list[i] in seen)) {
            seen[list[i]]
            if (leads_to(list[i], goal, seen))
                return 1
        }
    }
    return 0
}

# x.c and x.h count as one file.
function check_circles(    unit, seen, count, names) {
    for (unit in edges) {
        delete seen
        if (leads_to(unit, unit, seen)) {
            count++
            names = names " " unit
        }
    }
    if (count > most_in_circles) {
        printf "src: error: %d files include each other in circles, at most %d may:%s\n", count, most_in_circles, names
        errors++
    }
}

function check_system_include(name) {
    if (name ~ /^mpi/ && path_in_src != "comm/mpi_library.h")
        error_at(FNR, "only src/comm/mpi_library.h includes MPI")
    if (name ~ /^nccl/ && path_in_src != "comm/nccl_library.h")
        error_at(FNR, "only src/comm/nccl_library.h includes NCCL")
    if (name ~ /^microhttpd/ && path_in_src != "report/board/web_server.c")
        error_at(FNR, "only src/report/board/web_server.c includes libmicrohttpd")
    if (name ~ nvidia && path_in_src !~ /^ops\/cuda\// && path_in_src != "comm/nccl.c")
        error_at(FNR, "only src/ops/cuda and src/comm/nccl.c include NVIDIA headers")
}

function check_include(line,    name) {
    includes++
    if (match(line, /"[^"]*"/)) {
        name = substr(line, RSTART + 1, RLENGTH - 2)
        check_project_include(name)
    } else if (match(line, /<[^>]*>/)) {
        name = substr(line, RSTART + 1, RLENGTH - 2)
    } else {
        error_at(FNR, "cannot read this include")
        return
    }
    check_system_include(name)
    if (includes == 1 && own_header != "" && name != own_header && exists(root "/src/" own_header))
        error_at(FNR, "the first include must be the file's own header \"" own_header "\"")
}

# Above ops/ and comm/ the build chooses files, never the preprocessor. Below them a file may ask which processor it is
# compiled for, which only the compiler's own macros (__ARM_NEON, __x86_64__, __cplusplus) answer.
function check_conditional(code,    rest, word) {
    conditionals++
    if (is_header && conditionals == 1 && code ~ /^#ifndef/) {
        guard = code
        sub(/^#ifndef /, "", guard)
        return
    }
    if (folder == "ops" || folder == "comm")
        return
    if (level[folder] > level["ops"]) {
        error_at(FNR, "no conditional compilation in src/" folder ": let the build choose x.c or x_none.c")
        return
    }
    rest = code
    sub(/^#[a-z]+/, "", rest)
    while (match(rest, /[A-Za-z_][A-Za-z0-9_]*/)) {
        word = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        if (word != "defined" && (word !~ /^__/ || word == "__has_include"))
            error_at(FNR, "conditional compilation on " word ": let the build choose x.c or x_none.c")
    }
}

function check_calls(code) {
    if (code ~ /(^|[^A-Za-z0-9_])(secure_)?getenv[ ]*[(]/ && folder != "cli")
        error_at(FNR, "only src/cli reads the environment")
    # Children of base/process.c end themselves.
    if (code ~ /(^|[^A-Za-z0-9_])(exit|_exit|_Exit|quick_exit)[ ]*[(]/ && folder != "cli" && path_in_src !~ /^base\/(die|process)[.]c$/)
        error_at(FNR, "only src/cli and src/base/die.c end the process")
    if (code ~ /(^|[^A-Za-z0-9_])step->/ && folder != "step")
        error_at(FNR, "only src/step knows the fields of a step: add a function to step.h")
    if (code ~ /is_paper/ && folder != "ops" && folder != "comm")
        error_at(FNR, "nothing above the tables asks whether it is on paper: give the table an entry")
}

# What is written against the tables of operations and collectives knows nothing of who stands behind them.
function check_backends(code,    is_of_torch) {
    if (folder !~ /^(parallel|model|optim|report|store|formats|step|recovery|plan|train)$/)
        return
    # torch's files say where a storage is loaded, and host memory has our backend's name there.
    is_of_torch = path_in_src == "formats/torch_write.c" && $0 ~ /pickle_text[(]out, "cpu"[)]/
    if (code ~ /(^|[^A-Za-z0-9_.>])(cpu|cuda|cudnn|mpi|nccl|paper)_[a-z]/ ||
        (code ~ /""/ && $0 ~ /"(cpu|cuda|paper|self|mpi|tcp|nccl)"/ && !is_of_torch))
        error_at(FNR, "src/" folder " stands above the tables and may not name a backend")
}

# A flag in a string of src/step is a message about flags, which belongs to those who read them.
function check_flags(line) {
    if (folder == "step" && line ~ /"[^"]*--[a-z][a-z0-9-]*[^"]*"/)
        error_at(FNR, "src/step knows no flags: src/config or src/train names them")
}

# A flag's name belongs in its row, and in the tables of formats; elsewhere code reads fields, and rows by their uses.
function count_flag_names(line) {
    if (folder !~ /^(config|cli|formats)$/)
        flag_names += gsub(/"--[a-z][a-z0-9_-]*"/, "", line)
}

function check_most(count, most, what, remedy) {
    if (count > most) {
        printf "src: error: %d %s, at most %d may: %s\n", count, what, most, remedy
        errors++
    }
}

# A header that one other file includes, or its own file alone, holds what could stand in that file.
function check_single_headers(    name, count) {
    for (name in includers)
        if (name ~ /\.h$/ && includers[name] <= 2)
            count++
    check_most(count, most_single, "headers have at most two includers", "let them stand in the file that uses them")
}

FNR == 1 {
    if (files)
        end_file()
    begin_file()
}

{
    was_comment = in_comment
    code = code_of($0)
    if (!was_comment && $0 ~ /^[ \t]*#[ \t]*include/) {
        check_include($0)
        next
    }
    sub(/^[ \t]*#[ \t]*/, "#", code)
    sub(/[ \t]+$/, "", code)
    if (code ~ /^#(if|ifdef|ifndef|elif)([^a-z]|$)/)
        check_conditional(code)
    else if (guard != "" && code == "#define " guard)
        guarded = guard
    else {
        check_calls(code)
        check_backends(code)
    }
    if (code !~ /^[ \t]*$/) {
        check_flags($0)
        count_flag_names($0)
    }
}

END {
    if (files)
        end_file()
    check_circles()
    check_single_headers()
    check_most(includes_of_config, most_of_config, "includes of model, parallel, optim, store and formats name config/",
               "a model is a value: config/model_value.h")
    check_most(flag_names, most_flag_names, "strings outside config, cli and formats are a flag's name",
               "read its field, or rows by their uses")
    printf "check_includes: %d files, %d errors\n", files, errors
    exit errors > 0
}
