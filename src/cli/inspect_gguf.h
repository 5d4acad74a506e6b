// A GGUF file for checkpoint inspect.
#ifndef CLI_INSPECT_GGUF_H
#define CLI_INSPECT_GGUF_H

#include "base/buffer.h"
#include "base/json.h"

// Appends lines to `text` and members to the open JSON object.
int inspect_gguf(const char *path, bool lists_tensors, struct buffer *text, struct json_writer *json);

#endif
