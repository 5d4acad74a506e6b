// Which libcurl fits, and where to look for it. See curl_library.h.
#include "net/curl_library.h"
#include "base/error.h"
#include "net/http.h"

#include <stdio.h>

static const char *const symbols[] = {CURL_SYMBOLS(LIBRARY_NAME)};
enum { SYMBOL_COUNT = sizeof symbols / sizeof symbols[0], OLDEST_VERSION = 0x072a00 };
_Static_assert(sizeof(struct curl_symbols) == SYMBOL_COUNT * sizeof(void *), "a field per symbol");

// Debian has one libcurl per TLS library; all have the same functions.
static const char *const sonames[] = {"libcurl.so.4", "libcurl-gnutls.so.4", NULL};
static const char *const folders[] = {"/usr/local/lib64", "/usr/local/lib", "$CONDA_PREFIX/lib", NULL};

static int check_version(const void *table, char *version, size_t size) {
    const struct curl_symbols *candidate = table;
    const curl_version_info_data *found = candidate->curl_version_info(CURLVERSION_FIRST);
    if (found->version_num < OLDEST_VERSION)
        return error_set("is libcurl %.20s, but 7.42 or later is needed", found->version);
    snprintf(version, size, "%s", found->version);
    return 0;
}

const struct library *http_library(void) {
    static const struct library library = {
        .id = LIBRARY_CURL,
        .name = "libcurl",
        .user = "s3:// and https:// addresses",
        .variable = "BEVATRON_CURL_LIBRARY",
        .sonames = sonames,
        .folders = folders,
        .package = "apt-get install libcurl4 ca-certificates",
        .instead = "copy the data to a disk",
        .symbols = symbols,
        .symbol_count = SYMBOL_COUNT,
        .check = check_version,
    };
    return &library;
}
