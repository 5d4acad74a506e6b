#!/usr/bin/env bash
# tier: all
# label: slow
# cost: 10
# What `make install` and the packages install works from any folder: the program, manual pages, completion, documents,
# examples. Two packages of the same build are equal; the bill of materials names every library. Packages in fresh
# systems: tests/packages.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
build=$(cd "$(dirname "$BEVATRON")" && pwd)
if [ ! -f "$build/CPackConfig.cmake" ]; then
    echo "skipped: $build makes no packages"
    exit 77
fi
source=$PWD

cmake --build "$build" --target help_pages >"$work/out" 2>&1 || fail "help_pages"

# has PREFIX PATH…: the files exist and are not empty.
has() {
    local prefix=$1 path
    shift
    for path in "$@"; do
        if [ -s "$prefix/$path" ]; then pass; else fail "no $path in $prefix"; fi
    done
}
everything="bin/bevatron share/man/man1/bevatron.1.gz share/man/man1/bevatron-train.1.gz share/man/man1/bevatron-dataset-merge.1.gz
    share/bash-completion/completions/bevatron share/zsh/site-functions/_bevatron share/zsh/vendor-completions/_bevatron
    share/fish/vendor_completions.d/bevatron.fish share/doc/bevatron/README.md share/doc/bevatron/copyright
    share/doc/bevatron/docs/install.md share/doc/bevatron/docs/flags.md share/doc/bevatron/examples/aws/README.md
    share/bevatron/examples/aws/README.md"

DESTDIR=$work/root expect 0 "bin/bevatron" cmake --install "$build" --prefix /usr --strip
# shellcheck disable=SC2086  # words
has "$work/root/usr" $everything
# Every command has its page.
"$BEVATRON" help commands | while read -r command; do
    [ -s "$work/root/usr/share/man/man1/bevatron-${command// /-}.1.gz" ] || echo "$command"
done >"$work/out"
if [ -s "$work/out" ]; then fail "commands without a page"; else pass; fi
if [ -n "$(command -v man)" ]; then
    expect 0 "bevatron-train.1" man -M "$work/root/usr/share/man" -w bevatron-train
fi

# train_with PROGRAM: two steps, from an empty folder.
train_with() {
    mkdir -p "$work/home"
    (cd "$work/home" && "$1" train --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --micro-batch-size 1 --train-iters 2 --lr 1e-3 \
        --mock-data --tokenizer-type NullTokenizer --vocab-size 100 --device cpu --threads 1 --log-interval 1)
}

# A prefix may be moved, even to a name with spaces.
cmake --install "$build" --prefix "$work/first" >"$work/out" 2>&1
mv "$work/first" "$work/moved to here"
expect 0 "examples $work/moved to here/share/bevatron/examples" "$work/moved to here/bin/bevatron" help files
expect 0 "docs $work/moved to here/share/doc/bevatron/docs" "$work/moved to here/bin/bevatron" help files
expect 0 "iteration        2/" train_with "$work/moved to here/bin/bevatron"
cp "$work/moved to here/bin/bevatron" "$work/alone"
expect 1 "unpack the whole package" "$work/alone" help files

# The archive: the same files, owned by root, not writable by others; equal if made twice.
export SOURCE_DATE_EPOCH=1700000000
for time in 1 2; do
    (cd "$build" && umask 022 && cpack -G TGZ -B "$work/packages$time") >"$work/out" 2>&1 || fail "cpack -G TGZ"
done
archive=$(basename "$work"/packages1/bevatron-*.tar.gz)
expect_same "$work/packages1/$archive" "$work/packages2/$archive" "two archives of one build"
mkdir "$work/anywhere"
tar -xzf "$work/packages1/$archive" -C "$work/anywhere"
mv "$work"/anywhere/bevatron-* "$work/anywhere/bevatron"
# shellcheck disable=SC2086
has "$work/anywhere/bevatron" $everything
find "$work/anywhere/bevatron" -mindepth 1 ! -type l \( -perm -o+w -o -newermt 2024-01-01 \) >"$work/out"
if [ -s "$work/out" ]; then fail "files of the archive that others may write, or of another date"; else pass; fi
expect 0 "iteration        2/" train_with "$work/anywhere/bevatron/bin/bevatron"

if [ -n "$(command -v dpkg-deb)" ] && [ -n "$(command -v dpkg-shlibdeps)" ] && [ -n "$(command -v file)" ]; then
    (cd "$build" && umask 022 && cpack -G DEB -B "$work/deb") >"$work/out" 2>&1 || fail "cpack -G DEB"
    deb=$(echo "$work"/deb/*.deb)
    expect 0 "libc6" dpkg-deb -f "$deb" Depends
    expect 0 "Recommends" dpkg-deb -f "$deb"
    expect 0 "./usr/share/man/man1/bevatron-train.1.gz" dpkg-deb -c "$deb"
    mkdir "$work/unpacked"
    dpkg-deb -x "$deb" "$work/unpacked"
    # shellcheck disable=SC2086
    has "$work/unpacked/usr" $everything
else
    echo "skipped: dpkg-deb, dpkg-shlibdeps or file is not installed; no .deb was made"
fi

# The bill of materials is JSON with every library that the program needs. CMake reads it.
expect 0 "SPDX-2.3" tools/make_sbom "$build" 1.2.3
cp "$work/out" "$work/sbom.json"
cat >"$work/read.cmake" <<'READ'
file(READ ${FILE} text)
string(JSON count LENGTH "${text}" packages)
math(EXPR last "${count} - 1")
foreach(i RANGE ${last})
  string(JSON name GET "${text}" packages ${i} name)
  string(JSON comment ERROR_VARIABLE none GET "${text}" packages ${i} comment)
  message("${name}: ${comment}")
endforeach()
READ
expect 0 "bevatron" cmake "-DFILE=$work/sbom.json" -P "$work/read.cmake"
readelf -d "$BEVATRON" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | while read -r library; do
    grep -qF "$library (shared)" "$work/out" || echo "the bill of materials lacks $library"
done >"$work/lacking"
cp "$work/lacking" "$work/out"
if [ -s "$work/lacking" ]; then fail "libraries are missing in the bill of materials"; else pass; fi

# dpkg is asked about all libraries at once: each question takes a second or more where many packages are installed.
if [ -n "$(command -v dpkg-query)" ]; then
    mkdir -p "$work/bin"
    printf '#!/bin/sh\necho "$1" >>"%s"\nexec "%s" "$@"\n' "$work/asked" "$(command -v dpkg-query)" >"$work/bin/dpkg-query"
    chmod +x "$work/bin/dpkg-query"
    PATH=$work/bin:$PATH expect 0 "shared libc.so.6 libc6 " tools/list_linked packages "$build"
    grep -vE '^(static [^ ()]+\.a|shared [^ ]+) ' "$work/out" && fail "no library" || pass
    [ "$(wc -l <"$work/asked")" -le 4 ] && pass || fail "dpkg-query was asked $(wc -l <"$work/asked") times"
fi

# Tools that need a network are tested only without one.
expect 2 "usage" tools/make_sysroot
expect 2 "expected amd64 or arm64" tools/make_sysroot "$work/sysroot" m68k
expect 1 "needs a C library newer than 2.1" tools/check_glibc "$BEVATRON" 2.1
if tools/check_glibc "$BEVATRON" 2.99 >"$work/out" 2>&1; then pass; else fail "check_glibc with a newer limit"; fi
expect 1 "not a git checkout" bash -c "cd '$work' && GIT_CEILING_DIRECTORIES='$work' '$source/tools/make_dist' dist"

finish
