// The commands of the program, as data: what each is called, its flags and what it runs. command.c lists them
// all. A command prints its results to stdout and its error, once, to stderr.
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "config/flag.h"

struct session;

// --endpoint-url of the commands that read text; remote_set_endpoint takes its value.
#define ENDPOINT_URL_HELP                                                                                              \
    "S3 service to use for s3:// in place of AWS, e.g. http://minio:9000. Default: AWS_ENDPOINT_URL_S3, "              \
    "AWS_ENDPOINT_URL"

// Prints the thread's error to stderr and returns its exit code: `return command_failed();`
int command_failed(void);

// A command that parses its flags and runs.
struct command {
    struct flag_command flags;  // without its tables
    // Its own table; the other place takes the table that it shares with other commands, if any: `shared` is given
    // `shared_at`, the offset of the shared struct in the options, and `offered`, unless 0, limits its rows.
    struct flag_table tables[2];
    struct flag_table (*shared)(size_t base);
    size_t shared_at;
    unsigned offered;
    size_t options_bytes;
    // One of these gets the parsed options. They return the exit code, or -1 with an error. `run_each` is called once
    // for each positional argument, even if it failed for others; the exit code is that of the first error. `run_ranks`
    // gets a session that was started; it opens the session itself, once the configuration is complete.
    int (*run)(void *options);
    int (*run_each)(const void *options, const char *item);
    int (*run_ranks)(void *options, struct session *session);
    const char *phase;   // shown meanwhile ("converting the model"), for a command without progress of its own
    bool is_in_the_way;  // not on a terminal, which shows the command's input or output
};
int command_run(const struct command *command, int argc, char **argv);
// Parses the flags of a command and runs nothing, for callers that start it elsewhere: 0, FLAGS_HELP or -1. flag_remedy
// is as in struct flag_command. `read`, unless NULL, gets the options before they are freed.
struct command_reader {
    const char *flag_remedy;
    void (*read)(void *context, const struct flag_command *flags, const void *options);
    void *context;
};
int command_check(const struct command *command, const struct command_reader *reader, int argc, char **argv);
// The flags of a command with their tables, which are written to `tables`.
struct flag_command command_flags(const struct command *command, struct flag_table tables[2]);

// A row of a list of commands: a command, a group of commands, or a function that takes the arguments (argv[0] is the
// command's name) and returns the exit code. A row with none of them is a heading, or a topic of `help`.
struct command_part {
    const char *name, *summary;
    const struct command *command;
    const struct command_group *group;
    int (*main)(int argc, char **argv);
};
struct command_group {
    const char *name;                  // "cluster"
    const char *summary;               // a sentence, for its manual page
    const char *usage;                 // text after the name: "COMMAND [flags]"
    const char *ending;                // end of the usage text
    const struct command_part *parts;  // the last has no name
};
// All commands, in the order of `bevatron help`; the last has no name.
extern const struct command_part command_table[];
const struct command_part *command_find(const char *name);  // NULL if there is none
// What to use in place of a command of another program; NULL if that is not known. `group` is "" for the first word.
const char *command_remedy(const char *group, const char *name);
bool command_is_heading(const struct command_part *part);
// Topics of `help` besides commands; the last has no name.
extern const struct command_part help_topics[];
int command_part_run(const struct command_part *part, int argc, char **argv);
// The part of that name; else NULL, with a message that suggests one.
const struct command_part *command_group_find(const struct command_group *group, const char *name);

extern const struct command cmd_bench_matmul, cmd_bench_step;
extern const struct command cmd_board;
extern const struct command cmd_checkpoint_average, cmd_checkpoint_convert, cmd_checkpoint_inspect;
extern const struct command cmd_checkpoint_reshard, cmd_checkpoint_verify;
extern const struct command cmd_cluster_build_image, cmd_cluster_convert, cmd_cluster_create, cmd_cluster_delete;
extern const struct command cmd_cluster_export, cmd_cluster_list, cmd_cluster_logs, cmd_cluster_push_image;
extern const struct command cmd_cluster_render, cmd_cluster_ssh, cmd_cluster_start, cmd_cluster_status;
extern const struct command cmd_cluster_stop, cmd_cluster_update, cmd_cluster_volume;
extern const struct command cmd_dataset_import, cmd_dataset_inspect, cmd_dataset_merge, cmd_dataset_peek;
extern const struct command cmd_dataset_verify;
extern const struct command cmd_evaluate, cmd_extract_wiki, cmd_generate, cmd_launch_keeper, cmd_launch_progress;
extern const struct command cmd_migrate, cmd_plan, cmd_preprocess;
extern const struct command cmd_tokenizer_convert, cmd_tokenizer_decode, cmd_tokenizer_dictionary;
extern const struct command cmd_tokenizer_encode, cmd_tokenizer_inspect, cmd_tokenizer_train;
int cmd_bench_collectives(int argc, char **argv);
int cmd_cluster_prepare(int argc, char **argv);
int cmd_help(int argc, char **argv);
int cmd_launch_decide(int argc, char **argv);
int cmd_launch_kubernetes(int argc, char **argv);
int cmd_launch_local(int argc, char **argv);
int cmd_launch_slurm(int argc, char **argv);
int cmd_preflight(int argc, char **argv);
int cmd_train(int argc, char **argv);
int cmd_version(int argc, char **argv);

// Flags of commands that have a function of their own, for command_check.
extern const struct command bench_collectives_flags, preflight_flags;

// The file that records the progress of a preprocessing with these options, and from which the same command continues;
// to be freed. NULL if it would start over.
char *preprocess_journal(const void *options);

// Time in seconds of one all-reduce of this many bytes over all ranks, on the slowest rank. Every rank calls.
int bench_all_reduce(struct session *session, int64_t bytes, double *seconds);

// A text from an untrusted file, with '?' for control characters; to be freed.
char *checkpoint_printable(const char *text);

// The result of a verification as JSON: {"KIND": NAME, "is_whole": …, "error": …}; `error` is NULL for none.
void command_print_verdict(const char *kind, const char *name, const char *error);

#endif
