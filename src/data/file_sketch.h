// The size of a file and a hash of some of its bytes, for files that are too large to be read whole: enough to tell
// datasets apart, not to prove them equal. Or a hash of all of them, which takes longer.
#ifndef DATA_FILE_SKETCH_H
#define DATA_FILE_SKETCH_H

#include <stdbool.h>
#include <stdint.h>

struct file_sketch {
    int64_t bytes;  // -1 if the file cannot be read
    int64_t hash;
};

// Hashes all of a file of up to 32 MiB. Of a larger one, a piece of 4 KiB from each of `pieces` equal parts: those of
// the first and the last part begin and end the file, `seed` places the others.
struct file_sketch file_sketch_take(const char *path, int pieces, uint64_t seed);
// Hashes all of a file. A signal ends it as if the file could not be read.
struct file_sketch file_sketch_take_whole(const char *path);
// Whether file_sketch_take leaves out bytes of a file of this size.
bool file_sketch_is_partial(int64_t bytes);

#endif
