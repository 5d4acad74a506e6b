// The subcommands. Each takes its own arguments (argv[0] is the command's name) and returns the program's exit code. It
// prints its results to stdout and its error, once, to stderr.
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "config/flag.h"

int cmd_bench(int argc, char **argv);
int cmd_board(int argc, char **argv);
int cmd_checkpoint(int argc, char **argv);
int cmd_cluster(int argc, char **argv);
int cmd_dataset(int argc, char **argv);
int cmd_evaluate(int argc, char **argv);
int cmd_extract(int argc, char **argv);
int cmd_generate(int argc, char **argv);
int cmd_help(int argc, char **argv);
int cmd_launch(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_preflight(int argc, char **argv);
int cmd_preprocess(int argc, char **argv);
int cmd_tokenizer(int argc, char **argv);
int cmd_train(int argc, char **argv);
int cmd_version(int argc, char **argv);

// --endpoint-url of the commands that read text; remote_set_endpoint takes its value.
#define ENDPOINT_URL_HELP                                                                                              \
    "S3 service to use for s3:// in place of AWS, e.g. http://minio:9000. Default: AWS_ENDPOINT_URL_S3, "              \
    "AWS_ENDPOINT_URL"

// Prints the thread's error to stderr and returns its exit code: `return command_failed();`
int command_failed(void);

// A command, or one below another, e.g. `bevatron cluster create`: the word after its name selects one.
struct command_part {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
};
// All commands, in the order of `bevatron help`; a row without a function is a heading.
extern const struct command_part command_table[];
extern const size_t command_table_count;
const struct command_part *command_find(const char *name);  // NULL if there is none
// What to use in place of a command of another program; NULL if that is not known. `group` is "" for the first word.
const char *command_remedy(const char *group, const char *name);
// Topics of `help` besides commands; the last has no name.
extern const struct command_part help_topics[];

struct command_group {
    const char *name;     // "cluster"
    const char *summary;  // a sentence, for its manual page
    const char *usage;    // text after the name: "COMMAND [flags]"
    const char *ending;   // end of the usage text
    const struct command_part *parts;
    size_t count;
};
// Runs the part that argv[1] names, or lists the parts.
int command_group_run(const struct command_group *group, int argc, char **argv);
// 0 if the group has a part of that name; else -1 with a message that suggests one.
int command_group_check(const struct command_group *group, const char *name);
extern const struct command_group bench_group, checkpoint_group, dataset_group, extract_group, tokenizer_group;

// A command that only parses its flags and runs: `run` gets the parsed options. If `run_each` is given instead, it is
// called once for each positional argument, even if it failed for others; the exit code is that of the first error.
// `phase` is shown meanwhile ("converting the model"), for a command without progress of its own.
struct command_call {
    const struct flag_command *flags;
    void *options;
    int (*run)(void *options);
    int (*run_each)(const void *options, const char *item);
    const char *phase;
};
int command_run(const struct command_call *call, int argc, char **argv);

// Parses the flags of a command and runs nothing, for callers that start it elsewhere: 0, FLAGS_HELP or -1.
int command_check(const struct flag_command *command, void *options, int argc, char **argv);
// Checks for single commands; flag_remedy is as in struct flag_command.
int bench_check(const char *flag_remedy, int argc, char **argv);
int evaluate_check(const char *flag_remedy, int argc, char **argv);
int generate_check(const char *flag_remedy, int argc, char **argv);
int preflight_check(const char *flag_remedy, int argc, char **argv);

// Receives the parsed flags of preprocess.
struct preprocess_reader {
    void (*read)(void *context, const struct flag_command *flags, const void *options);
    void *context;
    const char *flag_remedy;  // as in struct flag_command
};
// Parses and checks the flags of preprocess and passes them on, for callers that start it elsewhere. Returns 0,
// FLAGS_HELP or -1; *journal is as in launch_check.
int preprocess_check(const struct preprocess_reader *reader, int argc, char **argv, char **journal);

// The result of a verification as JSON: {"KIND": NAME, "is_whole": …, "error": …}; `error` is NULL for none.
void command_print_verdict(const char *kind, const char *name, const char *error);

#endif
