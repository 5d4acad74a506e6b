#!/usr/bin/env bash
# soaks.sh FOLDER FAULTS JOBS SEED…: the soaks of several seeds and layouts (see soak.sh), JOBS runs of four ranks at a
# time, without the plain loop of restarts. Writes FOLDER/soak.csv; the last line of output sums it up.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
folder=${1:?folder} faults=${2:?number of faults} jobs=${3:?runs at a time}
shift 3
export BEVATRON=${BEVATRON:-build/release/bevatron} SOAK_LOOP=no SOAK_IS_ALONE=no
layouts=${SOAK_LAYOUTS:-DP4 TP2xPP2}
[ -n "${SOAK_LAYOUTS:-}" ] || ! "$BEVATRON" help flags --markdown | grep -q '^| `--expert-model-parallel-size' || layouts+=" EP2"
rm -rf "$folder" && mkdir -p "$folder" || exit 1
# Segments in shared memory that no process has mapped: those of other jobs, which are at work, do not count.
list_shm() {
    comm -23 <(find /dev/shm -maxdepth 1 -type f 2>/dev/null | sort) <(cat /proc/[0-9]*/maps 2>/dev/null | grep -o '/dev/shm/[^ ]*' | sort -u)
}
before=$(list_shm)
for seed in "$@"; do
    for layout in $layouts; do
        echo "$layout" "$folder/$seed-$layout" "$faults" "$seed"
    done
done | xargs -P "$jobs" -L 1 bash -c 'SOAK_LAYOUTS=$0 bash tests/faults/soak.sh "$@" | grep -v "faults, .* restarts on"'
head -n 1 "$folder/$1-${layouts%% *}/soak.csv" >"$folder/soak.csv"
for file in "$folder"/*/soak.csv; do tail -n +2 "$file"; done | sort -t, -k2,2n -k1,1 >>"$folder/soak.csv"
left=$(comm -13 <(echo "$before") <(list_shm) | tr '\n' ' ')
awk -F, -v wanted="$(($# * $(wc -w <<<"$layouts")))" -v left="$left" '
    NR > 1 { runs++; fired += $4; restarts += $5; seconds += $7; plain += $7 * $8 / 100; good += $12 ~ /^pass/ }
    END { printf "%d faults, %d restarts in %d runs: ", fired, restarts, runs
          if (runs == wanted && good == runs && left == "") print "weights equal to the bit, nothing left behind; effective time " int(100 * plain / seconds + 0.5) " %"
          else print "FAILED: " wanted - good " of " wanted " runs" (left != "" ? ", left in shared memory: " left : "")
          exit !(runs == wanted && good == runs && left == "") }' "$folder/soak.csv"
