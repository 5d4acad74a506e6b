# For the tests that drive the program as a user would: a folder of their own, expectations, a closing count.
# Sourced; needs $BEVATRON, the program under test.
set -u
: "${BEVATRON:?the program under test}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

pass() {
    passed=$((passed + 1))
}

# fail WHAT: says what was expected, shows the end of the last output.
fail() {
    echo "FAIL $1"
    [ -f "$work/out" ] && tail -n 12 "$work/out" | cut -c1-400 | sed 's/^/     /'
    failed=$((failed + 1))
}

# expect CODE TEXT COMMAND…: the command must end with the exit code and TEXT must stand in its output (stdout and stderr).
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

# expect_same A B WHAT: two files must be equal, byte for byte.
expect_same() {
    if cmp -s "$1" "$2"; then pass; else fail "$3: $1 and $2 differ"; fi
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
