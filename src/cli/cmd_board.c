// bevatron board: the curves of all runs below a folder: a web page, the terminal (--text) or a file (--export).
#include "base/clock.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/board_text.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "config/flag_rows.h"
#include "report/board/export.h"
#include "report/board/web_server.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

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
    char *made = NULL;
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
    status = close_store(store, status);
    free(made);
    return status;
}

static int show_board(const struct board_options *options) {
    return options->text || options->export_file ? show_once(options) : serve(options);
}

int cmd_board(int argc, char **argv) {
    const struct flag_table table = {FLAG_TABLE(rows)};
    const struct flag_command command = {
        .name = "board",
        .argument_flag = "--logdir",
        .summary =
            "Shows the curves of all runs below a folder: as a web page that follows them, in the terminal, or as "
            "one HTML file. By default only this machine can open the page; from another one, use the ssh command "
            "that is printed at the start.",
        .epilogue = "Examples:\n  bevatron board --logdir runs\n  bevatron board --logdir runs --text\n"
                    "  bevatron board --logdir runs --export report.html\n",
        .tables = &table,
        .table_count = 1,
    };
    struct board_options options;
    int status = flags_parse(&command, &options, argc, argv);
    if (status == 0)
        status = show_board(&options);
    int exit_code = status < 0 ? command_failed() : EXIT_CODE_OK;
    flags_free(&command, &options);
    return exit_code;
}
