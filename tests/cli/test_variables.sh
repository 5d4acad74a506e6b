#!/usr/bin/env bash
# Environment variables in --config files, and how launchers pass them: --export and --env.
. tests/cli/common.sh || exit
cat >"$work/run.yaml" <<'END'
mock-data: true
num-layers: ${LAYERS:-1}
hidden-size: 16
num-attention-heads: 2
seq-length: 16
vocab-size: 50
micro-batch-size: 1
train-iters: 3
lr: 1e-3
threads: 1
log-format: json
save: ${RUN_FOLDER}/checkpoints
END
unset RUN_FOLDER LAYERS
has() { grep -q -- "$1" "$work/out" && pass || fail "no $1"; }
has_not() { grep -q -- "$1" "$work/out" && fail "$1 is there" || pass; }
expect 2 "run.yaml:12: the variable RUN_FOLDER is not set; set it (export RUN_FOLDER=…)" "$BEVATRON" train --config "$work/run.yaml"
expect 0 "number of parameters: 5616" env RUN_FOLDER="$work/a b" "$BEVATRON" train --dry-run --config "$work/run.yaml"
has "save .*$work/a b/checkpoints"
expect 0 "number of parameters: 15456" env RUN_FOLDER=x LAYERS=4 "$BEVATRON" train --dry-run --config "$work/run.yaml"

# A job has the variables that its files refer to, with their current values; --export overrides them.
slurm=("$BEVATRON" launch slurm --dry-run --config "$work/run.yaml")
expect 2 "the variable RUN_FOLDER is not set" "${slurm[@]}"
expect 0 "export RUN_FOLDER='$work/it'\\''s'" env RUN_FOLDER="$work/it's" "${slurm[@]}"
has_not "export LAYERS"
expect 0 "--load /fsx/b/checkpoints" env RUN_FOLDER=/fsx/a OTHER=7 "${slurm[@]}" --export ALL,RUN_FOLDER=/fsx/b,OTHER --export LAYERS=2 --env LIST=a,b
for line in RUN_FOLDER=/fsx/b LAYERS=2 OTHER=7 LIST=a,b; do has "^export $line$"; done
[ "$(grep -c "export RUN_FOLDER" "$work/out")" = 1 ] && pass || fail "a variable is exported twice"
expect 2 "--export NEVER_SET: the variable is not set here; give NEVER_SET=VALUE" "${slurm[@]}" --export RUN_FOLDER=/fsx/b,NEVER_SET
expect 2 "--export NONE would take PATH" "${slurm[@]}" --export NONE
expect 2 "is neither NAME nor NAME=VALUE" "${slurm[@]}" --export "a b=1"
pods=("$BEVATRON" launch kubernetes --image i --claim c --dry-run --config "$work/run.yaml")
expect 0 '"/fsx/b/checkpoints"' env RUN_FOLDER=/fsx/a "${pods[@]}" --export RUN_FOLDER=/fsx/b
has 'name: "RUN_FOLDER"'
expect 0 '"/fsx/a/checkpoints"' env RUN_FOLDER=/fsx/a "${pods[@]}"
has_not 'name: "RUN_FOLDER"'
expect 2 "a flag overrides the file; write --num_layers=24" "${slurm[@]}" training.model.num_layers=24 --export RUN_FOLDER=/x

# Ranks of this machine.
expect 0 "saved" "$BEVATRON" launch local --export "RUN_FOLDER=$work/run" --env LAYERS=2 --config "$work/run.yaml" --log-arguments
has "num_layers \.* 2"
[ -d "$work/run/checkpoints" ] && pass || fail "no checkpoint where --export says"
expect 2 'is not of the form NAME=VALUE' "$BEVATRON" launch local --env "=x" --config "$work/run.yaml"
finish
