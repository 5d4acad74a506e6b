#!/usr/bin/env bash
# Inputs in S3 and at https://, from a small server that fails on demand (tests/net/object_server.h): the results equal
# those of local files, whatever the server does; errors say what to do; no secret is printed or written.
# tier: all
# cost: 8
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. tests/cli/common.sh || exit
needs_parts CURL

root=$work/s3
mkdir -p "$root/bucket/in" "$root/web" "$work/local"
serve_objects "$root" 3

awk 'BEGIN { for (i = 0; i < 6000; i++) {
    printf "{\"text\": \""
    for (j = 0; j < i % 23; j++) printf "%d ", (i * 31 + j * 17) % 6000
    print "\"}" } }' >"$work/all.jsonl"
split -l 1000 --additional-suffix=.jsonl "$work/all.jsonl" "$work/local/p"
has() { "$BEVATRON" version | grep -q "$1 *yes"; }
if has ZLIB && command -v gzip >/dev/null; then gzip -q "$work/local/pac.jsonl"; fi
if has ZSTD && command -v zstd >/dev/null; then zstd -q --rm "$work/local/pad.jsonl"; fi
if has BZIP2 && command -v bzip2 >/dev/null; then bzip2 -q "$work/local/pae.jsonl"; fi
cp "$work"/local/* "$root/bucket/in/"
cp "$work/all.jsonl" "$root/web/all.jsonl"
echo '{"text": "1 2 3"}' >"$root/bucket/other.txt"

null=(--tokenizer-type NullTokenizer --vocab-size 6000)
preprocess=("$BEVATRON" preprocess "${null[@]}" --workers 2 --output-prefix "$work/out")
sums() { cat "$work/out_text_document.bin" "$work/out_text_document.idx" | sha256sum; }
# same WHAT: the files are those of local inputs.
same() { [ "$(sums)" = "$expected" ] && pass || fail "$1: other bytes than from local files"; rm -f "$work"/out_text*; }

expect 0 "6000 documents" "${preprocess[@]}" --input "$work/local"
expected=$(sums)
rm -f "$work"/out_text*

# A prefix, a folder without its slash, a pattern, single objects, and the web.
expect 0 "6000 documents" "${preprocess[@]}" --input s3://bucket/in/
same "a prefix"
expect 0 "6000 documents" "${preprocess[@]}" --input s3://bucket/in
same "a folder"
expect 0 "6000 documents" "${preprocess[@]}" --input 's3://bucket/in/p*'
same "a pattern"
expect 0 "6000 documents" "${preprocess[@]}" --input "$AWS_ENDPOINT_URL/web/all.jsonl?X-Amz-Signature=hidden-one"
same "an address"
endpoint=$AWS_ENDPOINT_URL
unset AWS_ENDPOINT_URL
expect 0 "6000 documents" "${preprocess[@]}" --input 's3://bucket/in/p*' --endpoint-url "$endpoint"
same "--endpoint-url"
"$BEVATRON" tokenizer dictionary --input "$work/local/*" --output "$work/near.txt" >"$work/out" 2>&1
expect 0 "wrote" "$BEVATRON" tokenizer dictionary --input 's3://bucket/in/p*' --output "$work/far.txt" --endpoint-url "$endpoint"
expect_same "$work/near.txt" "$work/far.txt" "a dictionary from S3"
expect 0 "vocab" "$BEVATRON" tokenizer train --input 's3://bucket/in/paa*' --vocab-size 300 --output-prefix "$work/tokenizer" --endpoint-url "$endpoint"
printf '1 2 3\n4 5\n' >"$root/bucket/numbers.txt"
expect 0 "2 sequences" "$BEVATRON" dataset import --text s3://bucket/numbers.txt --output-prefix "$work/imported" "${null[@]}" --endpoint-url "$endpoint"
export AWS_ENDPOINT_URL=$endpoint

# As data of a run: tokenized into the user's cache, and again only if an object has changed.
unset XDG_CACHE_HOME
train=("$BEVATRON" train "${null[@]}" --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --micro-batch-size 2
    --lr 1e-3 --train-iters 1 --eval-iters 0 --threads 1)
expect 0 "tokenized s3://bucket/in/: 6000 documents" "${train[@]}" --data-path s3://bucket/in/
cmp -s "$work"/.cache/bevatron/text/*/data_text_document.bin <("$BEVATRON" preprocess "${null[@]}" --append-eod --input "$work/local" \
    --output-prefix "$work/eod" >/dev/null 2>&1; cat "$work/eod_text_document.bin") && pass || fail "other tokens than from local files"
expect 0 "iteration        1/" "${train[@]}" --data-path s3://bucket/in/
grep -q "tokenized" "$work/out" && fail "tokenized again" || pass
echo '{"text": "1 2 3"}' >>"$root/bucket/in/paa.jsonl"
expect 0 "tokenized s3://bucket/in/: 6001 documents" "${train[@]}" --data-path s3://bucket/in/
cp "$work/local/paa.jsonl" "$root/bucket/in/paa.jsonl"
expect 0 "tokenized $AWS_ENDPOINT_URL/web/all.jsonl: 6000 documents" "${train[@]}" --data-path "$AWS_ENDPOINT_URL/web/all.jsonl"

# A table is read by ranges.
expect 0 "90 documents" "${preprocess[@]}" --input tests/golden/tables/numbers.parquet
whole=$expected expected=$(sums)
rm -f "$work"/out_text*
mkdir "$root/bucket/tables"
cp tests/golden/tables/numbers.parquet "$root/bucket/tables/"
cp tests/golden/tables/numbers.parquet "$root/web/"
expect 0 "90 documents" "${preprocess[@]}" --input s3://bucket/tables/
same "a table in S3"
expect 0 "90 documents" "${preprocess[@]}" --input "$AWS_ENDPOINT_URL/web/numbers.parquet"
same "a table on the web"
# Other tables are streamed. The rows are those of make_tables.py.
{ echo text && for i in $(seq 0 89); do echo "$i $((i * 7 % 100))"; done; } >"$root/web/numbers.csv"
gzip -c "$root/web/numbers.csv" >"$root/bucket/numbers.csv.gz"
awk 'NR > 1 { print (NR == 2 ? "[" : ",") "{\"text\": \"" $0 "\"}" } END { print "]" }' "$root/web/numbers.csv" >"$root/web/numbers.json"
for name in "$AWS_ENDPOINT_URL/web/numbers.csv" "$AWS_ENDPOINT_URL/web/numbers.json" s3://bucket/numbers.csv.gz; do
    expect 0 "90 documents" "${preprocess[@]}" --input "$name"
    same "$name"
done
expected=$whole

# Every kind of fault on the way.
printf '%s\n' 503 ok short 500 reset short ok 503 reset short short ok 500 short >"$root/.faults"
expect 0 "6000 documents" "${preprocess[@]}" --input s3://bucket/in/
same "a server with faults"
printf '%s\n' ok ok ok changed changed changed changed changed changed changed >"$root/.faults"
expect 1 "has changed since it was first read" "${preprocess[@]}" --input s3://bucket/in/
: >"$root/.faults"
rm -rf "$work/out.unfinished"

# Killed in the middle: it resumes, and does not read finished files again.
: >"$root/.log" >"$work/out"
printf '%s\n' ok ok ok ok ok ok stall stall stall stall >"$root/.faults"
resume=("${preprocess[@]}" --input s3://bucket/in/ --workers 1 --journal-interval 0)
in_background "$work/out" "${resume[@]}"
reader=$!
stalled() { [ "$(grep -c stall "$root/.faults")" -lt 4 ]; }
# Its first file is finished.
journaled() { grep -qs '"file":[1-9]' "$work/out.unfinished/journal"; }
within 900 stalled || fail "the server was not asked"
within 900 journaled || { ls "$work/out.unfinished"; fail "no journal"; }
kill -9 "$reader"
wait "$reader" 2>/dev/null
: >"$root/.faults" >"$root/.log"
expect 0 "resuming a run" "${resume[@]}"
same "a run that was killed"
grep -q 'in/paa.jsonl?' "$root/.log" && fail "a finished object was read again" || pass
# Another object in place of one that was read.
printf '%s\n' ok ok ok ok ok ok stall stall stall stall >"$root/.faults"
in_background "$work/out" "${resume[@]}"
reader=$!
within 900 stalled && within 600 journaled || fail "no second run"
kill -9 "$reader"
wait "$reader" 2>/dev/null
: >"$root/.faults"
echo '{"text": "7"}' >>"$root/bucket/in/paa.jsonl"
expect 2 "now); give the same flags and inputs" "${resume[@]}"
cp "$work/local/paa.jsonl" "$root/bucket/in/"
rm -rf "$work/out.unfinished"

# Other commands that read text.
{
    echo '<mediawiki xml:lang="en"><siteinfo><base>https://en.wikipedia.org/wiki/Main_Page</base></siteinfo>'
    echo '<page><title>Boat</title><ns>0</ns><id>1</id><revision><text>A boat is a thing that swims on the water.</text></revision></page></mediawiki>'
} >"$root/bucket/dump.xml"
expect 0 "" "$BEVATRON" extract wiki --input s3://bucket/dump.xml --output "$work/wiki.jsonl" --min-text-length 1
grep -q "A boat is a thing" "$work/wiki.jsonl" && pass || fail "no article"

# Errors.
expect 1 "s3://bucket/absent.jsonl: no such object" "${preprocess[@]}" --input s3://bucket/absent.jsonl
expect 1 "no object matches s3://bucket/q*" "${preprocess[@]}" --input 's3://bucket/q*'
expect 1 "there are no .jsonl objects" "${preprocess[@]}" --input s3://bucket/none/
expect 1 "does not name a bucket" "${preprocess[@]}" --input s3://b/x
expect 1 "no such file" "${preprocess[@]}" --input "$AWS_ENDPOINT_URL/web/absent"
AWS_ACCESS_KEY_ID=AKIDOTHER expect 1 "S3 does not know the access key …THER (from the environment)" "${preprocess[@]}" --input s3://bucket/in/
AWS_SESSION_TOKEN=stale expect 1 "the credentials from the environment have expired" "${preprocess[@]}" --input s3://bucket/in/
AWS_ACCESS_KEY_ID='' expect 1 "no AWS credentials were found" "${preprocess[@]}" --input s3://bucket/in/
AWS_PROFILE=absent expect 1 'there is no profile "absent"' "${preprocess[@]}" --input s3://bucket/in/

# A server with a certificate of its own (where there is an openssl to play it) is trusted if AWS_CA_BUNDLE names it.
tls_answers() { openssl s_client -connect "localhost:$port" </dev/null >"$work/tls" 2>&1; }
if command -v openssl >/dev/null; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout "$work/key.pem" -out "$work/ca.pem" 2>"$work/tls"
    port=$(free_port)
    (cd "$root/web" && exec openssl s_server -accept "$port" -key "$work/key.pem" -cert "$work/ca.pem" -WWW) >"$work/tls_server" 2>&1 &
    server=$!
    if within 900 tls_answers; then
        expect 1 "certificate" "${preprocess[@]}" --input "https://localhost:$port/all.jsonl"
        AWS_CA_BUNDLE=$work/ca.pem expect 0 "6000 documents" "${preprocess[@]}" --input "https://localhost:$port/all.jsonl"
        same "an address with a certificate of its own"
        printf '[default]\nca_bundle = %s/ca.pem\n' "$work" >"$work/aws-config"
        AWS_CONFIG_FILE=$work/aws-config expect 0 "6000 documents" "${preprocess[@]}" --input "https://localhost:$port/all.jsonl"
        same "the profile's ca_bundle"
    fi
    kill $server
    wait $server 2>/dev/null
fi

grep -rlE "very-secret|hidden-one" "$work" --exclude-dir=s3 && fail "a secret was written" || pass
exec {hold}>&-
finish
