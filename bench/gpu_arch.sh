#!/usr/bin/env bash
# Prints the architecture of this machine's first GPU in CMake's form (80 for an A100, 90 for an H100), or 90 if its driver
# does not say.
arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d '. ')
[[ $arch =~ ^[0-9]+$ ]] && echo "$arch" || echo 90
