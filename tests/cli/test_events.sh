#!/usr/bin/env bash
# Where a run is watched: events in metrics.jsonl, the command of --on-event, Prometheus, wandb; runs that stop, fail or
# are killed; and logging targets that are full, missing or broken, which change nothing about the training.
# tier: all
# cost: 10
. tests/cli/common.sh
model=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 50
    --tokenizer-type NullTokenizer --micro-batch-size 1 --lr 1e-3 --log-interval 2 --eval-iters 0 --threads 1)
hook=": $work; "'printf "%s|%s|%s|%s\n" "$BEVATRON_EVENT" "$BEVATRON_ITERATION" "$BEVATRON_EXIT_CODE" "$BEVATRON_TEXT" >>"$BEVATRON_RUN.events"'
# events RUN: the events of metrics.jsonl, as the hook writes them.
events() {
    sed -nE 's/.*"kind":"event".*"iteration":([0-9]+),"event":"([a-z]+)","text":"([^"]*)"(,"exit_code":([0-9]+))?.*/\2|\1|\5|\3/p' "$1/metrics.jsonl"
}
has() { grep -qF -- "$2" "$1" && pass || fail "no \"$2\" in $1: $(cat "$1")"; }

# heard COMMAND…: a run waits at its end for its commands, but only some seconds; if a busy machine needs longer, events
# are dropped, which it says. Then the command is repeated, once nothing of the first time runs any more.
no_hook_runs() { ! pgrep -f -- "-c : ${work%/*};" >/dev/null; }
heard() {
    local try
    for try in 1 2 3 4 5; do
        rm -rf "$work/run" "$work/run.events"
        "$@"
        grep -qsE "leaving it behind|it was not run for" "$work/out" "$work/first" "$work/again" || return
        within 900 no_hook_runs || fail "a command does not end"
    done
}

twice() {
    local train=("$BEVATRON" train "${model[@]}" --train-iters 6 --save "$work/run" --save-interval 3)
    "${train[@]}" --exit-interval 3 --on-event "$hook; echo told" --prometheus-textfile "$work/run.prom" --wandb-project p \
        --wandb-exp-name n >"$work/first" 2>&1 || fail "the first run"
    "${train[@]}" --load "$work/run" --on-event "$hook" >"$work/again" 2>&1 || fail "the resumed run"
}
whole_run() {
    # started and saved and finished; a run that is resumed says so.
    heard twice
    expect 0 "--on-event: told" cat "$work/first"
    expect 0 "iteration        6/" cat "$work/again"
    grep -v "^started" "$work/run.events" >"$work/told"
    events "$work/run" >"$work/written"
    expect_same "$work/told" "$work/written" "the hook is told what metrics.jsonl has"
    has "$work/run.events" "started|0||started after iteration 0 of 6"
    has "$work/run.events" "started|3||resumed after iteration 3 of 6"
    has "$work/written" "saved|3||saved a checkpoint to $work/run in "
    has "$work/written" "stopped|3|0|stopped at iteration 3 (--exit-interval)"
    [ "$(tail -n 1 "$work/written")" = "finished|6|0|finished all 6 iterations" ] && pass || fail "the last event: $(tail -n 1 "$work/written")"
    for member in host pid ranks version tokens_per_sample flops_per_token; do
        [ "$(grep -c "^{\"kind\":\"run\".*\"$member\":" "$work/run/metrics.jsonl")" = 2 ] && pass || fail "no $member in the lines of starts"
    done
    grep -q '"kind":"train".*"memory_bytes":[1-9]' "$work/run/metrics.jsonl" && pass || fail "no memory in metrics.jsonl"
    has "$work/run.prom" "bevatron_run_state{run=\"$work/run\",state=\"stopped\"} 1"
    has "$work/run.prom" "bevatron_iteration{run=\"$work/run\"} 3"
    set -- "$work"/run/wandb/wandb/offline-run-*/run-*.wandb
    [ $# = 1 ] && [ -s "$1" ] && grep -qa "lm loss" "$1" && pass || fail "no offline run for wandb: $*"
}

# A loss that is not finite ends the run: what happened, then how it ended, with the exit code.
not_finite() {
    heard expect 213 "Resume from the last checkpoint" "$BEVATRON" train "${model[@]}" --train-iters 6 --save "$work/run" \
        --allow-injected-faults --inject nan:step=1:phase=weights --on-event "$hook"
    events "$work/run" | cut -d'|' -f1,3 >"$work/written"
    printf 'nan|\nfailed|213\n' >"$work/expected"
    expect_same "$work/written" "$work/expected" "events of a run that is not finite"
    has "$work/run.events" "|213|the loss is "
    has "$work/run.events" "; first seen in the loss of rank 0 on $(uname -n). Resume"
}

# An error before the first iteration is told, too; wrong flags are not.
no_data() {
    heard expect 1 "no-such-data" "$BEVATRON" train "${model[@]:1}" --data-path "$work/no-such-data" --train-iters 6 \
        --save "$work/run" --on-event "$hook"
    has "$work/run.events" "failed|0|1|"
    events "$work/run" | grep -q "^failed|0|1|.*no-such-data" && pass || fail "metrics.jsonl does not say why: $(cat "$work/run/metrics.jsonl")"
    expect 2 "unknown flag" "$BEVATRON" train "${model[@]}" --train-iters 6 --save "$work/other" --on-event "$hook" --no-such-flag
    [ ! -e "$work/other.events" ] && pass || fail "wrong flags are an event"
}

# Targets that cannot be written are named, and the run is the one without them.
broken() {
    local good=("${model[@]}" --train-iters 6 --log-interval 1)
    expect 0 "iteration        6/" "$BEVATRON" train "${good[@]}"
    losses "$work/out" >"$work/good"
    : >"$work/file"
    expect 0 "iteration        6/" "$BEVATRON" train "${good[@]}" --metrics-file /dev/full --tensorboard-dir "$work/file/x" \
        --prometheus-textfile /dev/full --prometheus-port 1 --prometheus-host 192.0.2.1 --wandb-project p --wandb-exp-name n \
        --wandb-save-dir "$work/file/y" --on-event 'cat /no/such/file; exit 3'
    losses "$work/out" >"$work/broken"
    expect_same "$work/good" "$work/broken" "a run with broken targets"
    for text in "cannot write metrics to /dev/full" "(--tensorboard-dir)" "(--prometheus-textfile)" "(--prometheus-port)" \
        "(--wandb-save-dir)" "--on-event: the command for \"started at iteration 0\" failed with exit code 3" \
        "--on-event: cat: /no/such/file"; do
        [ "$(grep -cF -- "$text" "$work/out")" -ge 1 ] && pass || fail "nothing says $text"
    done
    [ "$(grep -c "cannot write metrics" "$work/out")" = 1 ] && pass || fail "a full disk is said more than once"
    # A folder that cannot be written, a reader that went away, and a pipe that is not read.
    mkfifo "$work/fifo"
    expect 0 "iteration        6/" bash -c '"$@" | tee /dev/null' - "$BEVATRON" train "${good[@]}" --metrics-file "$work/fifo" \
        --tensorboard-dir /proc/x --prometheus-textfile /proc/x/y.prom --wandb-project p --wandb-exp-name n --wandb-save-dir /proc/x
    bash -c 'set -o pipefail; "$@" 2>"$0" | head -n 1 >/dev/null; exit ${PIPESTATUS[0]}' "$work/log" "$BEVATRON" train "${good[@]}" --metrics-file "$work/m.jsonl"
    code=$?
    [ "$code" = 0 ] && grep -q '"event":"finished"' "$work/m.jsonl" && pass || fail "a reader that went away ended the run ($code)"
    # A file of another program is not touched.
    echo "my notes" >"$work/notes"
    expect 1 "is not a file of metrics" "$BEVATRON" train "${good[@]}" --metrics-file "$work/notes"
    expect 1 "is not a file of --prometheus-textfile" "$BEVATRON" train "${good[@]}" --prometheus-textfile "$work/notes"
    expect 2 "--wandb-project needs --wandb-exp-name" "$BEVATRON" train "${good[@]}" --wandb-project p
    # Without --wandb-save-dir and --save the folder is below the current one.
    mkdir "$work/here"
    (cd "$work/here" && "$BEVATRON" train "${good[@]}" --wandb-project p --wandb-exp-name n >"$work/out" 2>&1) || fail "--wandb-project without --save"
    [ -n "$(find "$work/here" -name '*.wandb')" ] && pass || fail "no W&B folder: $(ls -R "$work/here")"
    expect 0 "iteration        6/" "$BEVATRON" train "${good[@]}" --wandb-project ""
}

# A run that is killed cannot say so; its supervisor does.
killed() {
    in_background "$work/out" "$BEVATRON" launch local --max-restarts 0 "${model[@]}" --train-iters 100000000 --save "$work/run" --on-event "$hook"
    local supervisor=$! child
    await_text "iteration        2/"
    child=$(ps -o pid= --ppid "$supervisor" | head -n 1)
    kill -9 $child
    end_of "$supervisor"
    [ "$code" = 137 ] && pass || fail "exit code $code after a kill"
    events "$work/run" >"$work/written"
    grep -qE '^failed\|[0-9]+\|137\|the run was ended by signal 9 \(Killed\); ' "$work/written" && pass || fail "events after a kill: $(cat "$work/written")"
    within 900 grep -q "^failed|.*|137|the run was ended by signal 9" "$work/run.events" && pass || fail "the hook was not told of a kill"
}

# The port answers while the run trains; a signal stops it.
scraped() {
    local port run answer=
    port=$(free_port)
    in_background "$work/out" "$BEVATRON" train "${model[@]}" --train-iters 100000000 --prometheus-port "$port" --metrics-file "$work/m.jsonl"
    run=$!
    await_text "iteration        2/"
    ask() {
        answer=$(exec 3<>"/dev/tcp/127.0.0.1/$port" && printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 && cat <&3) 2>/dev/null
        grep -q "^bevatron_tokens_per_second" <<<"$answer"
    }
    within 900 ask && pass || fail "no metrics on port $port: $answer"
    kill -TERM "$run"
    end_of "$run"
    [ "$code" = 143 ] && pass || fail "exit code $code after SIGTERM"
    events_of=$(sed -n 's/.*"event":"stopped","text":"\([^"]*\)","exit_code":\([0-9]*\).*/\1 \2/p' "$work/m.jsonl")
    [ "$events_of" = "stopped by SIGTERM 143" ] && pass || fail "the end of a run that was stopped: $events_of"
}

# nowhere TEXT FILE…: the text is in none of the files and folders.
nowhere() {
    local text=$1 found
    shift
    found=$(grep -rla -- "$text" "$@")
    [ -z "$found" ] && pass || fail "\"$text\" is in $found"
}

# A command may hold secrets: it is in nothing that the run writes. From a file it is not in the process list either.
secrets() {
    local train=("$BEVATRON" train "${model[@]}" --train-iters 4 --save "$work/run" --save-interval 2 --log-arguments
        --tensorboard-dir "$work/board" --wandb-project p --wandb-exp-name n --wandb-save-dir "$work/wandb"
        --prometheus-textfile "$work/run.prom")
    heard_of() { rm -rf "$work/board" "$work/wandb" && "${train[@]}" "$@" >"$work/out" 2>&1 || fail "a run with $1"; }
    heard heard_of --exit-interval 2 --on-event \
        ": -H 'Authorization: s3cret' https://hooks.slack.com/services/s3cret; $hook"
    has "$work/run.events" "saved|2||"
    has "$work/out" "on_event ........................................ [redacted]"
    has "$work/run/iter_0000002/config.json" '"on_event":"[redacted]"'
    nowhere s3cret "$work/run" "$work/board" "$work/wandb" "$work/run.prom" "$work/out"
    # A run that takes its flags from there has no command, says so, and resumes.
    expect 0 "note: --on-event held a secret" "$BEVATRON" train --config "$work/run/iter_0000002/config.json" --load "$work/run"
    grep -q "iteration        4/" "$work/out" && pass || fail "it does not resume"
    # The script tells what the process list has of it.
    printf '%s\n' "# s3cret" "tr '\\0' ' ' </proc/\$\$/cmdline >'$work/line'" >"$work/notify.sh"
    expect 0 "" "${train[@]}" --train-iters 6 --override-opt_param-scheduler --load "$work/run" --on-event "@$work/notify.sh"
    within 900 test -s "$work/line" && pass || fail "the script did not run"
    [ "$(cat "$work/line")" = "sh -- $work/notify.sh " ] && pass || fail "the process list has $(cat "$work/line")"
    nowhere s3cret "$work/run" "$work/board" "$work/out" "$work/line"
    expect 0 "cannot read the script $work/no.sh" "${train[@]}" --train-iters 6 --override-opt_param-scheduler --load "$work/run" \
        --on-event "@$work/no.sh"
    expect 1 "s3://[redacted]@bucket/run" "$BEVATRON" train "${model[@]}" --train-iters 4 --save "$work/run" \
        --load s3://KEY:s3cret@bucket/run --save-to s3://KEY:s3cret@bucket/run
    nowhere s3cret "$work/out"
}

for part in whole_run not_finite no_data broken killed scraped secrets; do
    beside "$part" "$part"
done
gather
finish
