# Sourced by tests that listen.
# A free port of this machine, below the ephemeral ports. Tests that run at the same time get different ones: a port is
# taken by a folder, for an hour.
free_port() {
    local port taken=/tmp/bevatron-ports-$(id -u)
    mkdir -p -m 700 "$taken" && [ -w "$taken" ] || { echo "cannot write to $taken" >&2; return 1; }
    find "$taken" -mindepth 1 -maxdepth 1 -mmin +60 -exec rmdir {} + 2>/dev/null
    while :; do
        port=$((10000 + RANDOM % 20000))
        grep -qi ":$(printf %04X "$port") " /proc/net/tcp /proc/net/tcp6 2>/dev/null && continue
        mkdir "$taken/$port" 2>/dev/null && break
    done
    echo "$port"
}
