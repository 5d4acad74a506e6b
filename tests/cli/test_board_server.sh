#!/usr/bin/env bash
# bevatron board's web page as a user meets it: its address, token, news and end. What the server does with bad requests and
# many clients is in tests/report/test_web.c and test_web_server.c.
# tier: all
# cost: 3
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
export XDG_CACHE_HOME=$work/cache
board=("$BEVATRON" board --logdir "$work/runs")
says() { if grep -qF -- "$1" "$work/out"; then pass; else fail "no \"$1\""; fi; }

# A run, and one whose name and texts attack pages.
expect 0 "" "$BEVATRON" train --mock-data --num-layers 1 --hidden-size 16 \
    --num-attention-heads 2 --seq-length 8 --vocab-size 64 --micro-batch-size 1 --train-iters 40 --log-interval 100 --lr 1e-3 \
    --eval-iters 0 --threads 1 --metrics-file "$work/runs/short/metrics.jsonl"
evil='<img src=x onerror=alert(1)>'
mkdir -p "$work/runs/$evil"
text='</script><script src=//evil.example/x.js></script><!--<script>'
cat >"$work/runs/$evil/metrics.jsonl" <<END
{"kind":"run","time":1767323045,"iteration":0,"job":"17","job_log":"/logs/$text.log","config":{"$text":"$text"}}
{"kind":"train","time":1767323046,"iteration":1,"train_iters":9,"losses":{"lm loss":5.5,"$evil loss":1},"tokens_per_second":10}
{"kind":"train","time":1767323047,"iteration":2,"train_iters":9,"losses":{"lm loss":4.5,"$evil loss":2},"tokens_per_second":10}
{"kind":"event","time":1767323048,"iteration":2,"event":"failed","text":"$text\u001b[2J"}
{"kind":"sample","time":1767323048,"iteration":2,"prompt":"$text","text":"$text"}
END

if ! grep -qE "^ *MICROHTTPD +yes" <<<"$("$BEVATRON" version)"; then
    expect 1 "this build has no web server; use board --text or board --export" "${board[@]}"
    finish
fi
if ! grep -qE "^  microhttpd +[0-9]" <<<"$("$BEVATRON" version)"; then
    expect 1 "cannot load microhttpd" "${board[@]}"
    finish
fi

# serve FLAG…: starts a board; its process is $server, its port $port, what it says in $work/said.
serve() {
    # Shells start what is in the background so that it ignores SIGINT.
    in_background "$work/said" env --default-signal=INT "${board[@]}" "$@"
    server=$!
    await_text "stop with Ctrl-C" "$work/said"
    port=$(sed -nE 's#^board: http://[^/]*:([0-9]+)/.*#\1#p' "$work/said")
}
# ask TARGET [HEADER…]: the answer is in $work/out, without carriage returns.
ask() {
    local target=$1 header
    shift
    [ $# -gt 0 ] || set -- "Host: localhost:$port"
    exec 3<>"/dev/tcp/127.0.0.1/$port" || { fail "no connection to port $port"; return; }
    { printf 'GET %s HTTP/1.1\r\nConnection: close\r\n' "$target"; printf '%s\r\n' "$@" ""; } >&3
    tr -d '\r' <&3 >"$work/out"
    exec 3<&- 3>&-
}
# expect_answer STATUS TEXT TARGET [HEADER…]
expect_answer() {
    local status=$1 text=$2
    shift 2
    ask "$@"
    if ! head -n 1 "$work/out" | grep -q "^HTTP/1.1 $status "; then
        fail "$1: not $status"
    elif ! grep -qF -- "$text" "$work/out"; then
        fail "$1: no \"$text\""
    else
        pass
    fi
}
stop() {
    kill "-$1" "$server"
    end_of "$server"
    cp "$work/said" "$work/out"
    [ "$code" = 0 ] && pass || fail "exit code $code after SIG$1"
    says "board: stopped"
}

serve --port 0
cp "$work/said" "$work/out"
says "board: http://127.0.0.1:$port/"
says "ssh -L $port:127.0.0.1:$port $(id -un)@$(uname -n)"
expect_answer 200 '<!doctype html>' /
expect_answer 200 'Content-Type: text/javascript; charset=utf-8' /board.js
is_scanned() { ask /api/runs && grep -qF '"iteration":40,"train_iters":40' "$work/out"; }
within 900 is_scanned && pass || fail "a board that does not find a run"
id=$(grep -o '"id":"[0-9a-f]*","name":"short"' "$work/out" | cut -d'"' -f4)
expect_answer 200 '"points":[[1,' "/api/curves?id=$id&tag=lm+loss&x=step"
# HTML in texts is JSON that no browser takes for HTML.
expect_answer 200 'X-Content-Type-Options: nosniff' /api/runs
says "$evil"
# Nothing outside the routes is served, not even a log that is not one.
expect_answer 404 'error' "/../../../../../../../../etc/passwd"
expect_answer 404 'error' "/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd"
expect_answer 404 'error' "/api/log?id=../../../../etc/passwd"
expect_answer 403 'Host header' / "Host: evil.example"
expect_answer 400 'percent-encoded' '/?a=%'
# News come to those who wait.
# The scan of the folders counts as news too, so the first answer may come before the line.
revision=0
echo '{"kind":"train","time":1767323050,"iteration":3,"train_iters":9,"losses":{"lm loss":3.25}}' >>"$work/runs/$evil/metrics.jsonl"
has_news() {
    ask "/api/runs?after=$revision"
    revision=$(grep -o '"revision":[0-9]*' "$work/out" | cut -d: -f2)
    grep -qF '"loss":3.25' "$work/out"
}
within 900 has_news && pass || fail "a board that does not see a new line"
# A second board takes the next port if it may choose, and says why not if it may not.
expect 1 "port $port of 127.0.0.1 is in use" "${board[@]}" --port "$port"
stop TERM

# A token: made, or given. Without it nothing is shown, whatever the Host header says.
serve --port 0 --token auto
token=$(sed -nE 's#^board: http://.*/\?token=([0-9a-f]{32})$#\1#p' "$work/said")
[ -n "$token" ] && pass || fail "no token: $(cat "$work/said")"
expect_answer 401 'This board needs its token' /
expect_answer 401 'error' /api/runs
expect_answer 401 'error' "/api/runs?token=${token%?}"
expect_answer 200 '"runs"' "/api/runs?token=$token"
expect_answer 303 'HttpOnly; SameSite=Strict' "/?token=$token"
cookie=$(sed -nE 's/^Set-Cookie: ([^;]*);.*/\1/p' "$work/out")
expect_answer 200 '<!doctype html>' / "Host: login.example" "Cookie: $cookie"
expect_answer 200 '"runs"' /api/runs "Host: login.example" "Authorization: Bearer $token"
stop INT
serve --port 0 --host 0.0.0.0
grep -q "token=" "$work/said" && grep -q "not encrypted" "$work/said" && pass || fail "a board for a network without a token"
expect_answer 401 'error' /api/runs
stop TERM
expect 2 "--token has 5 characters" "${board[@]}" --token short
expect 2 "no spaces" "${board[@]}" --token "two words"
expect 1 "is not an address of this machine" "${board[@]}" --host 192.0.2.1
finish
