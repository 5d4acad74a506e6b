// Secrets in text that is shown or stored: errors, log lines, values of flags in checkpoints and metrics. This is the
// one list of what counts as a secret:
//   - user names and passwords in addresses: scheme://user:password@host, s3://KEY:SECRET@bucket
//   - values in an address's query whose names look like a signature, key or token
//   - paths of webhooks, which are passwords in all but name: https://hooks.slack.com/…
//   - values of Authorization and similar headers, up to the next quote
//   - tokens with a known form: hf_…, ghp_…, glpat-…, xoxb-…
// A flag whose whole value may be secret says so in its row (struct flag, is_secret).
#ifndef BASE_REDACT_H
#define BASE_REDACT_H

#include <stdbool.h>
#include <stddef.h>

// The mark in a secret's place. No value of a flag contains it unless it was redacted.
#define REDACT_MARK "[redacted]"

// Redacts in place, in an array of `size` bytes; text that no longer fits is cut. Allocates nothing. Idempotent.
void redact(char *text, size_t size);
// Whether this text was redacted.
bool redact_is_marked(const char *text);

#endif
