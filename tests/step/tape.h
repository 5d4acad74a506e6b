// A CPU that makes recordings, for tests of recording and replay: while it records, operations are written on a tape
// instead of being run. Everything else is the CPU's.
#ifndef TESTS_STEP_TAPE_H
#define TESTS_STEP_TAPE_H

#include "base/memory.h"
#include "ops/device.h"
#include "test.h"

union tape_operation {
#define X(name_) struct op_##name_ name_;
    OPERATIONS(X)
#undef X
};

struct tape_entry {
    void (*play)(struct device *device, const union tape_operation *operation);
    union tape_operation operation;
    void *memory;  // of a zero
    size_t bytes;
};

struct recording {
    struct tape_entry *entries;
    int64_t count, capacity;
};

// State shared by the table's functions; a test has one device at a time.
struct tape {
    struct ops table;
    const struct ops *real;
    struct recording *now;               // NULL: not recording
    int64_t recorded, replayed, called;  // called: operations run directly
};
static struct tape tape;

static inline struct tape_entry *tape_add(void) {
    struct recording *r = tape.now;
    if (r->count == r->capacity) {
        r->capacity = r->capacity ? 2 * r->capacity : 256;
        r->entries = memory_realloc(r->entries, sizeof *r->entries * (size_t)r->capacity);
    }
    r->entries[r->count] = (struct tape_entry){0};
    return &r->entries[r->count++];
}

#define X(name_)                                                                                                       \
    static inline void tape_play_##name_(struct device *device, const union tape_operation *operation) {               \
        tape.real->name_(device, &operation->name_);                                                                   \
    }                                                                                                                  \
    static inline void tape_##name_(struct device *device, const struct op_##name_ *op) {                              \
        if (!tape.now) {                                                                                               \
            tape.called++;                                                                                             \
            tape.real->name_(device, op);                                                                              \
            return;                                                                                                    \
        }                                                                                                              \
        struct tape_entry *entry = tape_add();                                                                         \
        entry->play = tape_play_##name_;                                                                               \
        entry->operation.name_ = *op;                                                                                  \
    }
OPERATIONS(X)
#undef X

static inline void tape_zero(struct device *device, void *memory, size_t bytes, enum stream stream) {
    if (!tape.now) {
        tape.called++;
        tape.real->zero(device, memory, bytes, stream);
        return;
    }
    struct tape_entry *entry = tape_add();
    entry->memory = memory;
    entry->bytes = bytes;
}

static inline void tape_copy_in(struct device *device, void *to_device, const void *from_host, size_t bytes,
                                enum stream stream) {
    EXPECT(!tape.now);
    tape.real->copy_in(device, to_device, from_host, bytes, stream);
}

static inline void tape_copy_out(struct device *device, void *to_host, const void *from_device, size_t bytes,
                                 enum stream stream) {
    EXPECT(!tape.now);
    tape.real->copy_out(device, to_host, from_device, bytes, stream);
}

static inline void tape_record_begin(struct device *device) {
    (void)device;
    EXPECT(!tape.now);
    tape.now = memory_alloc(sizeof *tape.now);
}

static inline struct recording *tape_record_end(struct device *device) {
    (void)device;
    struct recording *recording = tape.now;
    tape.now = NULL;
    tape.recorded++;
    return recording;
}

static inline void tape_replay(struct device *device, struct recording *recording) {
    EXPECT(!tape.now && recording->count > 0);
    tape.replayed++;
    for (int64_t i = 0; i < recording->count; i++) {
        struct tape_entry *entry = &recording->entries[i];
        if (entry->play)
            entry->play(device, &entry->operation);
        else
            tape.real->zero(device, entry->memory, entry->bytes, STREAM_COMPUTE);
    }
}

static inline void tape_recording_free(struct device *device, struct recording *recording) {
    (void)device;
    free(recording->entries);
    free(recording);
}

// Turns an open CPU into one that records.
static inline void tape_put_on(struct device *device) {
    tape = (struct tape){.table = *device->ops, .real = device->ops};
#define X(name_) tape.table.name_ = tape_##name_;
    OPERATIONS(X)
#undef X
    tape.table.zero = tape_zero;
    tape.table.copy_in = tape_copy_in;
    tape.table.copy_out = tape_copy_out;
    tape.table.record_begin = tape_record_begin;
    tape.table.record_end = tape_record_end;
    tape.table.replay = tape_replay;
    tape.table.recording_free = tape_recording_free;
    device->ops = &tape.table;
}

#endif
