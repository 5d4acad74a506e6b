// layer: cluster
// YAML of the user's pods from hostile bytes: a tree that parses is written, read back as the same tree, and merged
// into itself, without duplicate keys.
#include "fuzz.h"

#include "base/error.h"
#include "base/memory.h"
#include "cluster/yaml.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = memory_alloc(size + 1);
    if (size > 0)
        memcpy(text, data, size);
    struct yaml_node root, again;
    struct buffer out = {0}, second = {0};
    if (yaml_tree_parse(&root, text, size, "x.yaml") == 0 && root.kind == YAML_MAP) {
        yaml_tree_write(&root, 0, &out);
        CHECK(yaml_tree_parse(&again, buffer_string(&out), out.length, "again") == 0);
        yaml_tree_write(&again, 0, &second);
        CHECK(out.length == second.length && memcmp(buffer_string(&out), buffer_string(&second), out.length) == 0);
        yaml_tree_merge(&again, &root);
        yaml_tree_free(&again);
    }
    yaml_tree_free(&root);
    buffer_free(&out);
    buffer_free(&second);
    free(text);
    return 0;
}
