# Rows 13 to 16 and 19 to 22: numbers, memory, clocks, layouts, flags and data.

nan_ends() {
    rm -rf "$work/run"
    run_to_end "${train[@]}" --save "$work/run" --save-interval 3 --inject nan:rank=2:step=8
    note=$(said)
    [ "$code" = 213 ] && grep -aq "first seen in the gradients of rank 2" "$work/log" && "$BEVATRON" checkpoint verify "$work/run" >/dev/null 2>&1 && [ ! -e "$work/run/iter_0000009" ]
}
nan_is_skipped() {
    rm -rf "$work/run"
    run_to_end "${train[@]}" --save "$work/run" --no-check-for-nan-in-loss-and-grad --check-replicas 1 --inject nan:rank=2:step=8
    note=$(grep -a "iteration        8/" "$work/log" | grep -o "number of skipped iterations: *[0-9]*.*")
    [ "$code" = 0 ] && grep -a "iteration        8/" "$work/log" | grep -q "skipped iterations: *1 "
}
nan_of_one() {
    rm -rf "$work/run"
    run_to_end "${train[@]}" --save "$work/run" --save-interval 3 --inject nan:rank=2:step=8:phase=results
    note=$(said)
    [ "$code" = 218 ] && [[ $note == *"rank 2"* ]] && [ ! -e "$work/run/iter_0000009" ]
}
row_13() {
    checks 13 "NaN in a gradient of rank 2: all ranks stop, nothing is saved, the rank is named" nan_ends
    checks 13 "NaN in a gradient of rank 2: all ranks skip the step" nan_is_skipped
    checks 13 "NaN in the loss as rank 2 has it: all ranks stop, the rank is named" nan_of_one
    if has_flag --nan-policy; then
        checks 13 "NaN in a gradient: --nan-policy rewind-and-skip" nan_is_passed
    else
        survives 13 "NaN in a gradient once, supervised" --inject nan:rank=2:step=8
    fi
}
nan_is_passed() {
    rm -rf "$work/run"
    run_to_end "${train[@]}" --save "$work/run" --save-interval 3 --nan-policy rewind-and-skip --check-replicas 1 --inject nan:rank=2:step=8
    note=$(grep -aiE "rewind|going back|skip" "$work/log" | grep -v "number of skipped\|nan_policy" | head -n 1)
    [ "$code" = 0 ] && [ -e "$work/run/iter_0000012" ] && [ -n "$note" ]
}

# corrupted STEP FLAGS…: one bit of a weight of rank 2 flips; the run says so and must not save it.
corrupted() {
    local step=$1
    shift
    rm -rf "$work/run"
    run_to_end "${train[@]}" --save "$work/run" --save-interval 3 --inject "flip:rank=2:step=$step" "$@"
    note=$(said)
    [ "$code" = 218 ] && [[ $note == *"is not the same on all data-parallel ranks"* ]] && [ -n "$(fired "$work/run")" ] && [ ! -e "$work/run/iter_0000009" ] && [ ! -e "$work/run/iter_0000012" ]
}
names_rank() {
    corrupted "$@" && [[ $note == *"rank 2"* ]]
}
no_alarm() {
    rm -rf "$work/run"
    local count=10000
    [ "$device" = cpu ] || count=500
    limit_s=900 run_to_end "${train[@]}" --train-iters "$count" --log-interval 500 --check-replicas 1
    note="$count iterations, each with --check-replicas 1"
    [ "$code" = 0 ]
}
row_14() {
    local whole=--use-distributed-optimizer=false
    checks 14 "a flipped bit in a weight is found with --check-replicas 1" corrupted 8 $whole --check-replicas 1
    checks 14 "a flipped bit in a weight is not saved, without a flag" corrupted 8 $whole
    checks 14 "distributed optimizer: a flip in the iteration of a save is not saved" corrupted 9
    checks 14 "distributed optimizer: a flip in the iteration before a save, --check-replicas 1" corrupted 8 --check-replicas 1
    checks 14 "the message names the rank" names_rank 8 $whole
    survives 14 "a flipped bit, supervised" --inject flip:rank=2:step=9
    if has_flag --replay-check; then
        checks 14 "a flipped bit in a weight with --replay-check: the run continues" continues --replay-check 100 --inject flip:rank=2:step=9
    fi
    checks 14 "a flipped bit in a gradient before it is reduced, --replay-check 1" gradient_flip
    checks 14 "no alarm in a run without a fault" no_alarm
}
# Every replica gets the same wrong sum, so a comparison of replicas finds nothing.
gradient_flip() {
    rm -rf "$work/run"
    # shellcheck disable=SC2046
    run_to_end "${train[@]}" --save "$work/run" --save-interval 3 --check-replicas 1 $(has_flag --replay-check && echo --replay-check 1) \
        --inject flip:rank=2:step=8:phase=gradients
    note=$(said)
    [ "$code" = 218 ] && [[ $note == *"rank 2"* ]]
}

too_large() {
    run_to_end "${train[@]}" --num-layers 96 --hidden-size 12288 --num-attention-heads 96
    note=$(said)
    [ "$code" = 214 ]
}
address_limit() {
    run_to_end prlimit --as=900000000 "${train[@]}" --hidden-size 512 --seq-length 512 --vocab-size 30000
    note=$(said)
    [ "$code" = 214 ] || { [ "$code" = 1 ] && grep -aqi "memory" <<<"$note"; }
}
small_group() {
    run_to_end bash tests/cli/memory_group.sh 300000000 "${train[@]}" --hidden-size 1024 --save "$work/grouped"
    note=$(grep -a "control group" "$work/log" | head -n 1)
    [ "$code" = 211 ] && grep -aq "the OOM killer may end this run" "$work/log" && grep -aq "control group is limited to 0.3 GB" "$work/log"
}
row_15() {
    bash tests/cli/memory_group.sh 300000000 true 2>/dev/null
    if [ $? = 77 ]; then
        report 15 "a control group with too little memory" "not run" "" "" "" "control groups cannot be made here"
    else
        checks 15 "a control group with too little memory: foretold, and named afterwards" small_group
    fi
    checks 15 "a model that does not fit: a table, and no allocation" too_large
    checks 15 "a limit of address space (prlimit)" address_limit
    survives 15 "a rank killed as by the OOM killer" --inject kill:rank=2:step=8:phase=forward
    tests 15 "memory runs out on some ranks" '^step/memory$'
}

row_16() {
    local seconds
    for seconds in 3600 -3600; do
        checks 16 "the clock of rank 1 jumps by $seconds s" continues --inject "clock:rank=1:step=5:seconds=$seconds"
        checks 16 "the clocks of all ranks jump by $seconds s" continues --inject "clock:rank=all:step=5:seconds=$seconds"
    done
}

# The loss of the next iteration is that of the same layout, but for the order of sums.
other_layout() {
    local want got
    run_to_end "${train[@]}" --load "$work/plain" --train-iters 13 --override-opt_param-scheduler
    want=$(loss_of 13)
    run_to_end "${train[@]}" --load "$work/plain" --train-iters 13 --override-opt_param-scheduler --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2
    got=$(loss_of 13)
    note="loss of iteration 13: $want, on TP2 x PP2 $got"
    [ "$code" = 0 ] && [ -n "$want" ] && awk -v a="$want" -v b="$got" 'BEGIN { d = a - b; exit !(d * d <= 1e-8 * a * a) }'
}
loss_of() { grep -a "iteration *$1/" "$work/log" | sed -n 's/.*lm loss: \([0-9.E+-]*\).*/\1/p'; }
row_19() {
    checks 19 "a checkpoint of DP4 resumed on TP2 x PP2" other_layout
    tests 19 "six layouts, each resumed on the five others" '^parallel/layout_checkpoints'
}

twice() {
    rm -rf "$work/run"
    run_to_end "${train[@]}" --save "$work/run" --save-interval 3
    [ "$code" = 0 ] && same_weights "$work/run" && same_tensors "$work/plain/iter_0000006" "$work/run/iter_0000006"
}
in_halves() {
    rm -rf "$work/run"
    run_to_end "${train[@]}" --save "$work/run" --exit-interval 6
    [ "$code" = 0 ] || return 1
    run_to_end "${train[@]}" --save "$work/run" --load "$work/run"
    [ "$code" = 0 ] && same_weights "$work/run"
}
row_20() {
    checks 20 "two runs: the same weights and moments" twice
    checks 20 "stopped and resumed: the same weights and moments" in_halves
}

# changed CODE TEXT FLAGS…: a resume with other flags is refused, or warns (code 0); the message has the text.
changed() {
    local want=$1 text=$2
    shift 2
    run_to_end "${train[@]}" --load "$work/plain" --train-iters 13 "$@"
    note=$(grep -aE -- "(error|warning): .*($text)" "$work/log" | head -n 1)
    [ "$code" = "$want" ] && [ -n "$note" ]
}
row_21() {
    checks 21 "another --lr" changed 2 "lr is 0.001 there and 0.002 here" --lr 2e-3
    checks 21 "another --hidden-size" changed 1 "hidden-size is 32 there and 64 here" --hidden-size 64
    checks 21 "another --adam-beta2" changed 0 "adam-beta2 is 0.999 there and 0.95 here" --adam-beta2 0.95 --override-opt_param-scheduler
    checks 21 "another --seed" changed 0 "seed is 1234 there and 5 here" --seed 5 --override-opt_param-scheduler
    checks 21 "another vocabulary" changed 1 "padded-vocab-size is 98 there and 99 here" --vocab-size 98
}

dataset() {
    seq 1 4000 | awk '{ printf "{\"text\": \"%d %d %d %d\"}\n", $1 % 90, $1 % 7, $1 % 13, $1 % 51 }' >"$work/text.jsonl"
    "$BEVATRON" preprocess --input "$work/text.jsonl" --output-prefix "$work/data" --tokenizer-type NullTokenizer --vocab-size 97 \
        >"$work/log" 2>&1
}
data_model=("${model[@]:1}")
truncated_data() {
    dataset || { note=$(tail -n 1 "$work/log"); return 1; }
    rm -rf "$work/run"
    timeout 120 "$BEVATRON" train --nproc "$ranks" "${data_model[@]}" --data-path "$work/data_text_document" --split 100,0,0 \
        --save "$work/run" --train-iters 100000 >"$work/log" 2>&1 </dev/null &
    local process=$!
    within 60 is_training || return 1
    truncate -s 4096 "$work/data_text_document.bin"
    wait "$process"
    code=$?
    note=$(said)
    [ "$code" = 215 ] && grep -aq "data_text_document.bin" "$work/log"
}
row_22() {
    checks 22 "a .bin is truncated under the run" truncated_data
    tests 22 "data changed between two starts" '^cli/changed_data'
    tests 22 "every sample is used once" '^train/sample_ids'
}
