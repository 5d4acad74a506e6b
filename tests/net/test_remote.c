// Reading from S3 and the web against a server that fails in many ways (object_server.h).
// tier: all
#include "test.h"

#include "net/http.h"
#include "net/internal.h"
#include "net/object_server.h"
#include "net/remote.h"
#include <fcntl.h>
#include <inttypes.h>

static struct object_server server;
static char root[] = "/tmp/bevatron-test-XXXXXX";
static const char *variables[16][2];
static char endpoint[64];

static char *get(const char *name) {
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        if (variables[i][0] && strcmp(variables[i][0], name) == 0)
            return (char *)(uintptr_t)variables[i][1];
    return NULL;
}

static void set(const char *name, const char *value) {
    size_t i = 0;
    while (variables[i][0] && strcmp(variables[i][0], name) != 0)
        i++;
    variables[i][0] = name;
    variables[i][1] = value;
}

static void write_file(const char *name, const void *bytes, size_t count) {
    char *path = file_join(root, name);
    EXPECT_OK(file_make_parent(path));
    EXPECT_OK(file_write_all(path, bytes, count));
    free(path);
}

static void set_faults(const char *words) {
    write_file(".faults", words, strlen(words));
}

static int count_requests(const char *word) {
    char *path = file_join(root, ".log");
    struct buffer text = {0};
    int count = 0;
    EXPECT_OK(file_read_all(path, 1 << 24, &text));
    for (const char *at = text.data; at && (at = strstr(at, word)); at++)
        count++;
    buffer_free(&text);
    free(path);
    return count;
}

// One server for the whole program, and a fresh environment and bucket for each test.
static void begin(void) {
    if (http_load() < 0)
        test_skip("%s", error_message());
    if (server.port == 0) {
        EXPECT(mkdtemp(root));
        server_start(&server, root, 7);
    }
    memset(variables, 0, sizeof variables);
    (void)snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", server.port);
    set("AWS_ENDPOINT_URL", endpoint);
    set("AWS_ACCESS_KEY_ID", "AKIDTEST");
    set("AWS_SECRET_ACCESS_KEY", "very-secret");
    set("AWS_EC2_METADATA_DISABLED", "true");
    remote_forget();
    remote_set_environment(get);
    remote_set_patience(&(struct remote_patience){
        .attempts = 4, .backoff_seconds = 0.001, .stall_seconds = 100, .part_bytes = 1000, .streams = 3});
    write_file(".log", "", 0);
    write_file(".instance", "", 0);
    set_faults("");
}

static unsigned char *make_bytes(size_t count) {
    unsigned char *bytes = memory_alloc(count + 1);
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251);
    return bytes;
}

// Reads a stream to its end.
static int read_stream(const char *url, uint64_t from, struct buffer *out) {
    struct remote_stream *stream;
    buffer_clear(out);
    TRY(remote_stream_open(&stream, url, from));
    char bytes[777];
    ssize_t got;
    while ((got = read(remote_stream_descriptor(stream), bytes, sizeof bytes)) > 0)
        buffer_append(out, bytes, (size_t)got);
    int status = remote_stream_check(stream);
    struct error_note *note = status < 0 ? error_take() : NULL;
    remote_stream_close(stream);
    return note ? error_give(note) : 0;
}

static void expect_bytes(const char *url, uint64_t from, const unsigned char *bytes, size_t count) {
    struct buffer out = {0};
    EXPECT_OK(read_stream(url, from, &out));
    EXPECT_INT(out.length, count - from);
    EXPECT(out.length == 0 || memcmp(out.data, bytes + from, out.length) == 0);
    buffer_free(&out);
}

TEST(objects_of_all_sizes_are_read_from_any_byte) {
    static const size_t sizes[] = {0, 1, 999, 1000, 1001, 2500, 10000};
    begin();
    unsigned char *bytes = make_bytes(10000);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *key = memory_printf("bucket/a b&ä/%zu", sizes[i]), *url = memory_printf("s3://%s", key);
        write_file(key, bytes, sizes[i]);
        expect_bytes(url, 0, bytes, sizes[i]);
        if (sizes[i] > 500)
            expect_bytes(url, 457, bytes, sizes[i]);
        free(key);
        free(url);
    }
    free(bytes);
}

TEST(what_may_pass_is_tried_again) {
    static const char *const faults[] = {"500\n", "ok\n503\n503\nok\n500\n", "reset\nok\nreset\nreset\n",
                                         "ok\nshort\nshort\nok\nshort\n", "ok\nreset\nshort\n500\nok\n503\nshort\n"};
    begin();
    // More attempts than faults: all of them may hit one part, if the other streams are late.
    remote_set_patience(&(struct remote_patience){
        .attempts = 10, .backoff_seconds = 0.001, .stall_seconds = 100, .part_bytes = 1000, .streams = 3});
    unsigned char *bytes = make_bytes(5000);
    write_file("bucket/x", bytes, 5000);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        remote_forget();
        set_faults(faults[i]);
        expect_bytes("s3://bucket/x", 0, bytes, 5000);
    }
    free(bytes);
}

TEST(a_server_that_says_nothing_is_asked_again) {
    struct buffer out = {0};
    bool is_read = false;
    begin();
    write_file("bucket/x", "abc", 3);
    // On a busy machine an answer may take longer than the shortest of these.
    for (double stall = 1; !is_read && stall < 200; stall *= 5) {
        remote_forget();
        set_faults("stall\nok\nstall\n");
        remote_set_patience(&(struct remote_patience){.attempts = 5, .backoff_seconds = 0.001, .stall_seconds = stall});
        is_read = read_stream("s3://bucket/x", 0, &out) == 0 && strcmp(buffer_string(&out), "abc") == 0;
    }
    EXPECT(is_read);
    buffer_free(&out);
}

// One that never answers is given up, with an error that says how long was waited.
TEST(a_server_that_never_answers_is_given_up) {
    struct buffer out = {0};
    begin();
    write_file("bucket/x", "abc", 3);
    remote_set_patience(&(struct remote_patience){.attempts = 2, .backoff_seconds = 0.001, .stall_seconds = 1});
    set_faults("ok\nstall\nstall\n");
    EXPECT_ERROR(read_stream("s3://bucket/x", 0, &out),
                 "s3://bucket/x: no byte came for 1 s; gave up after 2 attempts");
    buffer_free(&out);
}

// A read continues where it was cut: no byte comes twice.
TEST(a_cut_read_continues_after_what_came) {
    begin();
    unsigned char *bytes = make_bytes(800);
    write_file("bucket/x", bytes, 800);
    set_faults("ok\nshort\nshort\n");
    expect_bytes("s3://bucket/x", 0, bytes, 800);
    EXPECT_INT(count_requests("bytes=0-799"), 1);
    EXPECT_INT(count_requests("bytes=400-799"), 1);
    EXPECT_INT(count_requests("bytes=600-799"), 1);
    free(bytes);
}

TEST(attempts_end) {
    struct buffer out = {0};
    begin();
    write_file("bucket/x", "abc", 3);
    set_faults("503\n503\n503\n503\n");
    EXPECT_ERROR(read_stream("s3://bucket/x", 0, &out), "HTTP 503 SlowDown; gave up after 4 attempts");
    // libcurl repeats a request by itself if an idle connection turns out to be dead.
    set_faults("ok\nreset\nreset\nreset\nreset\nreset\nreset\nreset\nreset\n");
    EXPECT_ERROR(read_stream("s3://bucket/x", 0, &out), "gave up after 4 attempts");
    buffer_free(&out);
}

TEST(a_changed_object_is_an_error) {
    struct buffer out = {0};
    begin();
    unsigned char *bytes = make_bytes(5000);
    write_file("bucket/x", bytes, 5000);
    set_faults("ok\nok\nok\nchanged\n");
    EXPECT_ERROR(read_stream("s3://bucket/x", 0, &out), "s3://bucket/x has changed since it was first read");
    // The version seen first counts.
    remote_forget();
    set_faults("");
    expect_bytes("s3://bucket/x", 0, bytes, 5000);
    write_file("bucket/x", bytes, 4999);
    EXPECT_ERROR(read_stream("s3://bucket/x", 0, &out), "has changed");
    free(bytes);
    buffer_free(&out);
}

static int find(const char *url) {
    struct remote_object object;
    int status = remote_find(&object, url);
    remote_object_free(&object);
    return status;
}

TEST(refusals_say_what_to_do_and_no_secret) {
    begin();
    write_file("bucket/x", "abc", 3);
    EXPECT_INT(find("s3://bucket/absent"), 0);
    set("AWS_ACCESS_KEY_ID", "AKIDOTHER");
    remote_forget();
    EXPECT_ERROR(find("s3://bucket/x"), "does not know the access key …THER (from the environment)");
    EXPECT(!strstr(error_message(), "very-secret"));
    set("AWS_ACCESS_KEY_ID", "AKIDTEST");
    set("AWS_SESSION_TOKEN", "stale");
    remote_forget();
    EXPECT_ERROR(find("s3://bucket/x"), "the credentials from the environment have expired; set AWS_ACCESS_KEY_ID, ");
    set("AWS_SESSION_TOKEN", "");
    remote_forget();
    set_faults("expired 403\nexpired 403\n");
    EXPECT_ERROR(find("s3://bucket/x"), "the credentials from the environment have expired; set AWS_ACCESS_KEY_ID, ");
    remote_forget();
    set_faults("403\n");
    EXPECT_ERROR(find("s3://bucket/x"), "access denied for the access key …TEST");
    set("AWS_ACCESS_KEY_ID", "");
    remote_forget();
    EXPECT_ERROR(find("s3://bucket/x"), "no AWS credentials were found");
    set("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
    remote_forget();
    EXPECT_ERROR(find("s3://bucket/x"), "gave up after 4 attempts");
}

TEST(region_and_clock_are_learnt) {
    begin();
    write_file("bucket/x", "abc", 3);
    set_faults("region eu-north-1\n");
    EXPECT_INT(find("s3://bucket/x"), 1);
    struct remote_access access;
    EXPECT_OK(remote_access_take(&access, "bucket"));
    EXPECT_STRING(access.region, "eu-north-1");
    remote_access_free(&access);
    remote_forget();
    set_faults("skew\n");
    EXPECT_INT(find("s3://bucket/x"), 1);
    EXPECT_OK(remote_access_take(&access, "bucket"));
    EXPECT(access.time > time(NULL) + 7000);
    remote_access_free(&access);
}

// ---- credentials from endpoints ----

static void expect_endpoint(const char *source) {
    struct remote_access access;
    EXPECT_INT(find("s3://bucket/x"), 1);
    EXPECT_OK(remote_access_take(&access, "bucket"));
    EXPECT(strstr(access.credentials.source, source));
    EXPECT(strncmp(access.credentials.access_key, "ASIA", 4) == 0);
    EXPECT(access.credentials.expires > time(NULL) + 3000);
    // Credentials that S3 calls expired are renewed, and the request is repeated.
    char *first = memory_string(access.credentials.access_key);
    remote_access_free(&access);
    set_faults("expired\n");
    EXPECT_INT(find("s3://bucket/y"), 1);
    EXPECT_OK(remote_access_take(&access, "bucket"));
    EXPECT(strcmp(access.credentials.access_key, first) != 0);
    remote_access_free(&access);
    free(first);
}

TEST(endpoints_give_and_renew_credentials) {
    char *container = NULL, *token = NULL;
    begin();
    write_file("bucket/x", "abc", 3);
    write_file("bucket/y", "abc", 3);
    write_file("identity", "a.b.c\n", 6);
    set("AWS_ACCESS_KEY_ID", "");
    set("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent");
    set("AWS_CONFIG_FILE", "/nonexistent");
    // The instance.
    set("AWS_EC2_METADATA_DISABLED", "false");
    set("AWS_EC2_METADATA_SERVICE_ENDPOINT", endpoint);
    set("AWS_METADATA_SERVICE_TIMEOUT", "100");
    expect_endpoint("the instance's role");
    // The container comes before it.
    remote_forget();
    container = memory_printf("%s/creds", endpoint);
    set("AWS_CONTAINER_CREDENTIALS_FULL_URI", container);
    expect_endpoint("the container's role");
    // And the web identity before that.
    remote_forget();
    token = file_join(root, "identity");
    set("AWS_WEB_IDENTITY_TOKEN_FILE", token);
    set("AWS_ROLE_ARN", "arn:aws:iam::1:role/reader");
    expect_endpoint("the role arn:aws:iam::1:role/reader");
    // A role that STS refuses.
    remote_forget();
    set("AWS_ROLE_ARN", "nonsense");
    EXPECT_ERROR(find("s3://bucket/x"), "refused the role: HTTP 400 ValidationError");
    free(container);
    free(token);
}

static void expect_key(const char *key) {
    struct remote_access access;
    EXPECT_OK(remote_access_take(&access, "bucket"));
    EXPECT(access.credentials.access_key);
    EXPECT_STRING(access.credentials.access_key, key);
    remote_access_free(&access);
}

// A renewal that finds nothing keeps the credentials that still work, and is tried again later.
TEST(an_instance_that_is_busy_is_asked_again) {
    begin();
    write_file("bucket/x", "abc", 3);
    write_file("bucket/y", "abc", 3);
    set("AWS_ACCESS_KEY_ID", "");
    set("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent");
    set("AWS_CONFIG_FILE", "/nonexistent");
    set("AWS_EC2_METADATA_DISABLED", "false");
    set("AWS_EC2_METADATA_SERVICE_ENDPOINT", endpoint);
    set("AWS_METADATA_SERVICE_TIMEOUT", "100");
    write_file(".instance", "429\n", 4);
    EXPECT_INT(find("s3://bucket/x"), 1);
    struct remote_access access;
    EXPECT_OK(remote_access_take(&access, "bucket"));
    char *first = memory_string(access.credentials.access_key);
    remote_access_free(&access);
    // S3 asks for a renewal while the endpoint does not answer, and then has no role.
    set("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1");
    set_faults("expired\n");
    EXPECT_ERROR(find("s3://bucket/y"), "expired");
    expect_key(first);
    set("AWS_EC2_METADATA_SERVICE_ENDPOINT", endpoint);
    write_file(".instance", "ok\n404\n", 7);
    set_faults("expired\n");
    EXPECT_ERROR(find("s3://bucket/y"), "expired");
    expect_key(first);
    set_faults("expired\n");
    EXPECT_INT(find("s3://bucket/y"), 1);
    EXPECT_OK(remote_access_take(&access, "bucket"));
    EXPECT(strcmp(access.credentials.access_key, first) != 0);
    remote_access_free(&access);
    // At the start, an endpoint that only fails is reported as an error.
    remote_forget();
    write_file(".instance", "ok\n503\n503\n503\n", 15);
    EXPECT_ERROR(find("s3://bucket/x"), "the instance's endpoint answered HTTP 503");
    free(first);
}

TEST(a_role_of_a_profile_is_taken_over) {
    begin();
    write_file("bucket/x", "abc", 3);
    write_file("bucket/y", "abc", 3);
    static const char config[] =
        "[profile up]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = base\nexternal_id = e\n"
        "[profile base]\naws_access_key_id = AKIDTEST\naws_secret_access_key = s\n";
    write_file("config", config, strlen(config));
    char *path = file_join(root, "config");
    set("AWS_ACCESS_KEY_ID", "");
    set("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent");
    set("AWS_CONFIG_FILE", path);
    set("AWS_PROFILE", "up");
    expect_endpoint("the role arn:aws:iam::1:role/r");
    free(path);
}

// ---- uploads ----

static int upload(const void *bytes, size_t count) {
    write_file("file", bytes, count);
    char *path = file_join(root, "file");
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    EXPECT(descriptor >= 0);
    int status = remote_upload(
        &(struct remote_upload){.url = "s3://bucket/up", .name = path, .descriptor = descriptor, .size = count});
    close(descriptor);
    free(path);
    return status;
}

// What AWS_CA_BUNDLE or the profile names is what connections are verified with, for S3, STS and any other address: the
// name of a file that does not exist is in every error. The server speaks no TLS, so that other errors come later.
TEST(certificates_are_those_that_were_named) {
    begin();
    char *safe = memory_printf("https://127.0.0.1:%d", server.port), *web = memory_printf("%s/web/a.txt", safe);
    char *token = file_join(root, "identity"), *config = file_join(root, "aws-config");
    write_file("identity", "a-token", 7);
    set("AWS_ENDPOINT_URL", safe);
    set("AWS_CA_BUNDLE", "/nonexistent/given.pem");
    EXPECT_ERROR(find("s3://bucket/x"), "/nonexistent/given.pem");
    EXPECT_ERROR(find(web), "/nonexistent/given.pem");
    // A profile that does not exist is no matter of the web's.
    set("AWS_PROFILE", "absent");
    remote_forget();
    EXPECT_ERROR(find("s3://bucket/x"), "there is no profile \"absent\"");
    EXPECT_ERROR(find(web), "/nonexistent/given.pem");
    set("AWS_PROFILE", "");
    set("AWS_ACCESS_KEY_ID", "");
    set("AWS_WEB_IDENTITY_TOKEN_FILE", token);
    set("AWS_ROLE_ARN", "arn:aws:iam::1:role/reader");
    remote_forget();
    EXPECT_ERROR(find("s3://bucket/x"), "for credentials: ");
    EXPECT(strstr(error_message(), "/nonexistent/given.pem"));
    // The environment goes before the profile.
    static const char profile[] = "[default]\nca_bundle = /nonexistent/profile.pem\n";
    write_file("aws-config", profile, strlen(profile));
    set("AWS_CONFIG_FILE", config);
    remote_forget();
    EXPECT_ERROR(find(web), "/nonexistent/given.pem");
    set("AWS_CA_BUNDLE", "");
    remote_forget();
    EXPECT_ERROR(find(web), "/nonexistent/profile.pem");
    EXPECT_ERROR(find("s3://bucket/x"), "for credentials: ");
    EXPECT(strstr(error_message(), "/nonexistent/profile.pem"));
    free(safe);
    free(web);
    free(token);
    free(config);
}

TEST(an_upload_is_completed_whatever_happens_to_the_answer) {
    begin();
    unsigned char *bytes = make_bytes(2500);
    char *whole = file_join(root, "bucket/up");
    // Four requests come before: the start and three parts. S3 may answer 200 and fail afterwards.
    set_faults("ok\nok\nok\nok\nlate InternalError\nlate SlowDown\n");
    EXPECT_OK(upload(bytes, 2500));
    expect_bytes("s3://bucket/up", 0, bytes, 2500);
    EXPECT_INT(count_requests("POST /bucket/up?uploadId"), 3);
    set_faults("ok\nok\nok\nok\nlate InvalidPart\n");
    EXPECT_ERROR(upload(bytes, 2500), "InvalidPart");
    // The upload completed, but the answer was cut: the upload is no longer known, and the object exists.
    EXPECT_OK(unlink(whole));
    set_faults("ok\nok\nok\nok\nshort\n");
    EXPECT_OK(upload(bytes, 2500));
    // Another object is there, or someone else removed the upload before.
    set_faults("ok\nok\nok\nok\nshort\n404\nsize 77\n");
    EXPECT_ERROR(upload(bytes, 2500), "does not know its parts any more");
    set_faults("ok\nok\nok\nok\n404\n");
    EXPECT_ERROR(upload(bytes, 2500), "does not know its parts any more");
    free(whole);
    free(bytes);
}

TEST(impossible_sizes_are_refused) {
    begin();
    write_file("bucket/x", "abc", 3);
    set_faults("size 9223372036854775807\nsize 99999999999999999999999\nsize -1\nsize 3\n");
    for (int i = 0; i < 3; i++)
        EXPECT_ERROR(find("s3://bucket/x"), "cannot read s3://bucket/x: the server says that it has");
    EXPECT_INT(find("s3://bucket/x"), 1);
}

// ---- listings ----

TEST(listings_have_pages_and_patterns_stay_in_a_folder) {
    begin();
    for (int i = 0; i < 30; i++) {
        char *key = memory_printf("listed/d/part-%02d.jsonl%s", i, i % 2 ? ".zst" : "");
        write_file(key, "x", (size_t)(i > 0));
        free(key);
    }
    write_file("listed/d/e/part-x.jsonl", "x", 1);
    write_file("listed/d/.part-h.jsonl", "x", 1);
    struct remote_list list;
    EXPECT_OK(remote_list(&list, "s3://listed/d/", false));
    EXPECT_INT(list.count, 32);
    EXPECT_INT(count_requests("list-type=2"), 5);
    remote_list_free(&list);
    EXPECT_OK(remote_glob(&list, "s3://listed/d/*.jsonl"));
    EXPECT_INT(list.count, 15);
    EXPECT_STRING(list.objects[0].url, "s3://listed/d/part-00.jsonl");
    EXPECT_INT(list.objects[0].size, 0);
    EXPECT_STRING(list.objects[14].url, "s3://listed/d/part-28.jsonl");
    remote_list_free(&list);
    EXPECT_OK(remote_glob(&list, "s3://listed/*/*/part-?.jsonl"));
    EXPECT_INT(list.count, 1);
    remote_list_free(&list);
    EXPECT_ERROR(remote_glob(&list, "s3://listed/q*"), "no object matches s3://listed/q*");
    // What a listing has reported is not requested again.
    int before = count_requests("GET");
    EXPECT_INT(find("s3://listed/d/part-05.jsonl.zst"), 1);
    EXPECT_INT(count_requests("GET"), before);
}

// ---- the web ----

TEST(web_files_are_read_with_and_without_ranges) {
    begin();
    unsigned char *bytes = make_bytes(50000);
    write_file("web/x", bytes, 5000);
    write_file("web/plain/x", bytes, 50000);
    char *ranged = memory_printf("%s/web/x?X-Amz-Signature=abc", endpoint);
    char *plain = memory_printf("%s/web/plain/x", endpoint);
    char *shown = remote_hide(ranged);
    EXPECT(!strstr(shown, "abc"));
    set_faults("ok\nshort\n500\n");
    expect_bytes(shown, 0, bytes, 5000);
    expect_bytes(shown, 1234, bytes, 5000);
    EXPECT(count_requests("X-Amz-Signature=abc") > 5);
    set_faults("ok\nshort\nreset\nshort\n");
    expect_bytes(plain, 0, bytes, 50000);
    expect_bytes(plain, 1234, bytes, 50000);
    struct buffer out = {0};
    char *absent = memory_printf("%s/web/absent", endpoint);
    EXPECT_INT(find(absent), 0);
    set_faults("ok\nshort\nchanged\n");
    remote_forget();
    EXPECT_ERROR(read_stream(plain, 0, &out), "has changed since it was first read");
    buffer_free(&out);
    free(ranged);
    free(plain);
    free(shown);
    free(absent);
    free(bytes);
}

TEST(redirects_stay_on_the_web) {
    begin();
    write_file("web/x", "abc", 3);
    char *from = memory_printf("%s/web/moved", endpoint),
         *to = memory_printf("to %s/web/x\nok\nto %s/web/x\n", endpoint, endpoint);
    set_faults(to);
    expect_bytes(from, 0, (const unsigned char *)"abc", 3);
    remote_forget();
    set_faults("to ftp://127.0.0.1:1/x\n");
    EXPECT_ERROR(find(from), "rotocol");
    EXPECT_INT(count_requests("/web/moved"), 3);
    free(from);
    free(to);
}

TEST(a_stream_may_be_closed_at_any_moment) {
    begin();
    unsigned char *bytes = make_bytes(4000000);
    write_file("bucket/large", bytes, 4000000);
    // A server that is late may give a fault to a request of the stream before, which leaves a stall to the first look.
    remote_set_patience(&(struct remote_patience){
        .attempts = 4, .backoff_seconds = 0.001, .stall_seconds = 10, .part_bytes = 100000, .streams = 8});
    for (int i = 0; i < 8; i++) {
        struct remote_stream *stream;
        char some[1000];
        if (i % 2)
            set_faults("ok\nstall\nstall\n");
        EXPECT_OK(remote_stream_open(&stream, "s3://bucket/large", 0));
        for (int j = 0; j < i / 2; j++)
            EXPECT(i % 2 || read(remote_stream_descriptor(stream), some, sizeof some) > 0);
        remote_stream_close(stream);
        remote_forget();
        set_faults("");
    }
    free(bytes);
}

TEST(zz_the_server_is_removed) {
    begin();
    http_close_idle();
    remote_forget();
    EXPECT_OK(file_remove_tree(root));
}

TEST_MAIN(TEST_CASE(objects_of_all_sizes_are_read_from_any_byte), TEST_CASE(what_may_pass_is_tried_again),
          TEST_CASE(a_server_that_says_nothing_is_asked_again), TEST_CASE(a_server_that_never_answers_is_given_up),
          TEST_CASE(a_cut_read_continues_after_what_came), TEST_CASE(attempts_end),
          TEST_CASE(a_changed_object_is_an_error), TEST_CASE(refusals_say_what_to_do_and_no_secret),
          TEST_CASE(region_and_clock_are_learnt), TEST_CASE(endpoints_give_and_renew_credentials),
          TEST_CASE(an_instance_that_is_busy_is_asked_again), TEST_CASE(a_role_of_a_profile_is_taken_over),
          TEST_CASE(certificates_are_those_that_were_named),
          TEST_CASE(an_upload_is_completed_whatever_happens_to_the_answer), TEST_CASE(impossible_sizes_are_refused),
          TEST_CASE(redirects_stay_on_the_web), TEST_CASE(listings_have_pages_and_patterns_stay_in_a_folder),
          TEST_CASE(web_files_are_read_with_and_without_ranges), TEST_CASE(a_stream_may_be_closed_at_any_moment),
          TEST_CASE(zz_the_server_is_removed))
