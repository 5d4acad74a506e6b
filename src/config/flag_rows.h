// Rows of flag tables, one macro for each type of value. A file with such a table names the struct of the values,
//
//     #define FLAG_STRUCT struct peek_options
//
// and the macros find each member's offset there. The last argument of a row is its help text, which further members of
// struct flag may follow. Included by the files that hold tables, and by no header.
#ifndef CONFIG_FLAG_ROWS_H
#define CONFIG_FLAG_ROWS_H

#include "config/flag.h"

#define OFFSET(member) offsetof(FLAG_STRUCT, member)
#define ROW(flag, kind, member) .name = flag, .type = kind, .offset = OFFSET(member)

// A heading of --help; the value's member, the default as typed (NULL for none), the range (0, 0 for none), the value's
// name in --help (NULL for its type's name).
#define GROUP(title)                                                                                                   \
    { .name = title, .type = FLAG_GROUP }
#define SWITCH(flag, member, ...)                                                                                      \
    { ROW(flag, FLAG_BOOL, member), .help = __VA_ARGS__ }
#define INT(flag, member, start, low, high, ...)                                                                       \
    { ROW(flag, FLAG_INT, member), .initial = start, .minimum = low, .maximum = high, .help = __VA_ARGS__ }
#define SIZE(flag, member, start, low, high, ...)                                                                      \
    {                                                                                                                  \
        ROW(flag, FLAG_INT, member), .is_size = true, .initial = start, .minimum = low, .maximum = high,               \
                                     .help = __VA_ARGS__                                                               \
    }
#define REAL(flag, member, start, low, high, ...)                                                                      \
    { ROW(flag, FLAG_DOUBLE, member), .initial = start, .minimum = low, .maximum = high, .help = __VA_ARGS__ }
#define TEXT(flag, member, start, value, ...)                                                                          \
    { ROW(flag, FLAG_STRING, member), .initial = start, .value_name = value, .help = __VA_ARGS__ }
#define LIST(flag, member, value, ...)                                                                                 \
    { ROW(flag, FLAG_STRING_LIST, member), .value_name = value, .help = __VA_ARGS__ }
#define CHOICE(flag, member, start, names, ...)                                                                        \
    { ROW(flag, FLAG_CHOICE, member), .initial = start, .choices = names, .help = __VA_ARGS__ }
#define ENUM(flag, member, start, names, ...)                                                                          \
    { ROW(flag, FLAG_ENUM, member), .initial = start, .values = names, .help = __VA_ARGS__ }
// Names and values of an enum: VALUES({"pre", NORMS_BEFORE}, {"post", NORMS_AFTER}).
#define VALUES(...) ((const struct flag_value[]){__VA_ARGS__, {0}})
#define ONE_OF(...) ((const char *const[]){__VA_ARGS__, NULL})

#define ADVANCED .advanced = true
#define NOT_YET .advanced = true, .not_yet = true

// The members of a struct flag_table over an array of rows; the struct has a member `given`.
#define FLAG_TABLE(array) .rows = {array, sizeof array / sizeof array[0], NULL}, .given = OFFSET(given)

#endif
