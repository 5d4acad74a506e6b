#!/usr/bin/env bash
# The manual pages and completion scripts that the program makes from its tables of flags: complete, and accepted by the
# programs that read them: groff, and bash, zsh and fish with a real Tab key.
# tier: all
. "$(dirname "${BASH_SOURCE[0]}")/common.sh" || exit
cd "$work" || exit 1

# flags_of FILE: the names of flags in a text, sorted. Completion does not offer flags without an effect.
flags_of() { grep -oE -- '--[a-z][A-Za-z0-9_-]*' "$1" | sort -u; }

# Pages and scripts name every command and every flag of its --help-all.
for shell in bash zsh fish; do
    expect 0 bevatron "$BEVATRON" help --completion $shell
    cp out "bevatron.$shell"
done
"$BEVATRON" help commands >commands
grep -qx "dataset merge" commands && grep -qx train commands || fail "commands are missing in the list of commands"
mkdir man1
{ echo && cat commands; } | while read -r command; do
    page=bevatron${command:+-${command// /-}}
    # shellcheck disable=SC2086  # words of a command
    "$BEVATRON" help --man $command >"man1/$page.1" || echo "$page: exit code $?"
    [ -n "$command" ] || continue
    # shellcheck disable=SC2086
    "$BEVATRON" $command --help-all >help || echo "$command: exit code $?"
    sed -nE 's/^  (-[a-z], )?(--[A-Za-z0-9_-]+).*/\2/p' help | sort -u >flags
    sed -n 's/^\(\\fB\\-[a-z]\\fR, \)\{0,1\}\\fB\(\\-\\-[^\\]*\(\\-[^\\]*\)*\)\\fR.*/\2/p' "man1/$page.1" | tr -d '\\' | sort -u >told
    comm -23 flags told | sed "s/^/$page lacks /"
    grep -B1 -A4 'not supported' help >unsupported
    flags_of unsupported >left_out
    sed -n "/^    '$command') rows/,/^' ;;/p" bevatron.bash | grep -oE '^--[^ ]+' | sort -u >offered
    comm -23 flags offered | comm -23 - left_out | sed "s/^/completion of $command lacks /"
done >lacking
cp lacking out
if [ -s lacking ]; then fail "pages or completion are incomplete"; else pass; fi
expect 2 "bash, zsh or fish" "$BEVATRON" help --completion tcsh
expect 2 "bash, zsh or fish" "$BEVATRON" help --completion
expect 2 "no manual page" "$BEVATRON" help --man trian
expect 2 "did you mean merge" "$BEVATRON" help --man dataset merg

# The formatter has no warnings, for a terminal with Unicode and for one without.
if [ -n "$(command -v groff)" ]; then
    for page in man1/*; do
        groff -ww -Tutf8 -man "$page" 2>>warnings >/dev/null
        groff -ww -Tascii -man "$page" 2>>warnings >/dev/null
    done
    cp warnings out
    if [ -s warnings ]; then fail "groff warns about pages"; else pass; fi
    groff -Tutf8 -man man1/bevatron-train.1 | sed -e 's/\x1b\[[0-9;]*m//g' -e 's/.\x08//g' >out
    if grep -q -- "--micro-batch-size N" out && grep -q "constant|linear|cosine" out; then pass; else fail "bevatron-train.1"; fi
else
    echo "skipped: groff is not installed; manual pages were not formatted"
fi
if [ -n "$(command -v mandoc)" ]; then
    # The page intentionally has no date: the same source makes the same page.
    if mandoc -T lint -W warning man1/* 2>&1 | grep -vE 'missing date|^$' >out; then fail "mandoc warns about pages"; else pass; fi
fi

# What a shell makes of a line after Tab: `bevatron` is a function that records its arguments.
mkdir runs
touch "my file.jsonl" other.jsonl
# % is the key.
tr % '\t' >lines <<'LINES'
bevatron tok%d%
bevatron dataset me%
bevatron train --preset gpt2-124%
bevatron train --optimizer s%
bevatron train --position-embedding-type=ro%
bevatron preprocess --input my% oth%
bevatron train --save ru%
bevatron checkpoint inspect oth%
bevatron help dat%
bevatron launch slurm --partition x --normaliz% R%
bevatron launch slurm --partition x preprocess --append-e%
bevatron train --bf1%
LINES
cat >expected <<'WORDS'
<tokenizer><d>
<dataset><merge>
<train><--preset><gpt2-124m>
<train><--optimizer><sgd>
<train><--position-embedding-type=rope>
<preprocess><--input><my file.jsonl><other.jsonl>
<train><--save><runs>
<checkpoint><inspect><other.jsonl>
<help><dataset>
<launch><slurm><--partition><x><--normalization><RMSNorm>
<launch><slurm><--partition><x><preprocess><--append-eod>
<train><--bf16>
WORDS
# press SHELL COMMAND: types the lines into a shell on a pseudo-terminal.
press() {
    { cat lines && printf 'exit\n'; } | script -qec "$2" /dev/null >"typed.$1" 2>&1
    sed -e 's#runs/>#runs>#' -e 's#--normalization=#--normalization><#' "words.$1" >"got.$1"
    cp "typed.$1" out
    if diff expected "got.$1" >>out; then pass; else fail "Tab in $1"; fi
}
if [ -n "$(command -v script)" ]; then
    echo "bevatron() { printf '<%s>' \"\$@\" >>words.bash; echo >>words.bash; }" | cat - bevatron.bash >bashrc
    press bash "bash --noprofile --rcfile bashrc -i"
else
    echo "skipped: script is not installed; no keys were pressed"
fi
# ask LINE: what a function of bash would offer, without a terminal.
ask() {
    bash --norc -c '. ./bevatron.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _bevatron; printf "%s\n" "${COMPREPLY[@]}"' \
        bevatron "$@" | sort >out
}
ask bevatron ""
if [ "$(wc -l <out)" -ge 15 ] && grep -qx train out && ! grep -q -- -- out; then pass; else fail "commands offered"; fi
ask bevatron train --preset ""
"$BEVATRON" help presets | awk 'NR > 1 { print $1 }' | sort >presets
expect_same presets out "presets offered"
ask bevatron train --lr ""
if [ -s out ] && grep -q . out; then fail "words offered for a number"; else pass; fi
ask bevatron train --bf16 --lr-decay-s
if grep -qx -- --lr-decay-style out && grep -qx -- --lr-decay-samples out; then pass; else fail "flags offered after a switch"; fi
ask bevatron launch kubernetes --na
if grep -qx -- --name out || grep -q -- --namespace out; then pass; else fail "flags of a launcher"; fi

if [ -n "$(command -v zsh)" ] && [ -n "$(command -v script)" ]; then
    mkdir zdot functions
    cp bevatron.zsh functions/_bevatron
    {
        echo 'bevatron() { printf "<%s>" "$@" >>words.zsh; echo >>words.zsh }'
        echo 'fpath=($PWD/functions $fpath); autoload -Uz compinit; compinit -u -D'
    } >zdot/.zshrc
    export ZDOTDIR=$work/zdot
    press zsh "zsh -i"
else
    echo "skipped: zsh is not installed"
fi
if [ -n "$(command -v fish)" ]; then
    # fish answers without a terminal: the last word of each line must be among its candidates.
    export HOME=$work
    cat >asked <<'LINES'
bevatron dataset me|merge
bevatron train --preset gpt2-124|gpt2-124m
bevatron train --optimizer=s|--optimizer=sgd
bevatron preprocess --input other.jsonl my|my file.jsonl
bevatron train --save ru|runs/
bevatron checkpoint inspect oth|other.jsonl
bevatron help dat|dataset
bevatron launch slurm --partition x --normaliz|--normalization
bevatron launch slurm preprocess --append-e|--append-eod
LINES
    while IFS='|' read -r line wanted; do
        fish --no-config -c "source bevatron.fish; complete -C '$line'" 2>&1 | cut -f1 >out
        if grep -qxF -- "$wanted" out; then pass; else fail "Tab in fish: $line"; fi
    done <asked
else
    echo "skipped: fish is not installed"
fi

finish
