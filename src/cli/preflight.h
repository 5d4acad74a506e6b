// The parts of `bevatron preflight`. Each checks one thing and reports it in a line on stdout and, if it is bad, in the
// exit code. None of them stops the others: one run shows everything that is wrong.
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
    bool is_first_here;  // the rank that speaks for its machine
    bool is_speaker;     // the rank that speaks for all
    bool has_model;      // the flags describe a run that train would accept
    int64_t vocab_size;  // of the tokenizer; 0 if there is none
    char *nccl_log;      // where this rank's NCCL logs what it does; NULL for nowhere
    enum exit_code worst;
};

void preflight_say(struct preflight *flight, enum verdict verdict, const char *check, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// The current error as a verdict: bad, keeping its exit code if that says more than "error".
void preflight_say_error(struct preflight *flight, const char *check);

// On every machine, without other ranks.
void preflight_gpus(struct preflight *flight);
void preflight_limits(struct preflight *flight);
void preflight_addresses(struct preflight *flight);  // what s3:// and https:// need, if the run uses them
void preflight_files(struct preflight *flight);
// By one rank: what the run reads, and whether its checkpoints fit; the tokenizer first, which says how large they are.
void preflight_tokenizer(struct preflight *flight);
void preflight_room(struct preflight *flight);
void preflight_data(struct preflight *flight);
// By all ranks together, once the world is open.
void preflight_clocks(struct preflight *flight);
void preflight_bandwidth(struct preflight *flight);
void preflight_transport(struct preflight *flight);

#endif
