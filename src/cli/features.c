// Lists the features and the libraries of all layers. See features.h.
#include "cli/features.h"
#include "net/http.h"
#include "report/board/web.h"

#include <stdlib.h>
#include <string.h>

const struct feature features[] = {BEVATRON_FEATURE_ROWS};
const size_t feature_count = sizeof features / sizeof features[0];

bool feature_is_in(const char *name) {
    for (size_t i = 0; i < feature_count; i++)
        if (strcmp(features[i].name, name) == 0)
            return features[i].is_in;
    return false;
}

static const char *environment(const char *name) {
    return getenv(name);
}

void libraries_read_environment(void) {
    library_set_environment(environment);
}

int libraries_list(const struct library **list) {
    int count = device_libraries(list);
    count += world_libraries(list + count);
    if (http_library())
        list[count++] = http_library();
    const struct library *web = web_library();
    if (web)
        list[count++] = web;
    return count;
}
