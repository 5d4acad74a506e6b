// Signatures, and the small parsers of addresses, responses and AWS files.
#include "test.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "net/credentials.h"
#include "net/internal.h"
#include "net/url.h"
#include "net/xml.h"
#include <unistd.h>

// ---- signatures ----

enum { FIELDS = 13, MOST_HEADERS = 8 };

static size_t split(char *text, char separator, char **fields, size_t most) {
    size_t count = 0;
    for (char *next = text; next && count < most; count++) {
        fields[count] = next;
        next = strchr(next, separator);
        if (next)
            *next++ = 0;
    }
    return count;
}

static void check_row(char *line) {
    char *f[FIELDS], *pairs[MOST_HEADERS];
    EXPECT_INT(split(line, '\t', f, FIELDS), FIELDS);
    for (size_t i = 0; i < FIELDS; i++)
        f[i] = strcmp(f[i], "-") == 0 ? f[i] + 1 : f[i];
    struct sign_header headers[MOST_HEADERS];
    size_t count = f[11][0] ? split(f[11], ';', pairs, MOST_HEADERS) : 0;
    for (size_t i = 0; i < count; i++) {
        char *equals = strchr(pairs[i], '=');
        EXPECT(equals);
        *equals = 0;
        headers[i] = (struct sign_header){pairs[i], equals + 1};
    }
    struct signature signature;
    sign_request(&signature, &(struct sign_request){.method = f[0],
                                                    .host = f[1],
                                                    .path = f[2],
                                                    .query = f[3],
                                                    .headers = headers,
                                                    .header_count = count,
                                                    .payload_sha256 = f[4],
                                                    .region = f[5],
                                                    .service = f[6],
                                                    .time = strtoll(f[7], NULL, 10),
                                                    .access_key = f[8],
                                                    .secret_key = f[9],
                                                    .session_token = f[10][0] ? f[10] : NULL});
    const char *mark = strstr(buffer_string(&signature.authorization), "Signature=");
    EXPECT(mark);
    EXPECT_STRING(mark + strlen("Signature="), f[12]);
    buffer_free(&signature.authorization);
}

TEST(signatures_are_those_of_botocore_and_of_the_published_examples) {
    struct buffer text = {0};
    EXPECT_OK(file_read_all("tests/golden/sigv4.txt", 1 << 20, &text));
    int rows = 0;
    for (char *line = text.data, *next; line && *line; line = next, rows++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        check_row(line);
    }
    EXPECT_INT(rows, 44);
    buffer_free(&text);
}

// RFC 4231, cases 1, 2 and 6.
TEST(hmac_is_that_of_the_standard) {
    unsigned char mac[32], key[131];
    char hex[65];
    memset(key, 0x0B, 20);
    hmac_sha256(key, 20, "Hi There", 8, mac);
    sha256_hex(mac, hex);
    EXPECT_STRING(hex, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, mac);
    sha256_hex(mac, hex);
    EXPECT_STRING(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xAA, 131);
    const char *text = "Test Using Larger Than Block-Size Key - Hash Key First";
    hmac_sha256(key, 131, text, strlen(text), mac);
    sha256_hex(mac, hex);
    EXPECT_STRING(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

// ---- addresses ----

TEST(addresses_are_taken_apart) {
    struct url url;
    EXPECT_OK(url_parse(&url, "s3://my-bucket/a b/ä%20.jsonl"));
    EXPECT_STRING(url.bucket, "my-bucket");
    EXPECT_STRING(url.key, "a b/ä%20.jsonl");
    struct buffer out = {0};
    url_encode(&out, url.key, true);
    EXPECT_STRING(buffer_string(&out), "a%20b/%C3%A4%2520.jsonl");
    buffer_free(&out);
    url_free(&url);
    EXPECT_OK(url_parse(&url, "s3://my.bucket"));
    EXPECT_STRING(url.key, "");
    url_free(&url);
    EXPECT_OK(url_parse(&url, "https://example.org:8443/a?b=c"));
    EXPECT_INT(url.kind, URL_HTTP);
    url_free(&url);
    EXPECT_ERROR(url_parse(&url, "s3://"), "does not name a bucket");
    EXPECT_ERROR(url_parse(&url, "s3:///key"), "does not name a bucket");
    EXPECT_ERROR(url_parse(&url, "s3://a b/key"), "does not name a bucket");
    EXPECT_ERROR(url_parse(&url, "s3://bucket/a\nb"), "control characters");
    EXPECT_ERROR(url_parse(&url, "https:///a"), "has no host");
    EXPECT_ERROR(url_parse(&url, "https://me:secret@example.org/a"), "user name or password");
    EXPECT(!strstr(error_message(), "secret@"));
    EXPECT_ERROR(url_parse(&url, "s3://KEY:sec/ret@bucket/a"), "s3://[redacted]@bucket/a: keys do not belong into");
    EXPECT(!strstr(error_message(), "KEY:") && !strstr(error_message(), "sec/"));
    EXPECT_ERROR(url_parse(&url, "gopher://x"), "is not an address");
}

TEST(signatures_in_addresses_are_hidden) {
    char *shown =
        remote_hide("https://h/a.jsonl?X-Amz-Credential=AK%2F1&part=7&X-Amz-Signature=abc&X-Amz-Date=2&sig=q");
    EXPECT_STRING(
        shown,
        "https://h/"
        "a.jsonl?X-Amz-Credential=[redacted]&part=7&X-Amz-Signature=[redacted]&X-Amz-Date=[redacted]&sig=[redacted]");
    char *real = remote_reveal(shown);
    EXPECT(strstr(real, "X-Amz-Signature=abc"));
    free(real);
    free(shown);
    // Two files whose names stand in a value that may be a secret are not confused.
    char *first = remote_hide("https://h/get?key=a"), *second = remote_hide("https://h/get?key=b");
    EXPECT_STRING(first, "https://h/get?key=[redacted]");
    EXPECT_STRING(second, "https://h/get?key=[redacted]#2");
    real = remote_reveal(first);
    EXPECT_STRING(real, "https://h/get?key=a");
    free(real);
    real = remote_reveal(second);
    EXPECT_STRING(real, "https://h/get?key=b");
    free(real);
    free(first);
    free(second);
    shown = remote_hide("https://h/a?download=true");
    EXPECT_STRING(shown, "https://h/a?download=true");
    free(shown);
    remote_forget();
}

// ---- XML ----

TEST(answers_are_read_element_by_element) {
    static const char text[] =
        "<?xml version='1.0'?>\n<!-- c --><A x=\"1\"><B>1 &lt; &amp;&#228;&#x6F22;</B><C/>z</A>\n";
    struct buffer value = {0};
    EXPECT(xml_find(text, strlen(text), "B", &value));
    EXPECT_STRING(buffer_string(&value), "1 < &ä漢");
    EXPECT(xml_find(text, strlen(text), "C", &value));
    EXPECT_STRING(buffer_string(&value), "");
    EXPECT(!xml_find(text, strlen(text), "D", &value));
    for (size_t length = 0; length < strlen(text) - 1; length++) {
        struct xml xml = {.data = text, .length = length};
        enum xml_event event;
        do
            event = xml_next(&xml);
        while (event != XML_END && event != XML_BROKEN);
        bool is_whole = event == XML_END;
        xml_free(&xml);
        EXPECT(!is_whole || length < 33);  // before <A …>, or all of it
    }
    static const char *const broken[] = {"<A></B>", "<A>&nope;</A>", "<A>&#xZZ;</A>", "<A", "</A>",
                                         "<>",      "<![CDATA[x]]>"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        struct xml xml = {.data = broken[i], .length = strlen(broken[i])};
        enum xml_event event;
        do
            event = xml_next(&xml);
        while (event != XML_END && event != XML_BROKEN);
        xml_free(&xml);
        EXPECT_INT(event, XML_BROKEN);
    }
    buffer_free(&value);
}

static int parse_list(struct remote_list *list, const char *text, struct buffer *next) {
    struct buffer answer = {0};
    *list = (struct remote_list){0};
    buffer_append_string(&answer, text);
    int status = remote_list_parse(list, "bucket", &answer, next);
    buffer_free(&answer);
    return status;
}

TEST(listings_are_read) {
    struct remote_list list;
    struct buffer next = {0};
    EXPECT_OK(parse_list(&list,
                         "<ListBucketResult><Contents><Key>a&amp;b</Key><Size>12</Size><ETag>\"x\"</ETag></Contents>"
                         "<Contents><Key>f/</Key><Size>0</Size></Contents><CommonPrefixes><Prefix>g/</Prefix>"
                         "</CommonPrefixes><IsTruncated>true</IsTruncated>"
                         "<NextContinuationToken>t+/=</NextContinuationToken></ListBucketResult>",
                         &next));
    EXPECT_INT(list.count, 1);
    EXPECT_STRING(list.objects[0].url, "s3://bucket/a&b");
    EXPECT_INT(list.objects[0].size, 12);
    EXPECT_STRING(list.objects[0].tag, "\"x\"");
    EXPECT_STRING(buffer_string(&next), "t+/=");
    remote_list_free(&list);
    static const char *const broken[][2] = {
        {"<html></html>", "is not a bucket listing"},
        {"", "is not a bucket listing"},
        {"<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>", "without a key or a size"},
        {"<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>", "without a key"},
        {"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>", "has no continuation token"},
        {"<ListBucketResult><Contents><Key>a", "not readable XML"},
    };
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        EXPECT_ERROR(parse_list(&list, broken[i][0], &next), broken[i][1]);
        remote_list_free(&list);
    }
    buffer_free(&next);
}

// ---- credentials ----

static char folder[] = "/tmp/bevatron-test-XXXXXX";
static const char *variables[16][2];

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

static void begin_environment(const char *keys, const char *config) {
    static char keys_path[64], config_path[64];
    memset(variables, 0, sizeof variables);
    memcpy(folder, "/tmp/bevatron-test-XXXXXX", sizeof folder);
    EXPECT(mkdtemp(folder));
    (void)snprintf(keys_path, sizeof keys_path, "%s/keys", folder);
    (void)snprintf(config_path, sizeof config_path, "%s/config", folder);
    if (keys)
        EXPECT_OK(file_write_all(keys_path, keys, strlen(keys)));
    if (config)
        EXPECT_OK(file_write_all(config_path, config, strlen(config)));
    set("AWS_SHARED_CREDENTIALS_FILE", keys_path);
    set("AWS_CONFIG_FILE", config_path);
    set("AWS_EC2_METADATA_DISABLED", "true");
}

static int find(struct aws_credentials *credentials) {
    struct aws_context context;
    *credentials = (struct aws_credentials){0};
    TRY(aws_context_open(&context, get));
    int status = credentials_find(credentials, &context);
    aws_context_close(&context);
    return status;
}

static const char keys_file[] = "# comment\n[default]\naws_access_key_id = AKD\naws_secret_access_key=sd  ; rest\n"
                                "\n[work]\nAWS_ACCESS_KEY_ID=AKW\naws_secret_access_key = s=w\naws_session_token = tw\n"
                                "s3 =\n    addressing_style = path\n";
static const char config_file[] = "[default]\nregion = eu-west-1\n[profile  \"work\"]\nregion=us-west-2\n"
                                  "endpoint_url = http://e\n[profile prog]\n"
                                  "credential_process = echo '{\"Version\": 1, \"AccessKeyId\": \"AKP\", "
                                  "\"SecretAccessKey\": \"sp\", \"Expiration\": \"2026-01-02T03:04:05Z\"}'\n"
                                  "[profile loop]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = loop2\n"
                                  "[profile loop2]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = loop\n"
                                  "[profile half]\naws_access_key_id = A\n";

static void expect_key(const char *key, const char *secret, const char *token) {
    struct aws_credentials found;
    EXPECT_OK(find(&found));
    EXPECT_STRING(found.access_key, key);
    EXPECT_STRING(found.secret_key, secret);
    EXPECT_STRING(found.session_token ? found.session_token : "", token);
    EXPECT(!strstr(found.source, secret));
    credentials_free(&found);
}

TEST(credentials_are_found_where_the_aws_tools_find_them) {
    struct aws_credentials found;
    struct aws_context context;
    begin_environment(keys_file, config_file);
    expect_key("AKD", "sd", "");
    set("AWS_PROFILE", "work");
    expect_key("AKW", "s=w", "tw");
    EXPECT_OK(aws_context_open(&context, get));
    char *region = aws_context_region(&context), *endpoint = aws_context_endpoint(&context, "s3");
    EXPECT_STRING(region, "us-west-2");
    EXPECT_STRING(endpoint, "http://e");
    free(region);
    free(endpoint);
    set("AWS_REGION", "ap-south-1");
    set("AWS_ENDPOINT_URL", "http://all");
    set("AWS_ENDPOINT_URL_S3", "http://s3");
    region = aws_context_region(&context);
    endpoint = aws_context_endpoint(&context, "s3");
    EXPECT_STRING(region, "ap-south-1");
    EXPECT_STRING(endpoint, "http://s3");
    free(region);
    free(endpoint);
    aws_context_close(&context);
    set("AWS_PROFILE", "prog");
    EXPECT_OK(find(&found));
    EXPECT_STRING(found.access_key, "AKP");
    EXPECT_INT(found.expires, 1767323045);
    credentials_free(&found);
    set("AWS_ACCESS_KEY_ID", "AKE");
    EXPECT_ERROR(find(&found), "AWS_SECRET_ACCESS_KEY is not");
    set("AWS_SECRET_ACCESS_KEY", "se");
    set("AWS_SESSION_TOKEN", "te");
    expect_key("AKE", "se", "te");
    (void)file_remove_tree(folder);
}

TEST(bad_credentials_files_are_named) {
    struct aws_credentials found;
    begin_environment("[default]\nnonsense\n", NULL);
    EXPECT_ERROR(find(&found), "keys line 2 is neither");
    (void)file_remove_tree(folder);
    begin_environment(keys_file, config_file);
    set("AWS_PROFILE", "absent");
    EXPECT_ERROR(find(&found), "there is no profile \"absent\"");
    set("AWS_PROFILE", "loop");
    EXPECT_ERROR(find(&found), "refers back to itself");
    set("AWS_PROFILE", "half");
    EXPECT_ERROR(find(&found), "only one of aws_access_key_id and");
    (void)file_remove_tree(folder);
    begin_environment(NULL, NULL);
    EXPECT_OK(find(&found));
    EXPECT(!found.access_key);
    (void)file_remove_tree(folder);
}

TEST_MAIN(TEST_CASE(signatures_are_those_of_botocore_and_of_the_published_examples),
          TEST_CASE(hmac_is_that_of_the_standard), TEST_CASE(addresses_are_taken_apart),
          TEST_CASE(signatures_in_addresses_are_hidden), TEST_CASE(answers_are_read_element_by_element),
          TEST_CASE(listings_are_read), TEST_CASE(credentials_are_found_where_the_aws_tools_find_them),
          TEST_CASE(bad_credentials_files_are_named))
