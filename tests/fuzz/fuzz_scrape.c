// layer: report
// A request to the server of --prometheus-port: hostile bytes get an answer of the list, only whole requests for
// /metrics get the metrics, and what is decided does not depend on how the bytes arrive.
#include "fuzz.h"

#include "report/prometheus.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *bytes = (const char *)data;
    size_t whole = size < SCRAPE_REQUEST_BYTES ? size : SCRAPE_REQUEST_BYTES;
    enum scrape_request last = scrape_parse(bytes, whole, size % 2 ? NULL : "127.0.0.1");
    CHECK(last >= SCRAPE_INCOMPLETE && last <= SCRAPE_OTHER_HOST);
    if (last == SCRAPE_METRICS || last == SCRAPE_METRICS_HEAD)
        CHECK(strncmp(bytes, last == SCRAPE_METRICS ? "GET /metrics" : "HEAD /metrics", 12) == 0);
    // Byte by byte, the first complete answer stays: what follows a whole request is not read.
    for (size_t length = 0; length <= whole && length < 512; length++) {
        enum scrape_request request = scrape_parse(bytes, length, size % 2 ? NULL : "127.0.0.1");
        CHECK(request == SCRAPE_INCOMPLETE || request == last || whole == SCRAPE_REQUEST_BYTES);
    }
    return 0;
}
