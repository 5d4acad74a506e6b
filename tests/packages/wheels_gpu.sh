#!/usr/bin/env bash
# On a machine with an NVIDIA GPU, its driver, Python 3 and NVIDIA's wheels (PyTorch's: CUDA 13) in site-packages, and no
# network: installs both wheels of FOLDER into a fresh virtual environment that sees those packages, prints what
# the program finds and from where, and trains 20 steps on the GPU. About 30 s, each part with a limit of its own.
# usage: tests/packages/wheels_gpu.sh [FOLDER]      (. by default; PYTHON=… another interpreter; OUT=folder for the logs)
set -u
here=$(cd "${1:-.}" && pwd) || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
out=${OUT:-$work}
failed=0
say() { echo "wheels_gpu: $*"; }
# check WHAT COMMAND…
check() {
    local what=$1
    shift
    if "$@"; then say "ok: $what"; else say "FAILED: $what"; failed=1; fi
}
sites_of() {
    "$1" -c 'import os, site, sys
paths = sys.path + site.getsitepackages() + [site.getusersitepackages()]
for path in dict.fromkeys(os.path.realpath(p) for p in paths if p):
    if os.path.isdir(os.path.join(path, "nvidia")): print(path)' 2>/dev/null
}
# The interpreter whose packages have cuBLASLt.
python=
for candidate in ${PYTHON:-python3 python /usr/bin/python3 /opt/conda/bin/python /opt/*/bin/python3 /usr/local/bin/python3}; do
    command -v "$candidate" >/dev/null || continue
    python=${python:-$(command -v "$candidate")}
    for found in $(sites_of "$candidate"); do
        ls "$found"/nvidia/*/lib/libcublasLt.so.* >/dev/null 2>&1 && python=$(command -v "$candidate") && site=$found && break 2
    done
done
[ -n "$python" ] || { say "FAILED: no Python 3" && exit 1; }
say "$("$python" -V 2>&1) at $python, glibc $(ldd --version 2>/dev/null | sed -n '1s/.* //p'); packages with nvidia: ${site:-none}"
[ -z "${site:-}" ] || ls "$site"/nvidia/*/lib/lib{cublasLt,nvrtc,cudnn,nccl}.so.* 2>/dev/null | sed 's/^/    /'
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || say "no nvidia-smi here"

# pip is the one of the system's packages if there is one, which takes no time to copy.
"$python" -m venv --without-pip --system-site-packages "$work/env" || { say "FAILED: no venv" && exit 1; }
if ! "$work/env/bin/python" -m pip --version >/dev/null 2>&1; then
    "$python" -m venv --system-site-packages "$work/env" || { say "FAILED: neither pip nor ensurepip" && exit 1; }
fi
check "pip installed both wheels" timeout 60 "$work/env/bin/python" -m pip --disable-pip-version-check install -q --no-index --no-deps "$here"/*.whl
bevatron=$work/env/bin/bevatron
libraries() { timeout 20 "$bevatron" version 2>&1 | sed -n '/^libraries/,$p'; }
say "as installed (the base interpreter's packages are not beside the program):"
libraries | tee "$out/version.txt"
# Where pip puts NVIDIA's wheels if it installs them into this environment: beside the module.
own=$("$work/env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
if [ -n "${site:-}" ]; then
    ln -s "$site/nvidia" "$own/nvidia"
    say "with NVIDIA's packages beside the module (a link to $site/nvidia):"
    libraries | tee "$out/version.txt"
fi
check "the module is the wheel's" grep -q "bevatron_cuda .*$own/bevatron_cuda/bevatron_cuda.so" "$out/version.txt"
from_wheels() { grep -qE "(cuBLASLt|cublasLt).*(site|dist)-packages/nvidia/" "$out/version.txt"; }
if from_wheels; then say "ok: cuBLASLt is the wheel's"; else say "note: cuBLASLt is not the wheel's (a loader's path comes first)"; fi
say "preflight:"
timeout 30 "$bevatron" preflight 2>&1 | cut -c1-200 | head -n 20

for i in $(seq 3000); do echo "Line $i: the cat of number $((i % 7)) sat on mat $((i % 13)), and dog $((i % 5)) saw it."; done >"$work/book.txt"
cd "$work" || exit 1
train() {
    timeout "${LIMIT:-60}" "$@" "$bevatron" train --num-layers 4 --hidden-size "${SIZE:-256}" --num-attention-heads 4 --seq-length 128 \
        --micro-batch-size 8 --train-iters 20 --lr 1e-3 --data-path book.txt --tokenizer-type auto --vocab-size 500 \
        --log-interval 5 --eval-iters 0 --device "${DEVICE:-cuda}" --bf16 >"$out/train.txt" 2>&1 &
    local process=$! mapped=
    while kill -0 $process 2>/dev/null; do
        # The program is the child of timeout (and of the wrapper).
        mapped=$(cat $(pgrep -f "$bevatron train" | sed 's#.*#/proc/&/maps#') 2>/dev/null | grep -oE '/[^ ]*(libcublasLt|libcuda|libcudnn[a-z_]*|libnvrtc|libnccl|bevatron_cuda)[^ ]*\.so[^ ]*' | sort -u)
        [ -z "$mapped" ] || echo "$mapped" >>"$work/mapped"
        sleep 0.2
    done
    wait $process
    code=$?
    grep -E "iteration +[0-9]+/|training in|error|warning" "$out/train.txt" | cut -c1-220
    [ ! -f "$work/mapped" ] || { say "libraries mapped while it ran:" && sort -u "$work/mapped" | sed 's/^/    /'; }
    [ $code = 0 ] && grep -q "iteration *20/" "$out/train.txt"
}
check "20 steps on ${DEVICE:-cuda}" train env
# Once more where a toolkit of the machine cannot be seen, if this is root in a machine that lets it.
if ! from_wheels && [ -n "${site:-}" ] && unshare -m true 2>/dev/null; then
    rm -f "$work/mapped"
    cat >"$work/hide.sh" <<'HIDE'
mount --bind /dev/null /etc/ld.so.cache 2>/dev/null
for folder in /usr/local/cuda*; do [ -d "$folder" ] && [ ! -L "$folder" ] && mount -t tmpfs none "$folder"; done
unset CUDA_HOME LD_LIBRARY_PATH
exec "$@"
HIDE
    say "without the machine's toolkit:"
    unshare -m bash "$work/hide.sh" "$bevatron" version 2>&1 | sed -n '/^libraries/,$p' | tee "$out/version.txt"
    check "cuBLASLt is the wheel's where there is no toolkit" from_wheels
    check "20 steps without a toolkit" train unshare -m bash "$work/hide.sh"
fi
[ $failed = 0 ] && say "passed" || say "FAILED"
exit $failed
