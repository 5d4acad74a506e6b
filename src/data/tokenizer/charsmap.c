// Walks darts-clone's double array. A unit holds the byte that leads to it (bits 0 to 7; bit 31 marks a value instead),
// whether a string ends at it (bit 8), and the exclusive-or distance to its children (bits 10 up, times 256 if bit 9 is
// set). The value of a string is in the unit at that distance.
#include "data/tokenizer/charsmap.h"
#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

// SentencePiece considers no more rules than this at one place. Real rules replace a few characters by a few others; a
// file with longer ones could make a short text long, or rescan it from every place.
enum { MAX_MATCHES = 32, LONGEST_KEY_BYTES = 256, LONGEST_REPLACEMENT_BYTES = 256 };

static uint32_t distance(uint32_t unit) {
    return (unit >> 10) << ((unit & (1u << 9)) >> 6);
}

int charsmap_read(struct charsmap *map, const void *blob, size_t length, const char *name) {
    *map = (struct charsmap){0};
    if (length == 0)
        return 0;
    uint32_t trie_bytes = 0;
    if (length > sizeof trie_bytes)
        memcpy(&trie_bytes, blob, sizeof trie_bytes);
    if (length <= sizeof trie_bytes || trie_bytes > length - sizeof trie_bytes || trie_bytes % sizeof *map->units != 0)
        return error_set(
            "%s: its normalization rules are damaged (%zu bytes, %u of them for the index); download the file again",
            name, length, (unsigned)trie_bytes);
    const char *bytes = blob;
    map->unit_count = trie_bytes / sizeof *map->units;
    map->units = memory_alloc(trie_bytes + sizeof *map->units);
    memcpy(map->units, bytes + sizeof trie_bytes, trie_bytes);
    map->replacement_bytes = length - sizeof trie_bytes - trie_bytes;
    map->replacements = memory_alloc(map->replacement_bytes + 1);
    memcpy(map->replacements, bytes + sizeof trie_bytes + trie_bytes, map->replacement_bytes);
    for (size_t at = 0, run; at < map->replacement_bytes; at += run + 1) {
        run = strlen(map->replacements + at);
        if (run <= LONGEST_REPLACEMENT_BYTES)
            continue;
        charsmap_free(map);
        return error_set(
            "%s: one of its normalization rules inserts %zu bytes, but %d are allowed; download the file again", name,
            run, LONGEST_REPLACEMENT_BYTES);
    }
    return 0;
}

void charsmap_free(struct charsmap *map) {
    free(map->units);
    free(map->replacements);
    *map = (struct charsmap){0};
}

// Moves *at along a byte; false if there is no such child.
static bool step(const struct charsmap *map, uint32_t *at, unsigned char byte) {
    uint32_t next = *at ^ distance(map->units[*at]) ^ byte;
    if (next >= map->unit_count || (map->units[next] & (1u << 31 | 0xFF)) != byte)
        return false;
    *at = next;
    return true;
}

static struct charsmap_match search(const struct charsmap *map, const char *text, size_t length, int most) {
    struct charsmap_match match = {0, "", 0};
    uint32_t at = 0, value = 0;
    int found = 0;
    length = length < LONGEST_KEY_BYTES ? length : LONGEST_KEY_BYTES;
    for (size_t i = 0; i < length && found < most && map->unit_count > 0; i++) {
        if (!step(map, &at, (unsigned char)text[i]))
            break;
        uint32_t leaf = at ^ distance(map->units[at]);
        if ((map->units[at] >> 8 & 1) && leaf < map->unit_count) {
            value = map->units[leaf] & ~(1u << 31);
            match.length = i + 1;
            found++;
        }
    }
    if (match.length > 0 && value < map->replacement_bytes) {
        match.replacement = map->replacements + value;
        match.replacement_length = strlen(match.replacement);
    }
    return match;
}

struct charsmap_match charsmap_longest(const struct charsmap *map, const char *text, size_t length) {
    return search(map, text, length, MAX_MATCHES);
}

struct charsmap_match charsmap_shortest(const struct charsmap *map, const char *text, size_t length) {
    return search(map, text, length, 1);
}

bool charsmap_has_pair(const struct charsmap *map, unsigned char first, unsigned char second) {
    uint32_t at = 0;
    return map->unit_count > 0 && step(map, &at, first) && step(map, &at, second);
}

// ---- all rules ----

enum { MOST_KEYS = 1 << 20, LONGEST_LISTED_KEY = 64 };

struct charsmap_walk {
    const struct charsmap *map;
    void (*visit)(void *context, const struct charsmap_rule *rule);
    void *context;
    char key[LONGEST_LISTED_KEY];
    int64_t steps;  // steps left: a damaged map may go in circles
};

static void walk_from(struct charsmap_walk *walk, uint32_t at, size_t length) {
    for (unsigned byte = 1; byte < 256 && length < LONGEST_LISTED_KEY && walk->steps > 0; byte++) {
        uint32_t next = at;
        if (!step(walk->map, &next, (unsigned char)byte))
            continue;
        walk->steps--;
        walk->key[length] = (char)(unsigned char)byte;
        uint32_t unit = walk->map->units[next], leaf = next ^ distance(unit);
        uint32_t value = leaf < walk->map->unit_count ? walk->map->units[leaf] & ~(1u << 31) : UINT32_MAX;
        if ((unit >> 8 & 1) && value < walk->map->replacement_bytes)
            walk->visit(walk->context, &(struct charsmap_rule){walk->key, walk->map->replacements + value, length + 1});
        walk_from(walk, next, length + 1);
    }
}

void charsmap_for_each(const struct charsmap *map, void (*visit)(void *context, const struct charsmap_rule *rule),
                       void *context) {
    struct charsmap_walk walk = {.map = map, .visit = visit, .context = context, .steps = MOST_KEYS};
    if (map->unit_count > 0)
        walk_from(&walk, 0, 0);
}
