// Finds secrets in text. See redact.h.
#include "base/redact.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char mark[] = REDACT_MARK;
enum { MARK_LENGTH = sizeof mark - 1, KEY_LENGTH = 16 };

// Parts of names in a query.
static const char *const query_names[] = {"sig", "token", "cred",   "secret", "passw",
                                          "key", "auth",  "x-amz-", "expires"};

static const char *const headers[] = {
    "authorization", "proxy-authorization",  "x-api-key",  "api-key", "x-auth-token", "private-token",
    "x-vault-token", "x-amz-security-token", "dd-api-key", "cookie",  "set-cookie"};

// Parts of an address after which the rest of its path is a secret: Slack, Mattermost, Discord, Teams, healthchecks.io,
// ntfy.sh, IFTTT, Telegram.
static const char *const webhooks[] = {"://hooks.", "/hooks/",     "/webhooks/", "/webhook/",  "/webhookb2/",
                                       ".webhook.", "://hc-ping.", "://ntfy.",   "/with/key/", "/bot"};

static const struct {
    const char *prefix, *others;  // others: allowed characters besides letters and digits
    size_t least;
} tokens[] = {{"hf_", "", 30},      {"ghp_", "", 30},   {"gho_", "", 30},   {"ghs_", "", 30},  {"github_pat_", "_", 30},
              {"glpat-", "-_", 20}, {"xoxb-", "-", 20}, {"xoxp-", "-", 20}, {"xapp-", "-", 20}};

struct scan {
    char *text;
    size_t size;
};

static bool is_word(char byte) {
    return isalnum((unsigned char)byte) || byte == '_' || byte == '-';
}

// Replaces text[from, to); returns the position after the mark.
static size_t hide(struct scan *scan, size_t from, size_t to) {
    char *text = scan->text;
    size_t rest = strlen(text + to), room = scan->size - 1 - from;
    if (from == to || strncmp(text + from, mark, MARK_LENGTH) == 0)
        return to;
    size_t length = MARK_LENGTH < room ? MARK_LENGTH : room;
    rest = rest < room - length ? rest : room - length;
    memmove(text + from + length, text + to, rest);
    memcpy(text + from, mark, length);
    text[from + length + rest] = '\0';
    return from + length;
}

static bool is_secret_name(const char *name, size_t length) {
    for (size_t i = 0; i < COUNT(query_names); i++)
        for (size_t at = 0; at + strlen(query_names[i]) <= length; at++)
            if (strncasecmp(name + at, query_names[i], strlen(query_names[i])) == 0)
                return true;
    return false;
}

static void redact_query(struct scan *scan, size_t at, const char *ends) {
    char *text = scan->text;
    while (text[at] && !strchr(ends, text[at])) {
        size_t end = at;
        while (text[end] && text[end] != '&' && !strchr(ends, text[end]))
            end++;
        size_t name = strcspn(text + at, "=&");
        if (at + name < end && is_secret_name(text + at, name))
            end = hide(scan, at + name + 1, end);
        at = end + (text[end] == '&');
    }
}

// Start of the secret part of a webhook's path; 0 if the address is not a webhook.
static size_t find_webhook(const struct scan *scan, size_t begin, size_t end) {
    for (size_t at = begin; at < end; at++)
        for (size_t i = 0; i < COUNT(webhooks); i++) {
            size_t length = strlen(webhooks[i]), from = at + length;
            if (from > end || strncasecmp(scan->text + at, webhooks[i], length) != 0)
                continue;
            // A host ends at its slash; a bot's number follows at once.
            bool is_host = webhooks[i][length - 1] == '.', is_bot = strcmp(webhooks[i], "/bot") == 0;
            while (is_host && from < end && scan->text[from] != '/')
                from++;
            from += is_host && from < end;
            // Other sites have folders with such names. A key is longer than most names.
            bool is_path = webhooks[i][0] == '/' && !is_bot;
            size_t digits = strspn(scan->text + from, "0123456789"), letters = 0;
            while (is_word(scan->text[from + letters]))
                letters++;
            if (from < end &&
                (is_bot ? digits > 0 && scan->text[from + digits] == ':' : !is_path || letters >= KEY_LENGTH))
                return from;
        }
    return 0;
}

// The end of a user name and password, where the @ is; 0 for none. A secret key may contain slashes.
static size_t find_user(const struct scan *scan, size_t begin, size_t end, bool is_s3) {
    const char *text = scan->text;
    size_t host = begin, colon = 0, last = 0;
    while (host < end && !strchr("/?#", text[host])) {
        colon = text[host] == ':' ? host : colon;
        last = text[host] == '@' ? host : last;
        host++;
    }
    bool is_port = !is_s3 && colon && strspn(text + colon + 1, "0123456789") == host - colon - 1;
    for (size_t at = host; colon && !is_port && !last && at < end; at++)
        last = text[at] == '@' ? at : last;
    return last;
}

// A bucket has no colon, but a sentence may continue with one after it.
static bool has_colon(const char *bucket) {
    size_t colon = strcspn(bucket, ":/?# \t\r\n\"'");
    return bucket[colon] == ':' && bucket[colon + 1] && !strchr(" \t\r\n\"'", bucket[colon + 1]);
}

// Redacts an address at text[begin], whose scheme ends at `rest`; returns where the search continues.
static size_t redact_address(struct scan *scan, size_t begin, size_t rest) {
    char *text = scan->text;
    // If the text is an address, it is one up to its end, whatever it contains.
    bool is_whole = begin == 0 && !strpbrk(text, " \t\r\n");
    const char *ends = is_whole ? "" : " \t\r\n\"'<>`\\|;";
    bool is_s3 = rest - begin == strlen("s3://") && strncasecmp(text + begin, "s3", 2) == 0;
    size_t end = rest + strcspn(text + rest, ends);
    size_t user = find_user(scan, rest, end, is_s3);
    if (user)
        rest = hide(scan, rest, user);
    else if (is_s3 && has_colon(text + rest))
        return hide(scan, rest, end);
    end = rest + strcspn(text + rest, ends);
    size_t hook = is_s3 ? 0 : find_webhook(scan, begin, end);
    if (hook)
        return hide(scan, hook, end);
    size_t query = rest + strcspn(text + rest, "?#");
    if (!is_s3 && query < end && text[query] == '?')
        redact_query(scan, query + 1, ends);
    return rest + strcspn(text + rest, ends);
}

// Redacts a header's value at text[at]; returns `at` if there is none.
static size_t redact_header(struct scan *scan, size_t at) {
    for (size_t i = 0; i < COUNT(headers); i++) {
        size_t length = strlen(headers[i]);
        const char *value = scan->text + at + length;
        if (strncasecmp(scan->text + at, headers[i], length) != 0)
            continue;
        value += strspn(value, " \t");
        if (*value != ':')
            continue;
        value += 1 + strspn(value + 1, " \t");
        return hide(scan, (size_t)(value - scan->text), (size_t)(value - scan->text) + strcspn(value, "\"'\r\n\\"));
    }
    return at;
}

static size_t redact_token(struct scan *scan, size_t at) {
    const char *text = scan->text;
    for (size_t i = 0; i < COUNT(tokens); i++) {
        size_t begin = at + strlen(tokens[i].prefix), end = begin;
        if (strncmp(text + at, tokens[i].prefix, begin - at) != 0)
            continue;
        while (isalnum((unsigned char)text[end]) || (text[end] && strchr(tokens[i].others, text[end])))
            end++;
        if (end - begin >= tokens[i].least)
            return hide(scan, begin, end);
    }
    return at;
}

void redact(char *text, size_t size) {
    struct scan scan = {.text = text, .size = size};
    size_t word = 0;  // start of the present word
    for (size_t at = 0; text[at];) {
        size_t next = at;
        if (at > word && strncmp(text + at, "://", 3) == 0)
            next = redact_address(&scan, word, at + 3);
        else if (at == word)
            next = redact_header(&scan, at);
        if (next == at && at == word)
            next = redact_token(&scan, at);
        bool ends_word = next > at || !is_word(text[at]);
        at = next > at ? next : at + 1;
        word = ends_word ? at : word;
    }
}

bool redact_is_marked(const char *text) {
    return strstr(text, mark) != NULL;
}
