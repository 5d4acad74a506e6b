#!/usr/bin/env bash
# examples/recipes/2-megatron-eks.sh: every step is printed without an account or a cluster; nothing is run or applied
# unless requested, and then not with the account of the example.
# label: slow
. tests/cli/common.sh || exit
export BEVATRON
unset APPLY ACCOUNT REGION FSX_ID URLS MACHINE NODES
recipe=examples/recipes/2-megatron-eks.sh
if command -v shellcheck >/dev/null; then shellcheck "$recipe" >"$work/out" 2>&1 && pass || fail "shellcheck $recipe"; fi
# Calls of these are detected.
mkdir "$work/bin"
for program in aws docker kubectl; do
    printf '#!/bin/sh\necho "%s $*" >>%s/called\nexit 1\n' $program "$work" >"$work/bin/$program" && chmod +x "$work/bin/$program"
done
run=(env "PATH=$work/bin:$PATH" "$recipe")

expect 0 "docker push 123456789012.dkr.ecr.us-west-2.amazonaws.com/bevatron:v1" "${run[@]}"
[ ! -e "$work/called" ] && pass || fail "called: $(cat "$work/called")"
grep -q "warning:" "$work/out" && fail "a warning" || pass
[ "$(grep -c '^kind: "PyTorchJob"' "$work/out")" = 2 ] && [ "$(grep -c '^kind: "Job"' "$work/out")" = 2 ] && pass || fail "not two PyTorchJobs and two Jobs"
for text in 'volumeHandle: "fs-0123456789abcdef0"' 'claimName: "fsx-claim"' 'instance-type: "p4de.24xlarge"' '"/fsx/gpt3"' '"--remote-name-all"' 'name: "llama2"'; do
    grep -qF -- "$text" "$work/out" && pass || fail "no $text"
done
# The letters on the page are those of the script.
for letter in a b c d e f; do
    expect 0 "# == $letter. " "${run[@]}" $letter
    [ "$(grep -c '^# == ' "$work/out")" = 1 ] && pass || fail "more steps than $letter"
    grep -q "\*\*$letter\. " examples/recipes/2-megatron.md && pass || fail "the page lacks $letter"
done
expect 1 "ACCOUNT: the AWS account" env APPLY=yes "${run[@]}"
[ ! -e "$work/called" ] && pass || fail "called: $(cat "$work/called")"
expect 1 "aws fsx failed" env APPLY=yes ACCOUNT=1 REGION=us-west-2 FSX_ID=fs-0123456789abcdef1 URLS=https://a "${run[@]}" b
grep -q "aws fsx describe-file-systems.*fs-0123456789abcdef1" "$work/called" && pass || fail "AWS is not asked for the file system: $(cat "$work/called")"
finish
