# Rows 8 to 12, 25 and 26: disks, checkpoints, hostile files, stuck writers, permissions.

# continues FLAGS…: without a supervisor; the run trains to its end with the right weights.
continues() {
    rm -rf "$work/run"
    run_to_end "${train[@]}" --save "$work/run" --save-interval 3 "$@"
    note=$(said)
    [ "$code" = 0 ] && [ -n "$(fired "$work/run")" ] && same_weights "$work/run" && [ -z "$(leftovers)" ]
}
leftovers() { find "$work/run" -name '*.tmp.*'; }

# The disk stays full: the run ends with a message that names file and remedy; the last whole checkpoint stays.
disk_stays_full() {
    rm -rf "$work/run"
    # shellcheck disable=SC2046
    run_to_end "${train[@]}" --save "$work/run" --save-interval 3 --inject enospc:rank=0:step=6-12:times=all \
        $(limit --last-save-minutes 0.1)
    note=$(grep -a "No space left" "$work/log" | head -n 1)
    [ "$code" = 1 ] && [ -n "$note" ] && "$BEVATRON" checkpoint verify "$work/run/iter_0000003" >/dev/null 2>&1
}
file_size_limit() {
    rm -rf "$work/run"
    # shellcheck disable=SC2046
    run_to_end prlimit --fsize=8000000 "${train[@]}" --hidden-size 384 --ckpt-writers 1 --save "$work/run" --save-interval 3 $(limit --last-save-minutes 0.1)
    note=$(grep -a "ulimit -f" "$work/log" | head -n 1)
    [ "$code" = 1 ] && [ -n "$note" ]
}

row_8() {
    checks 8 "one write of rank 0 fails (ENOSPC)" continues --inject enospc:rank=0:step=6
    checks 8 "one write of rank 3 fails (ENOSPC)" continues --inject enospc:rank=3:step=6
    checks 8 "one fsync fails (EIO)" continues --inject eio:rank=0:step=6:phase=fsync
    checks 8 "one rename fails (EIO)" continues --inject eio:rank=0:step=6:phase=rename
    checks 8 "one write fails with --async-save" continues --async-save --inject enospc:rank=0:step=6
    survives 8 "one write fails (ENOSPC), supervised" --inject enospc:rank=0:step=6
    checks 8 "the disk stays full: the last checkpoint is kept" disk_stays_full
    checks 8 "a file size limit (prlimit)" file_size_limit
    tests 8 "full disks (small tmpfs)" '^(parallel/faults|store/(faults|space))$'
}

# killed_in_save PHASE CALL RANK: then the run resumes and ends with the right weights.
killed_in_save() {
    rm -rf "$work/run"
    run_to_end "${train[@]}" --save "$work/run" --save-interval 3 --inject "kill:rank=$3:step=6:phase=$1:call=$2"
    # There may be fewer such calls; then the run ends as one without a fault.
    [ -n "$(fired "$work/run")" ] || { note="there is no such call"; [ "$code" = 0 ] && same_weights "$work/run"; return; }
    run_to_end "${train[@]}" --save "$work/run" --load "$work/run" --save-interval 3
    note=$(grep -ao "loaded checkpoint from .* at iteration [0-9]*" "$work/log" | sed 's/ from .* at / at /')
    [ "$code" = 0 ] && same_weights "$work/run" && [ -z "$(leftovers)" ]
}
row_9() {
    local call
    for call in 1 2 3 4; do checks 9 "rank 0 killed before write $call of a save" killed_in_save write "$call" 0; done
    for call in 1 2 3 4 5 6; do checks 9 "rank 0 killed before fsync $call of a save" killed_in_save fsync "$call" 0; done
    for call in 1 2 3; do checks 9 "rank 0 killed before rename $call of a save" killed_in_save rename "$call" 0; done
    checks 9 "rank 3 killed before its first write of a save" killed_in_save write 1 3
    checks 9 "rank 3 killed before its first fsync of a save" killed_in_save fsync 1 3
    tests 9 "killed at every system call" '^store/faults$'
}

# found: `checkpoint verify` refuses the damaged copy.
found() {
    "$BEVATRON" checkpoint verify "$work/copy/iter_0000012" >"$work/log" 2>&1
    [ $? = 216 ]
}
fresh() { rm -rf "$work/copy" && cp -r "$work/plain" "$work/copy"; }
# Every 4 KiB of every file has a flipped bit once.
every_page() {
    local file size at pages=0 missed=0
    fresh
    for file in "$work"/copy/iter_0000012/*; do
        [ -f "$file" ] || continue
        size=$(stat -c %s "$file")
        cp "$file" "$work/whole"
        for ((at = 0; at < size; at += 4096)); do
            pages=$((pages + 1))
            flip_byte "$file" "$at"
            found || missed=$((missed + 1))
            cp "$work/whole" "$file"
        done
    done
    note="$pages pages flipped, $missed not found"
    [ "$missed" = 0 ] && [ "$pages" -gt 20 ]
}
flip_byte() {
    local byte
    byte=$(dd if="$1" bs=1 skip="$2" count=1 status=none | od -An -tu1)
    printf "\\x$(printf %02x $((byte ^ 16)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
# spoiled COMMAND: $file is one of the checkpoint's, $other another of its kind.
spoiled() {
    local file other
    fresh
    file=$(ls "$work"/copy/iter_0000012/optimizer-*.safetensors | head -n 1)
    other=$(ls "$work"/copy/iter_0000012/optimizer-*.safetensors | tail -n 1)
    eval "$1"
    found
    local result=$?
    note=$(tail -n 1 "$work/log")
    return $result
}
falls_back() {
    fresh
    flip_byte "$(ls "$work"/copy/iter_0000012/optimizer-*.safetensors | head -n 1)" 3000
    run_to_end "${train[@]}" --save "$work/copy" --load "$work/copy"
    note=$(grep -a "FALLING BACK" "$work/log")
    [ "$code" = 0 ] && [ -n "$note" ] && same_tensors "$work/plain/iter_0000012" "$work/copy/iter_0000012"
}
row_10() {
    checks 10 "a flipped bit in every 4 KiB of every file" every_page
    checks 10 "a truncated file" spoiled 'truncate -s -1 "$file"'
    checks 10 "an empty file" spoiled ': >"$file"'
    checks 10 "a missing file" spoiled 'rm "$file"'
    checks 10 "two files swapped" spoiled 'mv "$file" "$file.x"; mv "$other" "$file"; mv "$file.x" "$other"'
    checks 10 "a file of another iteration" spoiled 'cp "$work/plain/iter_0000006/$(basename "$file")" "$file"'
    checks 10 "four ranks fall back to the checkpoint before it" falls_back
}

# marker TEXT: four ranks resume from the newest checkpoint, whatever the marker says.
marker() {
    fresh
    printf -- "$1" >"$work/copy/latest_checkpointed_iteration.txt"
    run_to_end "${train[@]}" --load "$work/copy" --train-iters 13 --override-opt_param-scheduler
    note=$(grep -aE "latest_checkpointed|marker|at iteration 12" "$work/log" | head -n 1)
    [ "$code" = 0 ] && grep -aq "iteration       13/" "$work/log"
}
row_11() {
    local text
    for text in '' 'abc' '1000000000000000000000000000000' '-1' '\377\376\001' '12\r\n' '999'; do
        checks 11 "the marker holds \"$(printf %s "$text" | tr '\\' '/')\"" marker "$text"
    done
}

row_12() {
    local root=${BEVATRON%/*}/../.. result=pass
    tests 12 "hostile and damaged files" '^(store/(damage|safetensors)|formats/(torch|megatron_zip)|data/index_damage|config/flag_file|cli/foreign_input)$'
    local targets built
    targets=$(find "$root/tests/fuzz" -name 'fuzz_*.c' | wc -l)
    built=$(find "$root/build/fuzz/tests/fuzz" -maxdepth 1 -type f -name 'fuzz_*' -perm -u+x 2>/dev/null | wc -l)
    if [ "$built" = "$targets" ]; then
        "$root/tools/run_fuzzers" "$root/build/fuzz" "${FUZZ_SECONDS:-5}" >"$work/log" 2>&1 || result=fail
        report 12 "every fuzz target for ${FUZZ_SECONDS:-5} s" "$result" "" "" "" "$(tail -n 1 "$work/log")"
    else
        report 12 "fuzz targets" "not run" "" "" "" "$built of $targets are built; run make fuzz"
    fi
}

# A file system of its own, in a file; needs root.
make_disk() {
    mkdir -p "$work/disk" && truncate -s 64M "$work/image" && mkfs.ext4 -q "$work/image" && mount -o loop "$work/image" "$work/disk"
} 2>/dev/null
# hangs_for_a_minute TEXT FLAGS…: nothing can be written to the disk of --save for 65 s, as on a file server that does not
# answer. The log has the text meanwhile, and the run ends as if nothing had been.
hangs_for_a_minute() {
    local text=$1 said=no run
    shift
    make_disk || return 1
    local long=(--train-iters 300 --save-interval 20 --save-timeout-minutes 1.2)
    [ -d "$work/long" ] || "${train[@]}" "${long[@]}" --save "$work/long" >/dev/null 2>&1 </dev/null
    "${train[@]}" "${long[@]}" --save "$work/disk/run" "$@" >"$work/log" 2>&1 </dev/null &
    run=$!
    waits 100 grep -aq "successfully saved checkpoint from iteration      20" "$work/log"
    fsfreeze -f "$work/disk" && sleep 65 && grep -aqE "$text" "$work/log" && said=yes
    fsfreeze -u "$work/disk"
    wait "$run"
    code=$?
    note=$(grep -aE "still " "$work/log" | head -n 1)
    local result=1
    [ "$code" = 0 ] && [ "$said" = yes ] && same_tensors "$work/long/iter_0000300" "$work/disk/run/iter_0000300" && result=0
    umount "$work/disk"
    return "$result"
}
row_25() {
    local mode deadline
    # shellcheck disable=SC2207
    deadline=(--distributed-timeout-minutes 0.1 $(limit --save-timeout-minutes 0.1))
    for mode in "" --async-save; do
        # shellcheck disable=SC2086
        ends 25 "an fsync of rank 0 never returns${mode:+, $mode}, deadline 6 s" "212" 8 "sav" "${deadline[@]}" $mode \
            --inject stuck-fsync:rank=0:step=6
        # shellcheck disable=SC2086
        ends 25 "an fsync of rank 3 never returns${mode:+, $mode}, deadline 6 s" "212" 8 "sav" "${deadline[@]}" $mode \
            --inject stuck-fsync:rank=3:step=6
    done
    checks 25 "an fsync takes 12 s, twice the deadline of collectives" continues --distributed-timeout-minutes 0.1 --inject stuck-fsync:rank=0:step=6:seconds=12
    if command -v fsfreeze >/dev/null && make_disk; then
        umount "$work/disk"
        checks 25 "the file system of --save hangs for 65 s: the run waits, says so, and goes on" hangs_for_a_minute "still .*writing .*disk/run"
        checks 25 "the same, while only checkpoints are there" hangs_for_a_minute "still saving (a|the) checkpoint" --metrics-file "$work/metrics.jsonl"
        checks 25 "the same with --async-save" hangs_for_a_minute "still saving (a|the) checkpoint" --metrics-file "$work/metrics.jsonl" --async-save
    else
        report 25 "the file system of --save hangs for 65 s" "not run" "" "" "" "a file system can be neither mounted nor frozen here"
    fi
    survives 25 "an fsync never returns, supervised" "${deadline[@]}" --inject stuck-fsync:rank=0:step=6
}

modes() {
    rm -rf "$work/run"
    (umask 000 && exec "${train[@]}" --save "$work/run") >"$work/log" 2>&1
    code=$?
    note=$(find "$work/run" ! -type l -perm -o+w | head -n 1)
    note=${note:+$note is world-writable}
    [ "$code" = 0 ] && [ -z "$note" ]
}
# link_at FILE: a link where a file of a run belongs must not lead out of the folder; the run resumes and trains.
link_at() {
    rm -rf "$work/run"
    cp -r "$work/plain" "$work/run"
    mv "$work/run/$1" "$work/victim"
    cp "$work/victim" "$work/as_it_was"
    ln -s "$work/victim" "$work/run/$1"
    run_to_end "${train[@]}" --save "$work/run" --load "$work/run" --train-iters 13 --override-opt_param-scheduler
    note=$(grep -aE "link" "$work/log" | head -n 1)
    [ "$code" = 0 ] && [ -e "$work/run/iter_0000013" ] && cmp -s "$work/victim" "$work/as_it_was"
}
row_26() {
    checks 26 "umask 000: no file is world-writable" modes
    checks 26 "a symbolic link as marker is not followed" link_at latest_checkpointed_iteration.txt
    checks 26 "a symbolic link as metrics.jsonl is not followed" link_at metrics.jsonl
    tests 26 "two runs on one folder" '^(formats/contents|base/file_lock|train/save_folder|cli/folders)$'
}
