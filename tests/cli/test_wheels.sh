#!/usr/bin/env bash
# tools/make_wheels makes wheels that pip takes: names and tags, a record of every file with its digest, what is needed,
# equal bytes. Real ones are installed by tests/packages.
# label: slow
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
command -v python3 >/dev/null || { echo "skipped: there is no python3" && exit 77; }
command -v readelf >/dev/null || { echo "skipped: there is no readelf" && exit 77; }
machine=$(uname -m)
glibc=$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)
tag=py3-none-manylinux_${glibc/./_}_$machine
packages=$work/packages
mkdir "$packages"

# A stand-in for the program that says where it is, and one for the module that tells which libraries it loads.
cat >"$work/program.c" <<'C'
#include <stdio.h>
int main(int count, char **words) { return printf("%s of %d words\n", words[count - 1], count) < 0; }
C
cat >"$work/module.c" <<'C'
#include <stdio.h>
int bevatron_cuda_module(void);
int bevatron_cuda_module(void) {
    return puts("or pip install 'nvidia-cublas==13.*'") + puts("or pip install 'nvidia-cudnn-cu13==9.*'") + puts("or pip install 'nvidia-nccl-cu13==2.*'");
}
C
# archive KIND: packs $work/KIND-1.2.3-linux-MACHINE as make_packages does.
archive() { tar -czf "$packages/$1-1.2.3-linux-$machine.tar.gz" -C "$work" "$1-1.2.3-linux-$machine"; }
plain=$work/bevatron-1.2.3-linux-$machine
both=$work/bevatron-cuda-1.2.3-linux-$machine
mkdir -p "$plain"/bin "$plain"/share/{man/man1,doc/bevatron/docs,bevatron/examples,zsh/site-functions,zsh/vendor-completions}
cc -o "$plain/bin/bevatron" "$work/program.c"
echo page >"$plain/share/man/man1/bevatron-train.1.gz"
echo complete >"$plain/share/zsh/site-functions/_bevatron"
ln -s ../site-functions/_bevatron "$plain/share/zsh/vendor-completions/_bevatron"
echo "echo hello" >"$plain/share/bevatron/examples/a, b.sh"
chmod +x "$plain/share/bevatron/examples/a, b.sh"
ln -s ../../bevatron/examples "$plain/share/doc/bevatron/examples"
cp -r "$plain" "$both"
mkdir -p "$both/lib/bevatron"
cc -shared -fPIC -o "$both/lib/bevatron/bevatron_cuda.so" "$work/module.c"
archive bevatron
archive bevatron-cuda
wheel=$packages/bevatron-1.2.3-$tag.whl
module=$packages/bevatron_cuda-1.2.3-$tag.whl
expect 0 "$wheel" tools/make_wheels "$packages" "$glibc"
grep -qx "$module" "$work/out" && pass || fail "the module's wheel is not named"
cp "$packages"/*.whl "$work"
expect 0 "$wheel" tools/make_wheels "$packages" "$glibc"
expect_same "$work/$(basename "$wheel")" "$wheel" "two wheels of one archive"
expect_same "$work/$(basename "$module")" "$module" "two wheels of one module"

# unpacked WHEEL NAME: every file in it is recorded with its size and digest, and no other.
unpacked() {
    mkdir "$work/$2"
    python3 -m zipfile -e "$1" "$work/$2"
    record=$work/$2/$2-1.2.3.dist-info/RECORD
    (cd "$work/$2" && find . -type f ! -name RECORD | LC_ALL=C sort | while read -r path; do
        path=${path#./}
        [ "$path" = "${path/,/}" ] || path="\"$path\""
        file=${path//\"/}
        digest=$(sha256sum <"$file" | cut -d' ' -f1 | tr a-f A-F | basenc -d --base16 | basenc --base64url | tr -d =)
        echo "$path,sha256=$digest,$(wc -c <"$file")"
    done; echo "$2-1.2.3.dist-info/RECORD,,") | LC_ALL=C sort >"$work/want"
    LC_ALL=C sort "$record" >"$work/got"
    expect_same "$work/want" "$work/got" "the record of $2"
}
unpacked "$wheel" bevatron
data=$work/bevatron/bevatron-1.2.3.data
expect_same "$plain/bin/bevatron" "$data/scripts/bevatron" "the program in the wheel"
for path in man/man1/bevatron-train.1.gz zsh/site-functions/_bevatron zsh/vendor-completions/_bevatron doc/bevatron/examples/"a, b.sh" \
    bevatron/examples/"a, b.sh"; do
    expect_same "$plain/share/$path" "$data/data/share/$path" "$path in the wheel"
done
find "$work/bevatron" -name '*.py' | sed "s#^$work/##" >"$work/out"
[ "$(cat "$work/out")" = bevatron/bevatron/__main__.py ] && pass || fail "Python in the wheel"
unpacked "$module" bevatron_cuda
expect_same "$both/lib/bevatron/bevatron_cuda.so" "$work/bevatron_cuda/bevatron_cuda/bevatron_cuda.so" "the module in its wheel"
[ "$(find "$work/bevatron_cuda" -type f | wc -l)" = 4 ] && pass || fail "other files beside the module"

# lines FILE LINE…: the file has these lines.
lines() {
    local file=$1 line
    shift
    for line in "$@"; do grep -qxF -- "$line" "$file" && pass || fail "no \"$line\" in $file"; done
}
lines "$work/bevatron/bevatron-1.2.3.dist-info/METADATA" "Name: bevatron" "Version: 1.2.3" "Provides-Extra: cuda" \
    'Requires-Dist: bevatron-cuda==1.2.3; extra == "cuda"'
lines "$work/bevatron/bevatron-1.2.3.dist-info/WHEEL" "Tag: $tag"
lines "$work/bevatron_cuda/bevatron_cuda-1.2.3.dist-info/METADATA" "Name: bevatron-cuda" "Requires-Dist: bevatron==1.2.3" \
    "Requires-Dist: nvidia-cublas==13.*" "Requires-Dist: nvidia-cudnn-cu13==9.*" "Requires-Dist: nvidia-nccl-cu13==2.*"

# pip agrees, and the program starts, also by Python's name of it.
if python3 -m pip --version >/dev/null 2>&1; then
    expect 0 "" python3 -m pip install -q --no-index --no-deps --no-cache-dir --disable-pip-version-check \
        --target "$work/target" "$wheel" "$module"
    expect 0 "word of 2 words" "$work/target/bin/bevatron" word
    expect 0 "last of 3 words" env PYTHONPATH="$work/target" python3 -m bevatron first last
    [ -x "$work/target/share/bevatron/examples/a, b.sh" ] && pass || fail "an example cannot be started"
    [ -f "$work/target/bevatron_cuda/bevatron_cuda.so" ] && pass || fail "the module is not beside bin"
else
    echo "skipped: there is no pip"
fi
# Without its program the entry says so.
expect 1 "install the wheel again" env PYTHONPATH="$work/bevatron" PATH=/usr/bin:/bin python3 -S -m bevatron

# What does not run everywhere, or is no archive, makes no wheel.
expect 2 "usage" tools/make_wheels
expect 1 "has no bevatron-VERSION-linux-MACHINE.tar.gz; \`make package PORTABLE=yes\`" tools/make_wheels "$work"
expect 1 "needs a C library newer than 2.1" tools/make_wheels "$packages" 2.1
rm "$packages"/*
sed -i 's/13/12/g' "$work/module.c"
cc -shared -fPIC -o "$both/lib/bevatron/bevatron_cuda.so" "$work/module.c"
archive bevatron-cuda
expect 1 "is not built with CUDA 13 or newer" tools/make_wheels "$packages" "$glibc"
printf 'int other(void);\nint other(void) { return 0; }\n' | cc -shared -fPIC -Wl,-soname,libother.so.1 -o "$work/libother.so.1" -x c -
printf 'int other(void);\nint main(void) { return other(); }\n' >"$work/program.c"
cc -o "$plain/bin/bevatron" "$work/program.c" "$work/libother.so.1"
archive bevatron
expect 1 "bevatron needs libother.so.1, which wheels must not; make it with \`make package PORTABLE=yes\`" \
    tools/make_wheels "$packages" "$glibc"
ls "$packages" >"$work/out"
grep -q whl "$work/out" && fail "a wheel was made of what does not fit" || pass
finish
