// Finds the files of the page, and writes the board as one file. See web.h.
#include "report/board/web.h"

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const struct page_asset *page_asset(const char *name) {
    for (size_t i = 0; i < page_asset_count; i++)
        if (strcmp(page_assets[i].name, name) == 0)
            return &page_assets[i];
    die("the page has no %s", name);
}

// Small enough to be mailed: about 8 MB of points, divided among the curves.
enum { MOST_POINTS = 1000, FEWEST_POINTS = 40, ALL_POINTS = 150000, LOG_LINES = 200 };

static bool is_page(const char *begin, size_t length) {
    static const char first[] = "<!doctype html>";
    return length >= sizeof first - 1 && strncasecmp(begin, first, sizeof first - 1) == 0;
}

int board_export_check(const char *path) {
    return file_check_output(path, "an HTML page", is_page);
}

static size_t items_of(const struct json *run, const char *key) {
    const struct json *list = json_member(run, key);
    return list && list->type == JSON_ARRAY ? list->count : 0;
}

static int points_per_curve(const struct json *runs) {
    size_t curves = 1;
    for (size_t i = 0; i < runs->count; i++)
        curves += items_of(&runs->items[i], "tags") * items_of(&runs->items[i], "x");
    size_t points = ALL_POINTS / curves;
    return points > MOST_POINTS ? MOST_POINTS : points < FEWEST_POINTS ? FEWEST_POINTS : (int)points;
}

static int add_curves(struct json_writer *json, struct board_store *store, const struct curve_query *query) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    OWNED struct json *root = NULL;
    int status = board_store_curves(store, query, &text);
    if (status == 0)
        status = json_parse(&root, buffer_string(&text), text.length, "curves");
    const struct json *curves = json_member(root, "curves");
    for (size_t i = 0; curves && i < curves->count; i++)
        json_value(json, &curves->items[i]);
    return status;
}

// All tags of a run, over each of its x axes.
static int add_run_curves(struct json_writer *json, struct board_store *store, const struct json *run, int points) {
    const struct json *axes = json_member(run, "x");
    const char *id = NULL;
    TRY(json_get_string(run, "id", &id));
    for (size_t i = 0; i < items_of(run, "x"); i++) {
        struct curve_query query = {.ids = &id, .id_count = 1, .points = points};
        for (int x = 0; x < BOARD_X_COUNT; x++) {
            query.x = (enum board_x)x;
            if (axes->items[i].type == JSON_STRING && strcmp(axes->items[i].string, board_x_names[x]) == 0)
                TRY(add_curves(json, store, &query));
        }
    }
    return 0;
}

// "KEY":{ID:…,…}, with the result of `ask` for each run.
static int add_each(struct json_writer *json, const struct json *runs, struct board_store *store,
                    int (*ask)(struct board_store *store, const char *id, struct buffer *out)) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    json_begin_object(json);
    for (size_t i = 0; i < runs->count; i++) {
        const char *id = NULL;
        buffer_clear(&text);
        TRY(json_get_string(&runs->items[i], "id", &id));
        TRY(ask(store, id, &text));
        json_key(json, id);
        json_raw(json, buffer_string(&text), text.length);
    }
    json_end_object(json);
    return 0;
}

static int ask_log(struct board_store *store, const char *id, struct buffer *out) {
    return board_store_log(store, id, LOG_LINES, out);
}

static int make_data(struct board_store *store, struct buffer *out) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    OWNED struct json *root = NULL;
    struct json_writer json = {.out = out};
    TRY(board_store_runs(store, &text));
    int status = json_parse(&root, buffer_string(&text), text.length, "runs");
    const struct json *runs = json_member(root, "runs");
    CHECK(status == 0 && runs && runs->type == JSON_ARRAY);
    json_begin_object(&json);
    json_key(&json, "runs");
    json_raw(&json, buffer_string(&text), text.length);
    json_key(&json, "run");
    TRY(add_each(&json, runs, store, board_store_run));
    json_key(&json, "log");
    TRY(add_each(&json, runs, store, ask_log));
    json_key(&json, "curves");
    json_begin_array(&json);
    for (size_t i = 0; i < runs->count; i++)
        TRY(add_run_curves(&json, store, &runs->items[i], points_per_curve(runs)));
    json_end_array(&json);
    json_end_object(&json);
    return 0;
}

// Inside <script> nothing but "<" can end the text, and in JSON it occurs in strings alone.
static void append_data(struct buffer *out, const struct buffer *data) {
    const char *at = buffer_string(data), *end = at + data->length;
    while (at < end) {
        const char *next = memchr(at, '<', (size_t)(end - at));
        buffer_append(out, at, (size_t)((next ? next : end) - at));
        if (next)
            buffer_append_string(out, "\\u003c");
        at = next ? next + 1 : end;
    }
}

// Copies the page up to `mark`, which must be in it, and returns the rest.
static const char *copy_until(struct buffer *out, const char *page, const char *mark) {
    const char *found = strstr(page, mark);
    if (!found)
        die("the page has no %s", mark);
    buffer_append(out, page, (size_t)(found - page));
    return found + strlen(mark);
}

// A script runs only with the nonce, which text in the data cannot predict: it is a hash of all of it.
static void make_page(const struct buffer *data, struct buffer *out) {
    static const char meta[] = "<meta charset=\"utf-8\">", link[] = "<link rel=\"stylesheet\" href=\"style.css\">",
                      tag[] = "<script src=\"board.js\"></script>";
    const struct page_asset *style = page_asset("style.css"), *script = page_asset("board.js");
    struct sha256 hash;
    unsigned char digest[32];
    char nonce[65];
    CHECK(!strstr(style->bytes, "</style") && !strstr(script->bytes, "</script") && !strstr(script->bytes, "<!--"));
    sha256_init(&hash);
    sha256_update(&hash, buffer_string(data), data->length);
    sha256_update(&hash, script->bytes, script->size);
    sha256_final(&hash, digest);
    sha256_hex(digest, nonce);
    const char *at = copy_until(out, page_asset("index.html")->bytes, meta);
    buffer_printf(
        out,
        "%s\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'nonce-%s'; "
        "style-src 'unsafe-inline'; img-src data:\">",
        meta, nonce);
    at = copy_until(out, at, link);
    buffer_printf(out, "<style>\n%s</style>", style->bytes);
    at = copy_until(out, at, tag);
    buffer_append_string(out, "<script type=\"application/json\" id=\"data\">");
    append_data(out, data);
    buffer_printf(out, "</script>\n<script nonce=\"%s\">\n%s</script>", nonce, script->bytes);
    buffer_append_string(out, at);
}

int board_export(struct board_store *store, const char *path) {
    OWNED_BY(buffer_free) struct buffer data = {0}, page = {0};
    TRY(make_data(store, &data));
    make_page(&data, &page);
    return file_write_all(path, buffer_string(&page), page.length);
}
