// Names of models and datasets of Hugging Face, which are often given where a path is expected: hf://datasets/ORG/NAME,
// https://huggingface.co/ORG/NAME, ORG/NAME, gpt2. This program does not talk to the hub; it says which command does.
#ifndef NET_HUB_H
#define NET_HUB_H

enum hub_kind { HUB_MODEL, HUB_TOKENIZER, HUB_DATASET };

// The command that downloads this name into a folder with the same name; NULL if it is not one of these names, or is an
// existing file or folder. The caller frees it.
char *hub_command(const char *name, enum hub_kind kind);
// For a name that does not exist: adds the command to the current message, if there is one; returns -1.
int hub_suggest(const char *name, enum hub_kind kind);

#endif
