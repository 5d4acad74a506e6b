// Made-up values in the short files of examples/clusters, which cluster prepare replaces.
#include "base/memory.h"
#include "cli/cluster_commands.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The value on a line of YAML that is about `key`, without quotes and comment; NULL otherwise. Owned by the caller.
static char *value_on_line(const char *line, size_t length, const char *key) {
    size_t named = strlen(key);
    if (length <= named || strncmp(line, key, named) != 0 || line[named] != ':')
        return NULL;
    const char *value = line + named + 1, *end = line + length;
    while (value < end && strchr(" \t\"'", *value))
        value++;
    size_t size = 0;
    while (value + size < end && !strchr(" \t\r\n\"'#", value[size]))
        size++;
    return memory_printf("%.*s", (int)size, value);
}

static bool is_made_up_id(const char *value) {
    return value && strncmp(value, "subnet-0123456789abcdef", strlen("subnet-0123456789abcdef")) == 0;
}

// The examples that come with the program have made-up values. A key or a bucket may really have such a name, so these
// count only in a file whose subnets are made up.
static bool is_made_up(const char *key, const char *value) {
    if (strcmp(key, "key") == 0)
        return strcmp(value, "my-key") == 0;
    if (strcmp(key, "fsx-s3") == 0)
        return strcmp(value, "s3://my-bucket") == 0;
    return is_made_up_id(value);
}

void cluster_drop_made_up(struct cluster_options *cluster, struct buffer *text) {
    const struct {
        const char *flag;
        char **value;
    } found[] = {{"--subnet", &cluster->subnet},
                 {"--head-subnet", &cluster->head_subnet},
                 {"--key", &cluster->key},
                 {"--fsx-s3", &cluster->fsx_s3}};
    struct buffer rest = {0};
    bool is_example = false;
    for (size_t at = 0; at < text->length;) {
        const char *line = text->data + at, *end = memchr(line, '\n', text->length - at);
        size_t length = end ? (size_t)(end - line) + 1 : text->length - at;
        bool stays = true;
        for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
            char *value = value_on_line(line, length, found[i].flag + 2);
            is_example = is_example || is_made_up_id(value);
            stays = stays && !(value && is_made_up(found[i].flag + 2, value));
            free(value);
        }
        if (stays)
            buffer_append(&rest, line, length);
        at += length;
    }
    for (size_t i = 0; is_example && i < sizeof found / sizeof *found; i++) {
        char **value = found[i].value;
        if (!*value || flag_source(&cluster->given, found[i].flag) != FLAG_FROM_FILE ||
            !is_made_up(found[i].flag + 2, *value))
            continue;
        fprintf(stderr, "%s: %s is made up by the example and is replaced\n", found[i].flag + 2, *value);
        free(*value);
        *value = NULL;
    }
    if (is_example) {
        buffer_clear(text);
        buffer_append(text, rest.data, rest.length);
    }
    buffer_free(&rest);
}
