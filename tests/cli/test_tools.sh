#!/bin/bash
# tools/check_style and tools/check_includes must catch each fault they promise to catch, say where it is, and let a
# clean tree pass. Every case is a small tree of its own in a temporary folder with one fault in it. At the end,
# tools/install_packages meets machines that lack things.
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
    put src/base/error.c '// Errors, kept.' '#include "base/error.h"' '#include <stdlib.h>' \
        'int error_set(void) {' '    exit(1);' '}'
    put src/model/gpt.c '// A model: "sprintf(" and atoi( in comments are no calls.' '#include "base/error.h"' \
        'static const char *text = "strcpy(a) { \" // /*"; // gets(' 'int gpt(void) {' '    return text[0];' '}'
    put src/comm/mpi.c '// MPI.' '#include <mpi.h>'
    put src/comm/nccl.c '// NCCL.' '#include <nccl.h>' '#include <cuda_runtime.h>'
    put src/ops/cuda/adam.cu '// Adam.' '#include <cuda_bf16.h>' '#ifdef ANYTHING' '#endif'
    put src/base/scan.c '// Scans.' '#if defined(__ARM_NEON)' '#endif'
    put src/cli/main.c '// Main.' '#include <stdlib.h>' 'int main(void) {' '    return getenv("X") != NULL;' '}'
}

# put PATH LINE… writes a file, one argument a line.
put() {
    local path=$root/$1
    shift
    printf '%s\n' "$@" >"$path"
}

# repeat COUNT TEXT prints TEXT on COUNT lines.
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

# expect_error TOOL TEXT CASE: the tool must fail on the tree as it stands, with TEXT in its output.
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
{ echo '// Long.'; repeat 600 'int x;'; } >"$root/src/model/bad.c"
expect_error check_style 'file has 601 lines' "long file"
{ echo '// Long.'; repeat 350 'int x;'; } >"$root/src/model/good.c"
expect_clean check_style "longish file" 'src/model/good.c:351: note: file has 351 lines'
{ echo '// Long.'; echo 'static int'; echo 'f(int a) {'; repeat 98 '    if (a) { a--; }'; echo '}'; } >"$root/src/model/bad.c"
expect_error check_style 'src/model/bad.c:2: error: f() has 101 lines' "long function"
{ echo '// Long.'; echo 'static int f(int a) {'; repeat 59 '    a--;'; echo '}'; } >"$root/src/model/good.c"
expect_clean check_style "longish function" 'src/model/good.c:2: note: f() has 61 lines'
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

# check_includes
put src/base/bad.c '// Upwards.' '#include "data/loader.h"'
put src/data/loader.h '// Loader.' '#ifndef L' '#define L' '#endif'
expect_error check_includes 'src/base/bad.c:2: error: src/base stands below src/data' "include upwards"
put src/data/good.c '// Downwards.' '#include "base/error.h"'
expect_clean check_includes "include downwards"
put src/data/bad.c '// Bare.' '#include "error.h"'
expect_error check_includes 'must be named from src/' "bare name"
put src/data/bad.c '// Missing.' '#include "base/nothing.h"'
expect_error check_includes 'src/base/nothing.h does not exist' "missing header"
mkdir "$root/src/utils"
put src/utils/bad.c '// Nowhere.'
expect_error check_includes 'src/utils has no place' "unknown folder"
put src/model/bad.c '// MPI.' '#include <mpi.h>'
expect_error check_includes 'only src/comm/mpi.c includes MPI' "MPI above comm"
put src/comm/bad.c '// MPI.' '  #  include <mpi.h>'
expect_error check_includes 'only src/comm/mpi.c includes MPI' "MPI elsewhere in comm"
put src/comm/bad.c '// NCCL.' '#include <nccl.h>'
expect_error check_includes 'only src/comm/nccl.c includes NCCL' "NCCL elsewhere"
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
    expect_error check_includes 'src/data/bad.c:3: error: only src/cli and src/base/error.c end the process' "$call"
done
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
# A compiler that compiles nothing but OpenBLAS: the required parts are there, the optional ones are not.
printf '#!/bin/sh\ncase $* in *-lopenblas*) exit 0 ;; esac\nexit 1\n' >"$machine/cc"
printf '#!/bin/sh\necho "cmake version 4.1.2"\n' >"$machine/cmake"
chmod +x "$machine/cc" "$machine/cmake"
install_on_machine 0 'going on without the optional ninja-build libopenmpi-dev' "only the required parts"
printf '#!/bin/sh\necho "cmake version 3.24.9"\n' >"$machine/cmake"
install_on_machine 1 "missing for 'build': cmake" "an old cmake"

echo "$((cases - failed)) of $cases cases passed"
[ "$failed" -eq 0 ]
