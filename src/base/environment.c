// Variables as a list that grows with each new name asked for. See environment.h.
#include "base/environment.h"

#include "base/memory.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct variable {
    char *name, *value;  // owned
    bool is_found;       // it was looked up
};

static const char *(*look_up_outside)(const char *name);
static struct variable *variables;
static size_t variable_count;

void environment_use(const char *(*look_up)(const char *name)) {
    look_up_outside = look_up;
}

static struct variable *find(const char *name) {
    for (size_t i = 0; i < variable_count; i++)
        if (strcmp(variables[i].name, name) == 0)
            return &variables[i];
    return NULL;
}

void environment_set(const char *name, const char *value) {
    struct variable *variable = find(name);
    if (!variable) {
        variables = memory_realloc(variables, (variable_count + 1) * sizeof *variables);
        variable = &variables[variable_count++];
        *variable = (struct variable){.name = memory_string(name)};
    }
    char *copy = memory_string(value);
    free(variable->value);
    variable->value = copy;
}

const char *environment_find(const char *name) {
    struct variable *variable = find(name);
    const char *outside = !variable && look_up_outside ? look_up_outside(name) : NULL;
    if (outside) {
        environment_set(name, outside);
        variable = find(name);
    }
    if (!variable)
        return NULL;
    variable->is_found = true;
    return variable->value;
}

char *environment_found(size_t i) {
    for (size_t k = 0; k < variable_count; k++)
        if (variables[k].is_found && i-- == 0)
            return memory_printf("%s=%s", variables[k].name, variables[k].value);
    return NULL;
}

void environment_clear(void) {
    for (size_t i = 0; i < variable_count; i++) {
        free(variables[i].name);
        free(variables[i].value);
    }
    free(variables);
    variables = NULL;
    variable_count = 0;
}
