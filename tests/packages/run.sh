#!/usr/bin/env bash
# Installs the packages of a folder in fresh roots of Debian and Ubuntu (debootstrap), as a new user would, and tests
# them: a short training, a checkpoint that generates text, man, completion with a real Tab key, examples. The archive
# is unpacked into a folder with a space in its name, and wheels are installed into a virtual environment. Needs root, a
# network, debootstrap, and for a root of another architecture qemu-user-static. Run by `make test-packages` only.
# usage: tests/packages/run.sh PACKAGES [ROOT…]    (default: all of the table below for which there is a package)
# Both kinds are tried: bevatron, and bevatron with bevatron-cuda, its module for GPUs, and the archive of both. Fails if none
# was, or not in every root that is named. The wheel of the module is installed alone, unless the folder also has NVIDIA's
# wheels of its libraries (pip download): then they must be found.
# ROOTS=folder keeps the roots there; existing ones are reused. Packages of Debian come from where this machine gets its
# own (or DEBIAN_MIRROR), those of Ubuntu from archive.ubuntu.com (or UBUNTU_MIRROR).
set -u
packages=$(cd "${1:?folder of packages}" && pwd) || exit 1
shift
roots=${ROOTS:-}
if [ -z "$roots" ]; then
    roots=$(mktemp -d)
    trap 'rm -rf --one-file-system "$roots"' EXIT
fi
mkdir -p "$roots"
debian=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | head -n 1)}
ubuntu=${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}
wget -q --spider -T 20 -t 2 "$ubuntu/dists/noble/Release" || ubuntu=none
own=$(dpkg --print-architecture)
failed=
passed=0

# The roots: name, architecture, suite, mirror. Ubuntu has separate mirrors for other architectures than amd64. Those of
# the other architecture are tried only if they are named.
other=$([ "$own" = amd64 ] && echo arm64 || echo amd64)
table="debian11 $own bullseye $debian
debian12 $own bookworm $debian
debian13 $own trixie $debian
debian11-$other $other bullseye $debian
debian12-$other $other bookworm $debian
ubuntu24.04 amd64 noble $ubuntu"
say() { echo "test-packages: $*"; }

if [ $# -gt 0 ]; then
    wanted=" $* "
    for name in "$@"; do
        if ! grep -q "^$name " <<<"$table"; then
            say "$name: FAILED: not one of $(cut -d' ' -f1 <<<"$table" | tr '\n' ' ')"
            failed="$failed $name"
        fi
    done
else
    wanted=" $(cut -d' ' -f1 <<<"$table" | grep -v -- "-$other\$" | tr '\n' ' ')"
fi

# skip NAME WHY: a root that was named must not be skipped.
is_named=$#
skip() {
    say "$1: skipped: $2"
    [ "$is_named" = 0 ] || failed="$failed $1"
}

# Programs of another architecture need an interpreter registered with the kernel; what is registered here is removed
# again.
emulate() {
    local at=/proc/sys/fs/binfmt_misc qemu=qemu-x86_64 number='\x3e'
    [ "$1" != "$own" ] || return 0
    [ "$1" = amd64 ] || { qemu=qemu-aarch64 number='\xb7'; }
    [ -n "$(command -v $qemu-static)" ] || return 1
    [ -e $at/register ] || mount -t binfmt_misc binfmt_misc $at 2>/dev/null || return 1
    [ ! -e $at/$qemu ] || return 0
    # ELF, 64 bit, little-endian, program or shared object, of that machine.
    printf '%s' ":$qemu:M::\\x7fELF\\x02\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00$number\\x00:\\xff\\xff\\xff\\xff\\xff\\xfe\\xfe\\x00\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xfe\\xff\\xff\\xff:/usr/bin/$qemu-static:F" \
        >$at/register 2>/dev/null
    trap 'echo -1 >/proc/sys/fs/binfmt_misc/'$qemu'; [ -n "${ROOTS:-}" ] || rm -rf --one-file-system "$roots"' EXIT
    [ -e $at/$qemu ]
}

# make_root NAME ARCHITECTURE SUITE MIRROR
make_root() {
    local root=$roots/$1 script=$3 keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [ ! -f "$root/complete" ] || return 0
    if [ "$4" = "$ubuntu" ]; then
        script=gutsy
        # Debian 13 has Ubuntu's keys in a package signed with its own.
        make_root debian13 "$own" trixie "$debian" || return 1
        chroot "$roots/debian13" apt-get install -y -q --no-install-recommends ubuntu-keyring >>"$roots/$1.log" 2>&1 || return 1
        keyring=$roots/debian13/usr/share/keyrings/ubuntu-archive-keyring.gpg
    fi
    debootstrap --variant=minbase --arch="$2" --keyring="$keyring" "$3" "$root" "$4" "/usr/share/debootstrap/scripts/$script" \
        >"$roots/$1.log" 2>&1 && touch "$root/complete"
}

# Everything that is tested in a root, from an empty home.
trial() {
    cat <<'TRIAL'
set -eu
export DEBIAN_FRONTEND=noninteractive HOME=/root LC_ALL=C.UTF-8
. /etc/os-release
echo "  system: $PRETTY_NAME, $(ldd --version 2>&1 | sed -n '1s/.* //p') is its glibc"
apt-get update -q >/tmp/log 2>&1 || { tail -n 5 /tmp/log && exit 1; }
# minbase omits manual pages on some systems; they are tested here.
rm -f /etc/dpkg/dpkg.cfg.d/excludes
name=$(dpkg-deb -f /tmp/package.deb Package)
module=
[ ! -f /tmp/module.deb ] || module=/tmp/module.deb
# shellcheck disable=SC2086  # there may be none
apt-get install -y -q --no-install-recommends /tmp/package.deb $module >/tmp/log 2>&1 || { tail -n 5 /tmp/log && exit 1; }
echo "  installed: $(dpkg-query -W "$name"), depends on $(dpkg-query -f '${Depends}' -W "$name")"
cd /root
bevatron version | sed 's/^/  /' | head -n 4
bevatron version | grep -q "^  CUDA  *$([ -n "$module" ] && echo yes || echo no)"
[ -z "$module" ] || bevatron version | grep -q '^  bevatron_cuda .* /usr/lib/bevatron/bevatron_cuda.so$'
# libcurl is recommended, so not here yet, unless the root was used before: the program says so, and finds it once it is
# installed.
apt-get purge -y -q libcurl4 libcurl4t64 >/dev/null 2>&1 || apt-get purge -y -q libcurl4 >/dev/null 2>&1 || true
rc=0
bevatron extract wiki --input https://127.0.0.1:1/wiki.xml --output wiki.jsonl >/tmp/log 2>&1 || rc=$?
[ $rc = 1 ] && grep -q 'cannot load libcurl' /tmp/log
apt-get install -y -q --no-install-recommends libcurl4 >/tmp/log 2>&1 || { tail -n 5 /tmp/log && exit 1; }
echo "  loads $(bevatron version | sed -n 's/^ *\(libcurl\)  */\1 /p')"
bevatron version | grep -q 'libcurl .*/libcurl'
mkdir -p web && echo '<mediawiki xml:lang="en"><siteinfo><base>https://en.wikipedia.org/wiki/Main_Page</base></siteinfo><page><title>T</title><ns>0</ns><id>1</id><revision><text>Words of a page.</text></revision></page></mediawiki>' >web/wiki.xml
perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1", LocalPort => 8018, ReuseAddr => 1) or die;
    open F, "web/wiki.xml"; $t = join "", <F>; while ($c = $s->accept) { while (<$c>) { last if /^\r$/ }
    printf $c "HTTP/1.0 200 x\r\nContent-Length: %d\r\n\r\n%s", length $t, $t; close $c }' &
server=$!
for i in 1 2 3 4 5 6 7 8 9; do
    bevatron extract wiki --input http://127.0.0.1:8018/wiki.xml --output wiki.jsonl --min-text-length 1 >/tmp/log 2>&1 && break || sleep 1
done
kill $server
grep -q 'Words of a page' wiki.jsonl || { tail -n 5 /tmp/log && exit 1; }
echo "  read a file from a web server"
train="bevatron train --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2 --train-iters 5 --lr 1e-3
    --mock-data --tokenizer-type NullTokenizer --vocab-size 500 --device cpu --threads 1 --log-interval 1"
$train --save run --save-interval 5 >/tmp/log 2>&1 || { tail -n 5 /tmp/log && exit 1; }
grep -q 'iteration *5/' /tmp/log
echo "  trained: $(grep -o 'iteration *5/.*lm loss: [^ ]*' /tmp/log | sed 's/|.*|/…/')"
for i in 1 2 3 4 5 6 7 8 9; do echo "{\"text\": \"Line $i of a small book that is here to be read.\"}"; done >data.jsonl
bevatron tokenizer train --input data.jsonl --vocab-size 300 --output-prefix tok >/tmp/log 2>&1
bevatron preprocess --input data.jsonl --output-prefix data --vocab-file tok-vocab.json --merge-file tok-merges.txt \
    --append-eod >/tmp/log 2>&1 || { tail -n 5 /tmp/log && exit 1; }
bevatron dataset verify data_text_document >/tmp/log 2>&1
echo "  preprocessed a text and verified the dataset"
# One command from text to a model, and text from that.
bevatron train --preset cpu-3m --data-path data.jsonl --tokenizer-type auto --vocab-size 300 --train-iters 3 --log-interval 1 \
    --save small >/tmp/log 2>&1 || { tail -n 5 /tmp/log && exit 1; }
grep -q 'iteration *3/' /tmp/log
bevatron generate --load small --prompt Line --max-new-tokens 4 >/tmp/log 2>&1 || { tail -n 5 /tmp/log && exit 1; }
echo "  trained from text by one command, and generated from the model"
apt-get install -y -q --no-install-recommends man-db groff-base bash-completion bsdutils >/tmp/log 2>&1 || { tail -n 5 /tmp/log && exit 1; }
man bevatron-train 2>/tmp/log | sed 's/.\x08//g' >/tmp/page
grep -q -- '--micro-batch-size N' /tmp/page
echo "  man bevatron-train: $(wc -l </tmp/page) lines"
cat >/tmp/rc <<'RC'
. /usr/share/bash-completion/bash_completion
bevatron() { printf '<%s>' "$@" >>/tmp/words; }
RC
printf 'bevatron dataset me\t\nbevatron train --preset gpt2-124\t\nexit\n' | script -qec 'bash --noprofile --rcfile /tmp/rc -i' /dev/null >/dev/null 2>&1
[ "$(cat /tmp/words)" = '<dataset><merge><train><--preset><gpt2-124m>' ]
echo "  Tab completed a command and a preset"
bevatron help files >/tmp/log
while read -r kind path; do [ -d "$path" ] || { echo "no $kind in $path" && exit 1; }; done </tmp/log
ls /usr/share/bevatron/examples/aws/*.yaml >/dev/null
[ -s /usr/share/doc/bevatron/docs/install.md ]
# A recipe finds the pages of the package, and says what it lacks.
rc=0
WHERE=account BUCKET=b bash /usr/share/bevatron/examples/recipes/0-ultracluster.sh /root/ultra >/tmp/log 2>&1 || rc=$?
[ $rc = 2 ] && grep -q 'is not a git checkout' /tmp/log
bash /usr/share/bevatron/examples/recipes/4-gpt3-opt.sh /root/walk 1 >/tmp/log 2>&1 && grep -q 'nemo-gpt3-175b, [0-9]* ranks: [mr]' /tmp/log
apt-get install -y -q --no-install-recommends xz-utils >/dev/null 2>&1
bash /usr/share/bevatron/examples/recipes/2-megatron.sh /root/walk 1 >/tmp/log 2>&1 && [ -s /root/walk/text.jsonl.xz ]
echo "  the recipes find the package's pages and files"
mkdir -p "/opt/a place" && tar -xzf /tmp/archive.tar.gz -C "/opt/a place"
mv "/opt/a place/"bevatron-* "/opt/a place/moved"
apt-get purge -y -q "$name" >/tmp/log 2>&1
[ ! -e /usr/bin/bevatron ] && [ ! -e /usr/share/bevatron ] && [ ! -e /usr/lib/bevatron ]
echo "  removed without a trace"
"/opt/a place/moved/bin/bevatron" help files | grep -qx 'examples /opt/a place/moved/share/bevatron/examples'
[ -z "$module" ] || "/opt/a place/moved/bin/bevatron" version | grep -q '^  bevatron_cuda .* /opt/a place/moved/lib/bevatron/bevatron_cuda.so$'
PATH="/opt/a place/moved/bin:$PATH" $train >/tmp/log 2>&1
grep -q 'iteration *5/' /tmp/log
echo "  the archive trains from a folder that it was moved to"
# Nothing of the above is left but the wheels.
rm -rf "/opt/a place"
[ -n "$(ls /tmp/wheels)" ] || exit 0
apt-get install -y -q --no-install-recommends python3-venv >/tmp/log 2>&1 || { tail -n 5 /tmp/log && exit 1; }
wheel() { /opt/venv/bin/pip --disable-pip-version-check install -q --no-index --find-links /tmp/wheels "$@" >/tmp/log 2>&1 || { tail -n 5 /tmp/log && exit 1; }; }
python3 -m venv /opt/venv
wheel bevatron
PATH="/opt/venv/bin:$PATH" $train >/tmp/log 2>&1 || { tail -n 5 /tmp/log && exit 1; }
grep -q 'iteration *5/' /tmp/log
[ "$(PATH="/opt/venv/bin:$PATH" man -w bevatron-train)" = /opt/venv/share/man/man1/bevatron-train.1.gz ]
/opt/venv/bin/bevatron help files | grep -qx 'examples /opt/venv/share/bevatron/examples'
/opt/venv/bin/python -m bevatron help files | grep -qx 'docs /opt/venv/share/doc/bevatron/docs'
[ -s /opt/venv/share/bash-completion/completions/bevatron ]
echo "  pip $(/opt/venv/bin/pip --version | cut -d' ' -f2) installed the wheel, and it trains; $(du -sm /opt/venv/bin/bevatron | cut -f1) MB are the program"
if [ -n "$module" ]; then
    site=$(/opt/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    if ls /tmp/wheels/nvidia_* >/dev/null 2>&1; then
        wheel 'bevatron[cuda]'
    else
        # Stand-ins, which are found and refused.
        wheel --no-deps bevatron-cuda
        for file in cu13/lib/libcublasLt.so.13 cu13/lib/libnvrtc.so.13 cudnn/lib/libcudnn.so.9 nccl/lib/libnccl.so.2; do
            mkdir -p "$site/nvidia/${file%/*}" && touch "$site/nvidia/$file"
        done
    fi
    /opt/venv/bin/bevatron version >/tmp/log
    sed -n '/^libraries/,$p' /tmp/log | cut -c1-150 | sed 's/^/  /'
    grep -q "^  bevatron_cuda .* $site/bevatron_cuda/bevatron_cuda.so\$" /tmp/log
    for library in cublasLt cudnn nvrtc nccl; do grep -q "/site-packages/nvidia/[a-z0-9]*/lib/lib$library.so" /tmp/log; done
    echo "  the module is found, and NVIDIA's libraries beside it"
fi
/opt/venv/bin/pip uninstall -q -y bevatron bevatron-cuda >/tmp/log 2>&1
[ ! -e /opt/venv/bin/bevatron ] && [ ! -e /opt/venv/share/bevatron ] && [ ! -e "${site:-/none}/bevatron_cuda" ]
echo "  pip removed it"
TRIAL
}

# try NAME DEB ARCHIVE: in an existing root. The module's package needs the program's beside it.
try() {
    local root=$roots/$1
    rm -f "$root/tmp/module.deb"
    cp "${2/bevatron-cuda_/bevatron_}" "$root/tmp/package.deb"
    [ "$2" = "${2/bevatron-cuda_/bevatron_}" ] || cp "$2" "$root/tmp/module.deb"
    cp "$3" "$root/tmp/archive.tar.gz"
    mkdir -p "$root/tmp/wheels" && rm -f "$root/tmp/wheels/"*
    # Linked where that can be: NVIDIA's are large.
    for file in "$packages"/*"_$machine.whl"; do
        [ ! -f "$file" ] || ln "$file" "$root/tmp/wheels/" 2>/dev/null || cp "$file" "$root/tmp/wheels/"
    done
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    rm -rf "$root/root/"* "$root/tmp/words" "$root/opt/"*
    trial >"$root/tmp/trial"
    mount -t proc proc "$root/proc"
    [ -c "$root/dev/ptmx" ] && mount --bind /dev/pts "$root/dev/pts"
    if chroot "$root" /bin/bash /tmp/trial; then
        say "$1: $(basename "$2") passed"
        passed=$((passed + 1))
    else
        say "$1: $(basename "$2") FAILED"
        failed="$failed $1"
    fi
    umount "$root/dev/pts" "$root/proc" 2>/dev/null
}

while read -r name architecture suite mirror; do
    [[ $wanted == *" $name "* ]] || continue
    machine=$([ "$architecture" = amd64 ] && echo x86_64 || echo aarch64)
    pairs=()
    for kind in bevatron bevatron-cuda; do
        package=$(ls "$packages/$kind"_*_"$architecture".deb 2>/dev/null | tail -n 1)
        archive=$(ls "$packages/$kind"-[0-9]*-linux-"$machine".tar.gz 2>/dev/null | tail -n 1)
        [ -z "$package" ] || [ -z "$archive" ] || [ ! -f "${package/bevatron-cuda_/bevatron_}" ] || pairs+=("$package" "$archive")
    done
    if [ ${#pairs[@]} = 0 ]; then
        skip "$name" "there is no package with its archive for $architecture"
        continue
    fi
    if [ "$mirror" = none ]; then
        skip "$name" "archive.ubuntu.com does not answer; set UBUNTU_MIRROR to the address of an Ubuntu archive"
        continue
    fi
    if ! emulate "$architecture"; then
        skip "$name" "this machine cannot run programs for $architecture (qemu-user-static, binfmt_misc)"
        continue
    fi
    say "$name ($suite, $architecture)"
    if ! make_root "$name" "$architecture" "$suite" "$mirror"; then
        tail -n 5 "$roots/$name.log"
        say "$name: FAILED: debootstrap"
        failed="$failed $name"
        continue
    fi
    for ((i = 0; i < ${#pairs[@]}; i += 2)); do
        try "$name" "${pairs[i]}" "${pairs[i + 1]}" </dev/null
    done
done <<<"$table"
if [ -n "$failed" ]; then
    say "FAILED:$failed"
    exit 1
fi
if [ $passed = 0 ]; then
    say "FAILED: no package was tried; \`make package PORTABLE=yes\` makes them in build/portable/packages"
    exit 1
fi
