#!/bin/bash
# The steps an image is made of, one argument each; the Dockerfile makes a layer of each, enroot.sh runs them one after
# the other. They run as root on Ubuntu 24.04 or Debian 12 with NVIDIA's package source (NVIDIA's cuda images), on x86-64
# or aarch64. EFA_INSTALLER_VERSION=none makes an image for other networks, with the distribution's Open MPI.
# usage: steps.sh compilers | efa | build SOURCE | libraries | ssh | clean
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
cuda=${CUDA_VERSION_DASHED:-12-8}
efa=${EFA_INSTALLER_VERSION:-1.48.0}
architectures=${CUDA_ARCHS:-80;90}

get() {
    apt-get update -q
    apt-get install -y -q --no-install-recommends "$@"
    rm -rf /var/lib/apt/lists/*
}

# The first of several names that this distribution has.
one_of() {
    apt-get update -q >&2
    local name
    for name in "$@"; do
        if apt-cache show "$name" >/dev/null 2>&1; then
            echo "$name"
            return
        fi
    done
    echo "steps.sh: no package $*" >&2
    return 1
}

case ${1:-} in
compilers)
    # What the build needs and the finished image does not: gigabytes that stay behind in the first stage. nvcc hands the
    # host part of a file to g++, though nothing here is written in C++.
    get gcc g++ libc6-dev cmake ninja-build "cuda-nvcc-$cuda" "cuda-cudart-dev-$cuda" "cuda-nvrtc-dev-$cuda" \
        "libcublas-dev-$cuda" "libcudnn9-dev-cuda-${cuda%%-*}" libnccl-dev libopenblas-dev zlib1g-dev libzstd-dev \
        libbz2-dev liblzma-dev libbrotli-dev libutf8proc-dev libcurl4-openssl-dev libmicrohttpd-dev
    if [ "$efa" = none ]; then get libopenmpi-dev; fi
    ;;
efa)
    if [ "$efa" = none ]; then
        get openmpi-bin
        exit
    fi
    # AWS's installer: libfabric with EFA, Open MPI, and aws-ofi-nccl, which lets NCCL use it. The kernel module and the
    # limits are the host's business. Distributions' libibverbs are older and would be found first.
    get ca-certificates curl pciutils
    apt-get purge -y -q libibverbs1 libibverbs-dev ibverbs-providers 2>/dev/null || true
    scratch=$(mktemp -d)
    curl -fsSL "https://efa-installer.amazonaws.com/aws-efa-installer-$efa.tar.gz" | tar -xz -C "$scratch"
    apt-get update -q
    (cd "$scratch/aws-efa-installer" && ./efa_installer.sh -y -g --skip-kmod --skip-limit-conf --no-verify)
    rm -rf "$scratch" /var/lib/apt/lists/*
    ;;
build)
    # Everything that is asked for by name must be there: an image without NCCL is found out now, not on the cluster.
    source=${2:?the folder of the source}
    export PATH=/opt/amazon/openmpi/bin:/usr/local/cuda/bin:$PATH
    cmake -S "$source" -B /tmp/bevatron-build -G Ninja -DCMAKE_BUILD_TYPE=Release -DBEVATRON_CUDA=ON -DBEVATRON_CUDNN=ON \
        -DBEVATRON_NCCL=ON -DBEVATRON_MPI=ON "-DBEVATRON_CUDA_ARCHS=$architectures"
    cmake --build /tmp/bevatron-build --target bevatron help_pages
    cmake --install /tmp/bevatron-build --prefix /opt/bevatron --strip
    rm -rf /tmp/bevatron-build
    ;;
libraries)
    # What the program is linked to, and no compiler: cuBLASLt, NVRTC and cuDNN for attention, NCCL, OpenBLAS, what
    # corpora are packed with, libmicrohttpd for the board; curl for launch kubernetes getdata, whose libcurl is also the
    # program's for s3://.
    get "libcublas-$cuda" "cuda-nvrtc-$cuda" "libcudnn9-cuda-${cuda%%-*}" libnccl2 libopenblas0-pthread zlib1g libzstd1 \
        libbz2-1.0 liblzma5 libbrotli1 "$(one_of libutf8proc3 libutf8proc2)" "$(one_of libmicrohttpd12t64 libmicrohttpd12)" \
        ca-certificates curl
    ;;
ssh)
    # MPIJobs start their ranks over ssh with a key that the operator mounts; nothing else needs it.
    get openssh-server openssh-client
    mkdir -p /run/sshd
    printf 'StrictModes no\nPermitRootLogin prohibit-password\n' >/etc/ssh/sshd_config.d/mpi.conf
    # A session has nothing of the image's environment, and mpirun's daemon must be found in it.
    printf 'SetEnv PATH=%s LD_LIBRARY_PATH=%s\n' \
        /opt/bevatron/bin:/opt/amazon/openmpi/bin:/opt/amazon/efa/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        /opt/amazon/ofi-nccl/lib:/opt/amazon/efa/lib:/opt/amazon/openmpi/lib:/usr/local/cuda/lib64 \
        >>/etc/ssh/sshd_config.d/mpi.conf
    printf 'Host *\n    StrictHostKeyChecking no\n    UserKnownHostsFile /dev/null\n' >/etc/ssh/ssh_config.d/mpi.conf
    ;;
clean)
    rm -rf /var/lib/apt/lists/* /var/cache/apt/archives /tmp/* /usr/share/doc /usr/share/man
    ;;
*)
    sed -n '2,5p' "$0" >&2
    exit 2
    ;;
esac
