// Contracts as data: a call made from the rows passes, each way to break a row is refused, and the reference table in
// docs/internals/ops.md is the one that the rows give. BEVATRON_WRITE_OPERANDS=1 rewrites the table.
#include "test.h"
#include "ops/contract.h"
#include "ops/device.h"
#include "base/buffer.h"
#include "base/file.h"

static const struct contract *(*const contracts[])(void) = {
#define ENTRY(name_) contract_##name_,
    OPERATIONS(ENTRY) ENTRY(matmul_many) ENTRY(matmul_float8) ENTRY(grouped_float8)
#undef ENTRY
};
enum { CONTRACTS = sizeof contracts / sizeof contracts[0], OPERATION_BYTES = 8192, MOST_ROWS = 40 };

// ---- calls made from rows ----

// A size for each letter, all different and none a divisor of another's small multiple.
static int64_t size_of(char letter) {
    return 101 + 2 * LETTER(letter);
}

// Reads one dimension of a shape and moves past it.
static int64_t dimension(const char **shape) {
    int64_t sum = 0, sign = 1, term = 1;
    for (;; (*shape)++) {
        char c = **shape;
        if (c == '\0' || c == ' ' || c == '+' || c == '-') {
            sum += sign * term;
            term = 1;
            sign = c == '-' ? -1 : 1;
        }
        if (c == '\0')
            return sum;
        if (c == ' ') {
            (*shape)++;
            return sum;
        }
        if (c != '+' && c != '-')
            term *= c <= '9' ? c - '0' : size_of(c);
    }
}

struct contract_example {
    union {
        char bytes[OPERATION_BYTES];
        struct tensor aligned;
    } op;
    const struct contract *contract;
    struct device *device;
    enum dtype dtype;
    uintptr_t next;  // address
};

static struct tensor *operand_at(struct contract_example *example, const struct contract_row *row) {
    return (struct tensor *)(void *)(example->op.bytes + row->offset);
}

static void pack(struct tensor *t) {
    int64_t stride = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        t->stride[i] = stride;
        stride *= t->shape[i];
    }
}

static void place(struct contract_example *example, const struct contract_row *row, struct tensor *t, uint32_t dtypes) {
    const char *shape = *row->shape == '*' ? "3 5" : row->shape + (*row->shape == '#');
    *t = (struct tensor){.data = (void *)example->next};
    example->next += (uintptr_t)1 << 40;
    t->dtype = dtypes & AGREES ? example->dtype : DTYPE_F32;
    while (!(dtypes >> t->dtype & 1))
        t->dtype = (enum dtype)((t->dtype + 1) % DTYPE_COUNT);
    while (*shape)
        t->shape[t->rank++] = dimension(&shape);
    pack(t);
}

// Conditions hold or do not, by the bits of `variant`; so are optional operands there or not.
static void example_make(struct contract_example *example, const struct contract *contract, unsigned variant) {
    memset(&example->op, 0, sizeof example->op);
    example->contract = contract;
    example->next = (uintptr_t)1 << 41;
    for (int i = 0; i < contract->count; i++) {
        const struct contract_row *row = &contract->rows[i];
        bool is_operand = !row->condition || strstr(row->condition, ".data") || strstr(row->condition, ".dtype");
        char *at = example->op.bytes + row->condition_offset;
        int value = (int)(variant % 4);
        if (!is_operand && row->condition_values)
            memcpy(at, &value, sizeof value);
        else if (!is_operand)
            at[0] = (char)(variant >> i % 3 & 1);
    }
    for (int i = 0; i < contract->count; i++) {
        const struct contract_row *row = &contract->rows[i];
        if (row->kind == CONTRACT_OPERAND && contract_row_holds(row, &example->op) &&
            (!row->is_optional || !(variant & 8)) && !operand_at(example, row)->data)
            place(example, row, operand_at(example, row), row->dtypes);
    }
}

static bool refuses(struct contract_example *example, char *text, size_t size) {
    struct contract_call call;
    contract_begin(&call, example->device, example->contract, &example->op);
    // Letters that arguments set, or that no operand has alone.
    for (int letter = 'A'; letter <= 'z'; letter++)
        if (letter <= 'Z' || letter >= 'a')
            contract_set(&call, (char)letter, size_of((char)letter));
    return contract_refuses(&call, text, size);
}

static void expect_refused(struct contract_example *example, const struct contract_row *row, const char *how) {
    char text[1024];
    if (!refuses(example, text, sizeof text))
        test_fail("%s accepts %s %s", example->contract->operation, row->name, how);
    EXPECT(strstr(text, example->contract->operation) == text);
}

static void break_operand(struct contract_example *example, const struct contract_row *row) {
    struct tensor *t = operand_at(example, row), whole = *t;
    *t = (struct tensor){0};
    if (!row->is_optional)
        expect_refused(example, row, "if it is missing");
    *t = whole;
    t->dtype = DTYPE_COUNT - 1;
    if (!(row->dtypes >> t->dtype & 1))
        expect_refused(example, row, "of another dtype");
    for (int i = 0; i < whole.rank && *row->shape != '*'; i++) {
        *t = whole;
        t->shape[i]++;
        pack(t);
        expect_refused(example, row, "of another shape");
    }
    *t = whole;
    if (t->rank > 1) {
        t->stride[0]++;
        if (!row->is_strided)
            expect_refused(example, row, "with gaps");
        t->stride[0] = whole.shape[whole.rank - 1] - 1;
        expect_refused(example, row, "with rows in each other");
    }
    *t = whole;
}

static void break_pair(struct contract_example *example, const struct contract_row *row) {
    struct tensor *a = operand_at(example, row), *b = (void *)(example->op.bytes + row->other_offset), whole = *a;
    if (!a->data || !b->data)
        return;
    a->data = (char *)b->data + 8;
    expect_refused(example, row, "over another operand");
    a->data = b->data;
    if (row->kind == CONTRACT_APART)
        expect_refused(example, row, "in the place of another operand");
    *a = whole;
}

TEST(every_row_is_checked) {
    struct contract_example example;
    EXPECT_OK(device_open_twin(&example.device, NULL));
    for (size_t i = 0; i < CONTRACTS; i++)
        for (unsigned variant = 0; variant < 64; variant++) {
            char text[1024];
            const struct contract *contract = contracts[i]();
            example.dtype = variant & 16 ? DTYPE_BF16 : DTYPE_F32;
            example_make(&example, contract, variant);
            if (refuses(&example, text, sizeof text))
                test_fail("refused: %s", text);
            for (int k = 0; k < contract->count; k++) {
                const struct contract_row *row = &contract->rows[k];
                if (!contract_row_holds(row, &example.op))
                    continue;
                if (row->kind == CONTRACT_OPERAND && operand_at(&example, row)->data)
                    break_operand(&example, row);
                else if (row->kind == CONTRACT_APART || row->kind == CONTRACT_APART_OR_SAME)
                    break_pair(&example, row);
            }
        }
    device_close(example.device);
}

// Letters get their sizes from the operands, in the order of the rows.
TEST(letters) {
    struct contract_call call;
    static float memory[4096];
    struct tensor up = tensor_2d(memory, DTYPE_F32, 3, 14), shared = tensor_2d(memory + 100, DTYPE_F32, 3, 4);
    struct op_latent_forward op = {.up = up, .shared = shared, .kv = tensor_2d(memory + 200, DTYPE_F32, 3, 22)};
    struct device *device = NULL;
    char text[1024];
    EXPECT_OK(device_open_twin(&device, NULL));
    for (int columns = 22; columns <= 23; columns++) {
        contract_begin(&call, device, contract_latent_forward(), &op);
        contract_set(&call, 'H', 2);
        contract_set(&call, 'V', 3);
        op.kv = tensor_2d(memory + 200, DTYPE_F32, 3, columns);
        EXPECT(contract_refuses(&call, text, sizeof text) == (columns != 22));
        EXPECT_INT(SIZE(&call, N), 3);
        EXPECT_INT(SIZE(&call, P), 4);  // 2 (P + 3) = 14
        EXPECT_INT(SIZE(&call, R), 4);
    }
    EXPECT_STRING(text, "op_latent_forward: kv is fp32 (3, 23), expected fp32 (3, 22)");
    device_close(device);
}

// ---- the table ----

static void add_dtypes(struct buffer *out, uint32_t dtypes) {
    bool is_activation = dtypes & AGREES, is_any = (dtypes & ANY) == ANY;
    const char *separator = is_activation ? "act or " : "";
    dtypes &= is_activation ? ~FLOATS | (dtypes & OR_F32 ? F32 : 0) : dtypes;
    for (int dtype = 0; dtype < DTYPE_COUNT && !is_any; dtype++)
        if (dtypes >> dtype & 1) {
            buffer_printf(out, "%s%s", separator, dtype_name((enum dtype)dtype));
            separator = "/";
        }
    buffer_append_string(out, is_any ? "any dtype " : is_activation && *separator == 'a' ? "" : " ");
}

static void add_condition(struct buffer *out, const struct contract_row *row) {
    if (!row->condition)
        return;
    buffer_printf(out, " %s %.*s", row->is_unless ? "unless" : "if", (int)strcspn(row->condition, "."), row->condition);
    const char *separator = " is ";
    bool is_dtype = strstr(row->condition, ".dtype") != NULL;
    for (int value = 0; value < 32; value++) {
        if (!(row->condition_values >> value & 1))
            continue;
        if (is_dtype)
            buffer_printf(out, "%s%s", separator, dtype_name((enum dtype)value));
        else
            buffer_printf(out, "%s%d", separator, value);
        separator = " or ";
    }
}

// "y fp32 (N, C) or none, may be x"
static void add_operand(struct buffer *out, const struct contract *contract, const struct contract_row *row) {
    buffer_printf(out, "%s ", row->name);
    add_dtypes(out, row->dtypes);
    buffer_append_byte(out, '(');
    for (const char *c = row->shape; *c; c++)
        buffer_append_string(out, *c == ' ' ? ", " : *c == '*' ? "any" : (const char[]){*c, '\0'});
    buffer_printf(out, ")%s%s", row->is_strided ? " strided" : "", row->is_optional ? " or none" : "");
    add_condition(out, row);
    const char *separator = ", may be ";
    for (int i = 0; i < contract->count; i++) {
        const struct contract_row *pair = &contract->rows[i];
        if (pair->kind == CONTRACT_APART_OR_SAME && strcmp(pair->name, row->name) == 0) {
            buffer_printf(out, "%s%s", separator, pair->other);
            separator = " or ";
        }
    }
}

static void add_contract(struct buffer *out, const char *name, const struct contract *contract) {
    static const char *const uses[] = {"in", "out", "changed", "added to"};
    enum { INDENT = 12, WIDTH = 120 };
    buffer_printf(out, "%s\n", name);
    for (int use = USE_IN; use <= USE_ADDED; use++) {
        size_t column = 0;
        for (int i = 0; i < contract->count; i++) {
            const struct contract_row *row = &contract->rows[i];
            struct buffer text = {0};
            if (row->kind != CONTRACT_OPERAND || (int)row->use != use)
                continue;
            add_operand(&text, contract, row);
            if (column == 0)
                buffer_printf(out, "  %-*s", INDENT - 2, uses[use]);
            else if (column + text.length + 2 > WIDTH)
                buffer_printf(out, ";\n%*s", INDENT, "");
            else
                buffer_append_string(out, "; ");
            column = (column == 0 || column + text.length + 2 > WIDTH ? INDENT : column + 2) + text.length;
            buffer_append(out, text.data, text.length);
            buffer_free(&text);
        }
        if (column > 0)
            buffer_append_byte(out, '\n');
    }
}

TEST(page) {
    static const char path[] = "docs/internals/ops.md", start[] = "<!-- operands -->\n```text\n",
                      end[] = "```\n<!-- end -->\n";
    static const char *const names[] = {
#define NAME(name_) #name_,
        OPERATIONS(NAME) "matmul_many", "matmul, fp8", "grouped_matmul, fp8"
#undef NAME
    };
    struct buffer page = {0}, made = {0};
    EXPECT_OK(file_read_all(path, 1 << 20, &page));
    const char *text = buffer_string(&page), *first = strstr(text, start);
    EXPECT(first != NULL);
    const char *last = strstr(first, end);
    EXPECT(last != NULL);
    buffer_append(&made, text, (size_t)(first - text) + strlen(start));
    for (size_t i = 0; i < CONTRACTS; i++)
        add_contract(&made, names[i], contracts[i]());
    buffer_append_string(&made, last);
    bool is_same = strcmp(buffer_string(&made), text) == 0;
    if (!is_same && getenv("BEVATRON_WRITE_OPERANDS"))
        EXPECT_OK(file_write_all(path, made.data, made.length));
    else if (!is_same)
        test_fail("the table of operands in %s is stale: run this test with BEVATRON_WRITE_OPERANDS=1", path);
    buffer_free(&page);
    buffer_free(&made);
}

TEST_MAIN(TEST_CASE(every_row_is_checked), TEST_CASE(letters), TEST_CASE(page))
