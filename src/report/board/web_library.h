// The functions of libmicrohttpd that the web board calls. Private to web_server.c and web_library.c.
#ifndef REPORT_BOARD_WEB_LIBRARY_H
#define REPORT_BOARD_WEB_LIBRARY_H

#include "base/library.h"

#include <microhttpd.h>

#define MICROHTTPD_SYMBOLS(ROW)                                                                                        \
    ROW(MHD_get_version)                                                                                               \
    ROW(MHD_start_daemon)                                                                                              \
    ROW(MHD_stop_daemon)                                                                                               \
    ROW(MHD_suspend_connection)                                                                                        \
    ROW(MHD_resume_connection)                                                                                         \
    ROW(MHD_get_connection_info)                                                                                       \
    ROW(MHD_lookup_connection_value)                                                                                   \
    ROW(MHD_get_connection_values)                                                                                     \
    ROW(MHD_set_connection_value)                                                                                      \
    ROW(MHD_create_response_from_buffer)                                                                               \
    ROW(MHD_add_response_header)                                                                                       \
    ROW(MHD_queue_response)                                                                                            \
    ROW(MHD_destroy_response)

struct microhttpd_symbols {
    MICROHTTPD_SYMBOLS(LIBRARY_FIELD)
};

#endif
