#!/bin/bash
# A squash file for Pyxis: launch slurm --container-image FILE. Where there is Docker, from its image; elsewhere from
# NVIDIA's base image by the same steps, on a machine with enroot (a compute node: enroot needs no root).
# usage: examples/images/enroot.sh FILE.sqsh [DOCKER_IMAGE]      from the folder of the repository
set -euo pipefail
file=${1:?usage: enroot.sh FILE.sqsh [DOCKER_IMAGE]}
image=${2:-}
base=${CUDA_IMAGE:-nvidia/cuda:12.8.1-base-ubuntu24.04}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if [ -e "$file" ]; then
    echo "enroot.sh: $file already exists; remove it, or give another name" >&2
    exit 1
fi
if [ -n "$image" ]; then
    exec enroot import --output "$file" "dockerd://$image"
fi

name=bevatron-build-$$
scratch=$(mktemp -d)
cleanup() {
    enroot remove --force "$name" >/dev/null 2>&1 || true
    rm -rf "$scratch"
}
trap cleanup EXIT
# "nvidia/cuda:tag" is "docker://nvidia/cuda:tag" to enroot.
enroot import --output "$scratch/base.sqsh" "docker://$base"
enroot create --name "$name" "$scratch/base.sqsh"
# The compilers are taken out again: the file has what the Docker image's second stage has.
# shellcheck disable=SC2016  # for the shell inside
enroot start --root --rw --mount "$here:/source" --env NVIDIA_VISIBLE_DEVICES=void "$name" bash -euc '
    for step in libraries efa ssh; do bash /source/examples/images/steps.sh "$step"; done
    dpkg-query -W -f "\${Package}\n" | sort >/packages.before
    bash /source/examples/images/steps.sh compilers
    bash /source/examples/images/steps.sh build /source
    dpkg-query -W -f "\${Package}\n" | sort | comm -13 /packages.before - | xargs -r apt-get purge -y -q
    rm -f /packages.before
    bash /source/examples/images/steps.sh clean
    printf "%s\n" \
        PATH=/opt/bevatron/bin:/opt/amazon/openmpi/bin:/opt/amazon/efa/bin:/usr/local/cuda/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        LD_LIBRARY_PATH=/opt/amazon/ofi-nccl/lib:/opt/amazon/efa/lib:/opt/amazon/openmpi/lib:/usr/local/cuda/lib64 \
        OMPI_MCA_pml=^ucx OMPI_MCA_btl=self,vader,tcp PMIX_MCA_gds=hash >>/etc/environment
    /opt/bevatron/bin/bevatron version'
enroot export --output "$file" "$name"
