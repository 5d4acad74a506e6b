// libcurl, which http.c loads when the first address is used. Only functions of libcurl 7.42 are called, whatever the
// build's header offers.
#ifndef NET_CURL_LIBRARY_H
#define NET_CURL_LIBRARY_H

#include "base/library.h"

// CURLOPT_REDIR_PROTOCOLS's replacement is missing in libcurl before 7.85.
#define CURL_DISABLE_DEPRECATION
// The checks are macros named like the functions, and so like the fields below.
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#define CURL_SYMBOLS(ROW)                                                                                              \
    ROW(curl_version_info)                                                                                             \
    ROW(curl_easy_cleanup)                                                                                             \
    ROW(curl_easy_getinfo)                                                                                             \
    ROW(curl_easy_init)                                                                                                \
    ROW(curl_easy_perform)                                                                                             \
    ROW(curl_easy_reset)                                                                                               \
    ROW(curl_easy_setopt)                                                                                              \
    ROW(curl_easy_strerror)                                                                                            \
    ROW(curl_global_init)                                                                                              \
    ROW(curl_slist_append)                                                                                             \
    ROW(curl_slist_free_all)

struct curl_symbols {
    CURL_SYMBOLS(LIBRARY_FIELD)
};

static inline const struct curl_symbols *curl_symbols(void) {
    return library_symbols(LIBRARY_CURL);
}

#endif
