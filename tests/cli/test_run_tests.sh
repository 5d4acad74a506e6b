#!/bin/bash
# tools/run_tests on builds of a few small tests: some pass, some always fail, some fail a given number of times. Each
# counts its runs in a file, so nothing here depends on chance.
# tier: all
set -u
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../tools" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
failed=0
cases=0
cp -r "$tools" "$root/tools"
cd "$root" || exit 1

# build NAME FAILURES …: a build whose tests fail so many times and then pass.
build() {
    rm -rf build
    mkdir -p build/runs
    : >build/CTestTestfile.cmake
    while [ $# -gt 1 ]; do
        printf 'add_test(%s sh -c "echo x >>%s/build/runs/%s; echo run of %s; test $(wc -l <%s/build/runs/%s) -gt %s")\n' \
            "$1" "$root" "${1//\//_}" "$1" "$root" "${1//\//_}" "$2" >>build/CTestTestfile.cmake
        shift 2
    done
    sed -i 's/\$(/\\$(/g' build/CTestTestfile.cmake
}

# expect CASE STATUS FLAKY RUNS OPTION…: the exit code, the words of build/flaky.txt, and how often each test ran.
expect() {
    local name=$1 status=$2 flaky=$3 runs=$4
    shift 4
    cases=$((cases + 1))
    JOBS=1 "$root/tools/run_tests" "$@" build >out 2>&1
    local got=$?
    local words counts
    words=$(cat build/flaky.txt 2>/dev/null | tr '\n' ' ')
    counts=$(wc -l build/runs/* | awk '$2 != "total" { sub(".*/", "", $2); printf "%s=%s ", $2, $1 }')
    if [ "$got $words $counts" != "$status $flaky $runs" ]; then
        echo "$name: exit code, flaky tests and runs are '$got $words $counts', expected '$status $flaky $runs'"
        sed 's/^/    /' out
        failed=$((failed + 1))
    fi
}

build a/good 0 a/other 0
expect "all pass" 0 "" "a_good=1 a_other=1 " --again 2
build a/good 0 a/once 1
expect "without --again" 1 "" "a_good=1 a_once=1 "
build a/good 0 a/once 1 a/twice 2
expect "one failure and two" 0 "build a/once build a/twice " "a_good=1 a_once=2 a_twice=3 " --again 2
grep -q "==== a/once, failed in" out || { echo "what a flaky test said is not shown"; failed=$((failed + 1)); }
build a/good 0 a/always 99 a/once 1 a/on 0
expect "one that never passes" 1 "build a/once " "a_always=3 a_good=1 a_on=1 a_once=2 " --again 2
"$tools/show_failures" build | grep -q "==== a/always, failed" || { echo "show_failures lacks a/always"; failed=$((failed + 1)); }
if "$tools/show_failures" build | grep -q "==== a/once"; then
    echo "show_failures shows a flaky test as failed"
    failed=$((failed + 1))
fi
many=()
for i in $(seq 21); do
    many+=("t$i" 1)
done
build "${many[@]}"
expect "many failures are no accident" 1 "" "$(printf 't%s=1 ' $(seq 21 | sort -k1,1 | sed 's/^/t/' | LC_ALL=C sort | sed 's/^t//'))" --again 2
cases=$((cases + 1))
rm -rf build && mkdir build && : >build/CTestTestfile.cmake
"$root/tools/run_tests" build >out 2>&1 && { echo "a build without tests passes"; failed=$((failed + 1)); }

echo "$((cases - failed)) of $cases cases passed"
[ "$failed" -eq 0 ]
