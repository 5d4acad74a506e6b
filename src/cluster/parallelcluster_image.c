// The YAML of a machine image. See parallelcluster.h.
#include "base/error.h"
#include "base/memory.h"
#include "cluster/machine.h"
#include "cluster/parallelcluster.h"
#include "cluster/yaml.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

// ---- Pyxis ----

// The script that turns Pyxis and Enroot on. See parallelcluster.h. Images of ParallelCluster have had both since
// 3.11.1, switched off: their settings are among the examples.

const char *parallelcluster_pyxis_script(void) {
    return "#!/bin/bash\n"
           "# Written by bevatron cluster: turns Pyxis and Enroot on, which the image has but does not use.\n"
           "set -euo pipefail\n"
           "root=${PYXIS_ROOT:-}\n"
           "examples=$root/opt/parallelcluster/examples\n"
           "for file in spank/plugstack.conf pyxis/pyxis.conf; do\n"
           "    if [ ! -f \"$examples/$file\" ]; then\n"
           "        echo \"pyxis: no $examples/$file; this image has no Pyxis (ParallelCluster 3.11.1 and newer "
           "have)\" >&2\n"
           "        exit 1\n"
           "    fi\n"
           "done\n"
           "# Layers are kept on the machine's NVMe disks where it has them.\n"
           "cache=$root/var/cache/enroot\n"
           "if [ -d \"$root/scratch\" ]; then cache=$root/scratch/enroot; fi\n"
           "mkdir -p \"$root/etc/enroot\" \"$cache/cache\" \"$cache/data\" \"$root/run/enroot\" \"$root/run/pyxis\"\n"
           "chmod 1777 \"$cache/cache\" \"$cache/data\" \"$root/run/enroot\"\n"
           "cat >\"$root/etc/enroot/enroot.conf\" <<SETTINGS\n"
           "ENROOT_RUNTIME_PATH /run/enroot/user-\\$(id -u)\n"
           "ENROOT_CACHE_PATH ${cache#\"$root\"}/cache/user-\\$(id -u)\n"
           "ENROOT_DATA_PATH ${cache#\"$root\"}/data/user-\\$(id -u)\n"
           "ENROOT_CONFIG_PATH \\${HOME}/.config/enroot\n"
           "ENROOT_MOUNT_HOME n\n"
           "ENROOT_RESTRICT_DEV y\n"
           "ENROOT_ROOTFS_WRITABLE y\n"
           "SETTINGS\n"
           "# /run is empty after every start.\n"
           "mkdir -p \"$root/etc/tmpfiles.d\"\n"
           "printf 'd /run/enroot 1777 root root\\nd /run/pyxis 0755 root root\\n' "
           ">\"$root/etc/tmpfiles.d/pyxis.conf\"\n"
           "# MPI inside of containers.\n"
           "hook=$root/usr/share/enroot/hooks.d/50-slurm-pmi.sh\n"
           "if [ -f \"$hook\" ]; then mkdir -p \"$root/etc/enroot/hooks.d\" && cp \"$hook\" "
           "\"$root/etc/enroot/hooks.d/\"; fi\n"
           "# The head node's /opt/slurm is the one of all machines.\n"
           "if grep -qs '^cfn_node_type=\"*HeadNode' \"$root/etc/parallelcluster/cfnconfig\"; then\n"
           "    mkdir -p \"$root/opt/slurm/etc/plugstack.conf.d\"\n"
           "    cp \"$examples/spank/plugstack.conf\" \"$root/opt/slurm/etc/\"\n"
           "    cp \"$examples/pyxis/pyxis.conf\" \"$root/opt/slurm/etc/plugstack.conf.d/\"\n"
           "    if [ -z \"$root\" ] && systemctl is-active -q slurmctld; then systemctl restart slurmctld; fi\n"
           "fi\n"
           "echo \"pyxis: done\"\n";
}

// ---- cost ----

// The cost of a cluster per hour, as a table. See parallelcluster.h.

// One line: price range of its machines, from the cheapest to the dearest; 0 if unknown.
struct cost_line {
    const char *what, *machine;
    int64_t least, most;
    double cheapest, dearest;
};

static void cost_line(struct buffer *out, const struct cost_line *line) {
    char nodes[48], each[32] = "unknown", least[32] = "unknown", most[32] = "unknown";
    snprintf(nodes, sizeof nodes, line->least == line->most ? "%" PRId64 : "%" PRId64 "-%" PRId64, line->least,
             line->most);
    if (line->dearest > 0) {
        snprintf(each, sizeof each, "%.3f", line->dearest);
        snprintf(least, sizeof least, "%.2f", line->cheapest * (double)line->least);
        snprintf(most, sizeof most, "%.2f", line->dearest * (double)line->most);
    }
    buffer_printf(out, "  %-26s %-18s %9s %10s %10s %12s\n", line->what, line->machine, nodes, each, least, most);
}

// A queue may get any of its types: at least the cheapest, at most the dearest. A type without a price leaves no such
// bound.
static void price_queue(const struct cluster_queue *queue, struct cost_line *line) {
    line->machine = queue->types[0];
    line->cheapest = line->dearest = machine_price(queue->types[0]);
    for (int i = 1; i < queue->type_count && line->dearest > 0; i++) {
        double each = machine_price(queue->types[i]);
        if (each > line->dearest || each <= 0) {
            line->machine = queue->types[i];
            line->dearest = each;
        }
        line->cheapest = each < line->cheapest ? each : line->cheapest;
    }
}

void parallelcluster_cost(const struct parallelcluster *cluster, struct buffer *out) {
    double head = machine_price(cluster->head_type), least = head, most = head;
    bool is_whole = head > 0;
    buffer_printf(out, "  %-26s %-18s %9s %10s %10s %12s\n", "dollars an hour", "machine", "nodes", "each", "at least",
                  "at most");
    cost_line(out, &(struct cost_line){"head node", cluster->head_type, 1, 1, head, head});
    for (int i = 0; i < cluster->queue_count; i++) {
        const struct cluster_queue *queue = &cluster->queues[i];
        OWNED char *what = memory_printf("queue %.25s%s", queue->name, queue->is_spot ? " (spot)" : "");
        struct cost_line line = {.what = what, .least = queue->least, .most = queue->most};
        price_queue(queue, &line);
        cost_line(out, &line);
        if (line.dearest > 0) {
            least += line.cheapest * (double)queue->least;
            most += line.dearest * (double)queue->most;
        }
        is_whole = is_whole && line.dearest > 0;
    }
    buffer_printf(out, "  %-26s %-18s %9s %10s %10.2f %12.2f\n", is_whole ? "all" : "all with a known price", "", "",
                  "", least, most);
    buffer_printf(out, "  %s%s\n", machine_price_note(),
                  is_whole ? "" : " The sum does not include machines without a known price.");
}

// ---- images ----

static void build_rights(struct yaml *y, const struct string_list *policies) {
    if (policies->count == 0)
        return;
    yaml_map(y, "Iam");
    yaml_list(y, "AdditionalIamPolicies");
    for (int64_t i = 0; i < policies->count; i++)
        yaml_item_of(y, "Policy", policies->items[i]);
    yaml_ends(y, 2);
}

int parallelcluster_image_yaml(const struct parallelcluster_image *image, struct buffer *out) {
    TRY(parallelcluster_image_check(image));
    struct yaml yaml = {.out = out}, *y = &yaml;
    buffer_append_string(
        out,
        "# Written by bevatron cluster build-image. It may be edited, and used with pcluster build-image directly.\n");
    yaml_text(y, "Region", image->region);
    if (image->disk_gib > 0) {
        yaml_map(y, "Image");
        yaml_map(y, "RootVolume");
        yaml_number(y, "Size", image->disk_gib);
        yaml_ends(y, 2);
    }
    yaml_map(y, "Build");
    yaml_text(y, "InstanceType", image->instance_type);
    yaml_text(y, "ParentImage", image->parent);
    yaml_text(y, "SubnetId", image->subnet);
    build_rights(y, image->policies);
    if (image->scripts->count > 0) {
        yaml_list(y, "Components");
        for (int64_t i = 0; i < image->scripts->count; i++) {
            yaml_item(y);
            yaml_text(y, "Type", "script");
            yaml_text(y, "Value", image->scripts->items[i]);
            yaml_end(y);
        }
        yaml_end(y);
    }
    yaml_end(y);
    return 0;
}
