#!/usr/bin/env bash
# cluster list, ssh, logs and update, and the keys of the short file for containers, accounting and disks, with
# stand-ins for pcluster and aws that store their arguments and answer like the real ones.
. tests/cli/common.sh || exit
mkdir "$work/bin"
for name in pcluster aws; do
    cat >"$work/bin/$name" <<STANDIN
#!/bin/sh
printf '%s\n' "$name" "\$@" -- >>$work/arguments
[ "\$*" = "\${*#s3 cp}" ] || cat >$work/uploaded
cat "$work/answer-\$1" 2>/dev/null
exit "\$(cat "$work/code-\$1" 2>/dev/null || echo 0)"
STANDIN
    chmod +x "$work/bin/$name"
done
answer() { printf '%s\n' "$2" >"$work/answer-$1"; }
asked() { printf '%s\n' "$@" -- >"$work/want" && expect_same "$work/want" "$work/arguments" "the words: $*" && rm -f "$work/arguments"; }
with=(env PATH="$work/bin:$PATH" "$BEVATRON" cluster)
here=(--name llm --region us-west-2)

# list
answer list-clusters '{"clusters": [{"clusterName": "llm", "clusterStatus": "CREATE_COMPLETE", "region": "us-west-2", "version": "3.15.0"}]}'
expect 0 "CREATE_COMPLETE" "${with[@]}" list --region us-west-2
asked pcluster list-clusters --region us-west-2
expect 0 '"clusterName": "llm"' "${with[@]}" list --region us-west-2 --json
answer list-clusters '{"clusters": []}'
expect 0 "no clusters in us-west-2" "${with[@]}" list --region us-west-2
rm -f "$work/arguments"

# ssh: a shell, a command, a tunnel; through Systems Manager if there is no public address.
answer describe-cluster '{"clusterName": "llm", "clusterStatus": "CREATE_COMPLETE", "computeFleetStatus": "RUNNING",
 "headNode": {"instanceId": "i-0", "publicIpAddress": "203.0.113.7", "privateIpAddress": "10.0.0.5", "state": "running"}}'
answer ssh connected
answer describe-cluster-instances '{"instances": []}'
expect 0 "connected" "${with[@]}" ssh "${here[@]}" --key-file "$work/my key.pem"
asked pcluster describe-cluster --cluster-name llm --region us-west-2 -- pcluster ssh --cluster-name llm --region us-west-2 -i "$work/my key.pem"
expect 0 "connected" "${with[@]}" ssh "${here[@]}" -- squeue --me
asked pcluster describe-cluster --cluster-name llm --region us-west-2 -- pcluster ssh --cluster-name llm --region us-west-2 squeue --me
expect 0 "http://localhost:6006" "${with[@]}" ssh "${here[@]}" --tunnel 6006
asked pcluster describe-cluster --cluster-name llm --region us-west-2 -- pcluster ssh --cluster-name llm --region us-west-2 -N -L 6006:localhost:6006
expect 0 "pcluster ssh --cluster-name llm --region us-west-2 -i '$work/my key.pem' -N -L 8080:localhost:8080" \
    "${with[@]}" ssh "${here[@]}" --key-file "$work/my key.pem" --tunnel 8080 --print
[ "$(wc -l <"$work/out")" = 1 ] && pass || fail "the tunnel is more than one line"
expect 0 "aws ssm start-session --target i-0 --region us-west-2 --document-name AWS-StartPortForwardingSession --parameters portNumber=6006,localPortNumber=6006" \
    "${with[@]}" ssh "${here[@]}" --ssm --tunnel 6006 --print
expect 0 "cluster ssh --name llm --region us-west-2 --tunnel 6006" "${with[@]}" status "${here[@]}"
answer describe-cluster '{"clusterName": "llm", "headNode": {"instanceId": "i-0", "privateIpAddress": "10.0.0.5"}}'
expect 0 "aws ssm start-session --target i-0 --region us-west-2" "${with[@]}" ssh "${here[@]}" --print
expect 2 "cannot run a command" "${with[@]}" ssh "${here[@]}" -- squeue
answer describe-cluster '{"clusterName": "llm", "clusterStatus": "CREATE_IN_PROGRESS"}'
expect 1 "has no head node yet" "${with[@]}" ssh "${here[@]}"

# logs: reasons from all sources, each piece of advice once; nothing healthy is shown.
answer describe-cluster '{"clusterName": "llm", "clusterStatus": "CREATE_FAILED", "computeFleetStatus": "PROTECTED",
 "failures": [{"failureCode": "x", "failureReason": "Failed to execute OnNodeConfigured script 1 s3://b/node-setup.sh, return code: 1."}]}'
answer get-cluster-stack-events '{"events": [
 {"logicalResourceId": "HeadNode", "resourceStatus": "CREATE_FAILED", "resourceStatusReason": "You have requested more vCPU capacity than your current vCPU limit of 0 allows"},
 {"logicalResourceId": "Queue", "resourceStatus": "CREATE_FAILED", "resourceStatusReason": "Resource creation cancelled"},
 {"logicalResourceId": "Role", "resourceStatus": "CREATE_COMPLETE"}]}'
answer list-cluster-log-streams '{"logStreams": [{"logStreamName": "ip-10-0-0-5.i-0.clustermgtd"}, {"logStreamName": "ip-10-0-0-5.i-0.dcv-xsession"},
 {"logStreamName": "ip-10-0-0-9.i-9.cloud-init-output"}]}'
answer get-cluster-log-events '{"events": [{"timestamp": "t", "message": "INFO all is well, failed=0"},
 {"timestamp": "t", "message": "ERROR - Failed RunInstances request: InsufficientInstanceCapacity for p4d.24xlarge"},
 {"timestamp": "t", "message": "ERROR - Failed RunInstances request: InsufficientInstanceCapacity again"}]}'
expect 0 "a script of on-node-configured failed" "${with[@]}" logs "${here[@]}"
for text in "ask for a higher quota" "AWS has no such machines free" "failed to start ten times in a row" "CloudFormation HeadNode" "/var/log/cfn-init.log"; do
    grep -q "$text" "$work/out" && pass || fail "no \"$text\" in the logs"
done
[ "$(grep -c "AWS has no such machines free" "$work/out")" = 1 ] && pass || fail "the same advice twice"
grep -q "cancelled\|all is well\|dcv" "$work/out" && fail "consequences and good news are shown" || pass
expect 0 "ip-10-0-0-9.i-9.cloud-init-output" "${with[@]}" logs "${here[@]}" --list --machine i-9
grep -q clustermgtd "$work/out" && fail "--machine shows others" || pass
expect 0 "all is well" "${with[@]}" logs "${here[@]}" --stream ip-10-0-0-5.i-0.clustermgtd --lines 7
grep -qx -- 7 "$work/arguments" && pass || fail "--lines"
answer describe-cluster '{"clusterName": "llm", "clusterStatus": "CREATE_COMPLETE", "computeFleetStatus": "RUNNING"}'
answer get-cluster-stack-events '{"events": []}'
answer get-cluster-log-events '{"events": []}'
expect 0 "no failure in CloudFormation" "${with[@]}" logs "${here[@]}"
echo 1 >"$work/code-get-cluster-stack-events"
answer get-cluster-stack-events '{"message": "Unable to locate credentials"}'
expect 1 "give credentials" "${with[@]}" logs "${here[@]}"
rm -f "$work/arguments"

# update: what changes, and what is needed if it may not.
described=(--config "$PWD/examples/clusters/p4d-roberta.yaml" --output "$work/written.yaml")
answer update-cluster '{"cluster": {"clusterName": "roberta", "clusterStatus": "UPDATE_IN_PROGRESS"}, "changeSet":
 [{"parameter": "Scheduling.SlurmQueues[queue1].ComputeResources[p3dn].MaxCount", "currentValue": "2", "requestedValue": "4"}]}'
expect 2 "stdin is not a terminal; pass --yes" "${with[@]}" update "${described[@]}"
[ ! -e "$work/arguments" ] && pass || fail "changed without being told"
expect 0 "MaxCount: 2 -> 4" "${with[@]}" update "${described[@]}" --yes
asked pcluster update-cluster --cluster-name roberta --region us-east-1 --cluster-configuration "$work/written.yaml"
echo 1 >"$work/code-update-cluster"
answer update-cluster '{"message": "Update failure", "updateValidationErrors": [{"parameter": "InstanceType", "currentValue": "a", "requestedValue": "b",
 "message": "All compute nodes must be stopped. Stop the compute fleet with the pcluster update-compute-fleet command"}]}'
expect 1 "run \`bevatron cluster stop\`" "${with[@]}" update "${described[@]}" --yes
grep -q "All compute nodes must be stopped" "$work/out" && pass || fail "the reason is lost"
rm -f "$work/arguments"

# Pyxis, accounting, disks, and an outdated operating system.
node=(--name llm --region us-west-2 --subnet subnet-0123456789abcdef0 --key k --queue "gpu p4d.24xlarge 4 efa placement-group")
words=(--bucket my-bucket --pyxis --accounting db.example.com:3306 --accounting-user slurm
    --accounting-secret arn:aws:secretsmanager:us-west-2:123456789012:secret:slurm --accounting-database llm
    --apps /apps --apps-iops 4000 --apps-throughput 500 --head-disk-throughput 300 --compute-disk-iops 6000)
expect 0 'Script: "s3://my-bucket/bevatron/pyxis.sh"' "${with[@]}" render "${node[@]}" "${words[@]}"
for text in 'Uri: "db.example.com:3306"' 'DatabaseName: "llm"' 'Iops: 4000' 'Throughput: 500' 'Throughput: 300' 'Iops: 6000'; do
    grep -q "$text" "$work/out" && pass || fail "no $text"
done
expect 2 "needs four operations a second" "${with[@]}" render "${node[@]}" --apps /apps --apps-throughput 900
expect 2 "a gp3 volume has 3000 to 16000" "${with[@]}" render "${node[@]}" --apps /apps --apps-iops 100
expect 2 "needs --accounting-user" "${with[@]}" render "${node[@]}" --accounting db
expect 2 "give the address of the database" "${with[@]}" render "${node[@]}" --accounting-user db
expect 2 "give --bucket" "${with[@]}" render "${node[@]}" --pyxis
expect 0 'Os: "alinux2023"' "${with[@]}" render "${node[@]}" --os alinux2
grep -q "no longer offers alinux2; alinux2023 is used instead" "$work/out" && pass || fail "no note about alinux2"
expect 2 "is not one of ubuntu2204" "${with[@]}" render "${node[@]}" --os windows
answer create-cluster '{"cluster": {"clusterName": "llm", "clusterStatus": "CREATE_IN_PROGRESS"}}'
expect 0 "CREATE_IN_PROGRESS" "${with[@]}" create "${node[@]}" "${words[@]}" --output "$work/llm.pcluster.yaml" --yes
asked aws s3 cp --only-show-errors - s3://my-bucket/bevatron/pyxis.sh --region us-west-2 -- \
    pcluster create-cluster --cluster-name llm --region us-west-2 --cluster-configuration "$work/llm.pcluster.yaml"
# The uploaded script, on the head node and on a machine of a queue.
bash -n "$work/uploaded" && pass || fail "the script of Pyxis"
if command -v shellcheck >/dev/null; then shellcheck "$work/uploaded" >"$work/out" && pass || fail "shellcheck"; fi
root=$work/root
mkdir -p "$root/opt/parallelcluster/examples/spank" "$root/opt/parallelcluster/examples/pyxis" "$root/etc/parallelcluster"
expect 1 "this image has no Pyxis" env PYXIS_ROOT="$root" bash "$work/uploaded"
echo include >"$root/opt/parallelcluster/examples/spank/plugstack.conf"
echo required >"$root/opt/parallelcluster/examples/pyxis/pyxis.conf"
echo 'cfn_node_type=ComputeFleet' >"$root/etc/parallelcluster/cfnconfig"
expect 0 "pyxis: done" env PYXIS_ROOT="$root" bash "$work/uploaded"
[ -f "$root/etc/enroot/enroot.conf" ] && [ ! -e "$root/opt/slurm" ] && pass || fail "a machine of a queue"
grep -qF 'ENROOT_CACHE_PATH /var/cache/enroot/cache/user-$(id -u)' "$root/etc/enroot/enroot.conf" && pass || fail "$(cat "$root/etc/enroot/enroot.conf")"
echo 'cfn_node_type=HeadNode' >"$root/etc/parallelcluster/cfnconfig"
expect 0 "pyxis: done" env PYXIS_ROOT="$root" bash "$work/uploaded"
[ -f "$root/opt/slurm/etc/plugstack.conf" ] && [ -f "$root/opt/slurm/etc/plugstack.conf.d/pyxis.conf" ] && pass || fail "the head node"
finish
