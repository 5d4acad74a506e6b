#!/usr/bin/env bash
# Every legal layout of up to 8 ranks, for every model; hours on two cores. MODELS and LAYOUTS choose: MODELS="gpt t5",
# LAYOUTS is a pattern that a line like "tp=2 pp=1 cp=2 dp=1 vp=1 zb=no sp=yes zero=no re=full " must contain.
# SHARE="2 5": the second of every five. Run by make test-layouts.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh
. tests/parallel/layouts.sh
read -r share shares <<<"${SHARE:-1 1}"
for name in ${MODELS:-gpt llama bert t5}; do
    run_first "$name"
    i=0
    while read -r line; do
        i=$((i + 1))
        [ $((i % shares)) = $((share % shares)) ] || continue
        case "$line " in *${LAYOUTS:-}*) ;; *) continue ;; esac
        run_same "$name" "$line"
        echo "$name $line: $(tail -n 1 "$work/out")"
    done < <(all_layouts)
done
finish
