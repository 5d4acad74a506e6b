// Reads a copy of SAVE in S3. See remote_checkpoint.h.
#include "store/remote_checkpoint.h"
#include "base/error.h"
#include "base/memory.h"
#include "net/remote.h"
#include "store/checkpoint.h"
#include <string.h>

enum { MARKER_BYTES = 64 };

char *remote_folder_path(const char *url, int64_t iteration, const char *name) {
    OWNED char *folder = checkpoint_path("", iteration);  // "/iter_…"
    OWNED char *place = url_join(url, folder[0] == '/' ? folder + 1 : folder);
    return name ? url_join(place, name) : memory_string(place);
}

int remote_folder_marker(const char *url, int64_t *iteration) {
    OWNED char *path = url_join(url, folder_marker_name());
    OWNED_BY(buffer_free) struct buffer text = {0};
    int status = remote_read_all(path, MARKER_BYTES, &text);
    if (status > 0 && folder_marker_parse(&text, path, iteration) < 0)
        status = -1;
    return status;
}

int remote_folder_list(struct folder_list *list, const char *url, const char *name) {
    struct remote_list objects;
    OWNED char *prefix = url_join(url, "iter_"), *folder = url_join(url, "");
    *list = (struct folder_list){0};
    int status = remote_list(&objects, prefix, false);
    if (status == 0)
        list->iterations = memory_alloc((objects.count + 1) * sizeof *list->iterations);
    for (size_t i = 0; status == 0 && i < objects.count; i++) {
        const char *rest = objects.objects[i].url + strlen(folder), *slash = strchr(rest, '/');
        OWNED char *first = slash ? memory_printf("%.*s", (int)(slash - rest), rest) : NULL;
        int64_t iteration = first && strcmp(slash + 1, name) == 0 ? folder_iteration(first) : -1;
        if (iteration >= 0)
            list->iterations[list->count++] = iteration;
    }
    if (status == 0) {
        folder_list_sort(list);
        remote_list_free(&objects);
    }
    return status;
}

int remote_folder_manifest(const char *url, int64_t iteration, const char *name, struct buffer *text,
                           struct manifest *manifest) {
    OWNED char *path = remote_folder_path(url, iteration, name);
    *manifest = (struct manifest){0};
    int status = remote_read_all(path, MANIFEST_MOST_BYTES, text);
    if (status > 0 && manifest_parse(manifest, text, path) < 0)
        status = -1;
    if (status > 0 && manifest->iteration != iteration) {
        manifest_free(manifest);
        status = error_set("%s is the manifest of another iteration; the checkpoint was renamed", path);
    }
    return status;
}
