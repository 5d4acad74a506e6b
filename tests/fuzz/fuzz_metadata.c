// layer: formats
// metadata.json of a distributed checkpoint of Megatron-LM from hostile bytes. What is accepted names a backend, and
// either nothing else or version 1 of it.
#include "fuzz.h"

#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "formats/megatron_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *backend = NULL;
    char *text = memory_alloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    if (megatron_metadata_parse(text, size, "fuzz", &backend) == 0) {
        struct json *root = NULL;
        int64_t version = 1;
        CHECK(backend && (strcmp(backend, "torch_dist") == 0 || strcmp(backend, "zarr") == 0));
        CHECK(json_parse(&root, text, size, "fuzz") == 0 && root->type == JSON_OBJECT);
        if (json_member(root, "sharded_backend_version"))
            CHECK(json_get_int(root, "sharded_backend_version", &version) == 0 && version == 1);
        json_free(root);
    } else {
        CHECK(*error_message() != '\0');
    }
    free(text);
    return 0;
}
