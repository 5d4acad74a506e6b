// Secrets in text: what must go, what must stay, and texts that have no room for the mark.
#include "test.h"

#include "base/error.h"
#include "base/redact.h"
#include "base/secret.h"
#include <stdlib.h>
#include <string.h>

static void expect_redacted(const char *text, const char *expected) {
    char *shown = secret_redact(text), *again = secret_redact(shown);
    EXPECT_STRING(shown, expected);
    EXPECT_STRING(again, expected);
    EXPECT(redact_is_marked(shown));
    free(shown);
    free(again);
}

static void expect_kept(const char *text) {
    char *shown = secret_redact(text);
    EXPECT_STRING(shown, text);
    free(shown);
}

TEST(addresses_lose_users_and_passwords) {
    expect_redacted("https://me:secret@example.org/a", "https://[redacted]@example.org/a");
    expect_redacted("cannot open s3://AKIA1:s3cr3t@bucket/key: no", "cannot open s3://[redacted]@bucket/key: no");
    // A secret key of AWS may contain slashes; a name of two characters is shorter than the mark.
    expect_redacted("s3://AKIA1:ab/cd+ef@bucket/key", "s3://[redacted]@bucket/key");
    expect_redacted("x http://a@h y http://b@h", "x http://[redacted]@h y http://[redacted]@h");
    expect_redacted("s3://KEY:SECRET", "s3://[redacted]");
    expect_kept("http://127.0.0.1:9000/a@b and tcp://h:1/x@y");
    expect_kept("s3://bucket/a:b@c");
    expect_kept("letters follow s3://, e.g. s3://my-bucket/data: it has a@b");
}

TEST(queries_lose_signatures_and_tokens) {
    expect_redacted("https://h/a?X-Amz-Credential=AK%2F1&part=7&sig=q",
                    "https://h/a?X-Amz-Credential=[redacted]&part=7&sig=[redacted]");
    expect_redacted("\"https://h/a?token=abc\" failed", "\"https://h/a?token=[redacted]\" failed");
    expect_redacted("https://h/a?token=a\"b;c", "https://h/a?token=[redacted]");
    expect_kept("https://h/a?download=true&part=2");
    expect_kept("no address: token=5 signature=6");
}

TEST(webhooks_lose_their_paths) {
    expect_redacted("curl https://hooks.slack.com/services/T0/B1/xyz -d x",
                    "curl https://hooks.slack.com/[redacted] -d x");
    expect_redacted("https://discord.com/api/webhooks/123456789012345678/abc",
                    "https://discord.com/api/webhooks/[redacted]");
    expect_redacted("https://my.webhook.office.com/webhookb2/1@2/IncomingWebhook/3",
                    "https://my.webhook.office.com/[redacted]");
    expect_redacted("https://api.telegram.org/bot12:abc/sendMessage", "https://api.telegram.org/bot[redacted]");
    expect_redacted("'https://chat.example.org/hooks/abcdefghijklmnopqrstuvwxyz'",
                    "'https://chat.example.org/hooks/[redacted]'");
    expect_kept("https://example.org/bots/12:abc https://example.org/hooks");
    expect_kept("https://example.org/a/hooks/raw/x.jsonl and s3://bucket/hooks/abcdefghijklmnopqrstuvwxyz/x.jsonl");
    expect_kept("cannot list s3://my-bucket: no such object");
}

TEST(headers_and_tokens_are_hidden) {
    expect_redacted("curl -H \"Authorization: Bearer abc.def\" x", "curl -H \"Authorization: [redacted]\" x");
    expect_redacted("-H 'private-token:abc' x", "-H 'private-token:[redacted]' x");
    expect_redacted("token hf_abcdefghijklmnopqrstuvwxyzABCDEFGH!", "token hf_[redacted]!");
    expect_redacted("xoxb-1234567890-1234567890-abc", "xoxb-[redacted]");
    expect_kept("hf_checkpoints_llama_3_8b_instruct_v2 and my_hf_abcdefghijklmnopqrstuvwxyzABCDEFGH");
    expect_kept("the request has no Authorization header");
}

TEST(a_text_that_grows_is_cut) {
    char text[24] = "http://a@h/path/to/it";
    redact(text, sizeof text);
    EXPECT_STRING(text, "http://[redacted]@h/pat");
    char small[12] = "http://a@h";
    redact(small, sizeof small);
    EXPECT_STRING(small, "http://[red");
    redact(small, sizeof small);
    EXPECT_STRING(small, "http://[red");
}

TEST(errors_hold_no_secrets) {
    error_set("cannot write s3://KEY:SECRET@bucket/run");
    error_context("https://me:pass@h/a");
    EXPECT_STRING(error_message(), "https://[redacted]@h/a: cannot write s3://[redacted]@bucket/run");
    error_clear();
}

TEST_MAIN(TEST_CASE(addresses_lose_users_and_passwords), TEST_CASE(queries_lose_signatures_and_tokens),
          TEST_CASE(webhooks_lose_their_paths), TEST_CASE(headers_and_tokens_are_hidden),
          TEST_CASE(a_text_that_grows_is_cut), TEST_CASE(errors_hold_no_secrets))
