// The command of --on-event and its inputs. See on_event.h.
#include "report/on_event.h"

#include "base/clock.h"
#include "base/command_queue.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Limit per command. Variables of more than 128 KiB cannot be passed at all.
static const double LIMIT_SECONDS = 60;
enum { TEXT_BYTES = 8192, MOST_VARIABLES = 12, HOST_BYTES = 256 };

struct on_event {
    struct on_event_options options;
    pthread_mutex_t lock;
    struct command_queue *queue;  // created by the first event
    bool has_failed;              // its thread could not be started
    char host[HOST_BYTES];
};

struct on_event *on_event_open(const struct on_event_options *options) {
    if (!options->command)
        return NULL;
    struct on_event *on_event = memory_alloc(sizeof *on_event);
    on_event->options = *options;
    pthread_mutex_init(&on_event->lock, NULL);
    process_host(on_event->host, sizeof on_event->host);
    if (options->command[0] == '@' && access(options->command + 1, R_OK) < 0)
        log_warn("--on-event: cannot read the script %s: %s; events fail until it is there", options->command + 1,
                 strerror(errno));
    return on_event;
}

// The event as one JSON object, which ends with a newline.
static void compose_input(struct buffer *out, const struct on_event *on_event, const struct metrics_event *event) {
    struct json_writer json = {.out = out};
    json_begin_object(&json);
    json_put_string(&json, "event", event->name);
    json_put_double(&json, "time", clock_wall_seconds());
    json_put_int(&json, "iteration", event->iteration);
    json_put_string(&json, "text", event->text ? event->text : "");
    json_put_string(&json, "run", on_event->options.run ? on_event->options.run : "");
    json_put_string(&json, "host", on_event->host);
    json_put_int(&json, "pid", getpid());
    json_put_string(&json, "job", on_event->options.job);
    json_key(&json, "exit_code");
    if (metrics_event_is_end(event->name))
        json_int(&json, event->exit_code);
    else
        json_null(&json);
    json_end_object(&json);
    buffer_append_byte(out, '\n');
}

// "run: saved at iteration 100: …" as a JSON string with its quotes, for the body of a web request.
static char *compose_message(const struct on_event *on_event, const struct metrics_event *event, const char *text) {
    OWNED_BY(buffer_free) struct buffer message = {0}, quoted = {0};
    if (on_event->options.run)
        buffer_printf(&message, "%s: ", on_event->options.run);
    buffer_printf(&message, "%s at iteration %" PRId64 "%s%s", event->name, event->iteration, *text ? ": " : "", text);
    struct json_writer json = {.out = &quoted};
    json_string(&json, buffer_string(&message), message.length);
    return memory_printf("BEVATRON_MESSAGE_JSON=%s", buffer_string(&quoted));
}

// Call with the lock held.
static bool has_thread(struct on_event *on_event) {
    if (!on_event->queue && !on_event->has_failed) {
        on_event->queue = command_queue_open(&(struct command_queue_options){
            .name = "--on-event", .command = on_event->options.command, .limit_seconds = LIMIT_SECONDS});
        on_event->has_failed = !on_event->queue;
        if (on_event->has_failed)
            log_warn("--on-event: cannot start a thread for the command; it is not run");
    }
    return on_event->queue != NULL;
}

void on_event_tell(struct on_event *on_event, const struct metrics_event *event) {
    if (!on_event)
        return;
    const struct on_event_options *options = &on_event->options;
    OWNED char *text = memory_printf("%.*s", TEXT_BYTES, event->text ? event->text : "");
    char *variables[MOST_VARIABLES + 1] = {
        memory_printf("BEVATRON_EVENT=%s", event->name),
        memory_printf("BEVATRON_ITERATION=%" PRId64, event->iteration),
        memory_printf("BEVATRON_TEXT=%s", text),
        memory_printf("BEVATRON_RUN=%s", options->run ? options->run : ""),
        memory_printf("BEVATRON_HOST=%s", on_event->host),
        memory_printf("BEVATRON_JOB=%s", options->job ? options->job : ""),
        memory_printf("BEVATRON_EXIT_CODE="),
        memory_printf("BEVATRON_TIME=%.0f", clock_wall_seconds()),
        compose_message(on_event, event, text),
    };
    if (metrics_event_is_end(event->name)) {
        free(variables[6]);
        variables[6] = memory_printf("BEVATRON_EXIT_CODE=%d", event->exit_code);
    }
    OWNED char *label = memory_printf("%s at iteration %" PRId64, event->name, event->iteration);
    OWNED_BY(buffer_free) struct buffer input = {0};
    compose_input(&input, on_event, event);
    pthread_mutex_lock(&on_event->lock);
    if (has_thread(on_event))
        command_queue_add(on_event->queue, &(struct queued_command){.label = label,
                                                                    .variables = (const char *const *)variables,
                                                                    .input = buffer_string(&input)});
    pthread_mutex_unlock(&on_event->lock);
    for (char **at = variables; *at; at++)
        free(*at);
}

void on_event_wait(struct on_event *on_event, double seconds) {
    if (on_event && on_event->queue)
        (void)command_queue_wait(on_event->queue, seconds);
}

void on_event_close(struct on_event *on_event, double seconds) {
    if (!on_event)
        return;
    command_queue_close(on_event->queue, seconds);
    pthread_mutex_destroy(&on_event->lock);
    free(on_event);
}
