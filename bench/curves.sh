#!/usr/bin/env bash
# Learning curves of Muon beside AdamW, tuned alike, and a picture of them:
#   bench/curves.sh BEVATRON OUTPUT.svg [OPTIMIZER…]          (adam and muon; also lion, adamuon, normuon)
# Every optimizer first trains once with each learning rate of the same list; the best by validation loss then trains with
# several seeds, of weights and of the order of samples. The picture has the means over seeds, and bands from the lowest
# to the highest, of losses averaged over a twentieth of the steps. Prints the validation losses, and the step at which
# each optimizer reaches the last loss of the first. Environment:
#   STEPS=300 SEEDS=3 RATES="1e-3 3e-3 1e-2"
#   MODEL="…"       flags of the model and its batches; the default is a tiny GPT for a CPU. On a GPU, e.g.
#                   MODEL="--preset gpt2-124m --vocab-size 50257 --bf16 --micro-batch-size 8 --global-batch-size 64"
#   DATA=PREFIX     a dataset (.bin and .idx) instead of the demo's stories, which are generated and tokenized here
set -u
cd "$(dirname "$0")/.." || exit 1
program=${1:?usage: bench/curves.sh BEVATRON OUTPUT.svg [OPTIMIZER…]}
picture=${2:?usage: bench/curves.sh BEVATRON OUTPUT.svg [OPTIMIZER…]}
shift 2
[ $# -gt 0 ] || set -- adam muon
steps=${STEPS:-300} seeds=${SEEDS:-3} data=${DATA:-}
read -ra rates <<<"${RATES:-1e-3 3e-3 1e-2}"
read -ra model <<<"${MODEL:---num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 \
--micro-batch-size 16 --global-batch-size 16}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

make_data() {
    "$(dirname "$program")/make_stories" --megabytes 4 --seed 1 >"$work/stories.jsonl" &&
        "$program" tokenizer train --input "$work/stories.jsonl" --vocab-size 512 --output-prefix "$work/stories" &&
        "$program" preprocess --input "$work/stories.jsonl" --output-prefix "$work/stories" --append-eod \
            --tokenizer-type GPT2BPETokenizer --vocab-file "$work/stories-vocab.json" \
            --merge-file "$work/stories-merges.txt" --workers "$(nproc)"
}
if [ -z "$data" ]; then
    make_data >"$work/data.log" 2>&1 || { tail -n 5 "$work/data.log"; exit 1; }
    data=$work/stories_text_document
    model+=(--vocab-size 512)
fi

# flags_of OPTIMIZER: what differs. Muon's updates are as large as AdamW's, so both have the same list of rates.
flags_of() {
    local muon="--muon-nesterov --muon-momentum 0.95 --muon-extra-scale-factor 0.2"
    case $1 in
    adam | lion) echo "--optimizer $1" ;;
    muon) echo "--optimizer muon $muon" ;;
    adamuon) echo "--optimizer adaptive_muon $muon --muon-scale-mode unit_rms_norm" ;;
    normuon) echo "--optimizer adaptive_muon --adaptive-muon-moment2-method normuon $muon" ;;
    *) echo "curves.sh: unknown optimizer $1" >&2; return 1 ;;
    esac
}

# run_once OPTIMIZER RATE SEED: losses of all steps into $work/OPTIMIZER.SEED; prints the validation loss.
run_once() {
    local flags
    read -ra flags <<<"$(flags_of "$1")"
    "$program" train "${model[@]}" "${flags[@]}" --data-path "$data" --data-cache-path "$work/index" --split 95,5,0 --lr "$2" \
        --min-lr "$(awk -v x="$2" 'BEGIN { print x / 10 }')" --lr-decay-style cosine --lr-warmup-iters $((steps / 20)) \
        --weight-decay 0.1 --adam-beta2 0.95 --clip-grad 1.0 --attention-dropout 0 --hidden-dropout 0 --seed "$3" \
        --train-iters "$steps" --log-interval 1 --eval-interval 1000000 --eval-iters 10 >"$work/log" 2>&1 ||
        { tail -n 5 "$work/log" >&2; return 1; }
    sed -nE 's/.*iteration +([0-9]+)\/.*lm loss: ([^ ]+) .*/\1 \2/p' "$work/log" >"$work/$1.$3"
    sed -nE 's/.*validation set.*lm loss value: ([^ ]+).*/\1/p' "$work/log" | tail -n 1
}

for optimizer in "$@"; do
    best="" least=""
    for rate in "${rates[@]}"; do
        loss=$(run_once "$optimizer" "$rate" 1) || exit 1
        echo "$optimizer, --lr $rate, seed 1: validation loss $loss"
        awk -v a="$loss" -v b="${least:-inf}" 'BEGIN { exit !(b == "inf" || a + 0 < b + 0) }' &&
            least=$loss best=$rate && sed "s/^/$optimizer $best 1 /" "$work/$optimizer.1" >"$work/best"
    done
    [ "${#rates[@]}" -gt 2 ] && [[ $best = "${rates[0]}" || $best = "${rates[-1]}" ]] &&
        echo "$optimizer: the best rate, $best, is at an end of RATES; give more there"
    cat "$work/best" >>"$work/losses"
    for seed in $(seq 2 "$seeds"); do
        loss=$(run_once "$optimizer" "$best" "$seed") || exit 1
        echo "$optimizer, --lr $best, seed $seed: validation loss $loss"
        sed "s/^/$optimizer $best $seed /" "$work/$optimizer.$seed" >>"$work/losses"
    done
done

# Lines "optimizer rate seed step loss" become the picture.
awk -v steps="$steps" -v order="$*" -v picture="$picture" '
    function x_of(step) { return 60 + 560 * step / steps }
    function y_of(loss) { return 340 - 300 * (loss - low) / (high - low) }
    {
        rate[$1] = $2; if ($3 > seeds) seeds = $3
        value[$1, $3, $4] = $5
    }
    END {
        count = split(order, names, " "); width = int(steps / 20); if (width < 1) width = 1
        low = 1e9; high = 0
        for (i = 1; i <= count; i++) for (t = width; t <= steps; t++) {
            name = names[i]; sum = 0; least = 1e9; most = 0
            for (s = 1; s <= seeds; s++) {
                mean = 0
                for (k = 0; k < width; k++) mean += value[name, s, t - k] / width
                sum += mean / seeds; if (mean < least) least = mean; if (mean > most) most = mean
            }
            curve[name, t] = sum; bottom[name, t] = least; top[name, t] = most
            if (least < low) low = least
            if (t == 2 * width && most > high) high = most
        }
        low = int(low * 10) / 10; split("#2a6fbb #c8502d #3d8b4f #7a4fa3 #8a6d3b", colors, " ")
        print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 660 400\" font-family=\"sans-serif\" font-size=\"12\">" >picture
        print "<rect width=\"660\" height=\"400\" fill=\"#ffffff\"/>" >picture
        for (k = 0; k <= 5; k++) {
            loss = low + (high - low) * k / 5; step = steps * k / 5
            printf "<path d=\"M60 %.1fH620\" stroke=\"#dddddd\"/><text x=\"52\" y=\"%.1f\" text-anchor=\"end\">%.2f</text>\n", y_of(loss), y_of(loss) + 4, loss >picture
            printf "<text x=\"%.1f\" y=\"358\" text-anchor=\"middle\">%d</text>\n", x_of(step), step >picture
        }
        print "<text x=\"340\" y=\"380\" text-anchor=\"middle\">step</text><text x=\"60\" y=\"24\">training loss</text>" >picture
        for (i = 1; i <= count; i++) {
            name = names[i]; line = ""; band = ""; back = ""
            for (t = 2 * width; t <= steps; t++) {
                line = line sprintf("%s%.1f %.1f", line == "" ? "M" : "L", x_of(t), y_of(curve[name, t]))
                band = band sprintf("%s%.1f %.1f", band == "" ? "M" : "L", x_of(t), y_of(bottom[name, t]))
                back = sprintf("L%.1f %.1f", x_of(t), y_of(top[name, t])) back
            }
            printf "<path d=\"%s%sZ\" fill=\"%s\" fill-opacity=\"0.2\"/><path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\"/>\n", band, back, colors[i], line, colors[i] >picture
            printf "<path d=\"M440 %dh24\" stroke=\"%s\" stroke-width=\"3\"/><text x=\"472\" y=\"%d\">%s, --lr %s</text>\n", 40 + 18 * i, colors[i], 44 + 18 * i, name, rate[name] >picture
            reached = 0
            for (t = width; t <= steps && !reached; t++) if (curve[name, t] <= curve[names[1], steps]) reached = t
            printf "%s: last loss %.4f; reaches that of %s, %.4f, %s\n", name, curve[name, steps], names[1], curve[names[1], steps], reached ? sprintf("at step %d of %d (%.2f)", reached, steps, reached / steps) : "never"
        }
        print "</svg>" >picture
    }' "$work/losses"
echo "wrote $picture"
