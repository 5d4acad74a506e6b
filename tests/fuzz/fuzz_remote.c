// layer: net
// Input from S3, from the AWS tools' files and from the command line, from hostile bytes. The first byte selects the
// parser.
#include "fuzz.h"

#include "base/memory.h"
#include "base/secret.h"
#include "net/credentials.h"
#include "net/internal.h"
#include "net/url.h"
#include "net/xml.h"

static void read_listing(const char *text, size_t size) {
    struct remote_list list = {0};
    struct buffer answer = {0}, next = {0};
    buffer_append(&answer, text, size);
    if (remote_list_parse(&list, "bucket", &answer, &next) == 0)
        for (size_t i = 0; i < list.count; i++)
            CHECK(strncmp(list.objects[i].url, "s3://bucket/", 12) == 0 && list.objects[i].url[12]);
    remote_list_free(&list);
    buffer_free(&answer);
    buffer_free(&next);
}

static void read_credentials(bool is_xml, const char *text, size_t size) {
    struct aws_credentials found;
    int status =
        is_xml ? credentials_parse_xml(&found, text, size, "fuzz") : credentials_parse_json(&found, text, size, "fuzz");
    if (status == 0) {
        CHECK(found.access_key && found.secret_key);
        credentials_free(&found);
    }
}

static void read_profiles(const char *text, size_t size) {
    static const char *const sections[] = {"default", "profile a", "a"};
    struct aws_file file = {.path = "fuzz"};
    buffer_append(&file.text, text, size);
    if (aws_file_check(&file) == 0)
        for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
            char *value = aws_file_get(&file, sections[i], "aws_access_key_id");
            CHECK(!value || aws_file_has_section(&file, sections[i]));
            free(value);
        }
    aws_file_free(&file);
}

static void read_address(const char *text, size_t size) {
    struct url url;
    char *copy = memory_printf("%.*s", (int)size, text);
    if (url_parse(&url, copy) == 0) {
        struct buffer path = {0};
        char *shown = secret_redact(copy), *again = secret_redact(shown);
        CHECK(strcmp(shown, again) == 0);
        if (url.kind == URL_S3) {
            CHECK(url.bucket[0]);
            url_encode(&path, url.key, true);
            CHECK(path.length >= strlen(url.key));
        }
        free(shown);
        free(again);
        buffer_free(&path);
        url_free(&url);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    switch (data[0] % 5) {
    case 0:
        read_listing(text, size - 1);
        break;
    case 1:
        read_credentials(false, text, size - 1);
        break;
    case 2:
        read_credentials(true, text, size - 1);
        break;
    case 3:
        read_profiles(text, size - 1);
        break;
    default:
        read_address(text, size - 1);
        break;
    }
    return 0;
}
