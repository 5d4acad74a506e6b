// The parts of `bevatron tokenizer`.
#ifndef CLI_TOKENIZER_COMMANDS_H
#define CLI_TOKENIZER_COMMANDS_H

int tokenizer_train_main(int argc, char **argv);
int tokenizer_encode_main(int argc, char **argv);
int tokenizer_decode_main(int argc, char **argv);
int tokenizer_convert_main(int argc, char **argv);
int tokenizer_inspect_main(int argc, char **argv);
int tokenizer_dictionary_main(int argc, char **argv);

#endif
