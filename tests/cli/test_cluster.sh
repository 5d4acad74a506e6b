#!/usr/bin/env bash
# cluster: the examples' configurations against golden files and, if available, ParallelCluster's schema; and the life
# of a cluster with stand-ins for pcluster and aws that check their arguments and answer like the real ones.
. tests/cli/common.sh || exit
examples=(p4d-ultracluster p4d-roberta p4de-nemo)
for example in "${examples[@]}"; do
    "$BEVATRON" cluster render --config "examples/clusters/$example.yaml" >"$work/$example.yaml" 2>"$work/out" && pass ||
        fail "render $example"
    expect_same "tests/golden/cluster/$example.yaml" "$work/$example.yaml" "configuration of $example"
    grep -q "dollars an hour" "$work/out" && pass || fail "no cost of $example"
done
"$BEVATRON" cluster build-image --image-id bb --region us-east-1 --parent ami-0123456789abcdef0 --subnet subnet-0123456789abcdef0 --script \
    s3://b/image.sh --policy arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess --dry-run >"$work/image.yaml" 2>"$work/out" && pass || fail "build-image --dry-run"
schemas=$BEVATRON_SHARED/data/pcluster
if [ -f "$schemas/validate.py" ] && python3 -c 'import yaml, jsonschema' 2>/dev/null; then
    expect 0 "ok" python3 "$schemas/validate.py" "$schemas"/pcluster-3.12.schema.json "$work"/p*.yaml
    expect 0 "ok" python3 "$schemas/validate.py" "$schemas"/pcluster-image-3.12.schema.json "$work/image.yaml"
else
    echo "SKIP ParallelCluster's schema: no validate.py, or no python3-yaml and python3-jsonschema"
fi

expect 0 "build-image" "$BEVATRON" cluster --help
expect 0 "--on-node-configured" "$BEVATRON" cluster create --help
expect 2 "there is no command \"cluster moon\"" "$BEVATRON" cluster moon
expect 2 "is not one of efa" "$BEVATRON" cluster render --name ab --region us-east-1 --key k --subnet subnet-0123456789abcdef0 --queue "gpu p4d.24xlarge 4 faster"
expect 2 "control character" "$BEVATRON" cluster render --config examples/clusters/p4d-roberta.yaml --slurm-setting $'Foo=1\nProlog=/tmp/x'
expect 2 "TreeWidth: ParallelCluster sets it" "$BEVATRON" cluster render --config examples/clusters/p4d-roberta.yaml --slurm-setting treewidth=9
expect 2 "letters, digits and dashes" "$BEVATRON" cluster build-image --image-id "../x y" --region us-east-1 --parent ami-0123456789abcdef0 --yes
[ ! -e "../x y.image.yaml" ] && pass || fail "a file outside was written"
expect 2 "take no arguments" "$BEVATRON" cluster build-image --image-id bb --region us-east-1 --parent ami-0123456789abcdef0 --script "s3://b/x y"
expect 2 "is a flag of render, create and update" "$BEVATRON" cluster status --name ab --queue "gpu p4d.24xlarge 4"

# Any text stays that text in the configuration.
hostile=$'x: "y"\n- $(touch z) \'{"a": 1}\' #'
"$BEVATRON" cluster render --name ab --region us-east-1 --key "$hostile" --subnet subnet-0123456789abcdef0 --queue "gpu c5.4xlarge 4" \
    --tag "$hostile=$hostile" --slurm-setting "A=${hostile//$'\n'/}" --allowed-ips "$hostile" \
    --on-node-configured "s3://b/x \"\$(touch z)\" 'q;'" >"$work/hostile.yaml" 2>"$work/out" &&
    pass || fail "hostile texts"
if python3 -c 'import yaml' 2>/dev/null; then
    HOSTILE=$hostile python3 - "$work/hostile.yaml" <<'PY' && pass || fail "a hostile text did not survive"
import os, sys, yaml
hostile, c = os.environ["HOSTILE"], yaml.safe_load(open(sys.argv[1]))
assert c["HeadNode"]["Ssh"] == {"KeyName": hostile, "AllowedIps": hostile}
assert c["HeadNode"]["CustomActions"]["OnNodeConfigured"]["Sequence"] == [{"Script": "s3://b/x", "Args": ['"$(touch', 'z)"', "'q;'"]}]
assert c["Tags"] == [{"Key": hostile, "Value": hostile}]
assert c["Scheduling"]["SlurmSettings"]["CustomSlurmSettings"] == [{"A": hostile.replace("\n", "")}]
PY
fi
[ ! -e z ] && pass || fail "a hostile text was run"

# A stand-in for pcluster: it stores its arguments, one per line, and prints $work/answer with the exit code in
# $work/code.
mkdir "$work/bin"
cat >"$work/bin/pcluster" <<STANDIN
#!/bin/sh
printf '%s\n' "\$@" >>$work/arguments
echo -- >>$work/arguments
cat "$work/answer-\$1" 2>/dev/null || cat "$work/answer"
cat "$work/errors" >&2 2>/dev/null
exit "\$(cat "$work/code")"
STANDIN
cp "$work/bin/pcluster" "$work/bin/aws"
chmod +x "$work/bin/pcluster" "$work/bin/aws"
play() { # CODE ANSWER [ERRORS]
    rm -f "$work/arguments" "$work"/answer*
    echo "$1" >"$work/code"
    printf '%s\n' "$2" >"$work/answer"
    printf '%s' "${3-}" >"$work/errors"
}
with=(env PATH="$work/bin:$PATH" "$BEVATRON" cluster)
described=(--config "$PWD/examples/clusters/p4d-roberta.yaml" --output "$work/written.yaml")

play 0 '{"cluster": {"clusterName": "roberta", "cloudformationStackStatus": "CREATE_IN_PROGRESS", "region": "us-east-1",
 "version": "3.16.1", "clusterStatus": "CREATE_IN_PROGRESS", "scheduler": {"type": "slurm"}},
 "validationMessages": [{"level": "WARNING", "type": "DcvValidator", "message": "port 8443 is open to the world"}]}'
expect 2 "stdin is not a terminal; pass --yes" "${with[@]}" create "${described[@]}"
[ ! -e "$work/arguments" ] && pass || fail "pcluster was asked before the user"
expect 0 "roberta: CREATE_IN_PROGRESS" "${with[@]}" create "${described[@]}" --yes
grep -q "warning: pcluster: port 8443" "$work/out" && pass || fail "pcluster's warning was lost"
grep -q "44.35" "$work/out" && pass || fail "no cost before create"
printf '%s\n' create-cluster --cluster-name roberta --region us-east-1 --cluster-configuration "$work/written.yaml" -- >"$work/want"
expect_same "$work/want" "$work/arguments" "arguments of create-cluster"
expect_same tests/golden/cluster/p4d-roberta.yaml "$work/written.yaml" "the configuration given to pcluster"
play 1 '{"message": "Request would have succeeded, but DryRun flag is set."}'
expect 0 "nothing was created" "${with[@]}" create "${described[@]}" --dry-run
grep -qx -- "--dryrun" "$work/arguments" && pass || fail "no --dryrun"

# Refusals: messages of pcluster 3.16.1, recorded without credentials and against a simulated AWS; that about the quota
# is EC2's text in the form of an answer.
play 1 '{"message": "Unable to locate credentials"}'
expect 1 "Unable to locate credentials; give credentials: \`aws configure\`" "${with[@]}" create "${described[@]}" --yes
play 1 '' $'Traceback (most recent call last):\n  File "x"\nbotocore.exceptions.NoCredentialsError: Unable to locate credentials\n'
expect 1 "give credentials" "${with[@]}" status --name roberta --region us-east-1
[ "$(wc -l <"$work/out")" = 1 ] && pass || fail "more than one line"
play 1 '{"configurationValidationErrors": [{"level": "ERROR", "type": "HeadNodeLaunchTemplateValidator", "message":
 "You have requested more vCPU capacity than your current vCPU limit of 0 allows for the instance bucket that the specified instance type belongs to."},
 {"level": "WARNING", "type": "X", "message": "never mind"}], "message": "Invalid cluster configuration."}'
expect 1 "ask for a higher quota" "${with[@]}" create "${described[@]}" --yes
grep -q "never mind" "$work/out" && fail "a warning among the errors" || pass
refuses() { # MESSAGE REMEDY
    play 1 "{\"message\": \"$1\"}"
    expect 1 "pcluster create-cluster: $1; $2" "${with[@]}" create "${described[@]}" --yes
}
refuses "Invalid cluster configuration: The following supplied instance types do not exist: [p3dn.24xlage]" "check the type's spelling"
refuses "Invalid cluster configuration: The subnet ID 'subnet-0123456789abcdef1' does not exist" "\`aws ec2 describe-subnets\`"
refuses "Invalid cluster configuration: The image id '[ami-0123456789abcdef0]' does not exist" "images belong to a region"
refuses "Invalid cluster configuration: Cannot find official ParallelCluster AMI" "that region has no image for --os"
refuses "Bad Request: The config profile (none) could not be found" "AWS_PROFILE names a profile"
play 1 '{"message": "Bad Request: Configuration must be a valid YAML document. while parsing a flow node\nexpected the node content"}'
expect 1 "YAML document. while parsing a flow node expected the node content" "${with[@]}" create "${described[@]}" --yes
play 1 '{"configurationValidationErrors": [
 {"level": "WARNING", "type": "CustomAmiTagValidator", "message": "The custom AMI may not have been created by pcluster."},
 {"level": "ERROR", "type": "HeadNodeLaunchTemplateValidator", "message":
  "Unable to validate configuration parameters for instance type c5.4xlarge. Please double check your cluster configuration. The request must contain the parameter ebs"},
 {"level": "ERROR", "type": "KeyPairValidator", "message": "The keypair '"'{'no-key'}'"' does not exist."},
 {"level": "ERROR", "type": "HeadNodeLaunchTemplateValidator", "message":
  "Unable to validate configuration parameters for instance type c5.4xlarge. Please double check your cluster configuration. The request must contain the parameter ebs"}],
 "message": "Invalid cluster configuration."}'
expect 1 "The request must contain the parameter ebs; The keypair '{'no-key'}' does not exist; \`aws ec2 describe-key-pairs\`" \
    "${with[@]}" create "${described[@]}" --yes
[ "$(grep -o "Unable to validate" "$work/out" | wc -l)" = 1 ] && pass || fail "the same complaint twice"
play 1 '{"configurationValidationErrors": [{"level": "ERROR", "type": "ConfigSchemaValidator", "message":
 "[('"'Scheduling', {'SlurmQueues': {0: {'ComputeResources': {0: {'MaximumCount': ['Unknown field.']}}}}}"')]"}],
 "message": "Invalid cluster configuration."}'
expect 1 "this version of pcluster does not know that field" "${with[@]}" create "${described[@]}" --yes
play 1 '{"message": "Bad Request: invalid or unsupported region '"'us-nowhere-1'"'"}'
expect 1 "check --region" "${with[@]}" status --name roberta --region us-nowhere-1
play 0 'pcluster has been updated'
expect 1 "did not answer with JSON" "${with[@]}" status --name roberta
expect 1 "pip install aws-parallelcluster" env PATH=/nonexistent "$BEVATRON" cluster status --name roberta --region us-east-1
expect 2 "no cluster given" "${with[@]}" status

# A running cluster: its state, its machines and their cost; page after page.
play 0 ''
cat >"$work/answer-describe-cluster" <<'JSON'
{"creationTime": "2026-08-01T08:00:00.000Z", "headNode": {"launchTime": "2026-08-01T08:05:00.000Z", "instanceId": "i-0",
 "publicIpAddress": "203.0.113.7", "instanceType": "c5n.2xlarge", "state": "running", "privateIpAddress": "10.0.0.5"},
 "version": "3.16.1", "clusterConfiguration": {"url": "https://x"}, "tags": [], "cloudFormationStackStatus": "CREATE_COMPLETE",
 "clusterName": "roberta", "computeFleetStatus": "RUNNING", "cloudformationStackArn": "arn:x", "region": "us-east-1",
 "clusterStatus": "CREATE_COMPLETE", "scheduler": {"type": "slurm"}}
JSON
cat >"$work/answer-describe-cluster-instances" <<'JSON'
{"instances": [
 {"instanceId": "i-0", "instanceType": "c5n.2xlarge", "nodeType": "HeadNode", "state": "running"},
 {"instanceId": "i-1", "instanceType": "p3dn.24xlarge", "nodeType": "ComputeNode", "queueName": "queue1", "state": "running"},
 {"instanceId": "i-2", "instanceType": "p3dn.24xlarge", "nodeType": "ComputeNode", "queueName": "queue1", "state": "pending"},
 {"instanceId": "i-3", "instanceType": "p3dn.24xlarge", "nodeType": "ComputeNode", "queueName": "queue1", "state": "terminated"}]}
JSON
expect 0 "CREATE_COMPLETE" "${with[@]}" status --config "$PWD/examples/clusters/p4d-roberta.yaml"
grep -Eq "queue1 +2 × p3dn.24xlarge +62.42" "$work/out" && grep -Eq "now +62.86" "$work/out" && pass || fail "machines and cost"
grep -q "running, 203.0.113.7" "$work/out" && pass || fail "the head node's address"
expect 0 '"dollarsPerHour": 62.856' "${with[@]}" status --name roberta --region us-east-1 --json
printf '%s\n' '{"clusterName": "roberta", "clusterStatus": "CREATE_FAILED", "failures": [{"failureCode": "HeadNodeBootstrapFailure",
 "failureReason": "Failed to execute OnNodeConfigured script 1 s3://b/x, return code: 1."}]}' >"$work/answer-describe-cluster"
expect 1 "CREATE_FAILED: Failed to execute OnNodeConfigured" "${with[@]}" status --name roberta --region us-east-1

play 0 '{"status": "STOP_REQUESTED", "lastStatusUpdatedTime": "2026-08-01T08:00:00.000Z"}'
expect 0 "fleet STOP_REQUESTED" "${with[@]}" stop --name roberta --region us-east-1
printf '%s\n' update-compute-fleet --cluster-name roberta --region us-east-1 --status STOP_REQUESTED -- >"$work/want"
expect_same "$work/want" "$work/arguments" "arguments of stop"
play 0 '{"status": "START_REQUESTED"}'
expect 0 "fleet START_REQUESTED" "${with[@]}" start --name roberta --region us-east-1
grep -qx START_REQUESTED "$work/arguments" && pass || fail "start asked for something else"
play 0 '{"cluster": {"clusterName": "roberta", "clusterStatus": "DELETE_IN_PROGRESS"}}'
expect 2 "stdin is not a terminal; pass --yes" "${with[@]}" delete --name roberta --region us-east-1
[ ! -e "$work/arguments" ] && pass || fail "deleted without being told"
expect 0 "DELETE_IN_PROGRESS" "${with[@]}" delete --name roberta --region us-east-1 --yes
play 1 "{\"message\": \"Cluster 'roberta' does not exist or belongs to an incompatible ParallelCluster major version.\"}"
expect 1 "list-clusters" "${with[@]}" delete --name roberta --region us-east-1 --yes

# Images and exports.
play 0 '{"image": {"imageId": "bevatron-1", "imageBuildStatus": "BUILD_IN_PROGRESS", "region": "us-east-1", "version": "3.16.1"}}'
expect 0 "bevatron-1: BUILD_IN_PROGRESS" "${with[@]}" build-image --image-id bevatron-1 --region us-east-1 --parent ami-0123456789abcdef0 \
    --script s3://b/image.sh --output "$work/image.written.yaml" --yes
printf '%s\n' build-image --image-id bevatron-1 --image-configuration "$work/image.written.yaml" --region us-east-1 -- >"$work/want"
expect_same "$work/want" "$work/arguments" "arguments of build-image"
play 0 '{"DataRepositoryTask": {"TaskId": "task-0123", "Lifecycle": "PENDING", "Type": "EXPORT_TO_REPOSITORY"}}'
expect 0 "task-0123" "${with[@]}" export --fsx-id fs-0123456789abcdef0 --region us-east-1 --path 'a b' --path c --report s3://b/reports
printf '%s\n' fsx create-data-repository-task --type EXPORT_TO_REPOSITORY --output json --file-system-id fs-0123456789abcdef0 --report \
    Enabled=true,Scope=FAILED_FILES_ONLY,Format=REPORT_CSV_20191124,Path=s3://b/reports --region us-east-1 --paths 'a b' c -- >"$work/want"
expect_same "$work/want" "$work/arguments" "arguments of export"
printf '%s\n' '{"DataRepositoryTasks": [{"TaskId": "task-0123", "Lifecycle": "FAILED", "FailureDetails": {"Message": "3 files"}}]}' \
    >"$work/answer.later"
cat >"$work/bin/aws" <<STANDIN
#!/bin/sh
[ "\$2" = create-data-repository-task ] && exec cat "$work/answer"
exec cat "$work/answer.later"
STANDIN
expect 1 "task task-0123: FAILED 3 files" "${with[@]}" export --fsx-id fs-0123456789abcdef0 --region us-east-1 --wait
cat >"$work/bin/aws" <<STANDIN
#!/bin/sh
echo "An error occurred (AccessDeniedException) when calling the CreateDataRepositoryTask operation: not authorized to perform: fsx:CreateDataRepositoryTask" >&2
exit 254
STANDIN
expect 1 "ask for the right named there" "${with[@]}" export --fsx-id fs-0123456789abcdef0 --region us-east-1
finish
