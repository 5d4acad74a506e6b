#!/usr/bin/env bash
# Every flag set of examples/aws is a run that train takes: --dry-run on as many ranks as the file says, and the line of
# its head that launches it.
. tests/cli/common.sh
# Files of tokenizers that stand for those on the clusters' disks.
for i in $(seq 60); do echo "{\"text\": \"the $i quick brown foxes\"}"; done >"$work/text.jsonl"
"$BEVATRON" tokenizer train --input "$work/text.jsonl" --vocab-size 270 --output-prefix "$work/bpe" >"$work/out" 2>&1 || fail "no tokenizer"
for i in $(seq 200); do echo "$i $((1000 - i))"; done >"$work/dict.txt"
count=0
for example in examples/aws/*.yaml; do
    count=$((count + 1))
    ranks=$(sed -n 's/^# ranks: //p' "$example")
    command=$(sed -n 's/^# bevatron \(launch .*\)$/\1/p' "$example")
    tokenizer=(--vocab-file "$work/bpe-vocab.json" --merge-file "$work/bpe-merges.txt")
    case $example in
    *llama2*) tokenizer=(--tokenizer-type NullTokenizer --vocab-size 31999) ;;
    *roberta*) tokenizer=(--tokenizer-model "$work/dict.txt") ;;
    esac
    expect 0 "number of parameters" env RANK=0 WORLD_SIZE="$ranks" LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 \
        "$BEVATRON" train --dry-run --config "$example" "${tokenizer[@]}"
    # shellcheck disable=SC2086  # words of a command
    expect 0 "train" "$BEVATRON" $command --dry-run
    # A container has no such file: what it says stands in the command.
    if [[ $command == *container-image* || $command == *kubernetes* ]]; then
        grep -q -- "--config" "$work/out" && fail "$command names a file of this machine" || pass
        tr -d '"' <"$work/out" | tr -s ' -' '\n' | grep -qx "$(sed -n 's/^hidden-size: //p' "$example")" && pass ||
            fail "$command lost the flags of $example"
    else
        grep -q -- "$example" "$work/out" && pass || fail "$command is not about $example"
    fi
done
[ "$count" = 13 ] && pass || fail "$count examples"
finish
