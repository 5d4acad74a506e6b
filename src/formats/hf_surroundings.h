// The files that come with a model of Hugging Face beside its weights: configurations, tokenizer, chat templates,
// licence, readme. They are copied with the model into a checkpoint of ours, from one to the next, and back.
#ifndef FORMATS_HF_SURROUNDINGS_H
#define FORMATS_HF_SURROUNDINGS_H

#include "base/buffer.h"
#include "store/checkpoint.h"

// Roles of these files in a checkpoint, see struct checkpoint_file. All begin with "huggingface".
#define HF_ROLE "huggingface"
// config.json of a model whose training continued with another tokenizer: its token ids are no longer valid.
#define HF_ROLE_WEIGHTS "huggingface-weights"
// A file of additional_chat_templates/.
#define HF_ROLE_TEMPLATE "huggingface-templates"
bool hf_surroundings_is_role(const char *role);

// Whether the folder has a config.json with a model_type; also if that file cannot be parsed.
bool hf_surroundings_is_folder(const char *path);
// Adds every file of the folder that is copied unchanged, in the order of their names. Appends the names of the others
// to `left`, with the reason: weights in other formats, folders, files that are too large.
void hf_surroundings_list(const char *folder, struct checkpoint_file_list *files, struct buffer *left);
// Adds a file of a tokenizer. If --tokenizer-model is a folder, its tokenizer.json gets the role, and its other files
// that belong to a tokenizer are added. If a tokenizer.json was named itself, only files beside it that name special
// tokens are added.
void hf_surroundings_add_tokenizer(struct checkpoint_file_list *files, const char *role, const char *path);
// Whether the file defines how text becomes tokens, or names tokens.
bool hf_surroundings_is_of_tokenizer(const char *path);
// Writes the files of these roles, except config.json, which is generated.
int hf_surroundings_write(const struct checkpoint_file_list *files, const char *folder);
// The path of config.json among them; NULL if there is none.
const char *hf_surroundings_config(const struct checkpoint_file_list *files);

#endif
