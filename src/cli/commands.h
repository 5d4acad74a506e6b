// The subcommands. Each takes its own arguments (argv[0] is the command's name) and returns the program's exit code;
// it prints its results on stdout and its error, once, on stderr.
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

int cmd_bench(int argc, char **argv);
int cmd_board(int argc, char **argv);
int cmd_checkpoint(int argc, char **argv);
int cmd_dataset(int argc, char **argv);
int cmd_evaluate(int argc, char **argv);
int cmd_extract(int argc, char **argv);
int cmd_generate(int argc, char **argv);
int cmd_help(int argc, char **argv);
int cmd_launch(int argc, char **argv);
int cmd_preprocess(int argc, char **argv);
int cmd_tokenizer(int argc, char **argv);
int cmd_train(int argc, char **argv);
int cmd_version(int argc, char **argv);

// Prints the thread's error on stderr and returns its exit code: `return command_failed();`
int command_failed(void);

#endif
