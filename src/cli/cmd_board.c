// bevatron board: the curves of all runs below a folder: a web page, the terminal (--text) or a file (--export).
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "config/flag_rows.h"
#include "report/board/store.h"
#include "report/board/web.h"
#include "report/console.h"

#include <inttypes.h>
#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

// ---- in the terminal ----

// bevatron board --text: runs in the terminal, with their losses and the balance of experts.

struct board_text_options {
    const char *logdir;  // as given: names of runs follow it
    int width, height;   // of a plot in characters; width 0: the terminal's
};

static const char *text_of(const struct json *object, const char *key) {
    const struct json *value = json_member(object, key);
    return value && value->type == JSON_STRING && value->length > 0 ? value->string : NULL;
}

static double number_of(const struct json *object, const char *key) {
    const struct json *value = json_member(object, key);
    return value && value->type == JSON_NUMBER ? value->number : (double)NAN;
}

static size_t count_of(const struct json *list) {
    return list && list->type == JSON_ARRAY ? list->count : 0;
}

static void print_plain(const char *before, const char *text) {
    OWNED char *plain = checkpoint_printable(text);
    printf("%s%s", before, plain);
}

// The user's note about the run, line by line.
static void print_note(const char *note) {
    char *lines = memory_string(note), *rest = lines, *line;
    while (rest && (line = strsep(&rest, "\n"))) {
        print_plain("  ", line);
        printf("\n");
    }
    free(lines);
}

// "iteration 40 of 40, loss 3.1234, …"
static void print_progress(const struct json *run) {
    double train_iters = number_of(run, "train_iters"), loss = number_of(run, "loss"),
           updated = number_of(run, "updated");
    double validation = number_of(run, "validation"), speed = number_of(run, "tokens_per_second");
    double iteration = number_of(run, "iteration"), planned = number_of(run, "planned_tokens_per_second");
    double balance = number_of(run, "expert_balance");
    char time[32] = "";
    printf("  iteration %.0f", isfinite(iteration) ? iteration : 0);
    if (train_iters > 0)
        printf(" of %.0f", train_iters);
    if (isfinite(loss))
        printf(", loss %.4f", loss);
    if (isfinite(validation))
        printf(", validation %.4f", validation);
    if (balance > 0)
        printf(", expert balance %.2f", balance);
    if (speed > 0)
        printf(", %.0f tokens/s", speed);
    if (speed > 0 && planned > 0)
        printf(" (planned %.0f)", planned);
    if (updated > 0)
        clock_format(updated, time, sizeof time);
    time[strlen(time) > 19 ? 19 : strlen(time)] = '\0';
    printf("%s%s\n", *time ? ", last line " : "", time);
}

// "live, done in 2 h 5 min", "failed: the loss is nan …"
static void print_state(const struct json *run) {
    const char *state = text_of(run, "state"), *why = text_of(run, "why"), *host = text_of(run, "host");
    double left = number_of(run, "eta_seconds"), ranks = number_of(run, "ranks");
    if (!state)
        return;
    print_plain("  ", state);
    if (host)
        print_plain(" on ", host);
    if (ranks > 1)
        printf(", %.0f ranks", ranks);
    if (strcmp(state, "live") == 0 && left > 0 && left < 1e9)
        printf(", done in %.0f h %02d min", floor(left / 3600), (int)fmod(left / 60, 60));
    if (why)
        print_plain(": ", why);
    printf("\n");
}

// The numbers of the run's jobs, without repetitions; only the last ones of many.
static void print_jobs(const struct json *detail) {
    enum { MOST = 16 };
    const struct json *starts = json_member(detail, "starts");
    const char *jobs[MOST] = {NULL}, *log = text_of(detail, "log"), *last = NULL;
    size_t count = 0;
    for (size_t i = 0; i < count_of(starts); i++) {
        const char *job = text_of(&starts->items[i], "job");
        if (!job || (last && strcmp(job, last) == 0))
            continue;
        last = jobs[count++ % MOST] = job;
    }
    if (count == 0)
        return;
    printf("  Slurm job%s ", count > 1 ? "s" : "");
    for (size_t i = count > MOST ? count - MOST : 0, first = i; i < count; i++)
        print_plain(i > first ? ", " : first > 0 ? "…, " : "", jobs[i % MOST]);
    if (log)
        print_plain("; log ", log);
    printf("\n");
}

// Losses, and the balance of experts over all layers; event files write it with a hyphen.
static bool is_drawn(const char *tag) {
    return (strstr(tag, "loss") && !strstr(tag, "scale") && !strstr(tag, " vs ") && !strstr(tag, "ppl")) ||
           strcmp(tag, "expert balance") == 0 || strcmp(tag, "expert-balance") == 0;
}

// A point of one value shows that; a point of several shows the lowest and the highest.
static size_t read_points(const struct json *points, double *x, double *y) {
    size_t count = 0;
    for (size_t i = 0; i < count_of(points); i++) {
        const struct json *point = &points->items[i];
        if (count_of(point) < 4 || point->items[0].type != JSON_NUMBER)
            continue;
        for (size_t k = 2; k < 4; k++) {
            bool has_value = point->items[k].type == JSON_NUMBER;
            if (has_value && k == 3 && point->items[2].number == point->items[3].number)
                continue;
            x[count] = point->items[0].number;
            y[count++] = has_value ? point->items[k].number : (double)NAN;
        }
    }
    return count;
}

static void draw_curve(const struct json *curve, const struct board_text_options *options) {
    const struct json *points = json_member(curve, "points");
    const char *tag = text_of(curve, "tag");
    // A single evaluation is no curve; the summary shows its value.
    if (!tag || count_of(points) < 2)
        return;
    OWNED double *x = memory_alloc(2 * points->count * sizeof *x), *y = memory_alloc(2 * points->count * sizeof *y);
    OWNED char *title = checkpoint_printable(tag);
    struct plot plot = {.title = title,
                        .x = x,
                        .y = y,
                        .width = options->width > 0 ? options->width : plot_terminal_width(stdout),
                        .height = options->height};
    OWNED_BY(buffer_free) struct buffer text = {0};
    plot.count = read_points(points, x, y);
    buffer_append_byte(&text, '\n');
    plot_draw(&text, &plot);
    fputs(buffer_string(&text), stdout);
}

static int draw_curves(struct board_store *store, const struct json *run, const struct board_text_options *options) {
    const struct json *tags = json_member(run, "tags");
    const char *id = text_of(run, "id");
    OWNED_BY(buffer_free) struct buffer text = {0};
    for (size_t i = 0; i < count_of(tags); i++) {
        if (tags->items[i].type != JSON_STRING || !is_drawn(tags->items[i].string))
            continue;
        struct curve_query query = {.ids = &id, .id_count = 1, .tags = &tags->items[i].string, .tag_count = 1};
        buffer_clear(&text);
        TRY(board_store_curves(store, &query, &text));
        OWNED struct json *root = NULL;
        TRY(json_parse(&root, buffer_string(&text), text.length, "curves"));
        const struct json *curves = json_member(root, "curves");
        for (size_t k = 0; k < count_of(curves); k++)
            draw_curve(&curves->items[k], options);
    }
    return 0;
}

static int print_run(struct board_store *store, const struct json *run, const struct board_text_options *options) {
    const char *id = text_of(run, "id"), *below = text_of(run, "folder"), *title = text_of(run, "title"),
               *note = text_of(run, "note");
    OWNED_BY(buffer_free) struct buffer text = {0};
    OWNED struct json *detail = NULL;
    TRY(board_store_run(store, id ? id : "", &text));
    TRY(json_parse(&detail, buffer_string(&text), text.length, "run"));
    OWNED char *path = below ? file_join(options->logdir, below) : memory_string(options->logdir);
    print_plain("", path);
    if (title)
        print_plain(": ", title);
    printf("\n");
    print_note(note);
    print_progress(run);
    print_state(run);
    print_jobs(detail);
    double bad_lines = number_of(detail, "bad_lines");
    if (bad_lines > 0)
        printf("  %.0f lines could not be parsed\n", bad_lines);
    int status = draw_curves(store, run, options);
    printf("\n");
    return status;
}

static int compare_names(const void *a, const void *b) {
    const char *left = text_of(*(const struct json *const *)a, "name"),
               *right = text_of(*(const struct json *const *)b, "name");
    return strcmp(left ? left : "", right ? right : "");
}

// Prints all runs of a scanned store.
static int board_text(struct board_store *store, const struct board_text_options *options) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    OWNED struct json *root = NULL;
    TRY(board_store_runs(store, &text));
    TRY(json_parse(&root, buffer_string(&text), text.length, "runs"));
    const struct json *runs = json_member(root, "runs");
    size_t count = count_of(runs);
    OWNED const struct json **sorted = memory_alloc((count + 1) * sizeof *sorted);
    for (size_t i = 0; i < count; i++)
        sorted[i] = &runs->items[i];
    qsort(sorted, count, sizeof sorted[0], compare_names);
    for (size_t i = 0; i < count; i++)
        TRY(print_run(store, sorted[i], options));
    return 0;
}

// ---- the command ----

struct board_options {
    struct flag_given given;
    char *logdir, *host, *token, *export_file, *cache_dir;
    int64_t port, width, height;
    bool text, no_cache;
};

#define FLAG_STRUCT struct board_options

static const struct flag rows[] = {
    TEXT("--logdir", logdir, NULL, "DIR",
         "folder of runs: every metrics.jsonl in it and below is one, and every folder of TensorBoard events",
         .required = true),
    GROUP("Web page"),
    INT("--port", port, "6006", 0, 65535,
        "port to listen on; 0 for any free one. Without --port, the first free one from 6006 on"),
    TEXT("--host", host, "127.0.0.1", "ADDRESS",
         "address to listen on, e.g. 0.0.0.0 for all interfaces; then a token is required, and generated if not given"),
    TEXT("--token", token, NULL, "TEXT",
         "require this token, of 8 characters or more; auto generates one and prints it"),
    TEXT("--cache-dir", cache_dir, NULL, "DIR",
         "folder that caches the contents of long files. Default: bevatron/board in $XDG_CACHE_HOME or ~/.cache"),
    SWITCH("--no-cache", no_cache, "do not cache; the next start reads all files again"),
    GROUP("Instead of a web page"),
    SWITCH("--text", text, "draw in the terminal"),
    INT("--width", width, "0", 0, 400, "width of a plot in columns; 0 for the terminal's width, or 80"),
    INT("--height", height, "16", 6, 100, "height of a plot in lines"),
    TEXT("--export", export_file, NULL, "FILE", "write one self-contained HTML file, e.g. to mail it"),
};

static int open_store(struct board_store **store, const struct board_options *options, bool serves) {
    if (file_is_regular(options->logdir))
        return error_set_code(EXIT_CODE_USAGE, "--logdir %s is a file; give the folder of a run, or one above",
                              options->logdir);
    char *usual = options->cache_dir || options->no_cache ? NULL : session_user_cache("board");
    const char *cache = options->no_cache ? NULL : options->cache_dir ? options->cache_dir : usual;
    int status = board_store_open(
        store, &(struct board_store_options){.logdir = options->logdir, .cache_dir = cache, .no_threads = !serves});
    free(usual);
    return status;
}

// Closes the store, which writes its cache and may fail; keeps the error of `status`.
static int close_store(struct board_store *store, int status) {
    struct error_note *note = status < 0 ? error_take() : NULL;
    board_store_close(store);
    return note ? error_give(note) : status;
}

// The present runs as text or as a file.
static int show_once(const struct board_options *options) {
    struct board_store *store = NULL;
    if (options->export_file)
        TRY(board_export_check(options->export_file));
    TRY(open_store(&store, options, false));
    board_store_scan(store);
    int status = 0;
    if (board_store_count(store) == 0)
        status = error_set("found no metrics.jsonl or TensorBoard event file in %s or below it; train writes a "
                           "metrics.jsonl to its --save folder or to --metrics-file",
                           options->logdir);
    if (status == 0 && options->text)
        status = board_text(store, &(struct board_text_options){.logdir = options->logdir,
                                                                .width = (int)options->width,
                                                                .height = (int)options->height});
    if (status == 0 && options->export_file) {
        status = board_export(store, options->export_file);
        if (status == 0)
            log_info("wrote %s", options->export_file);
    }
    return close_store(store, status);
}

static int check_token(const char *token) {
    enum { SHORTEST = 8, LONGEST = 256 };
    size_t length = strlen(token);
    if (length < SHORTEST || length > LONGEST)
        return error_set_code(EXIT_CODE_USAGE, "--token has %zu characters; use %d to %d, or auto to have one made",
                              length, SHORTEST, LONGEST);
    for (const char *at = token; *at; at++)
        if (*at <= ' ' || *at > '~')
            return error_set_code(EXIT_CODE_USAGE, "--token may have visible ASCII characters only, and no spaces");
    return 0;
}

// 128 random bits in hexadecimal, to be freed.
static char *make_token(void) {
    unsigned char bytes[16];
    char text[2 * sizeof bytes + 1];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        die("cannot get random bytes from the system");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return memory_string(text);
}

// Text after "token=" in an address; all bytes but letters, digits, '-', '.', '_' and '~' are encoded.
static void print_encoded(const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        bool is_plain = (*at >= '0' && *at <= '9') || (*at >= 'A' && *at <= 'Z') || (*at >= 'a' && *at <= 'z') ||
                        strchr("-._~", *at);
        printf(is_plain ? "%c" : "%%%02X", *at);
    }
}

static void print_address(const char *host, int port, const char *token) {
    printf("http://%s:%d/", host, port);
    if (token) {
        printf("?token=");
        print_encoded(token);
    }
    printf("\n");
}

// Prints the page's address, and how to see it from another machine. An address that others can reach needs no tunnel,
// but is not encrypted.
static void announce(const struct web_address *address, const char *token) {
    const struct passwd *user = getpwuid(getuid());
    char host[256] = "";
    bool is_any = strcmp(address->text, "0.0.0.0") == 0 || strcmp(address->text, "[::]") == 0;
    if (gethostname(host, sizeof host - 1) < 0 || !*host)
        snprintf(host, sizeof host, "HOST");
    printf("board: ");
    print_address(is_any ? host : address->text, address->port, token);
    if (address->is_loopback || is_any)
        printf("from your machine: ssh -L %d:%s:%d %s@%s, then open the address there\n", address->port,
               is_any ? "127.0.0.1" : address->text, address->port, user ? user->pw_name : "USER", host);
    if (!address->is_loopback)
        log_warn("the page is not encrypted: anyone who can read this network's traffic sees it and its token; the "
                 "default --host with an ssh tunnel is safe");
    printf("stop with Ctrl-C\n");
    fflush(stdout);
}

static int serve_until_stopped(struct board_store *store, struct web_site *site, struct web_address *address) {
    struct web_server *server = NULL;
    web_site_set_cookie(site, address->port);
    TRY(web_server_start(&server, site, address->socket, NULL));
    announce(address, site->token);
    int64_t revision = 0;
    while (!interrupt_received()) {
        revision = board_store_wait(store, revision, 0.2);
        web_server_tend(server);
    }
    web_server_stop(server);
    log_info("board: stopped");
    return 0;
}

static int serve(const struct board_options *options) {
    struct board_store *store = NULL;
    struct web_address address = {.socket = -1};
    OWNED char *made = NULL;
    bool is_automatic = options->token && strcmp(options->token, "auto") == 0;
    if (options->token && !is_automatic)
        TRY(check_token(options->token));
    TRY(web_library_load());
    interrupt_watch();
    interrupt_defer();
    TRY(web_listen(&address, options->host, (int)options->port, !flag_is_given(&options->given, "--port")));
    if (is_automatic || (!options->token && !address.is_loopback))
        made = make_token();
    int status = open_store(&store, options, true);
    struct web_site site = {.store = store, .host = options->host, .token = made ? made : options->token};
    if (status == 0)
        status = serve_until_stopped(store, &site, &address);
    else
        close(address.socket);
    return close_store(store, status);
}

static int show_board(void *context) {
    const struct board_options *options = context;
    return options->text || options->export_file ? show_once(options) : serve(options);
}

const struct command cmd_board = {
    .flags =
        {.name = "board",
         .argument_flag = "--logdir",
         .summary =
             "Shows the curves of all runs below a folder: as a web page that follows them, in the terminal, or as "
             "one HTML file. By default only this machine can open the page; from another one, use the ssh command "
             "that is printed at the start.",
         .epilogue = "Examples:\n  bevatron board --logdir runs\n  bevatron board --logdir runs --text\n"
                     "  bevatron board --logdir runs --export report.html\n"},
    .tables = {{FLAG_TABLE(rows)}},
    .options_bytes = sizeof(struct board_options),
    .run = show_board,
};
