#!/usr/bin/env bash
# The board's page in a real Chromium: see tests/board/page.py. `make test-board` installs what it needs and runs it.
# tier: all
# cost: 20
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
[ -n "${BEVATRON_TEST_BOARD-}" ] || { echo "skipped: make test-board runs it"; exit 77; }
grep -q "MICROHTTPD *yes" <<<"$("$BEVATRON" version)" || { echo "skipped: this build has no web board"; exit 77; }
command -v python3 >/dev/null || { echo "skipped: there is no python3"; exit 77; }
python3 -B tests/board/page.py "$BEVATRON" "$work" "$@"
code=$?
[ "$code" != 77 ] || exit 77
[ "$code" = 0 ] && pass || fail "the page in Chromium"
finish
