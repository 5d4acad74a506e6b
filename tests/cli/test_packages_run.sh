#!/usr/bin/env bash
# tests/packages/run.sh does not pass vacuously: some package must have been tried, and in every named root.
# debootstrap, chroot, mount and dpkg are stand-ins.
. tests/cli/common.sh || exit
mkdir "$work/bin" "$work/packages"
stand_in() { printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1" && chmod +x "$work/bin/$1"; }
stand_in dpkg 'echo arm64'
# shellcheck disable=SC2016  # for the stand-in
stand_in debootstrap 'for word; do case $word in */roots/*) mkdir -p "$word"/tmp "$word"/etc "$word"/root "$word"/opt "$word"/proc "$word"/dev ;; esac; done'
stand_in chroot "cat \"\$1\"/tmp/package.deb \"\$1\"/tmp/mod*.deb \"\$1\"/tmp/archive.tar.gz 2>/dev/null >>$work/tried; exit 0"
stand_in mount "exit 0"
stand_in umount "exit 0"
run=(env "PATH=$work/bin:$PATH" "ROOTS=$work/roots" bash tests/packages/run.sh "$work/packages")

expect 1 "no package was tried" "${run[@]}"
grep -q "debian12: skipped: there is no package" "$work/out" && pass || fail "not said what was skipped"
touch "$work/packages/bevatron_1.0_arm64.deb"
expect 1 "no package was tried" "${run[@]}"
rm "$work/packages/"*
for kind in bevatron bevatron-cuda; do
    echo "deb $kind" >"$work/packages/${kind}_1.0_arm64.deb"
    echo "archive $kind" >"$work/packages/$kind-1.0-linux-aarch64.tar.gz"
done
expect 0 "ubuntu24.04: skipped" "${run[@]}"
: >"$work/tried"
expect 0 "debian12: bevatron-cuda_1.0_arm64.deb passed" "${run[@]}" debian12
printf '%s\n' "deb bevatron" "archive bevatron" "deb bevatron" "deb bevatron-cuda" "archive bevatron-cuda" >"$work/want"
expect_same "$work/want" "$work/tried" "each package with its archive"
expect 1 "FAILED: ubuntu24.04" "${run[@]}" debian12 ubuntu24.04
expect 1 "debian99: FAILED: not one of debian11 debian12" "${run[@]}" debian12 debian99
rm "$work/packages/bevatron-1"*
expect 0 "bevatron-cuda_1.0_arm64.deb passed" "${run[@]}" debian12
stand_in chroot "exit 3"
expect 1 "FAILED: debian12" "${run[@]}" debian12
finish
