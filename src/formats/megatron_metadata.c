// metadata.json of Megatron's distributed checkpoints. See megatron_metadata.h.
#include "formats/megatron_metadata.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 1 << 16 };

static int check_backend(const struct json *root, const char *member, const char *const *known, const char **found) {
    const char *name = NULL;
    TRY(json_get_string(root, member, &name));
    for (size_t i = 0; known[i]; i++)
        if (strcmp(name, known[i]) == 0) {
            *found = known[i];
            return 0;
        }
    return error_set("\"%s\" is \"%.60s\", which no release of Megatron-LM writes", member, name);
}

static int check_version(const struct json *root, const char *member) {
    int64_t version = 0;
    TRY(json_get_int(root, member, &version));
    return version == 1 ? 0 : error_set("\"%s\" is %" PRId64 "; only 1 is supported", member, version);
}

static int check_members(const struct json *root, const char **backend) {
    static const char *const sharded[] = {"torch_dist", "zarr", NULL}, *const common[] = {"torch", NULL};
    const char *of_common = NULL;
    if (root->type != JSON_OBJECT)
        return error_set("it is not an object");
    TRY(check_backend(root, "sharded_backend", sharded, backend));
    for (size_t i = 0; i < root->count; i++) {
        const char *key = root->keys[i].string;
        if (strlen(key) != root->keys[i].length)
            return error_set("a member's name has a NUL");
        if (strcmp(key, "sharded_backend_version") == 0 || strcmp(key, "common_backend_version") == 0)
            TRY(check_version(root, key));
        else if (strcmp(key, "common_backend") == 0)
            TRY(check_backend(root, key, common, &of_common));
        else if (strcmp(key, "sharded_backend") != 0)
            return error_set("it has the unknown member \"%.60s\"", key);
    }
    return 0;
}

int megatron_metadata_parse(const char *text, size_t length, const char *name, const char **backend) {
    struct json *root = NULL;
    int result = json_parse(&root, text, length, name);
    *backend = NULL;
    if (result == 0 && check_members(root, backend) < 0)
        result = error_context("%s is damaged, or of a release that is not known; copy it again", name);
    json_free(root);
    return result;
}

int megatron_metadata_read(const char *folder, const char **backend) {
    char *path = file_join(folder, "metadata.json");
    struct buffer text = {0};
    int result = 0;
    *backend = NULL;
    if (file_exists(path)) {
        result = file_read_own(path, MAX_BYTES, &text);
        if (result == 0)
            result = megatron_metadata_parse(buffer_string(&text), text.length, path, backend);
    }
    buffer_free(&text);
    free(path);
    return result;
}
