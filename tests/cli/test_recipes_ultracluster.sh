#!/usr/bin/env bash
# tier: all
# cost: 25
# The recipes of examples/recipes about the UltraCluster, as a reader would follow them: from an INI file to a
# configuration and a dataset, then a planned job, training on two ranks, and a second start that resumes.
. tests/cli/common.sh || exit
needs_parts MPI BZIP2
command -v bzip2 >/dev/null || { echo "skipped: no bzip2"; exit 77; }
export BEVATRON OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
recipes=examples/recipes
for script in "$recipes"/0-ultracluster.sh "$recipes"/1-gpt2-8b.sh "$recipes"/3-roberta.sh; do
    if command -v shellcheck >/dev/null; then shellcheck "$script" >"$work/out" 2>&1 && pass || fail "shellcheck $script"; fi
    [ -x "$script" ] && pass || fail "$script is not executable"
done
expect 0 "200 documents" "$recipes/0-ultracluster.sh" "$work/ultra"
grep -q "no longer offers alinux2" "$work/out" && grep -q "queue gpu  *p4d.24xlarge  *0-16" "$work/out" && pass || fail "the cluster of step 4"
grep -q 'InstanceType: "p4d.24xlarge"' "$work/ultra/ultra.pcluster.yaml" && pass || fail "the configuration"
expect 0 "successfully loaded checkpoint from $work/ultra/checkpoint" "$recipes/1-gpt2-8b.sh" "$work/ultra"
grep -q "iteration       15/      15" "$work/out" && pass || fail "it does not resume"
grep -q -- "--nodes=16" "$work/ultra/train.sbatch" && pass || fail "the job: $(head -n 30 "$work/ultra/train.sbatch")"
# A package has no source to build machines from; that is said before anything is made in the account.
mkdir -p "$work/share"
cp -r examples "$work/share/"
expect 2 "is not a git checkout: run this script in one, or set SOURCE" env WHERE=account BUCKET=b "$work/share/examples/recipes/0-ultracluster.sh" "$work/none"
expect 2 "there is no such file" env WHERE=account BUCKET=b SOURCE="$work/absent.tar" "$work/share/examples/recipes/0-ultracluster.sh" "$work/none"
[ ! -e "$work/none/ultra.yaml" ] && pass || fail "the walk began"
# A command that fails ends the walk where it failed. With a stand-in for aws and one for the program.
expect 1 "== 1. The cluster" env BEVATRON=false "$recipes/0-ultracluster.sh" "$work/none"
grep -qE "== 2|^done" "$work/out" && fail "the walk went on without the program" || pass
mkdir -p "$work/bin" "$work/home"
cat >"$work/bin/bevatron" <<STANDIN
#!/bin/sh
echo "bevatron \$*" | tee -a "$work/asked"
[ "\$1 \$2" != "cluster convert" ] || { shift 4; echo "name: ultra" >"\$1"; }
[ "\$1 \$2" != "cluster prepare" ] || { [ ! -e "$work/prepare-fails" ]; exit; }
STANDIN
cat >"$work/bin/aws" <<STANDIN
#!/bin/sh
echo "aws \$*" >>"$work/asked"
[ "\$2" != head-bucket ] || { [ -e "$work/bucket" ]; exit; }
[ ! -e "$work/aws-fails" ]
STANDIN
chmod +x "$work/bin/aws" "$work/bin/bevatron"
account=(env WHERE=account BUCKET=b SOURCE="$work/some.tar" BEVATRON="$work/bin/bevatron" PATH="$work/bin:$PATH" HOME="$work/home" "$recipes/0-ultracluster.sh" "$work/account")
echo x >"$work/some.tar"
touch "$work/aws-fails"
expect 1 "--create-key ultra --create-bucket b" "${account[@]}"
grep -qE "== 4|^done" "$work/out" && fail "the walk went on after aws failed" || pass
rm "$work/aws-fails"
touch "$work/prepare-fails"
expect 1 "== 2. Subnets" "${account[@]}"
grep -qE "== 3|^done" "$work/out" && fail "the walk went on after prepare failed" || pass
rm "$work/prepare-fails"
# Run again it keeps the short file, the key and the bucket.
echo "tag: mine" >>"$work/account/ultra.yaml"
mkdir -p "$work/home/.ssh"
touch "$work/home/.ssh/ultra.pem" "$work/bucket"
expect 0 "cluster prepare --config $work/account/ultra.yaml --key ultra --fsx-s3 s3://b" "${account[@]}"
printf 'key: ultra\nfsx-s3: s3://b\n' >>"$work/account/ultra.yaml"
expect 0 "done: next" "${account[@]}"
grep -qx "+ $work/bin/bevatron cluster prepare --config $work/account/ultra.yaml" "$work/out" && pass || fail "prepare is asked for what the file has"
grep -qx "tag: mine" "$work/account/ultra.yaml" && [ "$(grep -c on-node-configured "$work/account/ultra.yaml")" = 1 ] && pass || fail "the short file: $(cat "$work/account/ultra.yaml")"
# The cluster of RoBERTa: a copy of the example with the user's bucket; what machines install is uploaded before it is created.
: >"$work/asked"
mkdir -p "$work/mine"
roberta=(env -C "$work/mine" BUCKET=b SOURCE="$work/some.tar" BEVATRON="$work/bin/bevatron" PATH="$work/bin:$PATH" "$PWD/$recipes/3-roberta.sh" cluster)
expect 0 "cluster render --config roberta.yaml" "${roberta[@]}"
grep -qx "fsx-s3: s3://b" "$work/mine/roberta.yaml" && ! grep -q my-ml-bucket "$work/mine/roberta.yaml" && pass || fail "the copy of the example"
grep -q "^aws" "$work/asked" && fail "something was uploaded without CREATE" || pass
expect 0 "cluster create" env CREATE=yes "${roberta[@]}"
tail -n 5 "$work/asked" >"$work/out"
printf '%s\n' "bevatron cluster prepare --config roberta.yaml" "aws s3 cp $work/some.tar s3://b/bevatron.tar" "aws s3 cp $PWD/examples/images/node-setup.sh s3://b/node-setup.sh" \
    "bevatron cluster render --config roberta.yaml" "bevatron cluster create --config roberta.yaml --wait" | cmp -s - "$work/out" && pass || fail "the steps of the cluster"
touch "$work/aws-fails"
: >"$work/asked"
expect 1 "cluster prepare" env CREATE=yes "${roberta[@]}"
grep -q "cluster create" "$work/asked" && fail "a cluster was created although the upload failed" || pass
cp examples/clusters/p4d-roberta.yaml "$work/named.yaml"
expect 2 "names the bucket my-ml-bucket of the example" env CREATE=yes CLUSTER_FILE="$work/named.yaml" "${roberta[@]}"
# Every step of a page is a step of its script, by number.
for page in 0-ultracluster 1-gpt2-8b; do
    grep -q "^1\. " "$recipes/$page.md" && grep -q "($page.sh)" "$recipes/$page.md" && pass || fail "$page.md"
done
finish
