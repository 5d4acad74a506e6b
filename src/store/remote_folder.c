// Reads a copy of SAVE in S3. See remote_checkpoint.h.
#include "store/remote_checkpoint.h"
#include "base/error.h"
#include "base/memory.h"
#include "net/remote.h"
#include "store/checkpoint.h"
#include <stdlib.h>
#include <string.h>

enum { MARKER_BYTES = 64 };

char *remote_folder_path(const char *url, int64_t iteration, const char *name) {
    char *folder = checkpoint_path("", iteration);  // "/iter_…"
    char *place = url_join(url, folder[0] == '/' ? folder + 1 : folder);
    char *path = name ? url_join(place, name) : memory_string(place);
    free(folder);
    free(place);
    return path;
}

int remote_folder_marker(const char *url, int64_t *iteration) {
    char *path = url_join(url, folder_marker_name());
    struct buffer text = {0};
    int status = remote_read_all(path, MARKER_BYTES, &text);
    if (status > 0 && folder_marker_parse(&text, path, iteration) < 0)
        status = -1;
    buffer_free(&text);
    free(path);
    return status;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int remote_folder_list(struct folder_list *list, const char *url, const char *name) {
    struct remote_list objects;
    char *prefix = url_join(url, "iter_"), *folder = url_join(url, "");
    *list = (struct folder_list){0};
    int status = remote_list(&objects, prefix, false);
    if (status == 0)
        list->iterations = memory_alloc((objects.count + 1) * sizeof *list->iterations);
    for (size_t i = 0; status == 0 && i < objects.count; i++) {
        const char *rest = objects.objects[i].url + strlen(folder), *slash = strchr(rest, '/');
        char *first = slash ? memory_printf("%.*s", (int)(slash - rest), rest) : NULL;
        int64_t iteration = first && strcmp(slash + 1, name) == 0 ? folder_iteration(first) : -1;
        if (iteration >= 0)
            list->iterations[list->count++] = iteration;
        free(first);
    }
    if (status == 0) {
        qsort(list->iterations, list->count, sizeof *list->iterations, compare);
        remote_list_free(&objects);
    }
    free(prefix);
    free(folder);
    return status;
}

int remote_folder_manifest(const char *url, int64_t iteration, const char *name, struct buffer *text,
                           struct manifest *manifest) {
    char *path = remote_folder_path(url, iteration, name);
    *manifest = (struct manifest){0};
    int status = remote_read_all(path, MANIFEST_MOST_BYTES, text);
    if (status > 0 && manifest_parse(manifest, text, path) < 0)
        status = -1;
    if (status > 0 && manifest->iteration != iteration) {
        manifest_free(manifest);
        status = error_set("%s is the manifest of another iteration; the checkpoint was renamed", path);
    }
    free(path);
    return status;
}
