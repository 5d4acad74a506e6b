// Made-up values in the short files of examples/clusters, which cluster prepare replaces or removes.
#include "base/memory.h"
#include "cli/cluster_commands.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The value of `key` on a line of YAML, without quotes and comment; NULL for another line. Owned by the caller.
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

static bool begins(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

static bool is_made_up_id(const char *value) {
    return value && begins(value, "subnet-0123456789abcdef");
}

// The examples that come with the program have made-up values. A key or a bucket may really have such a name, so these
// count only in a file with made-up subnets.
static bool is_made_up(const char *key, const char *value) {
    if (strcmp(key, "key") == 0)
        return strcmp(value, "my-key") == 0;
    if (strcmp(key, "fsx-s3") == 0)
        return strcmp(value, "s3://my-bucket") == 0;
    if (strcmp(key, "custom-ami") == 0)
        return begins(value, "ami-0123456789abcdef");
    return is_made_up_id(value);
}

// The first made-up word in the text of a queue, with the space before it, and its length. NULL if there is none.
static const char *find_reservation(const char *text, size_t length, size_t *size) {
    static const char word[] = " reservation=cr-0123456789abcdef";
    const char *found = memmem(text, length, word, sizeof word - 1), *end = text + length;
    *size = sizeof word - 1;
    while (found && found + *size < end && !strchr(" \t\r\n\"'", found[*size]))
        ++*size;
    return found;
}

static void drop_reservations(struct string_list *queues) {
    for (int64_t i = 0; i < queues->count; i++) {
        char *queue = queues->items[i];
        size_t size, name = strcspn(queue, " ");
        const char *found = find_reservation(queue, strlen(queue), &size);
        if (!found)
            continue;
        fprintf(
            stderr,
            "queue %.*s:%.*s is made up by the example and is removed; add the reservation or capacity block that you "
            "have\n",
            (int)name, queue, (int)size, found);
        queues->items[i] = memory_printf("%.*s%s", (int)(found - queue), queue, found + size);
        free(queue);
    }
}

bool cluster_has_made_up_bucket(const struct cluster_options *cluster) {
    static const char name[] = "my-ml-bucket";
    const struct string_list *const lists[] = {&cluster->buckets, &cluster->scripts};
    bool has = cluster->fsx_s3 && strstr(cluster->fsx_s3, name);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (int64_t k = 0; k < lists[i]->count; k++)
            has = has || strstr(lists[i]->items[k], name);
    return has;
}

void cluster_note_made_up(const struct cluster_options *cluster, struct buffer *notes) {
    const char *const subnets[] = {cluster->head_subnet, cluster->subnet};
    for (size_t i = 0; i < sizeof subnets / sizeof *subnets; i++)
        if (is_made_up_id(subnets[i])) {
            buffer_printf(notes,
                          "note: %s is made up, as in the examples; `bevatron cluster prepare --config FILE` puts the "
                          "subnets, the key and the bucket of your account into a copy of the file.\n",
                          subnets[i]);
            return;
        }
}

void cluster_drop_made_up(struct cluster_options *cluster, struct buffer *text) {
    const struct {
        const char *flag;
        char **value;
    } found[] = {{"--subnet", &cluster->subnet},
                 {"--head-subnet", &cluster->head_subnet},
                 {"--key", &cluster->key},
                 {"--custom-ami", &cluster->custom_ami},
                 {"--fsx-s3", &cluster->fsx_s3}};
    OWNED_BY(buffer_free) struct buffer rest = {0};
    bool is_example = false;
    for (size_t at = 0; at < text->length;) {
        const char *line = text->data + at, *end = memchr(line, '\n', text->length - at);
        size_t length = end ? (size_t)(end - line) + 1 : text->length - at;
        bool stays = true;
        for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
            OWNED char *value = value_on_line(line, length, found[i].flag + 2);
            is_example = is_example || is_made_up_id(value);
            stays = stays && !(value && is_made_up(found[i].flag + 2, value));
        }
        size_t size, before = length;
        const char *word = stays ? find_reservation(line, length, &size) : NULL;
        if (word)
            before = (size_t)(word - line);
        if (stays)
            buffer_append(&rest, line, before);
        if (word)
            buffer_append(&rest, word + size, length - before - size);
        at += length;
    }
    for (size_t i = 0; is_example && i < sizeof found / sizeof *found; i++) {
        char **value = found[i].value;
        if (!*value || flag_source(&cluster->given, found[i].flag) != FLAG_FROM_FILE ||
            !is_made_up(found[i].flag + 2, *value))
            continue;
        bool is_image = value == &cluster->custom_ami;
        fprintf(stderr, "%s: %s is made up by the example and is %s\n", found[i].flag + 2, *value,
                is_image
                    ? "removed: machines start from ParallelCluster's image; `bevatron cluster build-image` makes one"
                    : "replaced");
        free(*value);
        *value = NULL;
    }
    if (is_example) {
        drop_reservations(&cluster->queues);
        buffer_clear(text);
        buffer_append(text, rest.data, rest.length);
    }
}
