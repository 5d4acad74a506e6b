// bevatron help, bevatron version.
#include "base/error.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/features.h"
#include "config/config.h"
#include "config/flag.h"
#include "config/flag_docs.h"
#include "ops/cuda_module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

// ---- completion scripts ----

// The functions of the completion scripts, around the fragments that come from tables of flags (config/flag_docs.h).

static const char bash_opening[] = "# bash completion of bevatron, made by `bevatron help --completion bash`.\n"
                                   "\n"
                                   "# Adds what a command takes to $rows, a line each: \"--flag KIND [words]\", \": "
                                   "KIND\" for other arguments, or a part's name.\n"
                                   "_bevatron_rows() {\n"
                                   "    case $1 in\n";

static const char bash_closing[] =
    "    esac\n"
    "}\n"
    "\n"
    "# Follows commands and parts from word $1 on; sets $key, $rows and $next, the word after them.\n"
    "_bevatron_descend() {\n"
    "    key= next=$1\n"
    "    while :; do\n"
    "        rows=$'\\n'\n"
    "        _bevatron_rows \"$key\"\n"
    "        [[ $next -lt $COMP_CWORD && ${COMP_WORDS[next]} && $rows == *$'\\n'\"${COMP_WORDS[next]}\"$'\\n'* ]] || "
    "return\n"
    "        key=\"$key${key:+ }${COMP_WORDS[next]}\"\n"
    "        next=$((next + 1))\n"
    "    done\n"
    "}\n"
    "\n"
    "# A launcher takes the flags of the command that it launches as well: of train if none is named.\n"
    "_bevatron_launched() {\n"
    "    local own=$rows commands i found=\n"
    "    rows=$'\\n'\n"
    "    _bevatron_rows ''\n"
    "    commands=$rows\n"
    "    for ((i = next; i < COMP_CWORD; i++)); do\n"
    "        [[ ! ${COMP_WORDS[i]} || $commands != *$'\\n'\"${COMP_WORDS[i]}\"$'\\n'* ]] || { found=$i && break; }\n"
    "    done\n"
    "    if [[ $found ]]; then\n"
    "        _bevatron_descend \"$found\"\n"
    "    else\n"
    "        rows=$'\\ntrain\\npreprocess\\nevaluate\\n'\n"
    "        _bevatron_rows train\n"
    "    fi\n"
    "    rows=$own$rows\n"
    "}\n"
    "\n"
    "_bevatron() {\n"
    "    local IFS=$' \\t\\n' current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    local key rows next i flag= distance=1 kind= words= prefix= line\n"
    "    COMPREPLY=()\n"
    "    _bevatron_descend 1\n"
    "    [[ $key != 'launch '* ]] || _bevatron_launched\n"
    "    case $current in\n"
    "    =) flag=$before current= ;;\n"
    "    --*=*) flag=${current%%=*} prefix=${current%%=*}= current=${current#*=} ;;\n"
    "    -*) ;;\n"
    "    *)\n"
    "        for ((i = COMP_CWORD - 1; i >= next; i--)); do\n"
    "            [[ ${COMP_WORDS[i]} != --* ]] || { flag=${COMP_WORDS[i]} distance=$((COMP_CWORD - i)) && break; }\n"
    "        done\n"
    "        [[ $before != = ]] || distance=1\n"
    "        ;;\n"
    "    esac\n"
    "    if [[ $flag && $rows =~ $'\\n'\"$flag \"([a-z]+)(\\+?)' '([^$'\\n']*) ]]; then\n"
    "        kind=${BASH_REMATCH[1]} words=${BASH_REMATCH[3]}\n"
    "        [[ $kind != switch && (${BASH_REMATCH[2]} || $distance -eq 1) ]] || kind=\n"
    "    fi\n"
    "    [[ $kind || $prefix || $current == -* || ! $rows =~ $'\\n: '([a-z]+) ]] || kind=${BASH_REMATCH[1]}\n"
    "    case $kind in\n"
    "    file)\n"
    "        mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        ;;\n"
    "    folder)\n"
    "        mapfile -t COMPREPLY < <(compgen -d -- \"$current\")\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        ;;\n"
    "    word) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\") ;;\n"
    "    '')\n"
    "        while read -r line _; do [[ $line == : || $prefix ]] || words+=\" $line\"; done <<<\"$rows\"\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
    "        ;;\n"
    "    esac\n"
    "    [[ ! $prefix ]] || COMPREPLY=(\"${COMPREPLY[@]/#/$prefix}\")\n"
    "}\n"
    "complete -F _bevatron bevatron\n";

static const char zsh_opening[] = "#compdef bevatron\n"
                                  "# zsh completion of bevatron, made by `bevatron help --completion zsh`.\n"
                                  "\n"
                                  "# Adds what a command takes to $specs, its flags, or to $parts.\n"
                                  "_bevatron_rows() {\n"
                                  "  case $1 in\n";

static const char zsh_closing[] =
    "  esac\n"
    "}\n"
    "\n"
    "# Follows commands and parts from word $1 on; sets $key, $specs and $next, the word after them. Fails if it has "
    "offered\n"
    "# the parts that may stand at the cursor.\n"
    "_bevatron_descend() {\n"
    "  key= next=$1\n"
    "  while true; do\n"
    "    parts=() specs=()\n"
    "    _bevatron_rows \"$key\"\n"
    "    (( $#parts )) || return 0\n"
    "    if (( next >= CURRENT )); then\n"
    "      _describe -t commands command parts\n"
    "      return 1\n"
    "    fi\n"
    "    (( ${parts[(I)${(b)words[next]}:*]} )) || return 0\n"
    "    key+=\"${key:+ }$words[next]\"\n"
    "    (( next += 1 ))\n"
    "  done\n"
    "}\n"
    "\n"
    "_bevatron() {\n"
    "  local -aU specs\n"
    "  local -a parts own\n"
    "  local key word\n"
    "  integer next at\n"
    "  _bevatron_descend 2 || return 0\n"
    "  if [[ $key == launch\\ * ]]; then\n"
    "    # A launcher takes the flags of the command that it launches as well: of train if none is named.\n"
    "    own=($specs)\n"
    "    parts=()\n"
    "    _bevatron_rows ''\n"
    "    for (( at = next; at < CURRENT; at++ )); do\n"
    "      (( ${parts[(I)${(b)words[at]}:*]} )) && break\n"
    "    done\n"
    "    if (( at < CURRENT )); then\n"
    "      _bevatron_descend $at || return 0\n"
    "    else\n"
    "      _bevatron_rows train\n"
    "      own+=('*:command:(train preprocess evaluate)')\n"
    "    fi\n"
    "    specs=($own $specs)\n"
    "  fi\n"
    "  words=(bevatron \"${(@)words[next,-1]}\")\n"
    "  (( CURRENT -= next - 2 ))\n"
    "  _arguments -S : $specs\n"
    "}\n"
    "\n"
    "# Run as a function that compinit loads, or defined for a shell that sources this file.\n"
    "if [[ $funcstack[1] == _bevatron ]]; then\n"
    "  _bevatron \"$@\"\n"
    "else\n"
    "  compdef _bevatron bevatron\n"
    "fi\n";

static const char fish_opening[] =
    "# fish completion of bevatron, made by `bevatron help --completion fish`.\n"
    "\n"
    "# The command line so far is exactly these words.\n"
    "function __bevatron_at\n"
    "    set -l words (commandline -opc)\n"
    "    set -e words[1]\n"
    "    test \"$words\" = \"$argv\"\n"
    "end\n"
    "\n"
    "# The command is this one. A launcher takes the flags of the command that it launches as well: of train if none "
    "is named.\n"
    "function __bevatron_in\n"
    "    set -l words (commandline -opc)\n"
    "    set -e words[1]\n"
    "    if test \"$words[1]\" = launch -a (count $words) -ge 2 -a \"$argv[1]\" != launch\n"
    "        set -e words[1..2]\n"
    "        set -l at (contains -i -- $argv[1] $words)\n"
    "        if test -n \"$at\"\n"
    "            set words $words[$at..-1]\n"
    "        else\n"
    "            test \"$argv\" = train\n"
    "            and not string match -q -r -- "
    "'^(preprocess|evaluate|generate|extract|tokenizer|dataset|checkpoint|bench|preflight)$' $words\n"
    "            return\n"
    "        end\n"
    "    end\n"
    "    set -l count (count $argv)\n"
    "    test \"$words[1..$count]\" = \"$argv\"\n"
    "end\n"
    "\n"
    "# The last flag before the cursor is this one.\n"
    "function __bevatron_after\n"
    "    set -l last\n"
    "    for word in (commandline -opc)\n"
    "        string match -q -- '--*' $word\n"
    "        and set last $word\n"
    "    end\n"
    "    test \"$last\" = \"$argv[1]\"\n"
    "end\n"
    "\n"
    "complete -c bevatron -f\n"
    "complete -c bevatron -n '__bevatron_in launch; and not __bevatron_at launch' -a 'train preprocess evaluate'\n";

static const char *completion_opening(enum flag_text shell) {
    return shell == FLAG_TEXT_BASH ? bash_opening : shell == FLAG_TEXT_ZSH ? zsh_opening : fish_opening;
}

static const char *completion_closing(enum flag_text shell) {
    return shell == FLAG_TEXT_BASH ? bash_closing : shell == FLAG_TEXT_ZSH ? zsh_closing : "";
}

// ---- for other programs ----

// `bevatron help --man`, `help --completion` and `help commands`. Each prints to stdout and returns the exit code.

// Commands with flags or parts, which have pages of their own.
static bool has_page(const struct command_part *command) {
    return !command_is_heading(command) && command->main != cmd_help && command->main != cmd_version;
}

static int ask(const struct command_part *command, const char *part, const char *argument) {
    char *argv[] = {(char *)(uintptr_t)command->name, (char *)(uintptr_t)(part ? part : argument),
                    part ? (char *)(uintptr_t)argument : NULL, NULL};
    return command_part_run(command, part ? 3 : 2, argv);
}

static int ask_all(const char *argument) {
    int exit_code = EXIT_CODE_OK;
    for (const struct command_part *command = command_table; command->name && exit_code == EXIT_CODE_OK; command++)
        if (has_page(command))
            exit_code = ask(command, NULL, argument);
    return exit_code;
}

// The first existing place, relative to the program's own folder: where `make install` and packages put files, then the
// source tree of a program that was not installed.
static bool print_place(const char *name, const char *const *places) {
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        return false;
    self[length] = '\0';
    char *end = strrchr(self, '/');
    for (; end && *places; places++) {
        OWNED char *path = memory_printf("%.*s/%s", (int)(end - self), self, *places), *full = realpath(path, NULL);
        if (full)
            printf("%s %s\n", name, full);
        bool is_found = full != NULL;
        if (is_found)
            return true;
    }
    return false;
}

// Folders of the files installed with this program, one per line: "docs /usr/share/doc/bevatron/docs".
static int help_files(void) {
    bool is_any = print_place("examples", (const char *const[]){"../share/bevatron/examples", "../../examples", NULL});
    is_any |= print_place("docs", (const char *const[]){"../share/doc/bevatron/docs", "../../docs", NULL});
    is_any |= print_place("man", (const char *const[]){"../share/man", "share/man", NULL});
    if (is_any)
        return EXIT_CODE_OK;
    fprintf(stderr,
            "bevatron: found no examples or documents beside this program; unpack the whole package, or install "
            "it with `make install`\n");
    return EXIT_CODE_ERROR;
}

static void append_commands(struct buffer *out) {
    OWNED_BY(buffer_free) struct buffer label = {0};
    for (const struct command_part *command = command_table; command->name; command++) {
        if (command_is_heading(command)) {
            buffer_printf(out, ".SS %s\n", command->name);
            continue;
        }
        buffer_clear(&label);
        if (has_page(command))
            man_page_name(command->name, &label);
        else
            buffer_printf(&label, "bevatron %s", command->name);
        buffer_append_string(&label, has_page(command) ? "(1)" : "");
        man_item(label.data, command->summary, out);
    }
}

static void append_exit_codes(struct buffer *out) {
    static const struct {
        enum exit_code code;
        const char *meaning;
    } codes[] = {
        {EXIT_CODE_OK, "done"},
        {EXIT_CODE_ERROR, "error"},
        {EXIT_CODE_USAGE, "wrong flags or arguments"},
        {EXIT_CODE_STOPPED, "stopped by a signal or a time limit after saving; run the same command again"},
        {EXIT_CODE_PEER_LOST, "another rank was lost"},
        {EXIT_CODE_HANG, "ranks waited for each other too long"},
        {EXIT_CODE_NOT_FINITE, "NaN or infinity that did not go away"},
        {EXIT_CODE_OUT_OF_MEMORY, "out of memory"},
        {EXIT_CODE_BAD_DATA, "bad data"},
        {EXIT_CODE_NO_CHECKPOINT, "no valid checkpoint"},
        {EXIT_CODE_NO_PROGRESS, "restarted without progress"},
    };
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        buffer_printf(out, ".TP\n\\fB%d\\fR\n%s\n", (int)codes[i].code, codes[i].meaning);
}

static int print_program_page(void) {
    OWNED_BY(buffer_free) struct buffer out = {0};
    man_begin("", "pretrains language models", &out);
    buffer_append_string(&out, "\\fBbevatron\\fR \\fICOMMAND\\fR [\\fIflags\\fR]\n.SH DESCRIPTION\n");
    man_text("Bevatron extracts and tokenizes text, trains GPT, Llama, BERT, T5 and related models on CPUs, on NVIDIA "
             "GPUs or on a cluster, evaluates them, generates text, and exports them to Hugging Face and llama.cpp. "
             "Flag names, dataset files and log lines are Megatron-LM's.",
             &out);
    buffer_append_string(&out, ".PP\n");
    man_text("Results go to standard output, everything else to standard error. `--flag value` and `--flag=value` are "
             "the same. Every command has `--help` and `--config FILE`.",
             &out);
    buffer_append_string(&out, ".SH COMMANDS\n");
    append_commands(&out);
    buffer_append_string(&out, ".SH EXIT STATUS\n");
    append_exit_codes(&out);
    buffer_append_string(&out, ".SH EXAMPLES\n");
    man_verbatim("bevatron help train\n"
                 "bevatron help presets\n"
                 "bevatron train --preset gpt2-124m --mock-data --tokenizer-type NullTokenizer --vocab-size 1000 \\\n"
                 "    --micro-batch-size 1 --train-iters 10 --lr 6e-4\n",
                 &out);
    buffer_append_string(&out, ".SH FILES\n");
    man_item("share/doc/bevatron", "documents, beginning with README.md", &out);
    man_item("share/bevatron/examples", "configurations and scripts", &out);
    buffer_append_string(&out, ".PP\n");
    man_text("Both are beside the `bin` folder of the program; `bevatron help files` prints where.", &out);
    fputs(buffer_string(&out), stdout);
    return EXIT_CODE_OK;
}

// The manual page of the program (name is NULL), of a command, or of one of its parts.
static int help_man(const char *name, const char *part) {
    if (!name)
        return print_program_page();
    const struct command_part *command = command_find(name);
    if (command && has_page(command))
        return ask(command, part, "--help-man");
    fprintf(stderr, "bevatron: no manual page for \"%s\"; `bevatron help commands` lists the commands\n", name);
    return EXIT_CODE_USAGE;
}

// The commands, and for `help` also its topics, as parts of the program.
static void print_commands(enum flag_text shell, const char *command) {
    OWNED_BY(buffer_free) struct buffer out = {0};
    struct completion completion = {.shell = shell, .command = command, .out = &out};
    completion_begin(&completion);
    for (const struct command_part *part = command_table; part->name; part++)
        if (!command_is_heading(part))
            completion_part(&completion, part->name, part->summary);
    for (const struct command_part *topic = help_topics; *command && topic->name; topic++)
        completion_part(&completion, topic->name, topic->summary);
    completion_end(&completion);
    fputs(buffer_string(&out), stdout);
}

// The completion script of a shell; its name may be NULL, which is an error.
static int help_completion(const char *name) {
    static const struct {
        const char *name, *argument;
        enum flag_text text;
    } shells[] = {{"bash", "--help-bash", FLAG_TEXT_BASH},
                  {"zsh", "--help-zsh", FLAG_TEXT_ZSH},
                  {"fish", "--help-fish", FLAG_TEXT_FISH}};
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
        if (!name || strcmp(shells[i].name, name) != 0)
            continue;
        fputs(completion_opening(shells[i].text), stdout);
        print_commands(shells[i].text, "");
        print_commands(shells[i].text, "help");
        int exit_code = ask_all(shells[i].argument);
        fputs(completion_closing(shells[i].text), stdout);
        return exit_code;
    }
    fprintf(stderr, "bevatron: help --completion needs the name of a shell: bash, zsh or fish\n");
    return EXIT_CODE_USAGE;
}

// ---- for people ----

static void print_summary(void) {
    puts("bevatron: language-model pretraining in C\n");
    for (const struct command_part *command = command_table; command->name; command++)
        if (command_is_heading(command))
            puts(command->name);
        else
            printf("  %-14s %s\n", command->name, command->summary);
    puts("\nEvery command has --help. `bevatron help flags` lists all flags of train, `bevatron help presets` its "
         "presets.\n"
         "`bevatron help --man [COMMAND]` prints a manual page, `bevatron help --completion bash|zsh|fish` a script "
         "that\n"
         "completes commands and flags in that shell.\n"
         "Several ranks: bevatron train --nproc N …, mpirun -n N bevatron train …, or srun");
}

static int help_flags(bool as_markdown) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    if (as_markdown)
        config_markdown(&text);
    else
        flags_help(config_command(), true, &text);
    fputs(buffer_string(&text), stdout);
    return EXIT_CODE_OK;
}

int cmd_help(int argc, char **argv) {
    const char *topic = argc > 1 ? argv[1] : "", *detail = argc > 2 ? argv[2] : NULL;
    if (strcmp(topic, "flags") == 0)
        return help_flags(detail && strcmp(detail, "--markdown") == 0);
    // Every command and part that has a manual page, one per line: "dataset", "dataset merge".
    if (strcmp(topic, "commands") == 0)
        return ask_all("--help-names");
    if (strcmp(topic, "files") == 0)
        return help_files();
    if (strcmp(topic, "--man") == 0)
        return help_man(detail, argc > 3 ? argv[3] : NULL);
    if (strcmp(topic, "--completion") == 0)
        return help_completion(detail);
    if (strcmp(topic, "presets") == 0) {
        OWNED_BY(buffer_free) struct buffer text = {0};
        config_list_presets(&text);
        fputs(buffer_string(&text), stdout);
    } else {
        print_summary();
    }
    return EXIT_CODE_OK;
}

// Libraries of this machine, which may differ from the build machine's.
static void print_libraries(void) {
    const struct library *list[MOST_LIBRARIES];
    int count = libraries_list(list);
    if (count > 0)
        printf("libraries, loaded when they are needed\n");
    for (int i = 0; i < count; i++) {
        OWNED_BY(buffer_free) struct buffer text = {0};
        library_describe(list[i], &text);
        printf("  %-10s %s\n", list[i]->name, buffer_string(&text));
    }
}

// The parts in the GPU module.
static void print_module(void) {
    const struct cuda_module *module = cuda_module();
    if (module)
        printf("  %-10s yes: CUDA %s for %s\n", "CUDA", module->toolkit, module->architectures);
    else
        printf("  %-10s no\n", "CUDA");
    printf("  %-10s %s\n", "CUDNN", module && module->has_cudnn ? "yes" : "no");
    printf("  %-10s %s\n", "NCCL", module && module->nccl_library ? "yes" : "no");
}

int cmd_version(int argc, char **argv) {
    (void)argc;
    (void)argv;
    printf("bevatron %s\n", BEVATRON_VERSION);
    for (size_t i = 0; i < feature_count; i++)
        printf("  %-10s %s\n", features[i].name, features[i].is_in ? "yes" : "no");
    print_module();
    int gpus = cuda_count();
    if (gpus < 0)
        printf("  %-10s %s\n", "GPUs", error_message());
    else
        printf("  %-10s %d\n", "GPUs", gpus);
    error_clear();
    char kernels[128];
    cpu_list_kernels(kernels, sizeof kernels);
    printf("  %-10s %s\n", "kernels", kernels);
    struct utsname system;
    if (uname(&system) == 0)
        printf("  %-10s %s %s, %s\n", "system", system.sysname, system.release, system.machine);
    printf("  %-10s %s\n", "compiler", __VERSION__);
    print_libraries();
    return EXIT_CODE_OK;
}
