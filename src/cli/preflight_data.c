// Checks of preflight that concern more than one machine: the machines, their network, and the data.
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/process.h"
#include "cli/commands.h"
#include "cli/preflight.h"
#include "cluster/machine.h"
#include "data/index/index.h"
#include "data/sample/blend.h"
#include "data/text_cache.h"
#include "net/http.h"
#include "net/url.h"
#include "train/data_paths.h"
#include "train/datasets.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// ---- machines and their network ----

// Checks between ranks: their clocks, their network and its speed. See preflight.h.

enum { CLOCK_ROUNDS = 8, LONGEST_LOG = 1 << 26 };

static int machines_of(const struct session *session) {
    int local = session->place.local_size > 0 ? session->place.local_size : 1;
    return (session->place.size + local - 1) / local;
}

// All ranks read their clocks after a barrier; the smallest spread of several tries is that of the clocks, the rest is
// message latency.
void preflight_clocks(struct preflight *flight) {
    struct group *all = world_group_all(flight->session->world);
    if (group_size(all) == 1)
        return;
    int64_t smallest = INT64_MAX;
    for (int i = 0; i < CLOCK_ROUNDS; i++) {
        comm_barrier(all, "clocks");
        int64_t now = (int64_t)(clock_wall_seconds() * 1e6), values[2] = {now, -now};
        comm_max_i64(all, values, 2, "clocks");
        int64_t spread = values[0] + values[1];
        smallest = spread < smallest ? spread : smallest;
    }
    int64_t most = flight->options->max_skew_ms;
    if (!flight->is_speaker)
        return;
    if (smallest > most * 1000)
        preflight_say(flight, VERDICT_BAD, "clocks",
                      "the ranks' clocks differ by %.1f ms, %" PRId64 " are allowed; start chrony on all machines",
                      (double)smallest * 1e-3, most);
    else
        preflight_say(flight, VERDICT_OK, "clocks", "within %.3f ms of each other", (double)smallest * 1e-3);
}

void preflight_bandwidth(struct preflight *flight) {
    const struct preflight_options *options = flight->options;
    struct session *session = flight->session;
    if (session->place.size == 1) {
        if (options->min_busbw > 0)
            preflight_say(flight, VERDICT_BAD, "network",
                          "cannot check for %.2f GB/s with one rank; start several (srun, mpirun, --nproc)",
                          options->min_busbw);
        else if (options->machine)
            preflight_say(flight, VERDICT_NOTE, "network",
                          "not measured: that takes several ranks; start one per GPU (srun, mpirun, --nproc)");
        return;
    }
    double seconds;
    if (bench_all_reduce(session, options->bytes, &seconds) < 0) {
        preflight_say_error(flight, "network");
        return;
    }
    if (!flight->is_speaker)
        return;
    double n = session->place.size, speed = (double)options->bytes / seconds * 2 * (n - 1) / n * 1e-9;
    double known = options->machine ? transport_expected_busbw(options->machine, machines_of(session)) : 0;
    double least = options->min_busbw > 0 ? options->min_busbw : known * options->min_fraction;
    if (speed < least)
        preflight_say(flight, VERDICT_BAD, "network",
                      "all-reduce of %.1f MB over %d ranks (%s): %.2f GB/s on the bus, %.2f are asked for; `bevatron "
                      "bench collectives` tells more",
                      (double)options->bytes * 1e-6, session->place.size, world_backend(session->world), speed, least);
    else
        preflight_say(flight, VERDICT_OK, "network", "all-reduce of %.1f MB over %d ranks (%s): %.2f GB/s on the bus%s",
                      (double)options->bytes * 1e-6, session->place.size, world_backend(session->world), speed,
                      least > 0 ? "" : "; no figure to hold it against");
}

// EFA on this machine according to fi_info: -1 if there is no fi_info.
static int count_efa(void) {
    const char *const words[] = {"fi_info", "-p", "efa", NULL};
    OWNED_BY(process_result_free) struct process_result result = {0};
    if (process_run(words, NULL, &result) < 0) {
        error_clear();
        return -1;
    }
    return result.exit_code == 0 ? transport_efa_interfaces(buffer_string(&result.output)) : 0;
}

static void say_interfaces(struct preflight *flight) {
    const char *name = flight->options->machine;
    const struct machine *machine = name ? machine_look_up(name) : NULL;
    int count = count_efa(), expected = machine ? machine->efa : 0;
    if (count < 0)
        preflight_say(flight, VERDICT_BAD, "efa",
                      "no program fi_info: libfabric with EFA is not installed (AWS's EFA "
                      "installer), or not on PATH (/opt/amazon/efa/bin)");
    else if (count == 0)
        preflight_say(flight, VERDICT_BAD, "efa",
                      "fi_info sees no EFA interface: enable EFA for the machine, and give "
                      "containers /dev/infiniband");
    else if (expected > 0 && count != expected)
        preflight_say(flight, VERDICT_BAD, "efa", "%d interfaces, a %s has %d", count, name, expected);
    else
        preflight_say(flight, VERDICT_OK, "efa", "%d interfaces", count);
}

static void say_ports(struct preflight *flight) {
    int count = transport_ib_ports("/sys/class/infiniband");
    if (count == 0)
        preflight_say(
            flight, VERDICT_BAD, "ib",
            "no InfiniBand port is up (/sys/class/infiniband): load the card's driver, look at its cable with "
            "`ibstat`, and give containers /dev/infiniband");
    else
        preflight_say(flight, VERDICT_OK, "ib", "%d ports up", count);
}

// The network named in this rank's log, or in the user's log file.
static enum transport network_of(struct preflight *flight, const char *path) {
    OWNED_BY(buffer_free) struct buffer log = {0};
    enum transport found = TRANSPORT_UNKNOWN;
    if (file_read_all(path, LONGEST_LOG, &log) == 0)
        found = transport_of_log(buffer_string(&log));
    else if (path == flight->options->nccl_log)
        preflight_say_error(flight, "transport");
    else
        error_clear();
    return found;
}

static void judge(struct preflight *flight, enum transport found, enum transport wanted) {
    if (found == wanted)
        preflight_say(flight, VERDICT_OK, "transport", "NCCL uses %s", transport_name(found));
    else if (wanted == TRANSPORT_UNKNOWN)
        preflight_say(flight, found == TRANSPORT_TCP ? VERDICT_NOTE : VERDICT_OK, "transport", "NCCL uses %s",
                      transport_name(found));
    else if (found == TRANSPORT_UNKNOWN)
        preflight_say(flight, VERDICT_BAD, "transport", "%s is required, but NCCL does not say that it uses it",
                      transport_name(wanted));
    else
        preflight_say(flight, VERDICT_BAD, "transport", "%s is required, but NCCL uses %s%s", transport_name(wanted),
                      transport_name(found),
                      wanted == TRANSPORT_EFA ? ": is aws-ofi-nccl's folder in LD_LIBRARY_PATH, and libfabric's?" : "");
}

void preflight_transport(struct preflight *flight) {
    const struct preflight_options *options = flight->options;
    const struct machine *machine = options->machine ? machine_look_up(options->machine) : NULL;
    const char *name = options->transport ? options->transport : machine && machine->efa > 0 ? "efa" : "any";
    enum transport wanted = strcmp(name, "efa") == 0  ? TRANSPORT_EFA
                            : strcmp(name, "ib") == 0 ? TRANSPORT_IB
                                                      : TRANSPORT_UNKNOWN;
    bool is_nccl = strcmp(world_backend(flight->session->world), "nccl") == 0;
    if (wanted == TRANSPORT_EFA && flight->is_first_here)
        say_interfaces(flight);
    if (wanted == TRANSPORT_IB && flight->is_first_here)
        say_ports(flight);
    if (options->nccl_log) {
        if (flight->is_speaker)
            judge(flight, network_of(flight, options->nccl_log), wanted);
    } else if (is_nccl && machines_of(flight->session) > 1) {
        if (flight->is_first_here)
            judge(flight, network_of(flight, flight->nccl_log), wanted);
    } else if (wanted != TRANSPORT_UNKNOWN && machines_of(flight->session) > 1 && flight->is_speaker) {
        preflight_say(flight, VERDICT_BAD, "transport", "%s is required, but these ranks talk over %s, not NCCL", name,
                      world_backend(flight->session->world));
    } else if (wanted != TRANSPORT_UNKNOWN && flight->is_speaker) {
        preflight_say(flight, VERDICT_NOTE, "transport",
                      "one machine does not use its network: whether NCCL takes %s shows on two or more (srun, mpirun)",
                      name);
    }
}

// ---- datasets ----

void preflight_tokenizer(struct preflight *flight) {
    struct config *config = &flight->options->config;
    struct tokenizer *tokenizer = NULL;
    bool has_tokenizer = config->data.tokenizer_type || config->data.vocab_file || config->data.tokenizer_model;
    if (!has_tokenizer && (!flight->has_model || config->data.vocab_size == 0))
        return;
    if (datasets_open_tokenizer(&tokenizer, config) < 0)
        preflight_say_error(flight, "tokenizer");
    else if (tokenizer) {
        flight->vocab_size = tokenizer_vocab_size(tokenizer);
        preflight_say(flight, VERDICT_OK, "tokenizer", "%s, %" PRId64 " ids", config->data.tokenizer_type,
                      flight->vocab_size);
    }
    tokenizer_free(tokenizer);
}

// The bound that train checks tokens against: ids from padding alone are invalid.
static int64_t vocab_size_of(const struct preflight *flight) {
    const struct config *config = &flight->options->config;
    return flight->vocab_size > 0        ? flight->vocab_size
           : config->data.vocab_size > 0 ? config->data.vocab_size
                                         : config->model.padded_vocab_size;
}

// Checks that one dataset is whole, and with --deep every token within the vocabulary.
static void look_into(struct preflight *flight, const char *prefix) {
    const struct preflight_options *options = flight->options;
    if (text_source_exists(prefix)) {
        OWNED_BY(text_source_close) struct text_source source = {0};
        if (text_source_list(&source, prefix) < 0)
            preflight_say_error(flight, "data");
        else
            preflight_say(flight, VERDICT_OK, "data", "%s: text, which train tokenizes first; files: %" PRId64, prefix,
                          source.files.count);
        return;
    }
    struct index_reader *reader = NULL;
    int status = index_open(&reader, prefix);
    if (status == 0)
        status = index_verify(reader);
    if (status == 0 && options->deep)
        status = index_verify_tokens(reader, vocab_size_of(flight));
    if (status < 0)
        preflight_say_error(flight, "data");
    else
        preflight_say(flight, VERDICT_OK, "data", "%s: %" PRId64 " documents, %" PRId64 " tokens%s", prefix,
                      reader->document_count, reader->token_count, options->deep ? ", all read" : "");
    index_close(reader);
}

static void look_into_group(struct preflight *flight, enum split which, int64_t group) {
    OWNED_BY(data_paths_free) struct data_paths paths = {0};
    OWNED_BY(blend_list_free) struct blend_list list = {0};
    if (data_paths_find_group(&paths, &flight->options->config, which, group) < 0 ||
        (paths.items.count > 0 && blend_list_parse(&list, paths.items.items, paths.items.count, paths.flag) < 0))
        preflight_say_error(flight, "data");
    for (int64_t i = 0; i < list.count; i++)
        look_into(flight, list.prefixes[i]);
}

static void look_into_split(struct preflight *flight, enum split which) {
    int64_t groups;
    if (data_paths_count_groups(&groups, &flight->options->config, which) < 0)
        preflight_say_error(flight, "data");
    else
        for (int64_t i = 0; i < groups; i++)
            look_into_group(flight, which, i);
}

static bool uses_addresses(const struct config *config) {
    bool uses = config->run.save_to || (config->run.load && url_is_remote(config->run.load)) ||
                (config->run.pretrained_checkpoint && url_is_remote(config->run.pretrained_checkpoint));
    for (int which = SPLIT_TRAIN; which < SPLIT_COUNT; which++) {
        OWNED_BY(data_paths_free) struct data_paths paths = {0};
        if (data_paths_find(&paths, config, (enum split)which) < 0)
            error_clear();
        for (int64_t i = 0; i < paths.items.count; i++)
            uses = uses || url_is_remote(paths.items.items[i]);
    }
    return uses;
}

void preflight_addresses(struct preflight *flight) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    if (!uses_addresses(&flight->options->config))
        return;
    if (!http_library()) {
        (void)http_load();
        preflight_say_error(flight, "libraries");
        return;
    }
    bool is_found = library_describe(http_library(), &text);
    preflight_say(flight, is_found ? VERDICT_OK : VERDICT_BAD, "libraries", "%s %s", http_library()->name,
                  buffer_string(&text));
}

void preflight_data(struct preflight *flight) {
    const struct config *config = &flight->options->config;
    if (config->data.mock_data)
        return;
    // One --data-path serves all splits.
    bool is_shared = config->data.data_path.count > 0 || config->data.data_args_path;
    for (int which = SPLIT_TRAIN; which < (is_shared ? SPLIT_VALID : SPLIT_COUNT); which++)
        look_into_split(flight, (enum split)which);
}
