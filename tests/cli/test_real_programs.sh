#!/usr/bin/env bash
# cluster and launch with the real pcluster, kubectl and sbatch, as far as they work without a cloud: what they refuse
# and how that is reported; kubectl also against a small stand-in for a cluster's API server. Each part is skipped if
# its program is not installed (pip install aws-parallelcluster; apt install kubernetes-client slurm-client).
# tier: all
. tests/cli/common.sh || exit
model=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 50
    --tokenizer-type NullTokenizer --micro-batch-size 1 --lr 1e-3 --train-iters 5)
nothing=0

# No credentials, no user configuration, no machine metadata.
cluster() {
    env -u AWS_PROFILE -u AWS_REGION -u AWS_DEFAULT_REGION -u AWS_ACCESS_KEY_ID -u AWS_SECRET_ACCESS_KEY -u AWS_ENDPOINT_URL \
        HOME="$work" AWS_CONFIG_FILE="$work/none" AWS_SHARED_CREDENTIALS_FILE="$work/none" AWS_EC2_METADATA_DISABLED=true \
        "${settings[@]}" "$BEVATRON" cluster "$@"
}
settings=()
if command -v pcluster >/dev/null && pcluster version >/dev/null 2>&1; then
    expect 1 "Unable to locate credentials; give credentials" cluster create --config examples/clusters/p4d-roberta.yaml \
        --output "$work/written.yaml" --dry-run
    expect_same tests/golden/cluster/p4d-roberta.yaml "$work/written.yaml" "the configuration given to pcluster"
    expect 1 "Unable to locate credentials; give credentials" cluster stop --name roberta --region us-east-1
    expect 1 "invalid or unsupported region 'us-nowhere-1'; check --region" cluster status --name roberta --region us-nowhere-1
    expect 1 "region needs to be set; give --region" cluster status --name roberta
    expect 1 "a name is a letter" cluster delete --name a_b --region us-east-1 --yes
    settings=(AWS_PROFILE=none)
    expect 1 "AWS_PROFILE names a profile" cluster status --name roberta --region us-east-1
    # There is no cloud behind port 9 of this machine.
    settings=(AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b AWS_ENDPOINT_URL=http://127.0.0.1:9 AWS_MAX_ATTEMPTS=1)
    expect 1 "check the network and --region" cluster status --name roberta --region us-east-1
else
    echo "SKIP no pcluster"
    nothing=$((nothing + 1))
fi

if command -v kubectl >/dev/null; then
    launch() { env KUBECONFIG="$work/kubeconfig" HOME="$work" "$BEVATRON" launch kubernetes --image r/b:1 "$@" "${model[@]}"; }
    printf 'apiVersion: v1\nkind: Config\n' >"$work/kubeconfig"
    expect 1 "aws eks update-kubeconfig" launch
    printf 'apiVersion: v1\nkind: Config\ncurrent-context: gone\n' >"$work/kubeconfig"
    expect 1 "kubectl config get-contexts" launch
    to_server() {
        printf 'apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster: {server: "%s"}\ncontexts:\n' "$1"
        printf -- '- name: x\n  context: {cluster: c, user: u}\nusers:\n- name: u\n  user: {token: t}\ncurrent-context: x\n'
    }
    to_server https://no-such-host.invalid >"$work/kubeconfig"
    expect 1 "kubectl cannot apply the job: " launch
    # A server with Jobs and Services but no operator: it reports what it has, has no object yet, and accepts what it is
    # given.
    if command -v python3 >/dev/null; then
        python3 tests/golden/kubernetes_server.py "$work/given.jsonl" >"$work/port" 2>"$work/server.log" &
        server=$!
        within 900 [ -s "$work/port" ]
        to_server "http://127.0.0.1:$(cat "$work/port")" >"$work/kubeconfig"
        expect 1 "use --kind indexed-job, which needs none" launch
        expect 0 "job.batch/train created" launch --kind indexed-job --nodes 2 --gpus-per-node 8
        grep -q '"kind": "Service"' "$work/given.jsonl" && grep -q '"completionMode": "Indexed"' "$work/given.jsonl" && pass ||
            fail "the server got $(head -c 400 "$work/given.jsonl")"
        # With fields of a file, and rehearsed on CPUs; then a volume of FSx, old and new.
        printf 'hostNetwork: true\ncontainers: [{name: bevatron, tty: true}]\n' >"$work/pod.yaml"
        : >"$work/given.jsonl"
        expect 0 "job.batch/train created" launch --kind indexed-job --nproc 2 --rehearse --toleration a=b:NoSchedule --host-path /x --pod-file "$work/pod.yaml"
        grep -q '"hostNetwork": true' "$work/given.jsonl" && grep -q '"tty": true' "$work/given.jsonl" && grep -q '"effect": "NoSchedule"' "$work/given.jsonl" &&
            pass || fail "the server got $(head -c 900 "$work/given.jsonl")"
        volume() { env KUBECONFIG="$work/kubeconfig" HOME="$work" "$BEVATRON" cluster volume --apply "$@"; }
        expect 0 "persistentvolumeclaim/fsx-claim created" volume --fsx-id fs-0123456789abcdef0 --dns-name d --mount-name m
        expect 0 "storageclass.storage.k8s.io/new created" volume --claim new --subnet subnet-0123456789abcdef0 --security-group sg-0123456789abcdef0
        kill "$server"
        # The walk for EKS, to a server with the operator of PyTorchJobs; aws, which needs an account, by a stand-in.
        : >"$work/port" && : >"$work/given.jsonl"
        python3 tests/golden/kubernetes_server.py "$work/given.jsonl" operator >"$work/port" 2>"$work/server.log" &
        server=$!
        within 900 [ -s "$work/port" ]
        to_server "http://127.0.0.1:$(cat "$work/port")" >"$work/kubeconfig"
        mkdir "$work/bin"
        printf '#!/bin/sh\necho %s\n' "'{\"FileSystems\": [{\"DNSName\": \"fs.example\", \"LustreConfiguration\": {\"MountName\": \"m\"}}]}'" >"$work/bin/aws"
        chmod +x "$work/bin/aws"
        expect 0 "pytorchjob.kubeflow.org/llama2 created" env PATH="$work/bin:$PATH" KUBECONFIG="$work/kubeconfig" HOME="$work" BEVATRON="$BEVATRON" APPLY=yes WATCH=no \
            ACCOUNT=123456789012 REGION=us-west-2 FSX_ID=fs-0123456789abcdef1 URLS="https://a/x.jsonl.xz https://a/vocab.json https://a/merges.txt" \
            examples/recipes/2-megatron-eks.sh b c d e f
        kinds=$(grep -oE '"kind": "(PersistentVolume|PersistentVolumeClaim|Job|PyTorchJob)", "metadata"' "$work/given.jsonl" | cut -d'"' -f4 | sort | uniq -c | tr -s ' \n' ' ')
        [ "$kinds" = " 2 Job 1 PersistentVolume 1 PersistentVolumeClaim 2 PyTorchJob " ] && pass || fail "the server got$kinds: $(cut -c1-200 "$work/given.jsonl")"
        kill "$server"
    else
        echo "SKIP kubectl with a server: no python3"
    fi
else
    echo "SKIP no kubectl"
    nothing=$((nothing + 1))
fi

if command -v sbatch >/dev/null; then
    printf 'ClusterName=x\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=9\nAuthType=auth/none\nNodeName=n1\n%s\n' \
        $'PartitionName=all Nodes=n1\nTCPTimeout=1\nMessageTimeout=1' >"$work/slurm.conf"
    expect 1 "check that slurmctld is running on its head node" env SLURM_CONF="$work/slurm.conf" "$BEVATRON" launch slurm --logs "$work/logs" "${model[@]}"
else
    echo "SKIP no sbatch"
    nothing=$((nothing + 1))
fi
[ "$nothing" = 3 ] && exit 77
finish
