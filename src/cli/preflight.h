// The parts of `bevatron preflight`. Each checks one thing and reports it in a line on stdout and, if it is bad, in the
// exit code. A failed check does not stop the others: one run shows all faults.
#ifndef CLI_PREFLIGHT_H
#define CLI_PREFLIGHT_H

#include "cli/session.h"

enum verdict { VERDICT_OK, VERDICT_NOTE, VERDICT_BAD };

struct preflight_options {
    struct flag_given given;
    struct config config;
    char *machine, *transport, *nccl_log, *path;
    int64_t gpus, nodes, bytes, file_mib, max_skew_ms, min_write_mb, min_read_mb, nproc;
    double min_busbw, min_fraction;
    bool deep, json;
};

struct preflight {
    struct preflight_options *options;
    struct session *session;
    char host[64];
    bool is_first_here;  // reports for its machine
    bool is_speaker;     // reports for all ranks
    bool has_model;      // the flags describe a run that train would accept
    int64_t vocab_size;  // of the tokenizer; 0 if there is none
    char *nccl_log;      // file of this rank's NCCL log; NULL for none
    enum exit_code worst;
};

void preflight_say(struct preflight *flight, enum verdict verdict, const char *check, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Reports the current error as bad, keeping its exit code if that is more specific than "error".
void preflight_say_error(struct preflight *flight, const char *check);

// Checks of every machine, without other ranks.
void preflight_gpus(struct preflight *flight);
void preflight_limits(struct preflight *flight);
void preflight_addresses(struct preflight *flight);  // requirements of s3:// and https://, if the run uses them
void preflight_files(struct preflight *flight);
// Checks by one rank: the run's data, and room for its checkpoints; the tokenizer first, which determines their size.
void preflight_tokenizer(struct preflight *flight);
void preflight_room(struct preflight *flight);
void preflight_data(struct preflight *flight);
// Checks by all ranks together, once the world is open.
void preflight_clocks(struct preflight *flight);
void preflight_bandwidth(struct preflight *flight);
void preflight_transport(struct preflight *flight);

#endif
