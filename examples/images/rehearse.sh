#!/bin/bash
# Builds the Dockerfile on a machine that reaches Debian's packages but neither Docker's registry nor NVIDIA's and AWS's
# servers, and measures the image: the base is Debian 12 by debootstrap, the CUDA libraries of this machine come as
# packages of NVIDIA's names, Open MPI is Debian's, there is no EFA. As root, with debootstrap and buildah.
# usage: examples/images/rehearse.sh [IMAGE]      CUDA=/usr/local/cuda-13.0 CUDA_ARCHS=90 DEBIAN_MIRROR=http://…
set -euo pipefail
image=${1:-bevatron}
cuda=$(readlink -f "${CUDA:-/usr/local/cuda}")
version=${cuda##*-}
dashed=${version/./-}
major=${version%%.*}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=${STORAGE_DRIVER:-vfs}
[ -e "$cuda/lib64/libcublasLt.so.$major" ] || {
    echo "rehearse.sh: no CUDA in $cuda; set CUDA to its folder" >&2
    exit 1
}

# package NAME DEPENDS FILE…: files of the CUDA folder as a package; none makes an empty one that only depends.
package() {
    local name=$1 depends=$2 root=$scratch/root file
    shift 2
    rm -rf "$root"
    mkdir -p "$root/DEBIAN" "$root$cuda"
    for file in "$@"; do
        mkdir -p "$root$cuda/$(dirname "$file")"
        cp -a "$cuda/$file" "$root$cuda/$file"
    done
    printf 'Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: rehearsal\nDescription: rehearsal\n%s' \
        "$name" "$version" "$(dpkg --print-architecture)" "${depends:+Depends: $depends$'\n'}" >"$root/DEBIAN/control"
    dpkg-deb -Znone --build --root-owner-group "$root" "$packages/$name.deb" >/dev/null
}

base=$scratch/base packages=$scratch/base/packages
# shellcheck disable=SC2016  # the field is apt's
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' | sed -n 1p)}
debootstrap --variant=minbase bookworm "$base" "$mirror" >"$scratch/log" || { tail -n 5 "$scratch/log" >&2 && exit 1; }
# How this machine reaches them, a proxy for instance.
cp -a /etc/apt/apt.conf.d "$base/etc/apt/"
mkdir "$packages"
cd "$cuda"
package "libcublas-$dashed" "" lib64 lib/libcublas.so* lib/libcublasLt.so*
package "cuda-nvrtc-$dashed" "" lib/libnvrtc.so* lib/libnvrtc-builtins.so*
package "libcudnn9-cuda-$major" "" lib/libcudnn*.so*
package libnccl2 "" lib/libnccl.so*
package "cuda-nvcc-$dashed" "" bin nvvm targets include lib/*.a lib/libcudart.so* lib/libnvvm.so*
package "cuda-cudart-dev-$dashed" "cuda-nvcc-$dashed"
package "cuda-nvrtc-dev-$dashed" "cuda-nvrtc-$dashed"
package "libcublas-dev-$dashed" "libcublas-$dashed"
package "libcudnn9-dev-cuda-$major" "libcudnn9-cuda-$major"
package libnccl-dev libnccl2
cd "$packages" && dpkg-scanpackages . >Packages 2>"$scratch/log"
echo "deb [trusted=yes] file:/packages ./" >"$base/etc/apt/sources.list.d/rehearsal.list"
ln -sfn "$cuda" "$base/usr/local/cuda"
cd "$here"

container=$(buildah from scratch)
buildah copy -q "$container" "$base" / >/dev/null
buildah commit -q --rm "$container" bevatron-rehearsal-base >/dev/null
buildah bud -f examples/images/Dockerfile -t "$image" --build-arg CUDA_IMAGE=localhost/bevatron-rehearsal-base \
    --build-arg "CUDA_VERSION_DASHED=$dashed" --build-arg EFA_INSTALLER_VERSION=none \
    --build-arg "CUDA_ARCHS=${CUDA_ARCHS:-90}" .

# What the runtime image holds, without the packages that NVIDIA's server would have sent.
container=$(buildah from "$image")
root=$(buildah mount "$container")
rm -rf "$root/packages"
echo "image $image: $(du -sm --apparent-size "$root" | cut -f1) MB"
for part in opt/bevatron "${cuda#/}/lib" usr/lib; do
    echo "  $part: $(du -sm --apparent-size "$root/$part" | cut -f1) MB"
done
for file in libcublasLt libcublas. libcudnn libnccl libnvrtc; do
    echo "  $file: $(find "$root$cuda" -type f -name "$file*" -printf '%s\n' | awk '{ s += $1 } END { printf "%.0f MB", s / 1e6 }')"
done
buildah run "$container" -- bevatron version
buildah rm "$container" >/dev/null
