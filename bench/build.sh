#!/usr/bin/env bash
# Processor time of a build, by file: all C code of the program and all CUDA code of its module for one architecture.
#   bench/build.sh                    compiles both afresh, without ccache, and writes bench/build.md
#   bench/build.sh --check BUILD      judges the times that tools/time_compile left in BUILD/compile_times.txt, as .ci/run does
#   bench/build.sh --page BUILD       writes bench/build.md from these times
# The check fails when CUDA code has become heavy. It compares times of one build with each other, because those of a
# busy machine are longer than those of a quiet one: for C as for CUDA.
# From the environment: ARCH (default 90), JOBS (default: all cores), FOLDER of the build (default build/times).
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The limits, as shares of the time of all C code: of all CUDA code, and of one CUDA file. They keep what there is from
# growing; the goals are 0.75 and 0.10. The same code was 1.40 on a quiet machine and 1.53 where other work shared the
# cores while CUDA was compiled (2026-11-19, 2 cores), so there is room for that.
most_cuda=2.00
most_file=0.20

# list BUILD: seconds, language and name of each file, the last time that it was compiled, the longest first.
list() {
    awk -v root="$PWD/" '
        function seconds(text, part) { split(text, part, /[ms]/); return 60 * part[1] + part[2] }
        {
            name = $3
            sub(/^.*\/cuda_units\//, "cuda_units/", name)
            if (index(name, root) == 1) name = substr(name, length(root) + 1)
            if (name ~ /^(src|cuda_units)\//) spent[name] = seconds($1) + seconds($2)
        }
        END { for (name in spent) printf "%.2f %s %s\n", spent[name], name ~ /\.cu$/ ? "CUDA" : "C", name }' \
        "$1/compile_times.txt" | sort -rn
}

# check BUILD: a line of sums, and one for each limit that is passed.
check() {
    [ -f "$1/compile_times.txt" ] || { echo "build.sh: there is no $1/compile_times.txt; build with tools/time_compile" >&2; exit 2; }
    local archs files cuda_files listed
    archs=$(sed -n 's/^BEVATRON_CUDA_ARCHS:[A-Z]*=//p' "$1/CMakeCache.txt")
    files=$(sed -n 's|^ *"file": "'"$PWD"'/\(src/.*\.c\)".*|\1|p' "$1/compile_commands.json" | sort -u | wc -l)
    cuda_files=$(grep -c '"file": .*\.cu"' "$1/compile_commands.json" || true)
    listed=$(list "$1")
    case $archs in
    *[\;,]*) echo "build.sh: built for several architectures ($archs): not judged"; return ;;
    esac
    echo "$listed" | awk -v most_cuda="$most_cuda" -v most_file="$most_file" -v files="$files" \
        -v cuda_files="$cuda_files" '
        { sum[$2] += $1; count[$2]++ }
        $2 == "CUDA" { spent[$3] = $1 }
        END {
            if (count["C"] < files || count["CUDA"] < cuda_files || cuda_files == 0) {
                printf "build.sh: %d of %d C files and %d of %d CUDA files were compiled: not judged\n", count["C"], files,
                    count["CUDA"], cuda_files
                exit 0
            }
            printf "build.sh: %d C files %.1f s, %d CUDA files %.1f s: %.2f of the C code, at most %.2f\n", count["C"],
                sum["C"], count["CUDA"], sum["CUDA"], sum["CUDA"] / sum["C"], most_cuda
            failed = sum["CUDA"] > most_cuda * sum["C"]
            if (failed) print "build.sh: CUDA code takes too long to compile; see bench/build.md for what its files took"
            for (name in spent)
                if (spent[name] > most_file * sum["C"]) {
                    printf "build.sh: %s takes %.1f s, %.2f of the C code, more than %.2f\n", name, spent[name],
                        spent[name] / sum["C"], most_file
                    failed = 1
                }
            exit failed
        }'
}

# report BUILD: the page.
report() {
    local gpu=no
    nvidia-smi -L >/dev/null 2>&1 && gpu=its
    cat <<PAGE
# Processor time of a build

\`bench/build.sh\` for one architecture, $(date -u +%F), $(nproc) cores, $(uname -m | tr _ -), $gpu GPU; $(cc --version | head -n 1 | sed 's/.*) //' | sed 's/^/gcc /'), nvcc $(nvcc --version | sed -n 's/.*release \([0-9.]*\).*/\1/p').
User and system time of every compiler, without ccache. Busy machines take longer; read the shares. \`bench/build.sh --check BUILD\` fails
where all CUDA code takes more than $most_cuda of the time of the C code, or one file more than $most_file. The goals are 0.75 and 0.10.

PAGE
    list "$1" | awk '
        { sum[$2] += $1; count[$2]++; row[++rows] = $0 }
        END {
            print "| code | files | seconds | share of the C code |\n|---|---:|---:|---:|"
            printf "| C | %d | %.1f | 1 |\n| CUDA | %d | %.1f | %.2f |\n", count["C"], sum["C"], count["CUDA"], sum["CUDA"],
                sum["CUDA"] / sum["C"]
            print "\n| CUDA file | seconds | share of the C code |\n|---|---:|---:|"
            for (i = 1; i <= rows; i++) {
                split(row[i], field, " ")
                if (field[2] == "CUDA") printf "| `%s` | %.1f | %.3f |\n", field[3], field[1], field[1] / sum["C"]
            }
            print "\n| C file, the longest ten | seconds | share of the C code |\n|---|---:|---:|"
            for (i = 1; i <= rows && shown < 10; i++) {
                split(row[i], field, " ")
                if (field[2] == "C" && ++shown) printf "| `%s` | %.1f | %.3f |\n", field[3], field[1], field[1] / sum["C"]
            }
        }'
}

# write_page BUILD: the page, with what bench/loop.sh measured as it was.
write_page() {
    local loop
    loop=$(sed -n "/^## A developer's loop/,\$p" bench/build.md)
    { report "$1" && printf '\n%s\n' "$loop"; } >bench/build.md.new
    mv bench/build.md.new bench/build.md
}

if [ "${1:-}" = --check ] && [ $# = 2 ]; then
    check "$2"
    exit
fi
if [ "${1:-}" = --page ] && [ $# = 2 ]; then
    write_page "$2"
    exit
fi
[ $# = 0 ] || { echo "usage: bench/build.sh [--check BUILD | --page BUILD]" >&2; exit 2; }
folder=${FOLDER:-build/times}
mkdir -p "$folder"
launcher="$PWD/tools/time_compile;$(realpath "$folder")/compile_times.txt"
rm -f "$folder/compile_times.txt"
cmake --fresh -S . -B "$folder" -DBEVATRON_CUDA=ON -DBEVATRON_CUDA_ARCHS="${ARCH:-90}" -DBUILD_TESTING=OFF \
    "-DCMAKE_C_COMPILER_LAUNCHER=$launcher" "-DCMAKE_CUDA_COMPILER_LAUNCHER=$launcher" >"$folder/configure.log"
rm -f "$folder/compile_times.txt"
targets=bevatron
cmake --build "$folder" --target help | grep -q 'bevatron_cuda' && targets="bevatron bevatron_cuda"
# shellcheck disable=SC2086  # several targets
cmake --build "$folder" --clean-first --parallel "${JOBS:-$(nproc)}" --target $targets
write_page "$folder"
check "$folder"
