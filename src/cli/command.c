// What every command does when it fails.
#include "base/error.h"
#include "base/log.h"
#include "cli/commands.h"

int command_failed(void) {
    log_error("bevatron: %s", error_message());
    return error_exit_code();
}
