// Decodes a file that can be cut into pieces with several threads, and delivers the results in order. Helper threads
// take turns cutting the next piece off the file, and decode their pieces in parallel; a ring of places limits how far
// they run ahead of the reading thread. A codec defines what a piece is and how it is cut and decoded. The reading
// thread finishes pieces that the helpers leave undecoded.
#ifndef DATA_EXTRACT_PIECE_RING_H
#define DATA_EXTRACT_PIECE_RING_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A codec's functions; `codec` is its state, which helpers may change only in `cut`.
struct piece_codec {
    size_t piece_bytes;  // size of its struct for a piece; each place has one, zeroed at first and reused
    // Cuts the next piece, one call at a time: 1, 0 at the end of the file, -1 on error.
    int (*cut)(void *codec, void *piece);
    // Decodes a piece: 1, 0 if it is left to the reading thread, -1 on error.
    int (*decode)(const void *codec, void *piece, struct buffer *plain, void *scratch);
    void (*free_piece)(void *piece);  // frees what a piece points to; NULL if nothing
    // Memory that a helper keeps between pieces; NULL if it needs none.
    void *(*create_scratch)(void);
    void (*free_scratch)(void *scratch);
};

struct piece_ring_options {
    const struct piece_codec *functions;
    void *codec;       // must outlive the ring
    const char *name;  // of the file, for messages; must outlive the ring
    int threads;
    int64_t places;
};

// The oldest piece, which belongs to the reading thread until it is released.
struct piece_place {
    void *piece;
    struct buffer plain;
    size_t used;      // bytes of plain that were delivered
    bool is_decoded;  // plain is complete; the reading thread sets it after finishing a piece
};

struct piece_ring;

int piece_ring_open(struct piece_ring **ring, const struct piece_ring_options *options);
void piece_ring_close(struct piece_ring *ring);  // NULL is fine
// Waits for the oldest piece: 1, 0 at the end, -1 if cutting or decoding it failed.
int piece_ring_wait(struct piece_ring *ring, struct piece_place **oldest);
void piece_ring_release(struct piece_ring *ring);
// Delivers some of the oldest piece's plain bytes, and releases it after the last; returns their number, 0 if it has
// none.
size_t piece_ring_read(struct piece_ring *ring, void *out, size_t capacity);

#endif
