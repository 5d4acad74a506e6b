// An object as a stream of bytes in a pipe, so that any code that reads files can read it. Several requests for parts
// of it are in flight at the same time; the parts go into the pipe in order. Memory is bounded by the number of parts
// in flight. A server without ranges is read by one request from beginning to end.
#ifndef NET_STREAM_H
#define NET_STREAM_H

#include <stdint.h>

struct remote_stream;

// From byte `begin` on. The object must exist.
int remote_stream_open(struct remote_stream **stream, const char *url, uint64_t begin);
// The read end of the pipe; it belongs to the stream.
int remote_stream_descriptor(const struct remote_stream *stream);
// To be called at the end of the pipe: 0 if all bytes came, -1 with a message.
int remote_stream_check(struct remote_stream *stream);
// Ends the transfers; the reader of the pipe soon sees its end. To be called before waiting for threads that read the
// stream.
void remote_stream_stop(struct remote_stream *stream);   // NULL is fine
void remote_stream_close(struct remote_stream *stream);  // at any moment; NULL is fine

#endif
