// The parts of `bevatron dataset`. Each takes its own arguments (argv[0] is its name) and returns an exit code.
#ifndef CLI_DATASET_H
#define CLI_DATASET_H

int dataset_inspect(int argc, char **argv);
int dataset_verify(int argc, char **argv);
int dataset_peek(int argc, char **argv);
int dataset_merge(int argc, char **argv);
int dataset_import(int argc, char **argv);

#endif
