#!/usr/bin/env bash
# bevatron board as a user meets it: --text and --export; the web page: test_board_server.sh.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh
export XDG_CACHE_HOME=$work/cache
board=("$BEVATRON" board --logdir "$work/runs")
says() { if grep -qF -- "$1" "$work/out"; then pass; else fail "no \"$1\""; fi; }

# A run that is shorter than its log interval, and one whose name and texts attack terminals and pages.
expect 0 "to watch this run: bevatron board --logdir $work/runs/short" "$BEVATRON" train --mock-data --num-layers 1 --hidden-size 16 \
    --num-attention-heads 2 --seq-length 8 --vocab-size 64 --micro-batch-size 1 --train-iters 40 --log-interval 100 --lr 1e-3 \
    --eval-iters 0 --threads 1 --metrics-file "$work/runs/short/metrics.jsonl"
grep -qE '"cpu_cores":[0-9.]+,"data_wait_ms":[0-9.]+' "$work/runs/short/metrics.jsonl" && pass || fail "no metrics of the system"
evil='<img src=x onerror=alert(1)>'
mkdir -p "$work/runs/$evil" "$work/runs/"$'escape\033[2J' "$work/runs/"$'turned\u202eround'
text='</script><script src=//evil.example/x.js></script><!--<script>'
cat >"$work/runs/$evil/metrics.jsonl" <<END
{"kind":"run","time":1767323045,"iteration":0,"job":"17","job_log":"/logs/$text.log","config":{"$text":"$text"}}
{"kind":"train","time":1767323046,"iteration":1,"train_iters":9,"losses":{"lm loss":5.5,"$evil loss":1},"tokens_per_second":10}
{"kind":"train","time":1767323047,"iteration":2,"train_iters":9,"losses":{"lm loss":4.5,"$evil loss":2},"tokens_per_second":10}
{"kind":"event","time":1767323048,"iteration":2,"event":"failed","text":"$text\u001b[2J\u202egnp.exe"}
{"kind":"sample","time":1767323048,"iteration":2,"prompt":"$text","text":"$text"}
END
cp "$work/runs/$evil/metrics.jsonl" "$work/runs/"$'escape\033[2J/'
cp "$work/runs/$evil/metrics.jsonl" "$work/runs/"$'turned\u202eround/'

# --text
expect 0 "iteration 40 of 40, loss" "${board[@]}" --text
says "iteration 2 of 9, loss 4.5000, 10 tokens/s"
says "Slurm job 17; log /logs/"
says "lm loss"
LC_ALL=C grep -q $'[\x01-\x09\x0b-\x1f\x7f]' "$work/out" && fail "control characters on the terminal" || pass
LC_ALL=C grep -q $'\xe2\x80\xae' "$work/out" && fail "text on the terminal is turned round" || pass
expect 2 "--logdir" "$BEVATRON" board --text
# A folder that is a run is shown as it was given, and with what the user wrote beside the run.
expect 0 "$work/runs/short" "$BEVATRON" board --text --logdir "$work/runs/short"
grep -qx "$work/runs/short" "$work/out" && pass || fail "the path of a run: $(head -n 1 "$work/out")"
printf 'Baseline\nToo short\033[2J.\nTry 400.\n' >"$work/runs/short/note.txt"
expect 0 "$work/runs/short: Baseline" "${board[@]}" --text
says "  Too short [2J."
says "  Try 400."
expect 1 "nowhere" "$BEVATRON" board --text --logdir "$work/nowhere"
mkdir "$work/empty"
expect 1 "found no metrics.jsonl or TensorBoard event file in $work/empty" "$BEVATRON" board --text --logdir "$work/empty"

# --export: one file that loads nothing, and whose data cannot become markup.
report=$work/report.html
expect 0 "wrote $report" "${board[@]}" --export "$report"
grep -qF "Content-Security-Policy\" content=\"default-src 'none'; script-src 'nonce-" "$report" && pass || fail "the report may load things"
grep -qiE '<(link|script|img|iframe|object|embed|base)[^>]* (src|href)="?(https?:)?//' "$report" && fail "the report names another address" || pass
grep -qF 'rel="stylesheet"' "$report" && fail "the report has no style of its own" || pass
grep -qF '<script src=' "$report" && fail "the report has no script of its own" || pass
# Two scripts begin and two end, whatever the runs say.
[ "$(grep -o '<script' "$report" | wc -l)" = 2 ] && [ "$(grep -o '</script' "$report" | wc -l)" = 2 ] && pass ||
    fail "data of a run became markup"
[ "$(grep -o '<img' "$report" | wc -l)" = 0 ] && grep -qF '\u003cimg src=x' "$report" && pass || fail "a run's name became markup"
sed -nE 's/^<script type="application\/json" id="data">(.*)<\/script>$/\1/p' "$report" >"$work/data.json"
[ "$(wc -l <"$work/data.json")" = 1 ] && grep -q '^{"runs":{.*"run":{.*"log":{.*"curves":\[.*}$' "$work/data.json" && pass || fail "the report's data"
# Whole or not at all: what is not such a page is kept, and a report replaces a report.
echo "a thesis" >"$work/thesis"
expect 1 "$work/thesis exists and is not an HTML page" "${board[@]}" --export "$work/thesis"
expect 0 "wrote $report" "${board[@]}" --export "$report"
expect 1 "$work/none/report.html" "${board[@]}" --export "$work/none/report.html"
[ -z "$(find "$work" -maxdepth 1 -name '*.tmp.*')" ] && pass || fail "left: $(ls "$work")"
finish
