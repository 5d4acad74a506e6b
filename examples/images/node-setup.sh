#!/bin/bash
# Makes a machine of a cluster ready: for ParallelCluster's OnNodeConfigured, for cluster build-image, or by hand. No
# container, no conda. Builds bevatron from a tar file of its source into PREFIX and tells shells and Slurm where it is.
# Where PREFIX is on a file system that all machines share, the first one builds; the others install the libraries that
# it needs to start. A build without CUDA is replaced by the first machine that has CUDA, and so is one without NCCL by
# the first that has it.
# usage: node-setup.sh SOURCE [PREFIX]      SOURCE: s3://…, https://… or a file; PREFIX: /opt/bevatron by default
set -euo pipefail
if [ $# -lt 1 ]; then
    echo "node-setup: no SOURCE, the tar file of bevatron's source (s3://…, https://… or a file): on-node-configured takes \
it after the script's URL, build-image a script made by image-script.sh, which has the source in it" >&2
    exit 2
fi
source=$1
prefix=${2:-/opt/bevatron}
etc=${NODE_SETUP_ETC:-/etc}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export PATH=/opt/amazon/openmpi/bin:/opt/amazon/efa/bin:${NODE_SETUP_CUDA:-/usr/local/cuda}/bin:$PATH

say() { echo "node-setup: $*"; }

fetch() {
    case $source in
    s3://*) aws s3 cp --only-show-errors "$source" "$1" ;;
    https://*) curl -fsSL --retry 5 -o "$1" "$source" ;;
    *) cp "$source" "$1" ;;
    esac
}

# Libraries that the program is linked to, with their headers: names of packages without headers differ between
# releases. CUDA, EFA and Open MPI are in the images of ParallelCluster. NCCL may also have come another way than by a
# package: the build tells.
libraries() {
    if command -v apt-get >/dev/null; then
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -q
        apt-get install -y -q --no-install-recommends libopenblas-dev zlib1g-dev libzstd-dev libbz2-dev liblzma-dev \
            libbrotli-dev libutf8proc-dev
        for package in libcurl4-openssl-dev libmicrohttpd-dev; do
            apt-get install -y -q --no-install-recommends "$package" || say "no package $package"
        done
        # From NVIDIA's package source, where the image has it.
        if has_toolkit; then
            apt-get install -y -q --no-install-recommends libnccl-dev || say "no package libnccl-dev"
        fi
        command -v mpirun >/dev/null || apt-get install -y -q --no-install-recommends libopenmpi-dev openmpi-bin
    else
        dnf install -y -q openblas-devel zlib-devel libzstd-devel bzip2-devel xz-devel
        for package in brotli-devel utf8proc-devel libcurl-devel libmicrohttpd-devel; do
            dnf install -y -q "$package" || say "no package $package"
        done
        if has_toolkit; then
            dnf install -y -q libnccl-devel || say "no package libnccl-devel"
        fi
        command -v mpirun >/dev/null || dnf install -y -q openmpi-devel
    fi
}

# What only a build needs. nvcc hands the host part of a file to g++.
compilers() {
    if command -v apt-get >/dev/null; then
        apt-get install -y -q --no-install-recommends gcc g++ libc6-dev make cmake ninja-build python3-venv
    else
        dnf install -y -q gcc gcc-c++ make cmake ninja-build || dnf install -y -q gcc gcc-c++ make cmake
    fi
}

has_toolkit() { command -v nvcc >/dev/null; }
has_nccl() { has_toolkit && [ -n "$(find /usr/include "${NODE_SETUP_CUDA:-/usr/local/cuda}/include" -maxdepth 1 -name nccl.h 2>/dev/null)" ]; }
has_gpus() { nvidia-smi -L >/dev/null 2>&1; }
starts() { "$prefix/bin/bevatron" version >"$scratch/version" 2>&1; }

# CMake 3.25 or newer; what distributions of 2022 have is older.
modern_cmake() {
    local version
    version=$(cmake --version 2>/dev/null | sed -n '1s/[^0-9]*\([0-9]*\.[0-9]*\).*/\1/p')
    [ "$(printf '%s\n' 3.25 "${version:-0}" | sort -V | head -n 1)" = 3.25 ] && return
    say "CMake ${version:-is missing}: taking a newer one for this build"
    python3 -m venv "$scratch/venv"
    "$scratch/venv/bin/pip" install -q cmake
    PATH=$scratch/venv/bin:$PATH
}

build() {
    local cuda=OFF
    if has_toolkit; then
        cuda=ON
    elif has_gpus; then
        say "this machine has GPUs but no nvcc, so what it builds could not use them: use an image with the CUDA toolkit, or \
run this first on a machine that has it and shares $prefix" >&2
        exit 1
    fi
    libraries
    compilers
    modern_cmake
    mkdir "$scratch/source"
    tar -xf "$scratch/source.tar" -C "$scratch/source" --strip-components=1
    # Without NCCL the machine must come up all the same: a head node needs none.
    local settings=(-DCMAKE_BUILD_TYPE=Release "-DBEVATRON_CUDA=$cuda" -DBEVATRON_MPI=ON) kind=cpu
    [ $cuda = OFF ] || kind=cuda
    if ! cmake -S "$scratch/source" -B "$scratch/build" "${settings[@]}" -DBEVATRON_NCCL=$cuda; then
        rm -rf "$scratch/build"
        if [ $cuda = OFF ] || ! cmake -S "$scratch/source" -B "$scratch/build" "${settings[@]}" -DBEVATRON_NCCL=OFF; then
            say "the build lacks what is named above: install it in the image, or by a script before this one" >&2
            exit 1
        fi
        kind="cuda-without-nccl"
    fi
    cmake --build "$scratch/build" --target bevatron help_pages --parallel "$(nproc)"
    # Programs that run keep their file: a new one takes its name.
    rm -rf "$prefix/.new"
    cmake --install "$scratch/build" --prefix "$prefix/.new" --strip
    cp -a --remove-destination "$prefix/.new/." "$prefix/"
    rm -rf "$prefix/.new"
    echo "$digest $kind" >"$prefix/.source"
}

# Whether the build that is there is one of this source, and has CUDA and NCCL if this machine does.
is_built() {
    local from="" kind=""
    read -r from kind 2>/dev/null <"$prefix/.source" || true
    [ "$from" = "$digest" ] || return 1
    case $kind in
    cuda) ;;
    cuda-without-nccl) ! has_nccl ;;
    cpu) ! has_toolkit && ! has_gpus ;;
    *) return 1 ;;
    esac
}

# Ranks on GPUs find each other by NCCL.
warn_without_nccl() {
    grep -qs " cuda-without-nccl$" "$prefix/.source" || return 0
    say "WARNING: built without NCCL, so a job can use one GPU only. Add NVIDIA's package source to the image \
(https://docs.nvidia.com/deeplearning/nccl/install-guide), install libnccl-dev (Amazon Linux, RHEL: libnccl-devel), and \
run this again: it then builds with NCCL" >&2
}

# For shells on the machine and for Slurm's jobs. Networks need memory that stays where it is.
tell() {
    mkdir -p "$etc/profile.d" "$etc/security/limits.d"
    cat >"$etc/profile.d/bevatron.sh" <<PROFILE
export PATH=$prefix/bin:/opt/amazon/openmpi/bin:/opt/amazon/efa/bin:\$PATH
export LD_LIBRARY_PATH=/opt/amazon/ofi-nccl/lib:/opt/amazon/efa/lib:/opt/amazon/openmpi/lib:/usr/local/cuda/lib64\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
PROFILE
    printf '* - memlock unlimited\n* - nofile 1048576\n' >"$etc/security/limits.d/bevatron.conf"
}

mkdir -p "$prefix"
fetch "$scratch/source.tar"
digest=$(sha256sum "$scratch/source.tar" | cut -d' ' -f1)
# One machine builds; the rest wait for it here.
exec 9>"$prefix/.lock"
flock 9
if is_built; then
    say "this source is installed in $prefix already"
else
    build
fi
flock -u 9
starts || libraries
tell
if ! starts; then
    cat "$scratch/version" >&2
    say "$prefix/bin/bevatron does not start on this machine; it lacks:" >&2
    ldd "$prefix/bin/bevatron" 2>&1 | grep "not found" >&2 || true
    say "install these libraries in the image, or give machines of this kind a PREFIX of their own" >&2
    exit 1
fi
cat "$scratch/version"
warn_without_nccl
say "done"
