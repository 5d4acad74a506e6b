#!/usr/bin/env bash
# The images: scripts that the shell accepts, a Dockerfile that refers to existing files and steps, a build context that
# is enough to configure, and node-setup.sh and enroot.sh run with stand-ins. The Dockerfile and its steps are read, not
# run: they need NVIDIA's and AWS's servers.
# label: slow
. tests/cli/common.sh || exit
images=examples/images
# goes_well COMMAND…: must exit with code 0, with any output.
goes_well() { "$@" >"$work/out" 2>&1 && pass || fail "exit code $?: $*"; }
for script in "$images"/*.sh; do
    goes_well bash -n "$script"
    [ -x "$script" ] && pass || fail "$script is not executable"
done
if command -v shellcheck >/dev/null; then
    goes_well shellcheck "$images"/*.sh
else
    echo "SKIP no shellcheck"
fi

# Every step named in the Dockerfile and enroot.sh is in steps.sh; any other word is refused.
steps=$(sed -n 's/^\([a-z]*\))$/\1/p' "$images/steps.sh")
used=$(grep -oh 'steps.sh [a-z]*' "$images/Dockerfile" | sed 's/.* //')
[ "$(echo "$used" | wc -l)" -ge 7 ] && pass || fail "no steps in the Dockerfile"
for step in $used; do
    grep -qx "$step" <<<"$steps" && pass || fail "the Dockerfile's step $step is not in steps.sh"
done
expect 2 "usage" bash "$images/steps.sh" nonsense
# What is copied exists, and is not excluded from the build context.
mkdir "$work/context"
while read -r from to; do
    [ -e "$from" ] && pass || fail "the Dockerfile copies $from, which is not there"
    grep -qx "!${from%%/*}" "$images/Dockerfile.dockerignore" && pass || fail "$from is left out by Dockerfile.dockerignore"
    case $to in /source/*) mkdir -p "$work/context${to%/*}" && cp -r "$from" "$work/context$to" ;; esac
done < <(sed -n 's/^COPY \([^-][^ ]*\) \([^ ]*\)$/\1 \2/p' "$images/Dockerfile")
if command -v cmake >/dev/null; then
    expect 0 "Configuring done" cmake -S "$work/context/source" -B "$work/context/build" -DBEVATRON_CUDA=OFF -DCMAKE_SKIP_RPATH=ON
    # It is also enough to install, here with a program and pages that were built elsewhere.
    cp "$BEVATRON" "$work/context/build/bevatron"
    touch "$work/context/build/bevatron.map"
    mkdir -p "$work/context/build/share"
    expect 0 "share/doc/bevatron/README.md" cmake --install "$work/context/build" --prefix "$work/context/opt"
fi
for script in steps.sh node-setup.sh; do
    grep -q -- "--build .* --target bevatron help_pages" "$images/$script" && pass || fail "$script installs manual pages that it does not make"
done
rm -rf "$work/context"
# Each stage has a base, and declares each variable that it uses.
awk '/^FROM/ { stages++ } END { exit stages != 2 }' "$images/Dockerfile" && pass || fail "not two stages"
for variable in $(grep -o '\${[A-Z_]*:-' "$images/steps.sh" | tr -d '${:-' | sort -u); do
    grep -q "^ARG $variable=" "$images/Dockerfile" && pass || fail "steps.sh reads $variable, which the Dockerfile does not declare"
done

# Of rehearse.sh only the beginning: the rest takes root, debootstrap, buildah and CUDA.
expect 1 "rehearse.sh: no CUDA in $work/none; set CUDA to its folder" env CUDA="$work/none" "$images/rehearse.sh"

# node-setup.sh with stand-ins: the first machine builds, the second finds it done, and another source is rebuilt.
mkdir "$work/bin" "$work/bevatron"
echo source >"$work/bevatron/file"
tar -cf "$work/source.tar" -C "$work" bevatron
cat >"$work/bin/cmake" <<STANDIN
#!/bin/sh
echo "cmake \$*" >>$work/did
case \$* in
--version) echo "cmake version 3.28.3" ;;
*--install*)
    prefix=\$(echo "\$*" | sed 's/.*--prefix \([^ ]*\).*/\1/')
    mkdir -p "\$prefix/bin"
    printf '#!/bin/sh\n[ -e %s/libraries ] || { echo "libopenblas.so.0: not found" >&2; exit 127; }\necho bevatron 1\n' "$work" >"\$prefix/bin/bevatron"
    chmod +x "\$prefix/bin/bevatron" ;;
esac
STANDIN
for name in dnf aws curl; do printf '#!/bin/sh\necho "%s $*" >>%s/did\n' $name "$work" >"$work/bin/$name"; done
# The libraries that the program links are installed as packages.
cat >"$work/bin/apt-get" <<STANDIN
#!/bin/sh
echo "apt-get \$*" >>$work/did
case \$* in *libopenblas*) touch $work/libraries ;; esac
STANDIN
printf '#!/bin/sh\necho "aws $*" >>%s/did\ncp %s/source.tar "$5"\n' "$work" "$work" >"$work/bin/aws"
chmod +x "$work/bin"/*
# Hide this machine's CUDA.
printf '#!/bin/sh\nexit 1\n' >"$work/bin/nvidia-smi"
chmod +x "$work/bin/nvidia-smi"
bare=(env PATH="$work/bin:/usr/sbin:/usr/bin:/sbin:/bin" NODE_SETUP_ETC="$work/etc" NODE_SETUP_CUDA="$work/none")
setup=("${bare[@]}" bash "$images/node-setup.sh")
expect 0 "bevatron 1" "${setup[@]}" s3://bucket/source.tar "$work/opt"
grep -q "^aws s3 cp --only-show-errors s3://bucket/source.tar " "$work/did" && pass || fail "the source was not fetched"
grep -q "^cmake -S .*-DBEVATRON_MPI=ON" "$work/did" && grep -q "^cmake --install .* --prefix $work/opt/.new" "$work/did" && pass || fail "not built"
grep -q "export PATH=$work/opt/bin:" "$work/etc/profile.d/bevatron.sh" && pass || fail "no word to shells"
grep -q "memlock unlimited" "$work/etc/security/limits.d/bevatron.conf" && pass || fail "no limits"
bash -n "$work/etc/profile.d/bevatron.sh" && pass || fail "profile.d"
rm "$work/did"
expect 0 "installed in $work/opt already" "${setup[@]}" "$work/source.tar" "$work/opt"
grep -qs "^cmake" "$work/did" && fail "built a second time" || pass
grep -qs "^apt-get" "$work/did" && fail "packages were installed although the program starts" || pass
# A second machine that shares the prefix has no libraries yet: it gets them, but no compiler.
rm -f "$work/libraries" "$work/did"
expect 0 "bevatron 1" "${setup[@]}" "$work/source.tar" "$work/opt"
grep -q "^apt-get install .*libopenblas" "$work/did" && ! grep -q "^cmake\|g++" "$work/did" && pass || fail "the second machine: $(cat "$work/did")"
# If the libraries cannot be installed, the machine says what is missing and fails.
cp "$work/bin/apt-get" "$work/bin/apt-get.good"
printf '#!/bin/sh\n' >"$work/bin/apt-get"
rm -f "$work/libraries"
expect 1 "does not start on this machine" "${setup[@]}" "$work/source.tar" "$work/opt"
mv "$work/bin/apt-get.good" "$work/bin/apt-get"
touch "$work/libraries"
# A build without CUDA is not enough for machines with GPUs: one without nvcc refuses it, one with nvcc rebuilds; a
# machine without CUDA then uses that build.
printf '#!/bin/sh\n' >"$work/bin/nvidia-smi"
chmod +x "$work/bin/nvidia-smi"
grep -q " cpu$" "$work/opt/.source" && pass || fail "what kind of build it is: $(cat "$work/opt/.source")"
expect 1 "this machine has GPUs but no nvcc" "${setup[@]}" "$work/source.tar" "$work/opt"
printf '#!/bin/sh\n' >"$work/bin/nvcc"
chmod +x "$work/bin/nvcc"
rm -f "$work/did"
expect 0 "done" "${setup[@]}" "$work/source.tar" "$work/opt"
grep -q "^cmake -S .*-DBEVATRON_CUDA=ON" "$work/did" && grep -q " cuda$" "$work/opt/.source" && pass || fail "a CPU build is kept for GPUs"
rm "$work/bin/nvcc"
printf '#!/bin/sh\nexit 1\n' >"$work/bin/nvidia-smi"
expect 0 "installed in $work/opt already" "${setup[@]}" "$work/source.tar" "$work/opt"
echo other >"$work/bevatron/file"
tar -cf "$work/source.tar" -C "$work" bevatron
expect 0 "done" "${setup[@]}" "$work/source.tar" "$work/opt"
grep -q "^cmake --build" "$work/did" && pass || fail "another source was not built"
printf '#!/bin/sh\nexit 1\n' >"$work/bin/aws"
"${setup[@]}" s3://bucket/none.tar "$work/opt" >"$work/out" 2>&1 && fail "no source, and no word" || pass
expect 2 "no SOURCE" "${setup[@]}"
# nvcc's compiler is among the packages. CUDA without NCCL is built and said, and built again once NCCL is there.
grep -q "^apt-get install .* g++ " "$work/did" && pass || fail "no g++ for nvcc"
printf '#!/bin/sh\n' >"$work/bin/nvcc"
cp "$work/bin/cmake" "$work/bin/cmake.good"
cat >"$work/bin/cmake" <<STANDIN
#!/bin/sh
case \$* in *-DBEVATRON_NCCL=ON*) [ -e $work/none/include/nccl.h ] || { echo "cmake \$*" >>$work/did; exit 1; } ;; esac
[ ! -e $work/nothing ] || [ "\$1" != -S ] || exit 1
exec $work/bin/cmake.good "\$@"
STANDIN
chmod +x "$work/bin/nvcc"
echo third >"$work/bevatron/file"
tar -cf "$work/source.tar" -C "$work" bevatron
touch "$work/nothing"
expect 1 "the build lacks what is named above" "${setup[@]}" "$work/source.tar" "$work/opt"
rm "$work/nothing" "$work/did"
expect 0 "WARNING: built without NCCL, so a job can use one GPU only. Add NVIDIA's package source" "${setup[@]}" "$work/source.tar" "$work/opt"
grep -q -- "-DBEVATRON_CUDA=ON .*-DBEVATRON_NCCL=ON" "$work/did" && grep -q -- "-DBEVATRON_CUDA=ON .*-DBEVATRON_NCCL=OFF" "$work/did" && pass || fail "NCCL: $(cat "$work/did")"
expect 0 "installed in $work/opt already" "${setup[@]}" "$work/source.tar" "$work/opt"
grep -q "WARNING: built without NCCL" "$work/out" && pass || fail "the second machine says nothing"
mkdir -p "$work/none/include" && touch "$work/none/include/nccl.h"
expect 0 "done" "${setup[@]}" "$work/source.tar" "$work/opt"
grep -q "already\|WARNING" "$work/out" && fail "not built again with NCCL" || pass
grep -q " cuda$" "$work/opt/.source" && pass || fail "$(cat "$work/opt/.source")"
mv "$work/bin/cmake.good" "$work/bin/cmake"
# The script of a machine image: no arguments, nothing downloaded.
expect 2 "usage" "$images/image-script.sh"
"$images/image-script.sh" "$work/source.tar" >"$work/image.sh" && pass || fail "image-script.sh"
sed -i "s|/opt/bevatron}|$work/opt}|" "$work/image.sh"
rm "$work/did"
expect 0 "done" "${bare[@]}" bash "$work/image.sh"
grep -q "^cmake --build" "$work/did" && ! grep -q "^aws" "$work/did" && pass || fail "the image's script did not build what is in it"
grep -h conda "$images"/*.sh | grep -v "no conda" && fail "a script wants conda" || pass

# enroot.sh.
printf '#!/bin/sh\necho "enroot $*" >>%s/did\n' "$work" >"$work/bin/enroot"
chmod +x "$work/bin/enroot"
rm -f "$work/did"
goes_well env PATH="$work/bin:$PATH" bash "$images/enroot.sh" "$work/a.sqsh" bevatron:1
grep -qx "enroot import --output $work/a.sqsh dockerd://bevatron:1" "$work/did" && pass || fail "import of a Docker image"
goes_well env PATH="$work/bin:$PATH" bash "$images/enroot.sh" "$work/b.sqsh"
grep -q "^enroot export --output $work/b.sqsh bevatron-build-" "$work/did" && grep -q "^enroot remove --force" "$work/did" && pass ||
    fail "build without Docker"
touch "$work/c.sqsh"
expect 1 "already exists" bash "$images/enroot.sh" "$work/c.sqsh"
finish
