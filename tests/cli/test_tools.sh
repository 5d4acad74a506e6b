#!/bin/bash
# tools/check_style and tools/check_includes must catch each fault they promise to catch, say where it is, and accept a
# clean tree. Every case is a small tree in a temporary folder with one fault in it. At the end, tools/install_packages
# runs on machines that lack things, and tools/same_bits compares programs that do and do not differ.
# tier: all
# label: slow
set -u
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../tools" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
failed=0
cases=0

clean_tree() {
    rm -rf "${root:?}"/*
    mkdir -p "$root"/src/{base,comm,data,model,ops/cuda,train} "$root"/src/cli
    put src/base/error.h '// Errors.' '#ifndef BASE_ERROR_H' '#define BASE_ERROR_H' 'int error_set(void);' '#endif'
    put src/base/die.c '// The end.' '#include "base/error.h"' '#include <stdlib.h>' \
        'int error_set(void) {' '    exit(1);' '}'
    put src/model/gpt.c '// A model: "sprintf(" and atoi( in comments are no calls.' '#include "base/error.h"' \
        'static const char *text = "strcpy(a) { \" // /*"; // gets(' 'int gpt(void) {' '    return text[0];' '}'
    put src/comm/mpi_library.h '// MPI.' '#ifndef M' '#define M' '#include <mpi.h>' '#endif'
    put src/comm/mpi.c '// MPI.' '#include "comm/mpi_library.h"'
    put src/comm/nccl_library.h '// NCCL.' '#ifndef N' '#define N' '#include <nccl.h>' '#endif'
    put src/comm/nccl.c '// NCCL.' '#include "comm/nccl_library.h"' '#include <cuda_runtime.h>'
    put src/ops/cuda/adam.cu '// Adam.' '#include <cuda_bf16.h>' '#ifdef ANYTHING' '#endif'
    put src/base/scan.c '// Scans.' '#if defined(__ARM_NEON)' '#endif'
    put src/cli/main.c '// Main.' '#include <stdlib.h>' 'int main(void) {' '    return getenv("X") != NULL;' '}'
}

# put PATH LINE…: writes a file, one argument per line.
put() {
    local path=$root/$1
    shift
    printf '%s\n' "$@" >"$path"
}

# repeat COUNT TEXT: prints TEXT on COUNT lines.
repeat() {
    local i
    for ((i = 0; i < $1; i++)); do
        printf '%s\n' "$2"
    done
}

fail() {
    echo "FAIL $1"
    sed 's/^/     /' "$root.out"
    failed=$((failed + 1))
}

# expect_error TOOL TEXT CASE: the tool must fail on the current tree, with TEXT in its output.
expect_error() {
    cases=$((cases + 1))
    if "$tools/$1" "$root" >"$root.out" 2>&1; then
        fail "$3: $1 let it pass"
    elif ! grep -qF -- "$2" "$root.out"; then
        fail "$3: $1 did not say '$2'"
    fi
    rm -f "$root.out"
    clean_tree
}

expect_clean() {
    cases=$((cases + 1))
    if ! "$tools/$1" "$root" >"$root.out" 2>&1; then
        fail "$2: $1 found a fault"
    elif [ -n "${3:-}" ] && ! grep -qF -- "$3" "$root.out"; then
        fail "$2: $1 did not say '$3'"
    fi
    rm -f "$root.out"
    clean_tree
}

clean_tree
expect_clean check_style "a clean tree"
expect_clean check_includes "a clean tree"

# check_style
put src/model/bad.c '// A tab.' $'\tint x;'
expect_error check_style 'src/model/bad.c:2: error: tab character' tab
put src/model/bad.c '// Blanks.' 'int x; '
expect_error check_style 'src/model/bad.c:2: error: blanks at the end' "blanks at the end"
put src/model/bad.c '// CR LF.' $'int x;\r'
expect_error check_style 'src/model/bad.c:2: error: line ends in CR LF' "CR LF"
put src/model/bad.c 'int x;' '// A late comment.'
expect_error check_style 'src/model/bad.c:1: error: file does not open with a comment' "no opening comment"
put src/model/bad.c '// Long.' "int x; // $(repeat 60 xy | tr -d '\n')"
expect_error check_style 'src/model/bad.c:2: error: line has 130 characters' "long line"
put src/model/good.c '// Wide characters count once.' "// $(repeat 117 … | tr -d '\n')"
expect_clean check_style "120 wide characters"
for word in "TO""DO" "FIX""ME" "X""XX" "HA""CK"; do
    put src/model/bad.c '// Later.' "// $word: finish this"
    expect_error check_style 'src/model/bad.c:2: error: unfinished business' "$word in C"
done
mkdir -p "$root/tests"
put tests/bad.sh '#!/bin/sh' '# Later.' "# TO""DO"
expect_error check_style 'tests/bad.sh:3: error: unfinished business' "unfinished business in a script"
mkdir -p "$root/tools"
put tools/bad '#!/bin/sh' '# Later.' "# TO""DO"
expect_error check_style 'tools/bad:3: error: unfinished business' "a script without a suffix"
mkdir -p "$root/tests/cli"
put tests/cli/bad.sh '#!/bin/sh' '# Waits.' 'train >"$work/out" 2>&1 &'
expect_error check_style 'tests/cli/bad.sh:3: error: its log may still have' "a log that is emptied too late"
put src/model/good.c '// Templates.' 'char name[] = "/tmp/XXXXXX";'
expect_clean check_style "a mkstemp template"
for call in sprintf vsprintf strcpy strcat strtok atoi atol atof gets alloca rand srand assert; do
    put src/model/bad.c '// Calls.' 'int f(void) {' "    return g() + $call(x);" '}'
    expect_error check_style "src/model/bad.c:3: error: banned function $call()" "$call"
done
put src/model/good.c '// Not calls.' 'int f(void) {' '    return snprintf(x) + my_rand(y) + strand(z);' '}' '_Static_assert(1, "x");'
expect_clean check_style "names that contain banned ones"
put src/model/bad.c '// Calls.' 'int f(void) {' '    return system("ls");' '}'
expect_error check_style 'system() belongs to src/cli' system
put src/cli/good.c '// Calls.' 'int f(void) {' '    return system("ls");' '}'
expect_clean check_style "system in cli"
# Files of web pages
put src/model/good.js '// Says what it does.' 'const x = 1;'
put src/model/good.css '/* Says what it does. */' 'p { margin: 0; }'
put src/model/good.html '<!doctype html>' '<!-- Says what it does. -->' '<p>x</p>'
expect_clean check_style "files of a web page"
put src/model/bad.js 'const x = 1;'
expect_error check_style 'src/model/bad.js:1: error: file does not open with a comment' "a script without a comment"
put src/model/bad.css 'p { margin: 0; }'
expect_error check_style 'src/model/bad.css:1: error: file does not open with a comment' "a style without a comment"
put src/model/bad.html '<!doctype html>' '<p>x</p>'
expect_error check_style 'src/model/bad.html:2: error: file does not open with a comment' "a page without a comment"
put src/model/bad.js '// Long.' "const x = \"$(repeat 60 xy | tr -d '\n')\";"
expect_error check_style 'src/model/bad.js:2: error: line has 133 characters' "a long line of a script"
{ echo '// Long.'; repeat 600 'f();'; } >"$root/src/model/bad.js"
expect_error check_style 'src/model/bad.js:601: error: file has 601 lines' "a long script"
{ echo '// Long.'; repeat 600 'int x;'; } >"$root/src/model/bad.c"
expect_error check_style 'file has 601 lines' "long file"
{ echo '// Long.'; repeat 350 'int x;'; } >"$root/src/model/good.c"
expect_clean check_style "longish file" 'src/model/good.c:351: note: file has 351 lines'
{ echo '// Long.'; echo 'static int'; echo 'f(int a) {'; repeat 98 '    if (a) { a--; }'; echo '}'; } >"$root/src/model/bad.c"
expect_error check_style 'src/model/bad.c:2: error: f() has 101 lines' "long function"
{ echo '// Long.'; echo 'static int f(int a) {'; repeat 59 '    a--;'; echo '}'; } >"$root/src/model/good.c"
expect_clean check_style "longish function" 'src/model/good.c:2: note: f() has 61 lines'
# Nine functions over 80 lines, and nine structs over 60 fields, where a tree may have eight; one less is fine.
for one in a b c d e f g h i; do
    { echo '// Long.'; echo "static int $one(int x) {"; repeat 80 '    x--;'; echo '}'; } >"$root/src/model/long_$one.c"
done
expect_error check_style 'src: error: 9 functions have more than 80 lines' "many long functions"
for one in a b c d e f g h; do
    { echo '// Long.'; echo "static int $one(int x) {"; repeat 80 '    x--;'; echo '}'; } >"$root/src/model/long_$one.c"
done
expect_clean check_style "some long functions"
for one in a b c d e f g h i; do
    { echo '// Large.'; echo "struct $one {"; repeat 20 '    int x, (*y)(int a, int b);'; echo '    struct { int z; } w;'
        repeat 19 '    int v;'; echo '};'; } >"$root/src/model/large_$one.c"
done
expect_error check_style 'src: error: 9 structs have more than 60 fields, at most 8 may: a (61 fields)' "large structs"
for one in a b c d e f g h i; do
    { echo '// Not large.'; echo "struct $one {"; repeat 60 '    int x;'; echo '};'; } >"$root/src/model/large_$one.c"
done
expect_clean check_style "structs of 60 fields"
{ echo '// A table is no function.'; echo 'static const int t[] = {'; repeat 120 '    1,'; echo '};'; } >"$root/src/model/good.c"
expect_clean check_style "long table" ' 0 errors, 0 notes'
{
    echo '// Linkage.'
    echo 'extern "C" {'
    repeat 70 'int g(void) { return 1; }'
    repeat 70 'int h(void);'
    echo '}'
} >"$root/src/ops/cuda/good.cu"
expect_clean check_style "linkage block" ' 0 errors, 0 notes'
put src/data/first.c '// One.' 'struct item {' '    int x;' '};'
put src/model/bad.c '// The other.' 'static const enum item { A, B } which = A;'
expect_error check_style 'src/model/bad.c:2: error: item is defined in src/data/first.c:2, too' "a tag in two files"
put src/data/good.c '// Two processors.' '#if defined(__ARM_NEON)' 'struct item {' '    int x;' '};' '#else' \
    'struct item {' '    long x;' '};' '#endif' '// struct item { is a comment' 'struct item *item_make(void);'
put src/model/good.c '// Uses it.' 'struct item;' 'int f(struct item *item) {' '    return item != 0;' '}'
expect_clean check_style "one tag for two processors"
put src/model/bad.c '// Runs.' 'static void *run(void *argument) {' '    return argument;' '}'
expect_error check_style 'src/model/bad.c:2: error: run() does not say' "a function called run"
put src/cli/bad.c '// Rows.' '#define OFFSET(member) offsetof(struct options, member)'
expect_error check_style 'src/cli/bad.c:2: error: config/flag_rows.h has OFFSET' "OFFSET defined again"
put src/model/bad.c '// State.' 'int f(void) {' '    static int calls;' '    return calls++;' '}'
expect_error check_style 'src/model/bad.c:3: error: state of the process' "state in a function"
put src/model/bad.c '// State.' 'static struct {' '    int x;' '} state = {1};'
expect_error check_style 'src/model/bad.c:2: error: state of the process' "state in a file"
put src/base/good.c '// State.' 'static int calls = 1;'
put src/model/good.c '// A table.' 'static const int table[] = {1, 2};' 'static inline int f(int x) { return x; }'
expect_clean check_style "state in base, a table elsewhere"
put src/model/bad.c '// Jumps.' 'void f(void) {' '    goto end;' 'end:;' '}'
expect_error check_style 'src/model/bad.c:3: error: goto' goto
put src/model/bad.c '// Many.' 'static int f(int a, int b, int c, int d,' '             int e, int g, int h) {' '    return a;' '}'
expect_error check_style 'src/model/bad.c:2: error: f() has 7 parameters' "seven parameters"
put src/model/good.c '// Six.' 'int f(int a, int b, int c, int d, int e, int (*g)(int, int)) {' '    return a;' '}'
expect_clean check_style "six parameters"
mkdir -p "$root/docs"
put docs/flags.md '# Flags' "$(repeat 100 xy | tr -d '\n')"
expect_error check_style 'docs/flags.md:2: error: line has 200 characters' "a long line of a generated document"

# check_includes
put src/base/bad.c '// Upwards.' '#include "data/loader.h"'
put src/data/loader.h '// Loader.' '#ifndef L' '#define L' '#endif'
expect_error check_includes 'src/base/bad.c:2: error: src/base stands below src/data' "include upwards"
put src/data/good.c '// Downwards.' '#include "base/error.h"'
expect_clean check_includes "include downwards"
put src/data/a.h '// A.' '#ifndef A' '#define A' '#include "data/b.h"' '#endif'
put src/data/b.h '// B.' '#ifndef B' '#define B' '#endif'
put src/data/b.c '// B.' '#include "data/b.h"' '#include "data/c.h"'
put src/data/c.h '// C.' '#ifndef C' '#define C' '#include "data/a.h"' '#endif'
expect_error check_includes 'src: error: 3 files include each other in circles' "a circle of includes"
put src/data/a.h '// A.' '#ifndef A' '#define A' '#include "data/b.h"' '#endif'
put src/data/b.h '// B.' '#ifndef B' '#define B' '#endif'
put src/data/b.c '// B.' '#include "data/b.h"'
expect_clean check_includes "a chain of includes"
for i in 1 2 3 4 5 6 7 8 9; do
    put "src/data/h$i.h" '// One user.' "#ifndef H$i" "#define H$i" '#endif'
    put "src/data/h$i.c" '// One user.' "#include \"data/h$i.h\""
done
expect_error check_includes 'headers have at most two includers, at most 8 may' "headers of one file each"
mkdir -p "$root/src/config"
put src/config/flags.h '// Flags.' '#ifndef F' '#define F' '#endif'
put src/model/bad.c '// Flags.' '#include "config/flags.h"'
expect_error check_includes '1 includes of model, parallel, optim, store and formats name config/' "a model that reads flags"
mkdir -p "$root/src/config"
put src/config/model_value.h '// A model.' '#ifndef V' '#define V' '#endif'
put src/model/good.c '// A model.' '#include "config/model_value.h"'
expect_clean check_includes "a model that reads its value"
put src/train/bad.c '// A name.' 'const char name[] = "--num-layers", text[] = "give --num-layers 2";'
expect_error check_includes "1 strings outside config, cli and formats are a flag's name" "a flag's name outside its row"
put src/data/internal.h '// Inside.' '#ifndef I' '#define I' '#endif'
put src/train/bad.c '// Inside.' '#include "data/internal.h"'
expect_error check_includes 'src/train/bad.c:2: error: only src/data includes data/internal.h' "another folder's internals"
put src/data/internal.h '// Inside.' '#ifndef I' '#define I' '#endif'
put src/data/good.c '// Inside.' '#include "data/internal.h"'
expect_clean check_includes "a folder's own internals"
put src/train/bad.c '// Fields.' 'int f(struct step *step) {' '    return step->mode;' '}'
expect_error check_includes 'src/train/bad.c:3: error: only src/step knows the fields of a step' "a field of a step"
put src/train/good.c '// Fields.' 'int f(struct trainer *trainer) {' '    return trainer->step != 0;' '}'
expect_clean check_includes "a pointer to a step"
mkdir -p "$root/src/step"
put src/base/log.h '// Log.' '#ifndef L' '#define L' '#endif'
put src/step/bad.c '// Prints.' '#include "base/log.h"'
expect_error check_includes 'src/step/bad.c:2: error: src/step prints nothing' "a step that logs"
mkdir -p "$root/src/step" "$root/src/config"
put src/config/config.h '// Config.' '#ifndef C' '#define C' '#endif'
put src/step/bad.c '// Flags.' '#include "config/config.h"'
expect_error check_includes 'src/step/bad.c:2: error: src/step knows no flags' "a step that reads flags"
mkdir -p "$root/src/step"
put src/step/bad.c '// Flags.' 'int f(void) {' '    return error_set("leave --bf16 out");' '}'
expect_error check_includes 'src/step/bad.c:3: error: src/step knows no flags' "a step that names flags"
put src/data/bad.c '// Bare.' '#include "error.h"'
expect_error check_includes 'must be named from src/' "bare name"
put src/data/bad.c '// Missing.' '#include "base/nothing.h"'
expect_error check_includes 'src/base/nothing.h does not exist' "missing header"
mkdir "$root/src/utils"
put src/utils/bad.c '// Nowhere.'
expect_error check_includes 'src/utils has no place' "unknown folder"
put src/model/bad.c '// MPI.' '#include <mpi.h>'
expect_error check_includes 'only src/comm/mpi_library.h includes MPI' "MPI above comm"
put src/comm/bad.c '// MPI.' '  #  include <mpi.h>'
expect_error check_includes 'only src/comm/mpi_library.h includes MPI' "MPI elsewhere in comm"
put src/comm/bad.c '// NCCL.' '#include <nccl.h>'
expect_error check_includes 'only src/comm/nccl_library.h includes NCCL' "NCCL elsewhere"
put src/cli/bad.c '// MPI.' '#include "comm/mpi_library.h"'
expect_error check_includes 'only the backend itself calls the library' "calls of MPI elsewhere"
for header in cuda_runtime.h cublasLt.h cudnn.h; do
    put src/model/bad.c '// NVIDIA.' "#include <$header>"
    expect_error check_includes 'src/model/bad.c:2: error: only src/ops/cuda' "$header above ops"
    put src/ops/bad.c '// NVIDIA.' "#include <$header>"
    expect_error check_includes 'src/ops/bad.c:2: error: only src/ops/cuda' "$header in ops itself"
done
put src/model/good.c '/* Comment.' '#include <mpi.h>' '*/'
expect_clean check_includes "include in a comment"
put src/model/bad.c '// Feature.' '#ifdef __linux__' '#endif'
expect_error check_includes 'no conditional compilation in src/model' "ifdef above ops"
put src/model/bad.h '// Feature.' '#ifndef MODEL_BAD_H' '#define MODEL_BAD_H' '#if 1' '#endif' '#endif'
expect_error check_includes 'no conditional compilation in src/model' "if in a guarded header"
put src/base/bad.c '// Feature.' '#if defined(__x86_64__) && defined(BEVATRON_CUDA)' '#endif'
expect_error check_includes 'conditional compilation on BEVATRON_CUDA' "feature macro in base"
put src/base/bad.c '// Feature.' '#if __has_include(<zlib.h>)' '#endif'
expect_error check_includes 'conditional compilation on __has_include' "__has_include in base"
put src/base/bad.h '// No guard.' 'int x(void);'
expect_error check_includes 'header has no include guard' "no include guard"
put src/data/bad.c '// Environment.' 'int f(void) {' '    return getenv("HOME") != 0;' '}'
expect_error check_includes 'only src/cli reads the environment' getenv
for call in exit _exit; do
    put src/data/bad.c '// Ends.' 'int f(void) {' "    $call(1);" '}'
    expect_error check_includes 'src/data/bad.c:3: error: only src/cli and src/base/die.c end the process' "$call"
done
put src/model/bad.c '// Paper.' 'int f(struct device *d) {' '    return d->is_paper;' '}'
expect_error check_includes 'nothing above the tables asks whether it is on paper' is_paper
put src/train/bad.c '// Opens.' 'int f(void) {' '    return cuda_open(0);' '}'
expect_error check_includes 'src/train/bad.c:3: error: src/train stands above the tables' "a backend's function"
put src/train/bad.c '// Opens.' 'int f(void) {' '    return paper_open(0);' '}'
expect_error check_includes 'src/train/bad.c:3: error: src/train stands above the tables' "a function of the paper backend"
put src/train/bad.c '// Opens.' 'int f(void) {' '    return device_open("cpu");' '}'
expect_error check_includes 'src/train/bad.c:3: error: src/train stands above the tables' "a backend's name"
put src/train/good.c '// Reads.' '// A comment on "cpu" and cuda_open.' 'int f(void) {' '    return config->cpu_kernels != 0;' '}'
put src/cli/good.c '// Chooses.' 'int f(void) {' '    return device_open("cpu");' '}'
expect_clean check_includes "a flag's field, and cli"
put src/train/loop.h '// Loop.' '#ifndef T' '#define T' '#endif'
put src/train/loop.c '// Loop.' '#include "base/error.h"' '#include "train/loop.h"'
expect_error check_includes 'the first include must be the file'"'"'s own header "train/loop.h"' "own header late"

# install_packages: a PATH with few programs is a machine that lacks the others.
machine=$root/bin
line='apt-get install -y --no-install-recommends gcc libc6-dev cmake libopenblas-dev ninja-build libopenmpi-dev openmpi-bin'

# install_on_machine EXPECTED-STATUS TEXT CASE
install_on_machine() {
    cases=$((cases + 1))
    env -u CC PATH="$machine" "$tools/install_packages" build >"$root.out" 2>&1
    local status=$?
    if [ "$status" -ne "$1" ]; then
        fail "$3: status $status, expected $1"
    elif ! grep -qF -- "$2" "$root.out"; then
        fail "$3: no '$2'"
    fi
    rm -f "$root.out"
}

mkdir -p "$machine"
for program in sh env mktemp rm sed tail; do
    ln -s "$(command -v "$program")" "$machine/$program"
done
printf '#!/bin/sh\necho 0\n' >"$machine/id"
chmod +x "$machine/id"
install_on_machine 1 "$line" "a bare machine without apt"
printf '#!/bin/sh\necho 1000\n' >"$machine/id"
printf '#!/bin/sh\necho apt-get was called\n' >"$machine/apt-get"
chmod +x "$machine/apt-get"
install_on_machine 1 "$line" "a bare machine, not root"
printf '#!/bin/sh\necho 0\n' >"$machine/id"
printf '#!/bin/sh\necho "no network"\nexit 100\n' >"$machine/apt-get"
install_on_machine 1 'no network' "a bare machine without a network"
# A compiler that only compiles OpenBLAS: the required parts are there, the optional ones are not.
printf '#!/bin/sh\ncase $* in *-lopenblas*) exit 0 ;; esac\nexit 1\n' >"$machine/cc"
printf '#!/bin/sh\necho "cmake version 4.1.2"\n' >"$machine/cmake"
chmod +x "$machine/cc" "$machine/cmake"
install_on_machine 0 'continuing without the optional ninja-build libopenmpi-dev' "only the required parts"
printf '#!/bin/sh\necho "cmake version 3.24.9"\n' >"$machine/cmake"
install_on_machine 1 "missing for 'build': cmake" "an old cmake"

# same_bits STATUS TEXT PROGRAM: the result of tools/same_bits for the program under test and another one.
same_bits() {
    cases=$((cases + 1))
    "$tools/same_bits" "$BEVATRON" "$3" '^(train|resume|text|dry) 1 --model gpt --num-layers [0-9]+ --bf16$' >"$root.out" 2>&1 </dev/null
    local status=$?
    [ "$status" = "$1" ] && grep -qF -- "$2" "$root.out" || fail "same_bits with $3: status $status, or no '$2'"
    rm -f "$root.out"
}

# A program whose gradients are clipped slightly differently: only trained results differ.
printf '#!/bin/sh\n[ "$1" != train ] || set -- "$@" --clip-grad 0.9999\nexec "%s" "$@"\n' "$BEVATRON" >"$root/other"
chmod +x "$root/other"
same_bits 0 "3 same, 0 different" "$BEVATRON"
same_bits 1 "1 same, 2 different" "$root/other"
same_bits 2 "usage" "$root/absent"
# Every number of a log line counts, whatever its name, except times.
printf '#!/bin/sh\n"%s" "$@" 2>&1 | sed "s/num zeros: [0-9.]*/num zeros: 7/"\n' "$BEVATRON" >"$root/other"
same_bits 1 "1 same, 2 different" "$root/other"
printf '#!/bin/sh\n"%s" "$@" 2>&1 | sed "s/(ms): [0-9.]*/(ms): 7/; s/second: [0-9]*/second: 7/"\n' "$BEVATRON" >"$root/other"
same_bits 0 "3 same, 0 different" "$root/other"

echo "$((cases - failed)) of $cases cases passed"
[ "$failed" -eq 0 ]
