// The parts of `bevatron checkpoint`. Each takes its own arguments (argv[0] is its name) and returns an exit code.
#ifndef CLI_CHECKPOINT_H
#define CLI_CHECKPOINT_H

int checkpoint_inspect(int argc, char **argv);
int checkpoint_prove(int argc, char **argv);
int checkpoint_convert(int argc, char **argv);
int checkpoint_reshard(int argc, char **argv);
int checkpoint_average(int argc, char **argv);

// A text from an untrusted file, with '?' for control characters; to be freed.
char *checkpoint_printable(const char *text);

#endif
