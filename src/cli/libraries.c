// Lists the libraries of all layers. See libraries.h.
#include "cli/libraries.h"
#include "net/http.h"
#include "report/board/web_server.h"

#include <stdlib.h>

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
