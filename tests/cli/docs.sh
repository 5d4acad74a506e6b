# shellcheck shell=bash disable=SC2034,SC2154  # names of the scripts that source it
# For tests that run the commands of a documentation page as printed there. Sourced after common.sh.
# A line before a code block says what to do with it:
#   <!-- run: STORY -->            the block is run, in the folder of that story, after the blocks before it
#   <!-- run: STORY ranks -->      the same, if several ranks can be started
#   <!-- file: STORY NAME -->      the block is the content of a file in that folder
#   <!-- not run: WHY -->          only for readers
# A ```sh block in which a line begins with -- holds flags of train; train is run with each such line.
golden=$PWD/tests/golden
shared=$(realpath -m "${BEVATRON_SHARED:-../shared}")/data
real=$(realpath "$BEVATRON")

# file REAL MADE NAME: the real file if it exists, else the made one, under the name used on the page.
file() {
    if [ -f "$shared/$1" ]; then cp "$shared/$1" "$3"; else cp "$golden/$2" "$3"; fi
}

# pack PROGRAM FROM TO: compresses if the program is installed; content decides, so a plain file works too.
pack() {
    if command -v "$1" >/dev/null; then "$1" -c "$2" >"$3" 2>/dev/null; else cp "$2" "$3"; fi
}

# Paragraphs of the golden corpus as JSON Lines, some of them twice.
make_jsonl() {
    awk 'NF { gsub(/\\/, ""); gsub(/"/, "\\\""); gsub(/\t/, " "); printf "{\"text\": \"%s The end.\", \"meta\": {\"set\": \"made\"}}\n", $0 }
        NR % 50 == 0 { print "{\"text\": \"Again. And again.\", \"meta\": {}}" }' "$golden/bpe/corpus.txt" | head -400
}

# A dump of three articles.
make_dump() {
    echo '<mediawiki><siteinfo><base>https://en.wikipedia.org/wiki/Main_Page</base></siteinfo>'
    for i in 1 2 3; do
        echo "<page><title>Page $i</title><ns>0</ns><id>$i</id><revision><id>9</id><text>'''Page $i''' is a [[page|made page]]"
        echo "about {{convert|$i|km|mi}} of road. $(printf 'It goes on and on. %.0s' 1 2 3 4 5 6 7 8)</text></revision></page>"
    done
    echo '</mediawiki>'
}

# commands PAGE STORY: its blocks, in order, without those that need ranks if there are none.
commands() {
    awk -v story="$2" -v ranks="$ranks" '
        $0 == "<!-- run: " story " -->" || (ranks && $0 == "<!-- run: " story " ranks -->") { wanted = 1; next }
        wanted && $0 == "```sh" { inside = 1; next }
        inside && $0 == "```" { inside = wanted = 0; next }
        inside && /^--/ { sub(/ *#.*/, ""); print "bevatron train " $0 " …"; next }
        inside' "$1"
}

# files PAGE STORY: writes the files of a story into the current folder.
files() {
    awk -v begin="<!-- file: $2 " '
        index($0, begin) == 1 { name = substr($0, length(begin) + 1); sub(/ -->$/, "", name); next }
        name != "" && !inside && /^```/ { inside = 1; next }
        inside && $0 == "```" { close(name); inside = 0; name = ""; next }
        inside { print > name }' "$1"
}

# stories PAGE: their names.
stories() {
    sed -nE 's/^<!-- (run|file): ([a-z]+)( .*)? -->$/\2/p' "$1" | sort -u
}

# unmarked PAGE: our commands in blocks without a mark.
unmarked() {
    awk '
        /^<!-- (run|file|not run): .* -->$/ { marked = 1; next }
        /^```/ { if (inside) { inside = marked = 0 } else { inside = 1 }; next }
        !inside { if (NF) marked = 0 }
        /^ *(\$ )?((mpirun|srun|torchrun) .*)?bevatron [a-z]/ && (inside ? !marked : /^    /) { print FILENAME ":" FNR ": " $0 }' "$1"
}

# run_story PAGE STORY: runs in a new folder, which prepare_STORY fills.
run_story() {
    local page
    page=$(realpath "$1")
    mkdir "$work/$2"
    # Two ranks show what four do, in a fraction of the time on two cores.
    commands "$1" "$2" | sed -E 's/ …( |$)/ $rest\1/g; s/(-n|--nproc) 4 /\1 2 /' >"$work/$2.sh"
    [ -n "$ranks" ] || [ -s "$work/$2.sh" ] || return 0
    grep -q bevatron "$work/$2.sh" && pass || fail "$1 has no commands for $2"
    (set -e; cd "$work/$2"; "prepare_$2"; files "$page" "$2") >"$work/out" 2>&1
    [ $? = 0 ] && pass || fail "cannot prepare $2"
    expect 0 "" bash -ec "cd '$work/$2' && set -o pipefail && . ../$2.sh"
}
