# shellcheck shell=bash disable=SC2034,SC2154  # names of the scripts that source it
# A small run that is stopped and resumed in many ways. Sourced after common.sh.
model=(--mock-data --vocab-size 97 --num-layers 2 --hidden-size 48 --num-attention-heads 3 --seq-length 33
    --max-position-embeddings 40 --micro-batch-size 2 --global-batch-size 6 --lr 1e-3 --min-lr 1e-4
    --lr-decay-style cosine --lr-warmup-iters 3 --weight-decay 0.1 --log-interval 1 --eval-interval 8 --eval-iters 2
    --hidden-dropout 0.1 --attention-dropout 0.1 --device cpu)

# Compares every weight and every moment of two checkpoints by their hashes.
expect_same_state() {
    local a b
    a=$(cd "$1" && sha256sum model.safetensors optimizer.safetensors)
    b=$(cd "$2" && sha256sum model.safetensors optimizer.safetensors)
    if [ -n "$a" ] && [ "$a" = "$b" ]; then pass; else fail "$3: the states in $1 and $2 differ"; fi
}
