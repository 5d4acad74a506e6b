#!/bin/bash
# Prints node-setup.sh and a tar file of bevatron's source as one script that needs no arguments and fetches nothing of
# ours. EC2 Image Builder, which makes ParallelCluster's images, gives scripts no arguments and may read nothing of a
# bucket but the script itself.
# usage: image-script.sh SOURCE.tar >image.sh
set -euo pipefail
if [ $# -ne 1 ]; then
    sed -n '2,5p' "$0" >&2
    exit 2
fi
setup=$(dirname "$0")/node-setup.sh
cat <<'HEAD'
#!/bin/bash
# Written by image-script.sh: installs bevatron from the source below into /opt/bevatron.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/node-setup.sh" <<'END_OF_SETUP'
HEAD
cat "$setup"
cat <<'MIDDLE'
END_OF_SETUP
base64 -d >"$folder/bevatron.tar.gz" <<'END_OF_SOURCE'
MIDDLE
gzip -9 -n -c "$1" | base64
cat <<'TAIL'
END_OF_SOURCE
bash "$folder/node-setup.sh" "$folder/bevatron.tar.gz"
TAIL
