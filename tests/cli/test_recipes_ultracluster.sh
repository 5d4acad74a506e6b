#!/usr/bin/env bash
# cost: 25
# The recipes of examples/recipes about the UltraCluster, as a reader would follow them: from an INI file to a
# configuration and a dataset, then a planned job, training on two ranks, and a second start that resumes.
. tests/cli/common.sh || exit
needs_parts MPI BZIP2
command -v bzip2 >/dev/null || { echo "skipped: no bzip2"; exit 77; }
export BEVATRON OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
recipes=examples/recipes
for script in "$recipes"/0-ultracluster.sh "$recipes"/1-gpt2-8b.sh; do
    if command -v shellcheck >/dev/null; then shellcheck "$script" >"$work/out" 2>&1 && pass || fail "shellcheck $script"; fi
    [ -x "$script" ] && pass || fail "$script is not executable"
done
expect 0 "200 documents" "$recipes/0-ultracluster.sh" "$work/ultra"
grep -q "no longer offers alinux2" "$work/out" && grep -q "queue gpu  *p4d.24xlarge  *0-16" "$work/out" && pass || fail "the cluster of step 4"
grep -q 'InstanceType: "p4d.24xlarge"' "$work/ultra/ultra.pcluster.yaml" && pass || fail "the configuration"
expect 0 "successfully loaded checkpoint from $work/ultra/checkpoint" "$recipes/1-gpt2-8b.sh" "$work/ultra"
grep -q "iteration       15/      15" "$work/out" && pass || fail "it does not resume"
grep -q -- "--nodes=16" "$work/ultra/train.sbatch" && pass || fail "the job: $(head -n 30 "$work/ultra/train.sbatch")"
# A package has no source to build machines from; that is said before anything is made in the account.
mkdir -p "$work/share"
cp -r examples "$work/share/"
expect 2 "is not a git checkout: run this script in one, or set SOURCE" env WHERE=account BUCKET=b "$work/share/examples/recipes/0-ultracluster.sh" "$work/none"
expect 2 "there is no such file" env WHERE=account BUCKET=b SOURCE="$work/absent.tar" "$work/share/examples/recipes/0-ultracluster.sh" "$work/none"
[ ! -e "$work/none/ultra.yaml" ] && pass || fail "the walk began"
# Every step of a page is a step of its script, by number.
for page in 0-ultracluster 1-gpt2-8b; do
    grep -q "^1\. " "$recipes/$page.md" && grep -q "($page.sh)" "$recipes/$page.md" && pass || fail "$page.md"
done
finish
