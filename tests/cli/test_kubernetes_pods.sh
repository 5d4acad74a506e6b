#!/usr/bin/env bash
# tier: all
# cost: 10
# launch kubernetes beyond the job itself: where pods run and what they mount, fields merged from a file, the warning
# about disks that are deleted with their pod, and rehearsals on CPUs, whose pods are then run here as plain processes.
# Then volumes and registries with stand-ins.
. tests/cli/common.sh || exit
model=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 50 --tokenizer-type NullTokenizer
    --micro-batch-size 1 --lr 1e-3 --train-iters 3 --eval-iters 0 --log-interval 1)
launch=("$BEVATRON" launch kubernetes --image registry/bevatron:1 --dry-run)

# Placement.
place=(--pull-secret my-registry --toleration nvidia.com/gpu --toleration dedicated=llm:NoSchedule --node-selector karpenter.sh/nodepool=gpu
    --host-path /scratch --host-path /data:/corpus:ro --host-path /opt/x:ro)
for kind in jobset indexed-job mpijob pytorchjob; do
    "${launch[@]}" --claim fsx-claim --kind $kind --nodes 2 --machine p5.48xlarge "${place[@]}" "${model[@]}" >"$work/$kind.yaml" 2>"$work/out" && pass || fail "$kind"
    tr -d ' \n"' <"$work/$kind.yaml" >"$work/line"
    for text in imagePullSecrets:-name:my-registry tolerations:-key:nvidia.com/gpuoperator:Exists key:dedicatedoperator:Equalvalue:llmeffect:NoSchedule \
        instance-type:p5.48xlargekarpenter.sh/nodepool:gpu name:host-0hostPath:path:/scratch name:host-1mountPath:/corpusreadOnly:true name:host-2mountPath:/opt/xreadOnly:true; do
        grep -q -- "$text" "$work/line" && pass || fail "no $text in a $kind"
    done
done
expect 2 '--toleration "a b"' "${launch[@]}" --toleration "a b" "${model[@]}"
expect 2 '--toleration "a:Never"' "${launch[@]}" --toleration "a:Never" "${model[@]}"
expect 2 '--node-selector "gpu"' "${launch[@]}" --node-selector gpu "${model[@]}"
expect 2 '--host-path "scratch"' "${launch[@]}" --host-path scratch "${model[@]}"
expect 2 '--host-path "/a:/b:rw"' "${launch[@]}" --host-path /a:/b:rw "${model[@]}"
expect 2 '--pull-secret "My_Secret"' "${launch[@]}" --pull-secret My_Secret "${model[@]}"

# Fields of a file, merged as kubectl would.
cat >"$work/pod.yaml" <<'YAML'
# The fabric needs the host's network here.
hostNetwork: true
terminationGracePeriodSeconds: 600
tolerations: [{key: special, operator: Exists}]
containers:
  - name: bevatron
    securityContext:
      capabilities: {add: [IPC_LOCK]}
    volumeMounts:
      - name: cache
        mountPath: /cache
  - name: exporter
    image: "exporter:1"
volumes:
  - name: cache
    emptyDir: {}
YAML
for kind in jobset indexed-job mpijob pytorchjob; do
    "${launch[@]}" --claim fsx-claim --kind $kind --nodes 2 --machine p5.48xlarge --toleration nvidia.com/gpu --pod-file "$work/pod.yaml" "${model[@]}" \
        >"$work/$kind-merged.yaml" 2>"$work/out" && pass || fail "--pod-file with $kind"
    tr -d ' \n"' <"$work/$kind-merged.yaml" >"$work/line"
    for text in terminationGracePeriodSeconds:600 hostNetwork:true key:nvidia.com/gpuoperator:Exists-key:special add:-IPC_LOCK name:exporterimage:exporter:1 \
        name:datamountPath:/fsx-name:cachemountPath:/cache name:cacheemptyDir:; do
        grep -q -- "$text" "$work/line" && pass || fail "no $text in a $kind with a file"
    done
    case $kind in jobset) names="bevatron exporter" ;; indexed-job) names="bevatron exporter" ;; mpijob) names="launcher worker exporter" ;; *) names="pytorch exporter pytorch exporter" ;; esac
    [ "$(grep -c 'name: "*\(bevatron\|exporter\|worker\|launcher\|pytorch\)"*$' "$work/$kind-merged.yaml")" = "$(wc -w <<<"$names")" ] && pass || fail "containers of a $kind"
done
printf 'metadata:\n  annotations:\n    team: nlp\nspec:\n  shareProcessNamespace: true\n  nodeSelector: null\n' >"$work/template.yaml"
expect 0 "team: nlp" "${launch[@]}" --claim fsx-claim --nodes 2 --machine p5.48xlarge --pod-file "$work/template.yaml" "${model[@]}"
grep -q nodeSelector "$work/out" && fail "null does not remove" || pass
printf '{"hostIPC": true}' >"$work/pod.json"
expect 0 "hostIPC: true" "${launch[@]}" --claim fsx-claim --pod-file "$work/pod.json" preprocess --input a --output-prefix /fsx/b
printf 'a:\n  b: |\n    c\n' >"$work/bad.yaml"
expect 2 "bad.yaml:2: anchors, aliases, tags and block scalars" "${launch[@]}" --pod-file "$work/bad.yaml" "${model[@]}"
expect 1 "none.yaml" "${launch[@]}" --pod-file "$work/none.yaml" "${model[@]}"

# Schemas, if available.
validate=${BEVATRON_SHARED-}/data/k8s/validate.py
if [ -f "$validate" ] && python3 -c 'import yaml, jsonschema' 2>/dev/null; then
    expect 0 "" python3 "$validate" "$work"/{jobset,indexed-job,mpijob,pytorchjob}{,-merged}.yaml
else
    echo "SKIP schemas of Kubernetes: no validate.py, or no python3-yaml and python3-jsonschema"
fi

# A disk that is deleted with its pod.
warning="this is the pod's own disk"
expect 0 "warning: /run without --claim: $warning, and checkpoints are lost" "${launch[@]}" "${model[@]}" --save /run --save-interval 3
expect 0 "warning: /run is not below --mount" "${launch[@]}" --claim c "${model[@]}" --save /run --save-interval 3
expect 0 "the dataset is lost" "${launch[@]}" preprocess --input a --output-prefix /b
quiet() { "$@" >"$work/out" 2>&1 && ! grep -q "warning:" "$work/out" && pass || fail "warned: $*"; }
quiet "${launch[@]}" --claim c "${model[@]}" --save /fsx/run --save-interval 3
quiet "${launch[@]}" --host-path /scratch "${model[@]}" --save /scratch/run --save-interval 3
quiet "${launch[@]}" "${model[@]}"
# Not a mount that is deleted with the pod, nor a read-only one, nor one of another container.
cat >"$work/mounts.yaml" <<'YAML'
containers:
  - name: bevatron
    volumeMounts:
      - {name: cache, mountPath: /cache}
      - {name: nfs, mountPath: /nfs}
      - {name: corpus, mountPath: /corpus, readOnly: true}
      - {name: inner, mountPath: /fsx/inner}
      - {name: disk, mountPath: /disk}
  - name: exporter
    volumeMounts:
      - {name: nfs, mountPath: /metrics}
volumes:
  - {name: cache, emptyDir: {}}
  - {name: nfs, nfs: {server: a, path: /}}
  - {name: corpus, persistentVolumeClaim: {claimName: corpus}}
  - {name: inner, emptyDir: {}}
  - {name: disk, hostPath: {path: /disk}}
YAML
mounted=("${launch[@]}" --claim c --pod-file "$work/mounts.yaml" "${model[@]}" --save-interval 3)
for path in /cache/run /metrics/run /fsx/inner/run /fsx/../run /fsx/run/../../etc /dev/shm/run /fsxrun run; do
    expect 0 "warning: $path is not below --mount: $warning" "${mounted[@]}" --save $path
done
expect 0 "warning: /corpus/run is on a read-only mount, where checkpoints cannot be written" "${mounted[@]}" --save /corpus/run
for path in /nfs/run /fsx//run /x/../fsx/./run /fsx/inners /disk/run; do quiet "${mounted[@]}" --save $path; done
quiet "${mounted[@]}" --kind pytorchjob --save /nfs/run
# Every node has its own disk.
for where in "--host-path /scratch" "--pod-file $work/mounts.yaml"; do
    path=$([[ $where == *scratch ]] && echo /scratch/run || echo /disk/run)
    # shellcheck disable=SC2086  # a flag and its value
    expect 0 "warning: $path is a folder of the node, and 2 nodes write to it: it must be a shared file system" \
        "${launch[@]}" $where --nodes 2 --machine p5.48xlarge "${model[@]}" --save $path --save-interval 3
done
expect 0 "warning: /scratch/run is on a read-only mount" "${launch[@]}" --host-path /scratch:ro "${model[@]}" --save /scratch/run --save-interval 3
# Every command that writes, with both forms of its flags.
expect 0 "warning: /data/x without --claim: $warning, and the dataset is lost" "${launch[@]}" preprocess --input a --output-prefix=/data/x
while read -r words; do
    # shellcheck disable=SC2086  # words of a command
    expect 0 "warning: /o without --claim: $warning, and the " "${launch[@]}" $words
    # shellcheck disable=SC2086
    quiet "${launch[@]}" --claim c ${words//\/o/\/fsx/o}
done <<'WORDS'
tokenizer train --input a --vocab-size 300 --output-prefix /o
tokenizer train --input a --vocab-size 300 --save=/o
tokenizer dictionary --input a --output /o
extract wiki --input a --output=/o
checkpoint convert --input a --output /o
dataset merge --input a --output-prefix /o
WORDS
quiet "${launch[@]}" extract wiki --input a --output -
quiet "${launch[@]}" checkpoint inspect /o

# Rehearsals: every kind on CPUs, or the reason why not.
for kind in jobset indexed-job pytorchjob; do
    expect 2 "a rehearsal has no GPUs, and ranks on CPUs of several pods communicate with MPI, which this kind of job does not start: use --kind mpijob" "${launch[@]}" --claim c --kind $kind --nodes 2 --machine p5.48xlarge --rehearse "${model[@]}"
    grep -q -- "--machine" "$work/out" && fail "names --machine, which is given" || pass
    expect 2 "one pod (--nodes 1 --nproc 2), or GPUs (--machine, --gpus-per-node)" "${launch[@]}" --claim c --kind $kind --nodes 2 "${model[@]}"
done
# The command of a pod: the words under `command:` of the first container that has them, one per line.
words_of() { sed '/livenessProbe:/,$d' "$1" | sed -n '/^ *command:$/,/^ *[a-zA-Z]*:/p' | sed -n 's/^ *- "\(.*\)"$/\1/p'; }
for kind in jobset indexed-job pytorchjob mpijob; do
    "${launch[@]}" --claim c --kind $kind --machine p4d.24xlarge --nproc 2 --rehearse --binary "$BEVATRON" "${model[@]}" >"$work/rehearsal.yaml" 2>"$work/out" && pass || fail "rehearsal of a $kind"
    grep -q "nvidia.com/gpu\|amazonaws.com/efa\|FI_PROVIDER\|hugepages\|instance-type" "$work/rehearsal.yaml" && fail "a rehearsal of a $kind asks for GPUs" || pass
    mapfile -t words < <(words_of "$work/rehearsal.yaml")
    port=$(free_port)
    case $kind in
    jobset | indexed-job) place=(JOB_COMPLETION_INDEX=0 MASTER_ADDR=127.0.0.1 "MASTER_PORT=$port" BEVATRON_NODES=1 BEVATRON_JOB_TOKEN=train) ;;
    pytorchjob) place=(MASTER_ADDR=127.0.0.1 "MASTER_PORT=$port" PET_MASTER_ADDR=127.0.0.1 "PET_MASTER_PORT=$port" WORLD_SIZE=2 RANK=0 PET_NODE_RANK=0 PET_NPROC_PER_NODE=2 PET_NNODES=1) ;;
    mpijob) place=(OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1) ;;
    esac
    if grep -qE "^ *MPI +yes" <<<"$("$BEVATRON" version)"; then
        expect 0 "iteration        3/       3" env "${place[@]}" "${words[@]}"
    fi
done

# Volumes: an existing file system, queried from AWS or given, and a new one.
mkdir "$work/bin"
stand_in() { printf '#!/bin/sh\nprintf "%%s\\n" "%s $*" >>%s/asked\n%s\n' "$1" "$work" "$2" >"$work/bin/$1" && chmod +x "$work/bin/$1"; }
with=(env PATH="$work/bin:$PATH" "$BEVATRON" cluster)
stand_in aws 'echo "{\"FileSystems\": [{\"DNSName\": \"fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com\", \"StorageCapacity\": 4800, \"LustreConfiguration\": {\"MountName\": \"abcd1234\"}}]}"'
"${with[@]}" volume --fsx-id fs-0123456789abcdef0 --region us-west-2 >"$work/static.yaml" 2>"$work/out" && pass || fail "volume"
for text in 'mountname: "abcd1234"' 'storage: "4800Gi"' 'volumeHandle: "fs-0123456789abcdef0"' 'volumeName: "fsx-claim"' 'ReadWriteMany'; do
    grep -q "$text" "$work/static.yaml" && pass || fail "no $text: $(cat "$work/static.yaml")"
done
"${with[@]}" volume --claim lustre --namespace team --subnet subnet-0123456789abcdef0 --security-group sg-0123456789abcdef0 --fsx-size 2400 --fsx-type PERSISTENT_1 --fsx-throughput 200 \
    --fsx-s3 s3://my-bucket >"$work/dynamic.yaml" 2>"$work/out" && pass || fail "a new volume"
for text in 'provisioner: "fsx.csi.aws.com"' 'perUnitStorageThroughput: "200"' 's3ImportPath: "s3://my-bucket"' 'storageClassName: "lustre"' 'namespace: "team"'; do
    grep -q "$text" "$work/dynamic.yaml" && pass || fail "no $text: $(cat "$work/dynamic.yaml")"
done
if [ -f "$validate" ] && python3 -c 'import yaml, jsonschema' 2>/dev/null; then
    expect 0 "" python3 "$validate" "$work/static.yaml" "$work/dynamic.yaml"
fi
expect 2 "give --fsx-id, an existing file system, or --subnet" "${with[@]}" volume
expect 2 "a SCRATCH_2 file system has 1200 GiB or a multiple" "${with[@]}" volume --subnet subnet-0123456789abcdef0 --security-group sg-0123456789abcdef0 --fsx-size 1500
expect 2 "links no PERSISTENT_2" "${with[@]}" volume --subnet subnet-0123456789abcdef0 --security-group sg-0123456789abcdef0 --fsx-type PERSISTENT_2 --fsx-throughput 125 --fsx-s3 s3://b
stand_in kubectl 'cat >/dev/null; echo created'
expect 0 "created" "${with[@]}" volume --fsx-id fs-0123456789abcdef0 --dns-name d --mount-name m --apply
stand_in kubectl 'cat >/dev/null; echo "no matches for kind \"X\"" >&2; exit 1'
expect 1 "kubectl cannot apply the volume" "${with[@]}" volume --fsx-id fs-0123456789abcdef0 --dns-name d --mount-name m --apply
stand_in aws 'echo "{\"FileSystems\": []}"'
expect 1 "is not a Lustre file system" "${with[@]}" volume --fsx-id fs-0123456789abcdef0

# Registries.
rm -f "$work/asked"
stand_in aws 'case $2 in get-caller-identity) echo "{\"Account\": \"123456789012\"}" ;; create-repository) echo "An error occurred (RepositoryAlreadyExistsException) when calling" >&2; exit 254 ;; get-login-password) echo the-password ;; esac'
stand_in docker "[ \$1 = login ] && cat >$work/password; echo \$1 done"
expect 0 "123456789012.dkr.ecr.us-west-2.amazonaws.com/bevatron:v1" "${with[@]}" push-image --region us-west-2 --image local/bevatron:v1
cat >"$work/want" <<'WANT'
aws sts get-caller-identity --output json
aws ecr create-repository --repository-name bevatron --region us-west-2 --output json
aws ecr get-login-password --region us-west-2
docker login --username AWS --password-stdin 123456789012.dkr.ecr.us-west-2.amazonaws.com
docker tag local/bevatron:v1 123456789012.dkr.ecr.us-west-2.amazonaws.com/bevatron:v1
docker push 123456789012.dkr.ecr.us-west-2.amazonaws.com/bevatron:v1
WANT
expect_same "$work/want" "$work/asked" "the steps of push-image"
grep -qx the-password "$work/password" && ! grep -q the-password "$work/out" && pass || fail "the password"
expect 0 "aws ecr get-login-password --region us-west-2 | docker login --username AWS --password-stdin 123456789012.dkr.ecr.us-west-2.amazonaws.com" \
    "${with[@]}" push-image --region us-west-2 --account 123456789012 --print
expect 0 "podman push ghcr.io/team/bevatron:latest" "${with[@]}" push-image --registry ghcr.io/team --image bevatron --tool podman --print
grep -q ecr "$work/out" && fail "another registry goes to ECR" || pass
stand_in docker 'echo "denied: no basic auth credentials" >&2; exit 1'
expect 1 "docker tag: denied" "${with[@]}" push-image --registry ghcr.io/team
expect 1 "name the container tool with --tool" "${with[@]}" push-image --registry ghcr.io/team --tool no-such-tool
expect 2 "ECR needs --region" "${with[@]}" push-image
finish
