// The YAML of a machine image. See parallelcluster.h.
#include "base/error.h"
#include "cluster/parallelcluster.h"
#include "cluster/parallelcluster_check.h"
#include "cluster/yaml.h"

static void build_rights(struct yaml *y, const struct string_list *policies) {
    if (policies->count == 0)
        return;
    yaml_map(y, "Iam");
    yaml_list(y, "AdditionalIamPolicies");
    for (int64_t i = 0; i < policies->count; i++) {
        yaml_item(y);
        yaml_text(y, "Policy", policies->items[i]);
        yaml_end(y);
    }
    yaml_end(y);
    yaml_end(y);
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
        yaml_end(y);
        yaml_end(y);
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
