// layer: report
// The web board's answers to hostile requests. The input's lines are method, target, Host, Authorization, Cookie and
// If-None-Match; an absent line is an absent header. The same request is put to a site with and without a token.
#include "fuzz.h"

#include "base/json.h"
#include "base/memory.h"
#include "report/board/web.h"
#include <stdio.h>

static struct web_site site;

static void open_site(void) {
    static const char lines[] =
        "{\"kind\":\"run\",\"time\":1,\"iteration\":0,\"config\":{\"lr\":1}}\n"
        "{\"kind\":\"train\",\"time\":2,\"iteration\":1,\"train_iters\":2,\"losses\":{\"lm loss\":4.5}}\n"
        "{\"kind\":\"train\",\"time\":3,\"iteration\":2,\"train_iters\":2,\"losses\":{\"lm loss\":4.25}}\n";
    if (site.store)
        return;
    char *path = file_join(fuzz_folder(), "metrics.jsonl");
    CHECK(file_write_all(path, lines, sizeof lines - 1) == 0);
    free(path);
    CHECK(board_store_open(&site.store, &(struct board_store_options){.logdir = fuzz_folder(), .no_threads = true}) ==
          0);
    board_store_scan(site.store);
}

// Headers are one line each, and what says it is JSON is.
static void check_answer(const struct web_request *request) {
    struct web_response response;
    web_answer(&site, request, &response);
    size_t length;
    const char *body = web_response_body(&response, &length);
    CHECK(error_message()[0] == '\0');
    CHECK(response.status == WEB_MUST_WAIT ? !request->has_waited : response.status >= 200 && response.status < 500);
    CHECK(!strpbrk(response.cookie, "\r\n") && (!response.location || strcmp(response.location, "/") == 0));
    CHECK(!site.token || response.status != 200);
    if (response.status != WEB_MUST_WAIT && response.status != 304 && strstr(response.type, "json")) {
        struct json *root = NULL;
        CHECK(json_parse(&root, body, length, "answer") == 0);
        json_free(root);
    }
    web_response_free(&response);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { LINES = 6 };
    char *text = memory_alloc(size + 1), *rest = text, *lines[LINES] = {NULL};
    memcpy(text, data, size);
    open_site();
    for (int i = 0; i < LINES && rest; i++)
        lines[i] = strsep(&rest, "\n");
    struct web_request request = {.method = lines[0],
                                  .target = lines[1] ? lines[1] : "/",
                                  .host = lines[2],
                                  .authorization = lines[3],
                                  .cookie = lines[4],
                                  .if_none_match = lines[5]};
    site.host = "board";
    site.token = NULL;
    check_answer(&request);
    request.has_waited = true;
    check_answer(&request);
    site.token = "0123456789abcdef";
    web_site_set_cookie(&site, 6006);
    check_answer(&request);
    free(text);
    return 0;
}
