// The opcodes of a pickle, run on the machine of torch_machine.h. There is no recursion anywhere.
#include "formats/torch_file.h"

#include "base/error.h"
#include "formats/torch_machine.h"
#include <inttypes.h>
#include <string.h>

// Opcodes of protocols 1 to 5; no version of torch writes protocol 0, which is lines of text.
enum {
    OP_MARK = '(',
    OP_STOP = '.',
    OP_POP = '0',
    OP_POP_MARK = '1',
    OP_DUP = '2',
    OP_BINFLOAT = 'G',
    OP_BININT = 'J',
    OP_BININT1 = 'K',
    OP_BININT2 = 'M',
    OP_NONE = 'N',
    OP_BINPERSID = 'Q',
    OP_REDUCE = 'R',
    OP_BINSTRING = 'T',
    OP_SHORT_BINSTRING = 'U',
    OP_BINUNICODE = 'X',
    OP_BINBYTES = 'B',
    OP_SHORT_BINBYTES = 'C',
    OP_APPEND = 'a',
    OP_APPENDS = 'e',
    OP_BUILD = 'b',
    OP_GLOBAL = 'c',
    OP_DICT = 'd',
    OP_EMPTY_DICT = '}',
    OP_LIST = 'l',
    OP_EMPTY_LIST = ']',
    OP_TUPLE = 't',
    OP_EMPTY_TUPLE = ')',
    OP_SETITEM = 's',
    OP_SETITEMS = 'u',
    OP_BINGET = 'h',
    OP_LONG_BINGET = 'j',
    OP_BINPUT = 'q',
    OP_LONG_BINPUT = 'r',
    OP_PROTO = 0x80,
    OP_NEWOBJ = 0x81,
    OP_TUPLE1 = 0x85,
    OP_TUPLE2 = 0x86,
    OP_TUPLE3 = 0x87,
    OP_NEWTRUE = 0x88,
    OP_NEWFALSE = 0x89,
    OP_LONG1 = 0x8a,
    OP_LONG4 = 0x8b,
    OP_SHORT_BINUNICODE = 0x8c,
    OP_BINUNICODE8 = 0x8d,
    OP_BINBYTES8 = 0x8e,
    OP_EMPTY_SET = 0x8f,
    OP_ADDITEMS = 0x90,
    OP_FROZENSET = 0x91,
    OP_NEWOBJ_EX = 0x92,
    OP_STACK_GLOBAL = 0x93,
    OP_MEMOIZE = 0x94,
    OP_FRAME = 0x95,
    OP_BYTEARRAY8 = 0x96,
};
enum { MAX_PROTOCOL = 5, MAX_NAME_BYTES = 512 };

// ---- values ----

static int push_int(struct pickle_machine *m, int64_t number) {
    struct torch_value *value = torch_new(m->pickle, TORCH_INT);
    value->integer = number;
    return machine_push(m, value);
}

// Two's complement of any length. More than 64 bits is opaque: only the legacy container's magic number has them.
static int push_long(struct pickle_machine *m, size_t width) {
    const unsigned char *bytes = NULL;
    size_t length = 0;
    TRY(machine_take_text(m, width, &bytes, &length));
    if (length > sizeof(int64_t)) {
        struct torch_value *value = torch_new(m->pickle, TORCH_OPAQUE);
        value->name = "a number of more than 64 bits";
        return machine_push(m, value);
    }
    int64_t number = length > 0 && bytes[length - 1] >= 0x80 ? -1 : 0;
    memcpy(&number, bytes, length);
    return push_int(m, number);
}

static int push_float(struct pickle_machine *m) {
    const unsigned char *bytes = NULL;
    TRY(machine_take(m, 8, &bytes));
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++)  // the one big-endian thing in a pickle
        bits = bits << 8 | bytes[i];
    struct torch_value *value = torch_new(m->pickle, TORCH_FLOAT);
    memcpy(&value->real, &bits, sizeof bits);
    return machine_push(m, value);
}

static int push_text(struct pickle_machine *m, size_t width) {
    const unsigned char *bytes = NULL;
    size_t length = 0;
    TRY(machine_take_text(m, width, &bytes, &length));
    return machine_push(m, torch_new_text(m->pickle, bytes, length));
}

static int push_list(struct pickle_machine *m, struct torch_value **items, size_t count) {
    struct torch_value *list = torch_new(m->pickle, TORCH_LIST);
    for (size_t i = 0; i < count; i++)
        torch_append(m->pickle, list, items[i]);
    return machine_push(m, list);
}

static int push_last(struct pickle_machine *m, size_t count) {
    struct torch_value *items[3] = {0};
    for (size_t i = count; i-- > 0;)
        TRY(machine_pop(m, &items[i]));
    return push_list(m, items, count);
}

static int push_marked_list(struct pickle_machine *m) {
    struct torch_value **items = NULL;
    size_t count = 0;
    TRY(machine_pop_to_mark(m, &items, &count));
    return push_list(m, items, count);
}

static int append_marked(struct pickle_machine *m) {
    struct torch_value **items = NULL, *list = NULL;
    size_t count = 0;
    TRY(machine_pop_to_mark(m, &items, &count));
    TRY(machine_top(m, &list));
    if (list->type == TORCH_OPAQUE)
        return 0;
    if (list->type != TORCH_LIST)
        return error_set("at byte %zu it appends to a value that is not a list", m->at);
    for (size_t i = 0; i < count; i++)
        torch_append(m->pickle, list, items[i]);
    return 0;
}

static int set_items(struct pickle_machine *m, struct torch_value *dict, struct torch_value **items, size_t count) {
    if (dict->type == TORCH_OPAQUE)
        return 0;
    if (dict->type != TORCH_DICT || count % 2 != 0)
        return error_set("at byte %zu it sets a member of a value that is not a dict", m->at);
    for (size_t i = 0; i < count; i++)
        torch_append(m->pickle, dict, items[i]);
    return 0;
}

static int set_marked(struct pickle_machine *m) {
    struct torch_value **items = NULL, *dict = NULL;
    size_t count = 0;
    TRY(machine_pop_to_mark(m, &items, &count));
    TRY(machine_top(m, &dict));
    return set_items(m, dict, items, count);
}

static int push_marked_dict(struct pickle_machine *m) {
    struct torch_value **items = NULL, *dict = torch_new(m->pickle, TORCH_DICT);
    size_t count = 0;
    TRY(machine_pop_to_mark(m, &items, &count));
    TRY(set_items(m, dict, items, count));
    return machine_push(m, dict);
}

static int set_one(struct pickle_machine *m) {
    struct torch_value *items[2] = {0}, *dict = NULL;
    TRY(machine_pop(m, &items[1]));
    TRY(machine_pop(m, &items[0]));
    TRY(machine_top(m, &dict));
    return set_items(m, dict, items, 2);
}

// ---- names and what they make ----

static int push_name(struct pickle_machine *m, const char *module, const char *attribute) {
    struct torch_value *value = NULL;
    TRY(torch_make_name(m->pickle, module, attribute, &value));
    return machine_push(m, value);
}

static int push_global(struct pickle_machine *m) {
    char module[MAX_NAME_BYTES], attribute[MAX_NAME_BYTES];
    TRY(machine_take_line(m, module, sizeof module));
    TRY(machine_take_line(m, attribute, sizeof attribute));
    return push_name(m, module, attribute);
}

static int push_stack_global(struct pickle_machine *m) {
    struct torch_value *module = NULL, *attribute = NULL;
    TRY(machine_pop(m, &attribute));
    TRY(machine_pop(m, &module));
    if (module->type != TORCH_STRING || attribute->type != TORCH_STRING || module->length >= MAX_NAME_BYTES ||
        attribute->length >= MAX_NAME_BYTES || strlen(module->text) != module->length ||
        strlen(attribute->text) != attribute->length)
        return error_set("at byte %zu it uses a name that is not text", m->at);
    return push_name(m, module->text, attribute->text);
}

// REDUCE, NEWOBJ and NEWOBJ_EX in Python call the name with the arguments; here a value takes the place of the result.
static int push_made(struct pickle_machine *m, bool has_keywords) {
    struct torch_value *keywords = NULL, *arguments = NULL, *name = NULL, *value = NULL;
    if (has_keywords)
        TRY(machine_pop(m, &keywords));
    TRY(machine_pop(m, &arguments));
    TRY(machine_pop(m, &name));
    TRY(torch_make(m->pickle, name, arguments, &value));
    return machine_push(m, value);
}

static int build(struct pickle_machine *m) {
    struct torch_value *state = NULL, *object = NULL;
    TRY(machine_pop(m, &state));
    TRY(machine_top(m, &object));
    return torch_set_state(m->pickle, object, state);
}

static int push_storage(struct pickle_machine *m) {
    struct torch_value *id = NULL, *value = NULL;
    TRY(machine_pop(m, &id));
    TRY(torch_make_storage(m->pickle, id, &value));
    return machine_push(m, value);
}

// ---- the loop ----

static int check_protocol(struct pickle_machine *m) {
    uint64_t protocol = 0;
    TRY(machine_take_number(m, 1, &protocol));
    return protocol <= MAX_PROTOCOL ? 0
                                    : error_set("its pickle has protocol %" PRIu64 ", but %d is the newest supported",
                                                protocol, MAX_PROTOCOL);
}

static int push_boolean(struct pickle_machine *m, bool boolean) {
    struct torch_value *value = torch_new(m->pickle, TORCH_BOOL);
    value->boolean = boolean;
    return machine_push(m, value);
}

static int pop_one(struct pickle_machine *m) {
    struct torch_value *dropped = NULL;
    if (m->mark_count > 0 && m->depth == m->marks[m->mark_count - 1]) {  // POP also removes a mark
        m->mark_count--;
        return 0;
    }
    return machine_pop(m, &dropped);
}

static int append_one(struct pickle_machine *m) {
    struct torch_value *item = NULL;
    TRY(machine_pop(m, &item));
    TRY(machine_mark(m));
    TRY(machine_push(m, item));
    return append_marked(m);
}

static int duplicate(struct pickle_machine *m) {
    struct torch_value *value = NULL;
    TRY(machine_top(m, &value));
    return machine_push(m, value);
}

// Opcodes that take a number from the pickle.
static int run_numbered(struct pickle_machine *m, unsigned opcode) {
    static const struct {
        unsigned char opcode, width;
    } widths[] = {{OP_BININT, 4}, {OP_BININT1, 1}, {OP_BININT2, 2},     {OP_BINGET, 1}, {OP_LONG_BINGET, 4},
                  {OP_BINPUT, 1}, {OP_FRAME, 8},   {OP_LONG_BINPUT, 4}, {0, 0}};
    size_t row = 0;
    while (widths[row].opcode && widths[row].opcode != opcode)
        row++;
    if (!widths[row].opcode)
        return error_set("at byte %zu it has the opcode 0x%02x, which no checkpoint needs", m->at - 1, opcode);
    uint64_t number = 0;
    TRY(machine_take_number(m, widths[row].width, &number));
    switch (opcode) {
    case OP_BININT:
        return push_int(m, (int32_t)(uint32_t)number);
    case OP_BININT1:
    case OP_BININT2:
        return push_int(m, (int64_t)number);
    case OP_BINGET:
    case OP_LONG_BINGET:
        return machine_memo_get(m, number);
    case OP_BINPUT:
    case OP_LONG_BINPUT:
        return machine_memo_put(m, number);
    default:  // a frame's length, a hint for reading ahead
        return 0;
    }
}

static int run_text(struct pickle_machine *m, unsigned opcode) {
    switch (opcode) {
    case OP_SHORT_BINSTRING:
    case OP_SHORT_BINUNICODE:
    case OP_SHORT_BINBYTES:
        return push_text(m, 1);
    case OP_BINSTRING:
    case OP_BINUNICODE:
    case OP_BINBYTES:
        return push_text(m, 4);
    case OP_BINUNICODE8:
    case OP_BINBYTES8:
    case OP_BYTEARRAY8:
        return push_text(m, 8);
    case OP_LONG1:
        return push_long(m, 1);
    case OP_LONG4:
        return push_long(m, 4);
    case OP_BINFLOAT:
        return push_float(m);
    case OP_GLOBAL:
        return push_global(m);
    case OP_PROTO:
        return check_protocol(m);
    default:
        return run_numbered(m, opcode);
    }
}

static int run_container(struct pickle_machine *m, unsigned opcode) {
    switch (opcode) {
    case OP_EMPTY_DICT:
        return machine_push(m, torch_new(m->pickle, TORCH_DICT));
    case OP_EMPTY_LIST:
    case OP_EMPTY_TUPLE:
    case OP_EMPTY_SET:
        return push_list(m, NULL, 0);
    case OP_LIST:
    case OP_TUPLE:
    case OP_FROZENSET:
        return push_marked_list(m);
    case OP_DICT:
        return push_marked_dict(m);
    case OP_TUPLE1:
    case OP_TUPLE2:
    case OP_TUPLE3:
        return push_last(m, (size_t)opcode - OP_TUPLE1 + 1);
    case OP_APPEND:
        return append_one(m);
    case OP_APPENDS:
    case OP_ADDITEMS:
        return append_marked(m);
    case OP_SETITEM:
        return set_one(m);
    case OP_SETITEMS:
        return set_marked(m);
    default:
        return run_text(m, opcode);
    }
}

static int run_opcode(struct pickle_machine *m, unsigned opcode) {
    struct torch_value **items = NULL;
    size_t count = 0;
    switch (opcode) {
    case OP_MARK:
        return machine_mark(m);
    case OP_POP:
        return pop_one(m);
    case OP_POP_MARK:
        return machine_pop_to_mark(m, &items, &count);
    case OP_DUP:
        return duplicate(m);
    case OP_NONE:
        return machine_push(m, torch_new(m->pickle, TORCH_NONE));
    case OP_NEWTRUE:
    case OP_NEWFALSE:
        return push_boolean(m, opcode == OP_NEWTRUE);
    case OP_BINPERSID:
        return push_storage(m);
    case OP_REDUCE:
    case OP_NEWOBJ:
        return push_made(m, false);
    case OP_NEWOBJ_EX:
        return push_made(m, true);
    case OP_BUILD:
        return build(m);
    case OP_STACK_GLOBAL:
        return push_stack_global(m);
    case OP_MEMOIZE:
        return machine_memo_put(m, m->memo_count);
    default:
        return run_container(m, opcode);
    }
}

static int run_pickle(struct pickle_machine *m) {
    for (;;) {
        const unsigned char *opcode = NULL;
        TRY(machine_take(m, 1, &opcode));
        if (*opcode == OP_STOP)
            break;
        TRY(run_opcode(m, *opcode));
    }
    TRY(machine_pop(m, &m->pickle->root));
    m->pickle->used_bytes = m->at;
    return 0;
}

int torch_pickle_parse(struct torch_pickle *pickle, const unsigned char *bytes, size_t size) {
    *pickle = (struct torch_pickle){0};
    size_t limit = size < TORCH_MAX_PICKLE_BYTES ? size : TORCH_MAX_PICKLE_BYTES;
    struct pickle_machine machine = {.pickle = pickle, .bytes = bytes, .size = limit};
    int result = run_pickle(&machine);
    machine_free(&machine);
    if (result < 0)
        torch_pickle_free(pickle);
    return result;
}
