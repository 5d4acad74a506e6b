// Decodes a file that can be cut into pieces with several threads, and hands the results out in order. Helper threads
// take turns to cut the next piece off the file, and decode what they cut side by side; a ring of places keeps them
// from running further ahead of the reading thread than memory allows. What a piece is, and how it is cut and decoded,
// a codec says; what its helpers leave undecoded the reading thread finishes.
#ifndef DATA_EXTRACT_PIECE_RING_H
#define DATA_EXTRACT_PIECE_RING_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A codec's functions; `codec` is its own state, which the helpers must only read except in `cut`.
struct piece_codec {
    size_t piece_bytes;  // of its struct for a piece; one stands, zeroed at first, in each place and is used again
    // Cuts the next piece, one call at a time: 1, 0 at the end of the file, -1 on error.
    int (*cut)(void *codec, void *piece);
    // Decodes a piece: 1, 0 if it is left to the reading thread, -1 on error.
    int (*decode)(const void *codec, const void *piece, struct buffer *plain, void *scratch);
    void (*free_piece)(void *piece);  // what a piece points to; NULL if nothing
    // What one helper keeps between its pieces.
    void *(*create_scratch)(void);
    void (*free_scratch)(void *scratch);
};

struct piece_ring_options {
    const struct piece_codec *functions;
    void *codec;       // must stay until the ring is closed
    const char *name;  // of the file, for messages; must stay
    int threads;
    int64_t places;
};

// The oldest piece, which belongs to the reading thread until it is released.
struct piece_place {
    void *piece;
    struct buffer plain;
    size_t used;      // bytes of plain that are handed out
    bool is_decoded;  // plain is whole; who finishes a piece that was left sets it
};

struct piece_ring;

int piece_ring_open(struct piece_ring **ring, const struct piece_ring_options *options);
void piece_ring_close(struct piece_ring *ring);  // NULL is fine
// Waits for the oldest piece: 1, 0 at the end, -1 on an error of its cutting or decoding.
int piece_ring_wait(struct piece_ring *ring, struct piece_place **oldest);
void piece_ring_release(struct piece_ring *ring);
// Hands out some of the oldest piece's plain bytes, and releases it after the last: how many, 0 if it has none.
size_t piece_ring_read(struct piece_ring *ring, void *out, size_t capacity);

#endif
