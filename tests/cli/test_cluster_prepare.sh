#!/usr/bin/env bash
# cluster prepare and convert with a stand-in for aws: from an INI file of ParallelCluster 2 to a file that renders.
# Nothing of the file is lost, and nothing is created unless requested.
. tests/cli/common.sh || exit
mkdir "$work/bin" "$work/home"
cat >"$work/bin/aws" <<STANDIN
#!/bin/sh
echo "\$*" >>$work/asked
case \$2 in get-bucket-location) cat "$work/answer-\$2-\$4" 2>/dev/null && exit ;; esac
cat "$work/answer-\$2" 2>/dev/null
cat "$work/errors-\$2" >&2 2>/dev/null && exit 254
exit 0
STANDIN
chmod +x "$work/bin/aws"
answer() { printf '%s\n' "$2" >"$work/answer-$1"; }
with=(env PATH="$work/bin:$PATH" HOME="$work/home" "$BEVATRON" cluster)
a=subnet-0aaaaaaaaaaaaaaaa b=subnet-0bbbbbbbbbbbbbbbb
answer describe-subnets "{\"Subnets\": [
 {\"SubnetId\": \"$a\", \"VpcId\": \"vpc-1\", \"AvailabilityZone\": \"us-west-2a\", \"AvailableIpAddressCount\": 200},
 {\"SubnetId\": \"$b\", \"VpcId\": \"vpc-1\", \"AvailabilityZone\": \"us-west-2a\", \"AvailableIpAddressCount\": 900}]}"
answer describe-route-tables "{\"RouteTables\": [
 {\"VpcId\": \"vpc-1\", \"Associations\": [{\"SubnetId\": \"$a\"}], \"Routes\": [{\"DestinationCidrBlock\": \"0.0.0.0/0\", \"GatewayId\": \"igw-1\"}]},
 {\"VpcId\": \"vpc-1\", \"Associations\": [{\"SubnetId\": \"$b\"}], \"Routes\": [{\"DestinationCidrBlock\": \"0.0.0.0/0\", \"NatGatewayId\": \"nat-1\"}]}]}"
answer describe-instance-type-offerings '{"InstanceTypeOfferings": [{"InstanceType": "p4d.24xlarge", "Location": "us-west-2a"},
 {"InstanceType": "c5n.18xlarge", "Location": "us-west-2a"}, {"InstanceType": "c5n.18xlarge", "Location": "us-west-2b"}]}'
answer describe-key-pairs '{"KeyPairs": [{"KeyName": "one"}]}'
answer list-buckets '{"Buckets": [{"Name": "here-bucket"}, {"Name": "far-bucket"}]}'
answer get-bucket-location-here-bucket '{"LocationConstraint": "us-west-2"}'
answer get-bucket-location-far-bucket '{"LocationConstraint": null}'
answer get-service-quota '{"Quota": {"Value": 96.0}}'

# A converted INI file, completed, renders.
cat >"$work/old.ini" <<'INI'
[aws]
aws_region_name = us-west-2
[cluster multi]
key_name = <Your key>
base_os = alinux2
vpc_settings = v
queue_settings = gpu, cpu
fsx_settings = f
[vpc v]
master_subnet_id = <A public subnet>
compute_subnet_id = <A private subnet>
[queue gpu]
compute_resource_settings = p4
enable_efa = true
placement_group = DYNAMIC
[compute_resource p4]
instance_type = p4d.24xlarge
max_count = 4
[queue cpu]
compute_resource_settings = c5
[compute_resource c5]
instance_type = c5n.18xlarge
max_count = 2
[fsx f]
shared_dir = /lustre
storage_capacity = 1200
INI
expect 0 'name: "multi"' "${with[@]}" convert "$work/old.ini"
expect 0 "no longer offers alinux2" "${with[@]}" convert "$work/old.ini" --output "$work/llm.yaml"
expect 2 "already exists" "${with[@]}" convert "$work/old.ini" --output "$work/llm.yaml"
printf 'a = b\n' >"$work/bad.ini"
expect 2 "bad.ini:1: a value before the first section" "${with[@]}" convert "$work/bad.ini"
cp "$work/llm.yaml" "$work/before.yaml"
expect 0 "subnet: \"$b\"   # private, us-west-2a, vpc-1" "${with[@]}" prepare --config "$work/llm.yaml" --dry-run
expect_same "$work/before.yaml" "$work/llm.yaml" "a dry run writes nothing"
expect 0 "written to" "${with[@]}" prepare --config "$work/llm.yaml"
head -c "$(stat -c %s "$work/before.yaml")" "$work/llm.yaml" | cmp -s - "$work/before.yaml" && pass || fail "what the file said is gone"
for text in "head-subnet: \"$a\"" "subnet: \"$b\"" 'key: "one"' 'fsx-s3: "s3://here-bucket"'; do
    grep -q "^$text" "$work/llm.yaml" && pass || fail "no $text in $(cat "$work/llm.yaml")"
done
grep -q "4 × p4d.24xlarge have 384 vCPUs, but the quota of P instances is 96.*--quota-code L-417A185B --desired-value 384" "$work/out" && pass || fail "no word about the quota"
grep -q "Values=p4d.24xlarge,c5n.18xlarge" "$work/asked" && pass || fail "zones were not asked for all types"
expect 0 "SubnetId: \"$a\"" "${with[@]}" render --config "$work/llm.yaml"
cp "$work/llm.yaml" "$work/before.yaml"
expect 0 "already has everything that was found" "${with[@]}" prepare --config "$work/llm.yaml"
expect_same "$work/before.yaml" "$work/llm.yaml" "a second time adds nothing"
grep -q "create" "$work/asked" && fail "something was created" || pass

# The made-up values of the examples are replaced; what is the user's own stays.
answer describe-instance-type-offerings '{"InstanceTypeOfferings": [{"InstanceType": "p4d.24xlarge", "Location": "us-west-2a"},
 {"InstanceType": "p4de.24xlarge", "Location": "us-west-2a"}, {"InstanceType": "c5n.18xlarge", "Location": "us-west-2a"}]}'
for example in p4d-ultracluster p4d-roberta p4de-nemo; do
    sed 's/us-east-1/us-west-2/; s/my-ml-bucket/of-mine/g' "examples/clusters/$example.yaml" >"$work/example.yaml"
    expect 0 "note: subnet-0123456789abcdef0 is made up, as in the examples; \`bevatron cluster prepare" "${with[@]}" render --config "$work/example.yaml"
    expect 0 "head-subnet: subnet-0123456789abcdef0 is made up by the example and is replaced" "${with[@]}" prepare --config "$work/example.yaml"
    for text in "head-subnet: \"$a\"" "subnet: \"$b\"" 'key: "one"'; do
        grep -q "^$text" "$work/example.yaml" && pass || fail "no $text in $(cat "$work/example.yaml")"
    done
    [ $example = p4d-roberta ] || grep -q "custom-ami: ami-0123456789abcdef0 is made up by the example and is removed" "$work/out" && pass || fail "a made-up image"
    [ $example != p4de-nemo ] || grep -q "queue compute-gpu: reservation=cr-0123456789abcdef0 is made up by the example and is removed" "$work/out" && pass || fail "a made-up reservation"
    grep -q "0123456789abcdef" "$work/example.yaml" && fail "made-up values are left: $(cat "$work/example.yaml")" || pass
    expect 0 "SubnetId: \"$a\"" "${with[@]}" render --config "$work/example.yaml"
    grep -q "made up" "$work/out" && fail "made-up values are left" || pass
    grep -qE "InstanceType: \"p4de?.24xlarge\"" "$work/out" && pass || fail "the queue of $example is lost"
done
grep -qx "  - compute-gpu p4de.24xlarge 4-4 efa exclusive gpu-health-check" "$work/example.yaml" && pass || fail "more than a word of the queue is gone"
# Its bucket is the user's to name: machines install from there.
sed 's/us-east-1/us-west-2/' examples/clusters/p4d-roberta.yaml >"$work/example.yaml"
for _ in 1 2; do expect 1 "still missing: a bucket of yours: write its name in place of the example's my-ml-bucket" "${with[@]}" prepare --config "$work/example.yaml"; done
printf 'region: us-west-2\nkey: my-key\nsubnet: "%s"  # mine\n' "$b" >"$work/mine.yaml"
expect 1 "the key pair my-key does not exist" "${with[@]}" prepare --config "$work/mine.yaml"
grep -qx "key: my-key" "$work/mine.yaml" && pass || fail "a user's value is gone"
printf 'region: us-west-2\nsubnet: subnet-0123456789abcdef1' >"$work/mine.yaml"
expect 0 "written to" "${with[@]}" prepare --config "$work/mine.yaml" --subnet "$b"
grep -q "^subnet: \"$b\"" "$work/mine.yaml" && ! grep -q 0123456789abcdef "$work/mine.yaml" && pass || fail "a flag does not replace a made-up value"

# A new file from flags; a new key and bucket.
answer create-key-pair '{"KeyMaterial": "-----BEGIN RSA PRIVATE KEY-----\nsecret\n-----END RSA PRIVATE KEY-----"}'
answer create-bucket '{"Location": "x"}'
new=(--name llm --region us-west-2 --queue "gpu p4d.24xlarge 0-2 efa placement-group" --queue "cpu c5n.18xlarge 2" --output "$work/new.yaml")
expect 0 "created the key pair fresh" "${with[@]}" prepare "${new[@]}" --create-key fresh --create-bucket my-new-bucket
grep -qx secret "$work/home/.ssh/fresh.pem" && [ "$(stat -c %a "$work/home/.ssh/fresh.pem")" = 600 ] && pass || fail "the private key"
grep -q "^s3api create-bucket --bucket my-new-bucket --create-bucket-configuration LocationConstraint=us-west-2" "$work/asked" && pass || fail "the bucket"
expect 0 'KeyName: "fresh"' "${with[@]}" render --config "$work/new.yaml"
grep -q 'BucketName: "my-new-bucket"' "$work/out" && grep -q 'InstanceType: "c5n.18xlarge"' "$work/out" && pass || fail "the new file: $(cat "$work/new.yaml")"
expect 2 "complete it with --config" "${with[@]}" prepare "${new[@]}"
rm "$work/new.yaml"
expect 1 "cannot create $work/home/.ssh/fresh.pem" "${with[@]}" prepare "${new[@]}" --create-key fresh
[ ! -e "$work/new.yaml" ] && grep -qx secret "$work/home/.ssh/fresh.pem" && pass || fail "a key was overwritten"

# What cannot be added to a file is refused before anything is created, and the file is unchanged.
stays() { # CODE TEXT CONTENT FLAG…: no request to AWS
    printf "$3" >"$work/stays.yaml"
    cp "$work/stays.yaml" "$work/before.yaml"
    : >"$work/asked"
    expect "$1" "$2" "${with[@]}" prepare --config "$work/stays.yaml" "${@:4}"
    expect_same "$work/before.yaml" "$work/stays.yaml" "a refused file was changed"
    [ -s "$work/asked" ] && fail "AWS was asked: $(cat "$work/asked")" || pass
}
stays 2 "stays.yaml is JSON, to which lines cannot be added" ' \n{"region": "us-west-2"}\n'
stays 2 "stays.yaml is JSON" '\xef\xbb\xbf{"region": "us-west-2"}\n'
stays 2 "--create-key two: the key pair is given already (key: one)" 'region: us-west-2\nkey: one\n' --create-key two
stays 2 "--create-bucket two: a bucket is given already (bucket: one)" 'region: us-west-2\nbucket: one\n' --create-bucket two
stays 2 "--create-bucket two: a bucket is given already (fsx-s3: s3://one)" 'region: us-west-2\nfsx-s3: s3://one\n' --create-bucket two
stays 2 "could not be read with new lines" 'region: us-west-2\nkey: null\n' --create-key two
stays 2 "could not be read with new lines" 'region: us-west-2\nbucket: null\n' --create-bucket two
printf '{"region": "us-west-2"}\n' >"$work/short.json"
expect 0 'key: "one"' "${with[@]}" prepare --config "$work/short.json" --dry-run
printf 'region: us-west-2\nkey: null\n' >"$work/stays.yaml"
cp "$work/stays.yaml" "$work/before.yaml"
expect 2 "nothing was written, because $work/stays.yaml could not be read with new lines: $work/stays.yaml:" "${with[@]}" prepare --config "$work/stays.yaml"
grep -q '^key: "one"' "$work/out" && pass || fail "the lines found are lost"
expect_same "$work/before.yaml" "$work/stays.yaml" "a file that cannot be completed was changed"

# Several candidates: clear cases are written, the user must decide the rest. A key whose private half is here is used.
answer describe-key-pairs '{"KeyPairs": [{"KeyName": "one"}, {"KeyName": "two"}]}'
answer get-bucket-location-far-bucket '{"LocationConstraint": "us-west-2"}'
expect 1 "still missing: a key pair: give --key, one of one, two; a bucket: give --bucket, one of here-bucket, far-bucket" "${with[@]}" prepare "${new[@]}"
grep -q "^subnet:" "$work/new.yaml" && pass || fail "what was found is lost"
touch "$work/home/.ssh/two.pem"
expect 0 'key: "two"' "${with[@]}" prepare --config "$work/new.yaml" --bucket far-bucket
grep -q "far-bucket" "$work/new.yaml" && pass || fail "a flag of the command line is not written"

# The content of the file is checked; what an account lacks is reported, and nothing is written.
rm -f "$work/other.yaml"
expect 1 "this account has no such subnet" "${with[@]}" prepare "${new[@]/new.yaml/other.yaml}" --subnet subnet-0123456789abcdef1
expect 1 "does not exist; there are: one, two" "${with[@]}" prepare "${new[@]/new.yaml/other2.yaml}" --key three --bucket here-bucket
answer describe-instance-type-offerings '{"InstanceTypeOfferings": []}'
expect 1 "no zone of us-west-2 offers all" "${with[@]}" prepare "${new[@]/new.yaml/other.yaml}"
answer describe-subnets '{"Subnets": []}'
answer describe-instance-type-offerings '{"InstanceTypeOfferings": [{"InstanceType": "p4d.24xlarge", "Location": "us-west-2a"}, {"InstanceType": "c5n.18xlarge", "Location": "us-west-2a"}]}'
expect 1 "this account has no subnet there; \`pcluster configure\`" "${with[@]}" prepare "${new[@]/new.yaml/other.yaml}"
[ ! -e "$work/other.yaml" ] && pass || fail "a file was written"
echo 'An error occurred (AuthFailure) when calling the DescribeSubnets operation: AWS was not able to validate the provided access credentials' >"$work/errors-describe-subnets"
expect 1 "AWS does not know these keys" "${with[@]}" prepare "${new[@]/new.yaml/other.yaml}"
expect 2 "give --config FILE" "${with[@]}" prepare --region us-west-2
finish
