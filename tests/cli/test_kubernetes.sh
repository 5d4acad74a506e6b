#!/usr/bin/env bash
# launch kubernetes: manifests of every kind, against the schemas of Kubernetes and the operators where they are at hand,
# and kubectl driven through a stand-in.
. tests/cli/common.sh || exit
model=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 50
    --tokenizer-type NullTokenizer --micro-batch-size 1 --lr 1e-3 --train-iters 5)
launch=("$BEVATRON" launch kubernetes --image registry/bevatron:1 --claim fsx-claim)
hostile=$'x: "y"\n- $(touch z) \'{"a": 1}\' #'

for kind in jobset indexed-job mpijob pytorchjob; do
    "${launch[@]}" --kind $kind --nodes 2 --machine p5.48xlarge --memory 1000Gi --env "GIVEN=$hostile" --dry-run \
        "${model[@]}" --save "/fsx/$hostile" --save-interval 5 >"$work/$kind.yaml" 2>"$work/out" && pass || fail "--kind $kind"
done
"${launch[@]}" --dry-run preprocess --input "$hostile" --output-prefix x >"$work/job.yaml" 2>"$work/out" && pass || fail "preprocess"
"${launch[@]}" --dry-run getdata --url https://example.org/a --to /fsx/raw --url https://example.org/b \
    >"$work/getdata.yaml" 2>"$work/out" && pass || fail "getdata"
grep -q '"https://example.org/b"' "$work/getdata.yaml" && pass || fail "getdata lost a URL"

if python3 -c 'import yaml' 2>/dev/null; then
    HOSTILE=$hostile python3 - "$work"/*.yaml <<'EOF' && pass || fail "a hostile string did not survive"
import os, sys, yaml
# Kubernetes makes one $ of two.
hostile, seen = os.environ["HOSTILE"].replace("$", "$$"), 0
for path in sys.argv[1:]:
    for document in yaml.safe_load_all(open(path)):
        text = repr(document)
        seen += repr(hostile)[1:-1] in text or repr("/fsx/" + hostile)[1:-1] in text
sys.exit(0 if seen >= 5 else 1)
EOF
fi
validate=$BEVATRON_SHARED/data/k8s/validate.py
if [ -f "$validate" ] && python3 -c 'import yaml, jsonschema' 2>/dev/null; then
    expect 0 "" python3 "$validate" "$work"/*.yaml
else
    echo "SKIP schemas of Kubernetes: no validate.py, or no python3-yaml and python3-jsonschema"
fi

# kubectl by a stand-in.
mkdir "$work/bin"
stand_in() { printf '#!/bin/sh\n%s\n' "$1" >"$work/bin/kubectl" && chmod +x "$work/bin/kubectl"; }
submit=(env PATH="$work/bin:$PATH" "${launch[@]}" "${model[@]}")
stand_in "echo \"\$@\" >>$work/arguments; [ \$1 = apply ] && cat >$work/applied; echo done"
expect 0 "done" "${submit[@]}" --watch --namespace team
grep -q "^apply -f -" "$work/arguments" && grep -q "^logs -f .*jobset-name=train.*-n team" "$work/arguments" &&
    pass || fail "kubectl got $(cat "$work/arguments")"
grep -q 'kind: "JobSet"' "$work/applied" && pass || fail "nothing was applied"
# A pod that waits first, and one that has ended before anybody looked, are followed alike; where pods cannot be asked for, that is said.
stand_in "case \$1 in apply) cat >/dev/null ;; get) [ -e $work/asked ] && echo Succeeded || echo Pending; touch $work/asked ;; logs) echo the log ;; esac"
expect 0 "the log" "${submit[@]}" --watch
stand_in "case \$1 in apply) cat >/dev/null ;; get) echo 'pods is forbidden' >&2; exit 1 ;; logs) echo the log ;; esac"
expect 1 "kubectl cannot find its pods: pods is forbidden" "${submit[@]}" --watch
# What kubectl says: the first three of 1.20.2, recorded; the others in the words of newer ones and of the API server.
refuses() {
    printf '%s\n' "$1" >"$work/complaint"
    stand_in "cat >/dev/null; cat $work/complaint >&2; exit 1"
    expect 1 "kubectl cannot apply the job: $1; $2" "${submit[@]}"
}
refuses 'The connection to the server localhost:8080 was refused - did you specify the right host or port?' "tell kubectl where the cluster is"
refuses 'Error in configuration: context was not found for specified context: gone' "\`kubectl config get-contexts\`"
refuses 'Unable to connect to the server: dial tcp: lookup no-such-host.invalid on 10.0.0.2:53: no such host' "the cluster is gone"
refuses 'error: resource mapping not found for name: "train" namespace: "" from "STDIN": no matches for kind "JobSet" in version "jobset.x-k8s.io/v1alpha2"' \
    "the cluster has no operator for this kind of job: install it, or use --kind indexed-job"
refuses 'error: You must be logged in to the server (the server has asked for the client to provide credentials)' "the cluster does not know this user"
refuses 'Error from server (Forbidden): jobs.batch is forbidden: User "x" cannot create resource "jobs" in API group "batch"' "ask for the right"
refuses 'Error from server (NotFound): error when creating "STDIN": namespaces "team" not found' "make it"
expect 2 "cannot be the name of a job" "${launch[@]}" --job-name 'A b' --dry-run "${model[@]}"
expect 2 "needs --url" "${launch[@]}" --dry-run getdata
expect 2 "getdata needs --claim" "$BEVATRON" launch kubernetes --image i --dry-run getdata --url https://example.org/a --to /fsx/raw
for to in /raw /fsxraw /fsx/../raw; do
    expect 2 "not below --mount /fsx" "${launch[@]}" --dry-run getdata --url https://example.org/a --to "$to"
done
expect 0 '"/data"' "${launch[@]}" --mount / --dry-run getdata --url https://example.org/a --to /data
# Without a machine there is none, whatever memory holds: its GPUs are not judged and not asked for.
for kind in indexed-job job pytorchjob; do
    expect 0 'cpu: "4"' "$BEVATRON" launch kubernetes --image i --kind $kind --cpu 4 --hugepages 5Gi --memory 16Gi \
        --toleration a=b:NoExecute --node-selector a=b --dry-run "${model[@]}"
    grep -q "nvidia.com/gpu" "$work/out" && fail "GPUs of no machine" || pass
done
# Four GPUs of a machine, as many as it has, and what EC2 sells it with.
expect 0 'nvidia.com/gpu: 4' "${launch[@]}" --nodes 2 --machine p6e-gb200.36xlarge --dry-run "${model[@]}"
expect 0 'vpc.amazonaws.com/efa: 1' "${launch[@]}" --nodes 2 --machine g5.12xlarge --dry-run "${model[@]}"
# What a file here says becomes flags there, unless the command line says otherwise.
printf 'num-layers: 7\nhidden-size: 24\nbf16: true\ntie: no\n' >"$work/bad.yaml"
printf 'num-layers: 7\nhidden-size: 24\nlog-throughput: true\ndata-path: 0.3 /fsx/a 0.7 c\n' >"$work/run.yml"
expect 2 "tie" "${launch[@]}" --dry-run "${model[@]}" --config "$work/bad.yaml"
expect 0 '"--hidden-size"' "${launch[@]}" --dry-run "${model[@]:1}" --config "$work/run.yml"
grep -q config "$work/out" && fail "a file of this machine is named" || pass
tr -d '\n' <"$work/out" | grep -q -- '- "7"' && fail "the file counts more than the command line" || pass
tr -d '\n' <"$work/out" | grep -q -- '- "--data-path" *- "0.3" *- "/fsx/a" *- "0.7" *- "c"' && pass || fail "a list of a file"
grep -q -- '- "--log-throughput"$' "$work/out" && pass || fail "a switch of a file"
printf 'workers: 3\n' >"$work/run.yml"
expect 0 '"--workers"' "${launch[@]}" --dry-run preprocess --input a --output-prefix b --config="$work/run.yml"
grep -q config "$work/out" && fail "a file of this machine is named" || pass
expect 2 "unknown flag --inpt" "${launch[@]}" --dry-run preprocess --inpt a --output-prefix b
expect 0 'image: "registry/x"' "$BEVATRON" launch kubernetes preprocess --image registry/x --input a b --dry-run --output-prefix b
# The ranks' token is nothing that others could know: the id of the Job, or random.
for kind in jobset indexed-job; do
    expect 0 "fieldPath: \"metadata.labels['batch.kubernetes.io/controller-uid']\"" "${launch[@]}" --kind $kind --nodes 2 --machine p5.48xlarge --dry-run "${model[@]}"
done
token_of() { "${launch[@]}" --kind pytorchjob --nodes 2 --machine p5.48xlarge --dry-run "${model[@]}" | sed -n '/BEVATRON_JOB_TOKEN/{n;p}' | sort -u | sed -n 's/^ *value: "\([0-9a-f]\{32\}\)"$/\1/p'; }
token=$(token_of) && [ "$(wc -w <<<"$token")" = 1 ] && [ "$token" != "$(token_of)" ] && pass || fail "token $token"
# Nothing is a reference to a variable.
expect 0 '"X"' "${launch[@]}" --dry-run "${model[@]}" --save '/d/$(MASTER_ADDR)/$$a' --save-interval 5 --env 'X=$(MASTER_ADDR)'
grep -qF '"/d/$$(MASTER_ADDR)/$$$$a"' "$work/out" && grep -qF 'value: "$$(MASTER_ADDR)"' "$work/out" && pass || fail "references"
expect 0 '"/fsx/$$(A)"' "${launch[@]}" --dry-run getdata --url https://example.org/a --to '/fsx/$(A)'
grep -q podFailurePolicy "$work/out" && fail "codes of curl are taken for others" || pass
# Ranks over ssh get the environment by name, and the program by its whole path.
tr -d ' \n"' <"$work/mpijob.yaml" >"$work/mpijob.line"
grep -q -- '-x-PATH--x-LD_LIBRARY_PATH--x-FI_PROVIDER-.*-x-GIVEN-/opt/bevatron/bin/bevatron-train' "$work/mpijob.line" &&
    pass || fail "mpirun: $(cat "$work/mpijob.line")"
for kind in jobset indexed-job mpijob pytorchjob; do
    expect 0 'memory: "1843Gi"' "${launch[@]}" --kind $kind --nodes 2 --machine p5.48xlarge --dry-run "${model[@]}"
done
for kind in jobset indexed-job job; do
    tr -d ' \n"' <"$work/$kind.yaml" | grep -q 'action:FailJob.*values:-2-213-214-215-216-217' && pass || fail "$kind restarts whatever happened"
done
grep -q 'action: "FailJobSet"' "$work/jobset.yaml" && pass || fail "the set restarts whatever happened"
expect 2 '--env "A B=1"' "${launch[@]}" --dry-run "${model[@]}" --env 'A B=1'
expect 2 "is for train" "${launch[@]}" --dry-run --kind jobset preprocess --input x
finish
