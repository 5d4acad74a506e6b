#!/bin/bash
# Runs the benchmarks one after another, never side by side: the programs bench_* of the build, then the scripts
# bench/bench_*.py, which put a peer beside us and need a PYTHON that has it.
# usage: BUILD=build/release [PYTHON=python3] bench/run.sh [NAME…]    (all without names)
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
build=${BUILD:-build/release}
export BEVATRON=${BEVATRON:-$build/bevatron}
python=${PYTHON:-python3}
failed=
count=0

# wanted NAME: no names were given, or this one was.
names=" $* "
wanted() {
    [ "$names" = "  " ] || [[ $names == *" $1 "* ]]
}

while IFS= read -r program; do
    name=$(basename "$program")
    wanted "$name" || continue
    echo "== $name"
    "$program" || failed="$failed $name"
    count=$((count + 1))
done < <(find "$build" -maxdepth 2 -type f -name 'bench_*' -perm -u+x | sort)

for script in bench/bench_*.py; do
    name=$(basename "$script" .py)
    if [ ! -f "$script" ] || ! wanted "$name"; then
        continue
    fi
    echo "== $name (peers)"
    "$python" "$script" || failed="$failed $name"
    count=$((count + 1))
done

echo "bench: $count run"
[ -z "$failed" ] || { echo "bench: FAILED:$failed"; exit 1; }
