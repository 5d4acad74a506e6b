#!/usr/bin/env bash
# bevatron extract wiki: the same articles for every number of workers, compression in and out, flags, truncated input.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
needs_parts BZIP2 LZMA

page() { # TITLE NAMESPACE ID TEXT
    echo "  <page><title>$1</title><ns>$2</ns><id>$3</id><revision><id>1</id><model>wikitext</model><text>$4</text></revision></page>"
}
{
    echo '<mediawiki xml:lang="en"><siteinfo><base>https://en.wikipedia.org/wiki/Main_Page</base></siteinfo>'
    page "Boat" 0 1 "A '''boat''' is {{convert|5|km|mi}} long.&lt;ref&gt;x&lt;/ref&gt; {{greet|Bob}}"
    page "2001: A &amp; B" 0 2 "Text with [[link|a link]]."
    page "Ship" 0 3 "#REDIRECT [[Boat]]"
    page "Talk:Boat" 1 4 "Hello there."
    page "Template:Greet" 10 5 "Hello {{{1}}}!"
    page "Short" 0 6 "Hi."
    for i in $(seq 7 3000); do
        page "Page $i" 0 "$i" "Number $i with {{nowrap|some}} text, $((i * i)) words and [[Page $((i + 1))|a link]]."
    done
    echo '</mediawiki>'
} >"$work/dump.xml"

expect 0 "2997 articles of 3000 pages" "$BEVATRON" extract wiki --input "$work/dump.xml" --output "$work/one.jsonl" --workers 1
expect 0 '"redirects":1,"other_namespaces":2' "$BEVATRON" extract wiki --input "$work/dump.xml" --output "$work/three.jsonl" \
    --workers 3 --json
expect_same "$work/one.jsonl" "$work/three.jsonl" "articles for 1 and 3 workers"
head -n 2 "$work/one.jsonl" >"$work/head"
cat >"$work/wanted" <<'END'
{"id":"1","url":"https://en.wikipedia.org/wiki?curid=1","title":"Boat","text":"A boat is 5 kilometres (3.1 mi) long."}
{"id":"2","url":"https://en.wikipedia.org/wiki?curid=2","title":"2001: A & B","text":"Text with a link."}
END
expect_same "$work/head" "$work/wanted" "the first articles"

# Compressed dumps, several streams, standard input and output.
for program in gzip bzip2 xz zstd; do
    command -v $program >/dev/null || continue
    "$BEVATRON" version | grep -qiE "${program/gzip/zlib}|${program/xz/lzma}" || continue
    { head -c 100000 "$work/dump.xml" | $program -c; tail -c +100001 "$work/dump.xml" | $program -c; } >"$work/dump.packed"
    expect 0 "2997 articles" "$BEVATRON" extract wiki --input "$work/dump.packed" --output "$work/$program.jsonl" --workers 3
    expect_same "$work/one.jsonl" "$work/$program.jsonl" "articles of a dump in $program"
    size=$(stat -c %s "$work/dump.packed")
    head -c $((size - 20)) "$work/dump.packed" >"$work/cut.packed"
    expect 215 "cut.packed" "$BEVATRON" extract wiki --input "$work/cut.packed" --output "$work/cut.jsonl" --workers 3
done
"$BEVATRON" extract wiki --input - --output - <"$work/dump.xml" >"$work/piped.jsonl" 2>"$work/out"
expect_same "$work/one.jsonl" "$work/piped.jsonl" "articles by way of pipes"
grep -q "2997 articles" "$work/out" && pass || fail "the summary on stderr"
for suffix in gz zst; do
    program=${suffix/gz/gzip} program=${program/zst/zstd}
    command -v $program >/dev/null || continue
    expect 0 "2997 articles" "$BEVATRON" extract wiki --input "$work/dump.xml" --output "$work/packed.jsonl.$suffix"
    $program -dc "$work/packed.jsonl.$suffix" >"$work/unpacked.jsonl"
    expect_same "$work/one.jsonl" "$work/unpacked.jsonl" "articles packed as .$suffix"
done

# Flags.
expect 0 "2996 articles" "$BEVATRON" extract wiki --input "$work/dump.xml" --output "$work/long.jsonl" --min-text-length 5
expect 0 "1 articles" "$BEVATRON" extract wiki --input "$work/dump.xml" --output "$work/talk.jsonl" --namespaces 1
grep -q "Hello there" "$work/talk.jsonl" && pass || fail "the talk page"
expect 0 "1 templates loaded" "$BEVATRON" extract wiki --input "$work/dump.xml" --output "$work/expand.jsonl" --templates expand
grep -q "long. Hello Bob!" "$work/expand.jsonl" && pass || fail "a template expanded"
expect 2 "standard input can be read only once" "$BEVATRON" extract wiki --input - --output "$work/x.jsonl" --templates expand
expect 2 "is not a number" "$BEVATRON" extract wiki --input "$work/dump.xml" --output "$work/x.jsonl" --namespaces zero
expect 2 "output is plain, .gz or .zst" "$BEVATRON" extract wiki --input "$work/dump.xml" --output "$work/x.jsonl.xz"
expect 2 "did you mean --namespaces" "$BEVATRON" extract wiki --input "$work/dump.xml" --output "$work/x.jsonl" --namespace 0
expect 2 'there is no command "extract pdf"' "$BEVATRON" extract pdf
expect 2 'there is no command "extract wikipedia"; did you mean wiki?' "$BEVATRON" extract wikipedia
expect 0 "--min-text-length" "$BEVATRON" extract wiki --help

# Input that is not a dump, is truncated, or has bad pages: an error that names it, and nothing left behind.
head -c 100000 "$work/dump.xml" >"$work/cut.xml"
expect 215 "is truncated" "$BEVATRON" extract wiki --input "$work/cut.xml" --output "$work/x.jsonl"
echo "hello" >"$work/hello.txt"
expect 215 "is not a wiki dump" "$BEVATRON" extract wiki --input "$work/hello.txt" --output "$work/x.jsonl"
sed 's|<title>Page 500</title>||' "$work/dump.xml" >"$work/bad.xml"
expect 215 "it has no <title>" "$BEVATRON" extract wiki --input "$work/bad.xml" --output "$work/x.jsonl"
expect 0 "1 bad pages skipped" "$BEVATRON" extract wiki --input "$work/bad.xml" --output "$work/skipped.jsonl" --skip-bad-pages
expect 215 "no article" "$BEVATRON" extract wiki --input "$work/dump.xml" --output "$work/x.jsonl" --namespaces 99
expect 1 "no such file" "$BEVATRON" extract wiki --input "$work/none.xml" --output "$work/x.jsonl"
expect 0 "new/folder/y.jsonl" "$BEVATRON" extract wiki --input "$work/dump.xml" --output "$work/new/folder/y.jsonl"
expect 1 "cannot create the folder" "$BEVATRON" extract wiki --input "$work/dump.xml" --output "$work/dump.xml/x.jsonl"
[ -z "$(find "$work" -name 'x.jsonl*' -o -name 'cut.jsonl*' -o -name '*.tmp*')" ] && pass || fail "errors leave nothing behind"

# A pipe cannot be read twice.
mkfifo "$work/pipe"
expect 2 "can be read only once" "$BEVATRON" extract wiki --templates expand --input "$work/pipe" --output "$work/never.jsonl"
finish
