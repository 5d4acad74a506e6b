#!/usr/bin/env bash
# The libraries that the program loads when needed: it links none of them, starts without any, says what is missing and
# what to do, and refuses those that do not fit. Real ones are hidden by the variables that name a file, and by a root
# that holds only the program and what it links.
# tier: all
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
fakes=$(dirname "$BEVATRON")/tests/fakes
names=(BEVATRON_DRIVER_LIBRARY BEVATRON_CUBLASLT_LIBRARY BEVATRON_NVRTC_LIBRARY BEVATRON_CUDNN_LIBRARY BEVATRON_NCCL_LIBRARY
    BEVATRON_MPI_LIBRARY BEVATRON_NVML_LIBRARY BEVATRON_CURL_LIBRARY BEVATRON_MICROHTTPD_LIBRARY)
hidden=() partial=() old=()
for name in "${names[@]}"; do
    hidden+=("$name=/nonexistent/lib.so")
    partial+=("$name=$fakes/partial/libfake.so.1")
    old+=("$name=$fakes/old/libfake.so.1")
done
has() { grep -qE "^ *$1 +yes" <<<"$parts"; }
parts=$("$BEVATRON" version)
# A build with MPICH's header loads MPICH, for which there is no stand-in here.
is_open_mpi() { grep -q "^  Open MPI " <<<"$parts"; }
train=(train --mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --vocab-size 64 --micro-batch-size 1
    --train-iters 2 --log-interval 1 --lr 1e-3 --eval-iters 0 --threads 1)

# says TEXT: it is in the last output of `version`.
says() { if grep -qF -- "$1" "$work/out"; then pass; else fail "version does not say \"$1\""; fi; }

if command -v ldd >/dev/null; then
    ldd "$BEVATRON" >"$work/out"
    grep -qE "libcuda|libcublas|libcudnn|libnccl|libnvrtc|libnvidia|libmpi|libopen-|libmpich|libcurl|libmicrohttpd" "$work/out" &&
        fail "the program links what it should load" || pass
fi

# Nothing is installed.
expect 0 "kernels" env "${hidden[@]}" "$BEVATRON" version
is_open_mpi && says "missing: BEVATRON_MPI_LIBRARY is /nonexistent/lib.so, which does not exist: correct or unset it"
has CURL && says "missing: BEVATRON_CURL_LIBRARY is /nonexistent/lib.so, which does not exist: correct or unset it"
# Addresses cannot do without it.
if has CURL; then
    expect 1 "cannot load libcurl, which s3:// and https:// addresses need: BEVATRON_CURL_LIBRARY is /nonexistent/lib.so" \
        env "${hidden[@]}" "$BEVATRON" extract wiki --input https://127.0.0.1:1/dump.xml --output "$work/wiki.jsonl"
    says "or copy the data to a disk"
    expect 1 "libcurl missing: BEVATRON_CURL_LIBRARY is" env "${hidden[@]}" "$BEVATRON" preflight --device cpu --data-path s3://bucket/books.jsonl
    expect 0 "kernels" env "${hidden[@]}" "$BEVATRON" version
fi
expect 0 "iteration        2/       2" env "${hidden[@]}" "$BEVATRON" "${train[@]}" --device cpu
if has MICROHTTPD; then
    expect 1 "cannot load microhttpd, which web pages of the board need: BEVATRON_MICROHTTPD_LIBRARY is /nonexistent/lib.so" \
        env "${hidden[@]}" "$BEVATRON" board --logdir "$work"
    says "or use board --text or board --export"
else
    expect 1 "this build has no web server; use board --text" "$BEVATRON" board --logdir "$work"
fi
if has CUDA; then
    expect 0 "missing: BEVATRON_CUBLASLT_LIBRARY is" env "${hidden[@]}" "$BEVATRON" version
    says "missing: BEVATRON_DRIVER_LIBRARY is"
    expect 1 "cannot load libcuda, which GPUs need: BEVATRON_DRIVER_LIBRARY is /nonexistent/lib.so" \
        env "${hidden[@]}" "$BEVATRON" "${train[@]}" --device cuda
    says "or use --device cpu"
    expect 0 "iteration        2/       2" env "${hidden[@]}" "$BEVATRON" "${train[@]}" --device auto
    mkdir "$work/bin"
    printf '#!/bin/sh\necho "%s"\n' "NVIDIA A100-SXM4-40GB, 535.183.01, 40960, 1410, 1410, Enabled, 0, No, 0x0000000000000001, 31" >"$work/bin/nvidia-smi"
    chmod +x "$work/bin/nvidia-smi"
    expect 1 "libraries  cuBLASLt missing: BEVATRON_CUBLASLT_LIBRARY is" env "${hidden[@]}" PATH="$work/bin:$PATH" "$BEVATRON" preflight --device cpu
else
    expect 1 "cannot load bevatron_cuda, which GPUs need: bevatron_cuda.so was searched for in " "$BEVATRON" "${train[@]}" --device cuda
    says "install the package bevatron-cuda, or pip install \"bevatron[cuda]\", or run \`make cuda\` in the source tree, or set BEVATRON_CUDA_LIBRARY to its path, or use --device cpu"
fi

# The module for GPUs: of another version, built with other headers, missing. --device auto uses the CPU and says so, where
# a driver counts GPUs.
for pair in "version|belongs to bevatron 0.0.9, but this is bevatron" "headers|was built with other headers (0123456789abcdef) than this bevatron"; do
    module=BEVATRON_CUDA_LIBRARY=$fakes/module_${pair%%|*}/bevatron_cuda.so
    expect 0 "${pair#*|}" env "$module" "$BEVATRON" version
    expect 1 "${pair#*|}" env "$module" "$BEVATRON" "${train[@]}" --device cuda
    expect 0 "bevatron_cuda unfit: $fakes/module_${pair%%|*}/bevatron_cuda.so" env "$module" "$BEVATRON" preflight --device cpu
    expect 0 "this machine has 2 GPUs, but their module cannot be used: unfit: " \
        env "$module" BEVATRON_DRIVER_LIBRARY="$fakes/good/libfake.so.1" "$BEVATRON" "${train[@]}" --device auto
    says "iteration        2/       2"
done
expect 1 "cannot load bevatron_cuda, which GPUs need: BEVATRON_CUDA_LIBRARY is /nonexistent" \
    env BEVATRON_CUDA_LIBRARY=/nonexistent "$BEVATRON" "${train[@]}" --device cuda
# It is found beside the program, and in lib/bevatron beside bin, wherever that is.
mkdir -p "$work/beside" "$work/a place/bin" "$work/a place/lib/bevatron"
cp "$BEVATRON" "$work/beside/" && cp "$BEVATRON" "$work/a place/bin/"
cp "$fakes/module_good/bevatron_cuda.so" "$work/beside/" && cp "$fakes/module_good/bevatron_cuda.so" "$work/a place/lib/bevatron/"
expect 0 "CUDA       yes: CUDA 99.1 for sm_80, sm_90" "$work/beside/bevatron" version
says "CUDA 99.1, sm_80, sm_90  $(realpath "$work")/beside/bevatron_cuda.so"
expect 0 "CUDA 99.1, sm_80, sm_90  $(realpath "$work")/a place/lib/bevatron/bevatron_cuda.so" "$work/a place/bin/bevatron" version
# Where pip puts it: in an environment, and with --target.
for place in lib/python3.9/site-packages lib/python3/dist-packages .; do
    mkdir -p "$work/pip/bin" "$work/pip/$place/bevatron_cuda"
    cp "$BEVATRON" "$work/pip/bin/" && cp "$fakes/module_good/bevatron_cuda.so" "$work/pip/$place/bevatron_cuda/"
    expect 0 "CUDA 99.1, sm_80, sm_90  $(realpath "$work/pip/$place")/bevatron_cuda/bevatron_cuda.so" "$work/pip/bin/bevatron" version
    rm -r "$work/pip"
done

# Libraries that do not fit.
expect 0 "kernels" env "${old[@]}" "$BEVATRON" version
is_open_mpi && says 'is "MPICH Version:'
is_open_mpi && says "which has another ABI than Open MPI"
has CUDA && says "is cuBLASLt 9.4.5, but this bevatron was built for version"
says "does not report a version; it is probably the stub for linking in the CUDA toolkit"
has CUDNN && says "is cuDNN 9.14.0 for CUDA 9, but this bevatron was built for CUDA"
has MICROHTTPD && says "is version 0.9.70, but 0.9.71 or later is needed"
has NCCL && says "is NCCL 2.10.3, but NCCL 2.13 or a later 2.x is needed"
has CURL && says "is libcurl 7.19.7, but 7.42 or later is needed"
expect 0 "kernels" env "${partial[@]}" "$BEVATRON" version
is_open_mpi && says "has no symbol MPI_Abort"
has MICROHTTPD && says "has no symbol MHD_start_daemon"
has CUDA && says "has no symbol cublasLtCreate"
has CUDNN && says "has no symbol cudnnBackendCreateDescriptor"
has NCCL && says "has no symbol ncclAllGather"
has CURL && says "has no symbol curl_easy_cleanup"

if is_open_mpi && command -v mpirun >/dev/null; then
    expect 0 "Open MPI" "$BEVATRON" version
    real=$(sed -nE 's/^  Open MPI +[0-9.]+  //p' "$work/out")
    # The launcher's own library takes precedence over the one that the dynamic loader finds.
    mkdir -p "$work/prefix/bin" "$work/prefix/lib"
    cp "$(command -v bash)" "$work/prefix/bin/start"
    cp "$real" "$work/prefix/lib/libmpi.so.40"
    expect 0 "$work/prefix/lib/libmpi.so.40" "$work/prefix/bin/start" -c '"$0" version; exit $?' "$BEVATRON"
    # Several ranks need it; one rank does not.
    away=(env "${hidden[@]}")
    expect 1 "cannot load Open MPI, which ranks started by mpirun or srun --mpi=pmix need: BEVATRON_MPI_LIBRARY is" \
        "${away[@]}" bash tests/parallel/mpirun.sh 2 "$BEVATRON" "${train[@]}" --device cpu
    expect 1 "or start one rank, without mpirun" "${away[@]}" "$BEVATRON" "${train[@]}" --device cpu --nproc 2
    expect 0 "iteration        2/       2" "${away[@]}" bash tests/parallel/mpirun.sh 1 "$BEVATRON" "${train[@]}" --device cpu
fi

# A machine that has only the program and what it links.
root=$work/root
# Without /proc the program does not know where it lies.
bare() { env ${module:+BEVATRON_CUDA_LIBRARY=/bevatron_cuda.so} chroot "$root" /bevatron "$@"; }
if [ "$(id -u)" = 0 ] && command -v ldd >/dev/null && ! ldd "$BEVATRON" | grep -q libasan; then
    mkdir -p "$root/dev" "$root/tmp"
    cp "$BEVATRON" "$root/bevatron"
    module=$(dirname "$BEVATRON")/bevatron_cuda.so
    has CUDA && cp "$module" "$root/" || module=
    ldd "$BEVATRON" ${module:+"$module"} | grep -oE '/[^ ]+' | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done
    if bare help >/dev/null 2>&1; then
        expect 0 "kernels" bare version
        is_open_mpi && says "missing: apt-get install openmpi-bin"
        has CURL && says "missing: apt-get install libcurl4 ca-certificates"
        says "missing: install the NVIDIA driver on the host"
        has CUDA || says "missing: install the package bevatron-cuda"
        has CUDA && says "missing: apt-get install libcublas-"
        has CUDNN && says "missing: apt-get install libcudnn9-cuda-"
        has NCCL && says "missing: apt-get install libnccl2"
        expect 0 "iteration        2/       2" bare "${train[@]}" --device cpu
        if has CUDA; then
            expect 1 "cannot load libcuda, which GPUs need: libcuda.so.1 was searched for with the dynamic loader (LD_LIBRARY_PATH is " \
                bare "${train[@]}" --device cuda
        fi
    fi
fi
finish
