# For tests that drive the program as a user would: a temporary folder, expectations, a final count.
# Sourced; needs $BEVATRON, the program under test.
set -u
: "${BEVATRON:?the program under test}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# Open MPI does not start if another mpirun makes or removes the folder they share at the same moment: it stays.
mkdir -p -m 700 "${TMPDIR:-/tmp}/ompi.$(uname -n | cut -d. -f1).$(id -u)/kept"

# needs_parts NAME…: skips the test if the program was built without one of these parts (as named by `bevatron
# version`).
needs_parts() {
    local part
    for part in "$@"; do
        grep -qE "^ *$part +yes" <<<"$("$BEVATRON" version)" || { echo "skipped: this build has no $part"; exit 77; }
    done
}

pass() {
    passed=$((passed + 1))
}

# fail WHAT: prints what was expected and the end of the last output.
fail() {
    echo "FAIL $1"
    [ -f "$work/out" ] && tail -n 25 "$work/out" | cut -c1-400 | sed 's/^/     /'
    failed=$((failed + 1))
}

# expect CODE TEXT COMMAND…: the command must exit with CODE, and TEXT must be in its output (stdout and stderr).
expect() {
    local code=$1 text=$2 got
    shift 2
    "$@" >"$work/out" 2>&1 </dev/null
    got=$?
    if [ "$got" != "$code" ]; then
        fail "exit code $got instead of $code: $*"
    elif ! grep -qF -- "$text" "$work/out"; then
        fail "no \"$text\" in the output of: $*"
    else
        pass
    fi
}

# last_line FILE: its last line, without the warnings that mpirun's event library prints if a pipe closes before the
# library stops watching it.
last_line() { grep -av "^\[warn\] Epoll" "$1" | tail -n 1; }

# expect_same A B WHAT: two files must be equal, byte for byte.
expect_same() {
    if cmp -s "$1" "$2"; then pass; else fail "$3: $1 and $2 differ"; fi
}

# within SECONDS COMMAND…: repeats the command until it succeeds; fails after SECONDS. Be generous: the machine may be
# busy or pause for a while, and a test that passes never waits that long.
within() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.05
    done
}

# end_of PROCESS: waits for a process of this shell and sets $code to its exit code; kills it if it has not ended after
# 900 s.
has_gone() { ! kill -0 "$1" 2>/dev/null; }
end_of() {
    within 900 has_gone "$1" || kill -9 "$1"
    wait "$1"
    code=$?
}

# Whether the program is a build with AddressSanitizer: nothing can be preloaded, and address space cannot be limited.
is_sanitized() { grep -qa __asan_init "$BEVATRON"; }

# in_background LOG COMMAND…: starts a command with its output in LOG; its process is $!. The shell itself opens LOG: with
# COMMAND >LOG & it is the new process that empties it, some time later, and a wait may see the text of an earlier run.
in_background() {
    local log=$1
    shift
    { "$@" & } >"$log" 2>&1
}

# await_text TEXT [FILE]: waits until TEXT is in the file ($work/out by default).
await_text() {
    within 900 grep -qs -- "$1" "${2:-$work/out}" || fail "no \"$1\" in 900 s"
}

. "$(dirname "${BASH_SOURCE[0]}")/../free_port.sh"

# start_objects ROOT ARGUMENT…: starts the server of tests/net/object_server.h on a folder, until this shell ends or closes
# $hold; its address is then in $address.
start_objects() {
    local server
    server=$(dirname "$BEVATRON")/tests/object_server
    [ -x "$server" ] || { echo "FAIL $server is not built: ninja object_server"; exit 1; }
    exec {hold}> >(exec "$server" "$@" >"$1.port")
    within 900 grep -qs . "$1.port" || { echo "FAIL no server"; exit 1; }
    address=http://127.0.0.1:$(cat "$1.port")
}

# serve_objects ROOT ARGUMENT…: does so, and makes it the S3 of all commands.
serve_objects() {
    start_objects "$@"
    export AWS_ENDPOINT_URL=$address AWS_ACCESS_KEY_ID=AKIDTEST AWS_SECRET_ACCESS_KEY=very-secret
    export AWS_EC2_METADATA_DISABLED=true AWS_CONFIG_FILE=$work/none AWS_SHARED_CREDENTIALS_FILE=$work/none HOME=$work
    unset AWS_PROFILE AWS_SESSION_TOKEN AWS_REGION AWS_DEFAULT_REGION AWS_CA_BUNDLE
}

# beside NAME COMMAND…: runs a function of the test in the background, with its own folder as $work, so that cases that
# mostly wait do so at the same time. `gather` waits for all of them, shows their output and adds up.
beside_names=()
beside_processes=()
beside() {
    local name=$1
    shift
    mkdir "$work/$name"
    (
        work=$work/$name passed=0 failed=0
        "$@"
        echo "$passed $failed" >"$work/counts"
    ) >"$work/$name/said" 2>&1 &
    beside_processes+=($!)
    beside_names+=("$name")
}
gather() {
    local name counts
    wait "${beside_processes[@]}"
    for name in "${beside_names[@]}"; do
        cat "$work/$name/said"
        read -r -a counts 2>/dev/null <"$work/$name/counts" || counts=(0 1)
        passed=$((passed + counts[0]))
        failed=$((failed + counts[1]))
    done
    beside_names=()
    beside_processes=()
}

# losses LOG: iteration and loss of every log line.
losses() {
    sed -nE 's/.*iteration +([0-9]+)\/.*lm loss: ([^ ]+) .*/\1 \2/p' "$1"
}

finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
    exit
}
