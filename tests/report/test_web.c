// Answers of the web board: routes, queries, the Host header, the token. No socket is involved.
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "report/board/web.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];
static struct web_site site;
static struct web_request request;
static struct web_response response;

// A store of one run whose name and texts look like HTML.
static void begin(void) {
    static const char lines[] =
        "{\"kind\":\"run\",\"time\":1,\"iteration\":0,\"job\":\"</script><script>alert(1)</script>\","
        "\"config\":{\"on_event\":\"curl -H \\\"Authorization: s3cret\\\" https://hooks.slack.com/services/s3cret\"}}\n"
        "{\"kind\":\"train\",\"time\":2,\"iteration\":1,\"train_iters\":2,\"losses\":{\"lm loss\":4.5,\"<img "
        "src=x>\":1}}\n"
        "{\"kind\":\"train\",\"time\":3,\"iteration\":2,\"train_iters\":2,\"losses\":{\"lm loss\":4.25}}\n";
    memcpy(folder, "/tmp/bevatron-test-XXXXXX", 26);
    EXPECT(mkdtemp(folder) != NULL);
    char *run = file_join(folder, "<b onmouseover=alert(1)>"), *path = file_join(run, "metrics.jsonl");
    EXPECT_OK(file_make_folders(run));
    EXPECT_OK(file_write_all(path, lines, sizeof lines - 1));
    free(path);
    free(run);
    site = (struct web_site){.host = "board.example"};
    EXPECT_OK(board_store_open(&site.store, &(struct board_store_options){.logdir = folder, .no_threads = true}));
    board_store_scan(site.store);
    request = (struct web_request){.method = "GET", .target = "/", .host = "localhost:6006"};
}

static void end(void) {
    web_response_free(&response);
    board_store_close(site.store);
    EXPECT_OK(file_remove_tree(folder));
}

// The status of the answer to a target, with the rest of `request`.
static int status_of(const char *target) {
    web_response_free(&response);
    request.target = target;
    web_answer(&site, &request, &response);
    EXPECT_STRING(error_message(), "");
    return response.status;
}

static bool body_has(const char *text) {
    size_t length;
    const char *body = web_response_body(&response, &length);
    return memmem(body, length, text, strlen(text)) != NULL;
}

// Every refusal is a JSON object with one sentence, which repeats nothing of the request.
static void expect_refusal(const char *target, int status) {
    struct json *root = NULL;
    const char *sentence = NULL;
    size_t length;
    int actual = status_of(target);
    if (actual != status)
        test_fail("%s: status %d, expected %d", target, actual, status);
    const char *body = web_response_body(&response, &length);
    EXPECT_OK(json_parse(&root, body, length, "answer"));
    EXPECT_OK(json_get_string(root, "error", &sentence));
    EXPECT(!strchr(sentence, '<'));
    EXPECT_STRING(response.type, "application/json; charset=utf-8");
    json_free(root);
}

TEST(pages) {
    static const char *const pages[][3] = {{"/", "index.html", "text/html; charset=utf-8"},
                                           {"/index.html", "index.html", "text/html; charset=utf-8"},
                                           {"/?x=1#y", "index.html", "text/html; charset=utf-8"},
                                           {"/style.css", "style.css", "text/css; charset=utf-8"},
                                           {"/board.js", "board.js", "text/javascript; charset=utf-8"}};
    begin();
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        request.if_none_match = NULL;
        EXPECT_INT(status_of(pages[i][0]), 200);
        EXPECT_STRING(response.type, pages[i][2]);
        EXPECT(response.body == page_asset(pages[i][1])->bytes);
        EXPECT_INT(response.body_length, page_asset(pages[i][1])->size);
        // The same again is not sent again.
        char etag[64];
        snprintf(etag, sizeof etag, "W/\"x\", %s", response.etag);
        EXPECT(strlen(response.etag) == 18);
        request.if_none_match = etag;
        EXPECT_INT(status_of(pages[i][0]), 304);
        EXPECT_INT(response.body_length, 0);
    }
    request.if_none_match = "\"0\"";
    EXPECT_INT(status_of("/"), 200);
    end();
}

TEST(other_paths) {
    static const char *const paths[] = {"/../../etc/passwd",
                                        "/..%2f..%2fetc%2fpasswd",
                                        "/%2e%2e/%2e%2e/etc/passwd",
                                        "/style.css/../../etc/passwd",
                                        "/style.css/",
                                        "//etc/passwd",
                                        "//",
                                        "/./",
                                        "",
                                        "*",
                                        "/api",
                                        "/api/",
                                        "/api/runs/",
                                        "/API/RUNS",
                                        "/api%2Fruns",
                                        "/metrics.jsonl",
                                        "/page/index.html",
                                        "/favicon.ico",
                                        "/<script>alert(1)</script>",
                                        "http://localhost/",
                                        "\\..\\",
                                        "/style.css\n"};
    begin();
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        expect_refusal(paths[i], 404);
    end();
}

TEST(methods) {
    static const char *const methods[] = {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get", ""};
    begin();
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        request.method = methods[i];
        expect_refusal("/", 405);
        expect_refusal("/api/runs", 405);
    }
    request.method = "HEAD";
    EXPECT_INT(status_of("/"), 200);
    request.has_body = true;
    expect_refusal("/", 413);
    end();
}

TEST(targets) {
    struct web_target target;
    EXPECT_OK(web_target_read(&target, "/a%41?a=%41+b%2B&c&=d&&e=f=g&a=2&%6a=%C3%A9#h?i=j"));
    EXPECT_STRING(target.path, "/a%41");
    EXPECT_INT(target.count, 6);
    EXPECT_STRING(web_target_value(&target, "a"), "A b+");
    EXPECT_STRING(web_target_value(&target, "c"), "");
    EXPECT_STRING(web_target_value(&target, ""), "d");
    EXPECT_STRING(web_target_value(&target, "e"), "f=g");
    EXPECT_STRING(web_target_value(&target, "j"), "\xc3\xa9");
    EXPECT(web_target_value(&target, "h") == NULL && web_target_value(&target, "i") == NULL);
    web_target_free(&target);
    EXPECT_OK(web_target_read(&target, ""));
    EXPECT_STRING(target.path, "");
    EXPECT_INT(target.count, 0);
    web_target_free(&target);
    struct buffer many = {0};
    buffer_append_string(&many, "/?");
    for (int i = 0; i < WEB_MOST_PAIRS; i++)
        buffer_append_string(&many, "a=1&");
    EXPECT_OK(web_target_read(&target, buffer_string(&many)));
    EXPECT_INT(target.count, WEB_MOST_PAIRS);
    web_target_free(&target);
    buffer_append_string(&many, "a=1");
    EXPECT_ERROR(web_target_read(&target, buffer_string(&many)), "more than 1024 parts");
    buffer_free(&many);
}

TEST(bad_queries) {
    static const char *const bad[] = {"/?%",
                                      "/?a=%4",
                                      "/?a=%zz",
                                      "/?a=%00",
                                      "/?a=%0a",
                                      "/?a=%7f",
                                      "/?a=%ff",
                                      "/?a=%c0%af",
                                      "/?a=%ed%a0%80",
                                      "/?%ff=a",
                                      "/api/runs?after=",
                                      "/api/runs?after=-1",
                                      "/api/runs?after=1.5",
                                      "/api/runs?after=99999999999999999999",
                                      "/api/runs?after=<script>",
                                      "/api/run",
                                      "/api/run?ID=1",
                                      "/api/log",
                                      "/api/log?id=1&lines=0",
                                      "/api/log?id=1&lines=1001",
                                      "/api/curves",
                                      "/api/curves?tag=lm%20loss",
                                      "/api/curves?id=1&x=weeks",
                                      "/api/curves?id=1&points=0",
                                      "/api/curves?id=1&points=2001",
                                      "/api/curves?id=1&points=x",
                                      "/api/curves?id=1&from=1",
                                      "/api/curves?id=1&to=1",
                                      "/api/curves?id=1&from=2&to=1",
                                      "/api/curves?id=1&from=nan&to=1",
                                      "/api/curves?id=1&from=-inf&to=inf",
                                      "/api/curves?id=1&from=1e999&to=1"};
    static const char *const unknown[] = {
        "/api/run?id=",         "/api/run?id=zzzzzzzz",  "/api/run?id=../../etc/passwd",
        "/api/log?id=00000000", "/api/curves?id=0&id=1", "/api/log?id=%2Fetc%2Fpasswd"};
    begin();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect_refusal(bad[i], 400);
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        expect_refusal(unknown[i], 404);
    // An answer of gigabytes.
    struct buffer many = {0};
    buffer_append_string(&many, "/api/curves?points=2000");
    for (int i = 0; i < 600; i++)
        buffer_append_string(&many, "&id=1");
    expect_refusal(buffer_string(&many), 400);
    EXPECT(body_has("too many for one answer"));
    buffer_free(&many);
    end();
}

// The id of the only run.
static void find_id(char id[64]) {
    struct json *root = NULL;
    const char *text = NULL;
    size_t length;
    EXPECT_INT(status_of("/api/runs"), 200);
    const char *body = web_response_body(&response, &length);
    EXPECT_OK(json_parse(&root, body, length, "runs"));
    EXPECT_INT(json_member(root, "runs")->count, 1);
    EXPECT_OK(json_get_string(json_member(root, "runs")->items, "id", &text));
    snprintf(id, 64, "%s", text);
    json_free(root);
}

TEST(data) {
    char id[64], target[256];
    begin();
    find_id(id);
    snprintf(target, sizeof target, "/api/run?id=%s", id);
    EXPECT_INT(status_of(target), 200);
    EXPECT(body_has("\"starts\""));
    // What an older version has stored is not shown.
    EXPECT(body_has("Authorization: [redacted]") && body_has("https://hooks.slack.com/[redacted]") &&
           !body_has("s3cret"));
    size_t length;
    const char *body = web_response_body(&response, &length);
    struct json *root = NULL;
    EXPECT_OK(json_parse(&root, body, length, "answer"));
    json_free(root);
    snprintf(target, sizeof target, "/api/log?id=%s&lines=1000", id);
    EXPECT_INT(status_of(target), 200);
    EXPECT(body_has("\"lines\""));
    snprintf(target, sizeof target, "/api/curves?id=%s&tag=lm+loss&x=step&points=10&from=0&to=5", id);
    EXPECT_INT(status_of(target), 200);
    EXPECT(body_has("4.25"));
    EXPECT_STRING(response.type, "application/json; charset=utf-8");
    snprintf(target, sizeof target, "/api/curves?id=%s&tag=%%3Cimg%%20src%%3Dx%%3E", id);
    EXPECT_INT(status_of(target), 200);
    EXPECT(body_has("\"points\""));
    end();
}

TEST(waiting) {
    char target[64];
    begin();
    int64_t revision = board_store_revision(site.store);
    snprintf(target, sizeof target, "/api/runs?after=%lld", (long long)revision);
    EXPECT_INT(status_of(target), WEB_MUST_WAIT);
    EXPECT_INT(response.after, revision);
    request.has_waited = true;
    EXPECT_INT(status_of(target), 200);
    request.has_waited = false;
    // A revision that the server of an earlier day had reached.
    snprintf(target, sizeof target, "/api/runs?after=%lld", (long long)revision + 1000);
    EXPECT_INT(status_of(target), 200);
    EXPECT_INT(status_of("/api/runs"), 200);
    end();
}

// A name that an attacker's DNS points to this machine is refused.
TEST(hosts) {
    static const char *const ours[] = {"localhost",      "LOCALHOST:1",     "localhost.:6006", "127.0.0.1",
                                       "127.0.0.1:6006", "127.255.0.9",     "[::1]",           "[::1]:6006",
                                       "board.example",  "Board.Example:80"};
    static const char *const others[] = {"",
                                         ":6006",
                                         "evil.example",
                                         "localhost.evil.example",
                                         "127.0.0.1.evil.example",
                                         "128.0.0.1",
                                         "0.0.0.0",
                                         "10.0.0.1:6006",
                                         "[::2]",
                                         "[::1",
                                         "[::1]x",
                                         "localhost:6006x",
                                         "localhost:evil",
                                         "localhost@evil.example",
                                         "[localhost]evil",
                                         " localhost",
                                         "board.example.evil",
                                         "2130706433"};
    begin();
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        request.host = ours[i];
        if (status_of("/") != 200)
            test_fail("Host: %s gives %d", ours[i], response.status);
    }
    for (size_t i = 0; i <= sizeof others / sizeof others[0]; i++) {
        request.host = i < sizeof others / sizeof others[0] ? others[i] : NULL;
        expect_refusal("/", 403);
        expect_refusal("/api/runs", 403);
    }
    char name[400];
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    request.host = name;
    expect_refusal("/", 403);
    end();
}

TEST(tokens) {
    begin();
    site.token = "correct horse+1";
    web_site_set_cookie(&site, 6006);
    // With a token the Host header may be any.
    request.host = "evil.example";
    expect_refusal("/api/runs", 401);
    expect_refusal("/api/runs?token=wrong", 401);
    expect_refusal("/api/runs?token=", 401);
    expect_refusal("/api/runs?token=correct+horse", 401);
    EXPECT_INT(status_of("/"), 401);
    EXPECT(body_has("<form") && strcmp(response.type, "text/html; charset=utf-8") == 0);
    EXPECT_INT(status_of("/board.js"), 401);
    EXPECT_INT(status_of("/nothing"), 401);
    EXPECT_INT(status_of("/?token=wrong"), 401);
    EXPECT(response.cookie[0] == '\0' && response.location == NULL);
    // The page takes it once, from its address; the API as often as one likes.
    EXPECT_INT(status_of("/?token=correct+horse%2B1&x=1"), 303);
    EXPECT_STRING(response.location, "/");
    EXPECT(strstr(response.cookie, "; HttpOnly; SameSite=Strict") && !strstr(response.cookie, "correct"));
    EXPECT(strncmp(response.cookie, "bevatron-board-6006=", 20) == 0);
    char *cookie = memory_printf("a=b; %.*s; c=d", (int)strcspn(response.cookie, ";"), response.cookie);
    EXPECT_INT(status_of("/api/runs?token=correct+horse%2B1"), 200);
    EXPECT_INT(status_of("//evil.example/?token=correct+horse%2B1"), 404);
    EXPECT(response.location == NULL);
    request.cookie = cookie;
    EXPECT_INT(status_of("/"), 200);
    EXPECT_INT(status_of("/api/runs"), 200);
    request.cookie = cookie + 5;
    EXPECT_INT(status_of("/"), 200);
    cookie[30] = cookie[30] == 'a' ? 'b' : 'a';
    expect_refusal("/api/runs", 401);
    request.cookie = "bevatron-board-6006=";
    expect_refusal("/api/runs", 401);
    request.cookie = NULL;
    request.authorization = "bearer correct horse+1";
    EXPECT_INT(status_of("/api/runs"), 200);
    request.authorization = "Bearer correct horse+";
    expect_refusal("/api/runs", 401);
    request.authorization = "Basic correct horse+1";
    expect_refusal("/api/runs", 401);
    free(cookie);
    end();
}

TEST_MAIN(TEST_CASE(pages), TEST_CASE(other_paths), TEST_CASE(methods), TEST_CASE(targets), TEST_CASE(bad_queries),
          TEST_CASE(data), TEST_CASE(waiting), TEST_CASE(hosts), TEST_CASE(tokens))
