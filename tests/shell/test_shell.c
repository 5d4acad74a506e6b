// Shell scripts that start a training: the words of the command are those that bash would pass, which was asked with
// each script here; hostile scripts run nothing and end soon.
#include "base/buffer.h"
#include "shell/shell.h"

#include "test.h"

static struct shell_reading reading;
static struct string_list set, arguments;

static int read_script(const char *text) {
    shell_reading_free(&reading);
    struct shell_input input = {
        .name = "dir/x.sh", .text = text, .length = strlen(text), .arguments = &arguments, .set = &set};
    return shell_read(&input, &reading);
}

// The words of the last call with | between them; marks are <kind NAME>.
static const char *words_of(const char *text) {
    static char words[4096];
    struct buffer out = {0};
    EXPECT_OK(read_script(text));
    EXPECT(reading.call_count > 0);
    const struct shell_call *call = &reading.calls[reading.call_count - 1];
    for (int64_t i = 2; i < call->words.count; i++) {
        buffer_append_string(&out, i > 2 ? "|" : "");
        for (const char *p = call->words.items[i]; *p; p++)
            buffer_append_byte(&out, *p == SHELL_MARK ? '<' : *p == SHELL_MARK_END ? '>' : *p);
    }
    (void)snprintf(words, sizeof words, "%s", buffer_string(&out));
    buffer_free(&out);
    return words;
}

TEST(words_are_those_of_bash) {
    static const struct {
        const char *script, *words;
    } cases[] = {
        {"python x.py --a 1 \\\n  --b='c d' \"e  f\" g\\ h # no\n", "--a|1|--b=c d|e  f|g h"},
        {"A=1 B=\"x  y\"; python x.py $A ${B} \"$B\" '$B' \"a${A}b\"", "1|x|y|x  y|$B|a1b"},
        {"A=\"--p 1\"; A=\"$A --q 2\"; A+=' --r'; python x.py $A", "--p|1|--q|2|--r"},
        {"A=(--p 'x y' # one\n  --q); A+=(z); python x.py \"${A[@]}\" ${#A[@]} ${A[1]}", "--p|x y|--q|z|4|x|y"},
        {"A=(); python x.py a \"${A[@]}\" \"$@\" b \"\"", "a|b|"},
        {"python x.py ${A:-1} ${B:=\"2 3\"} $B ${C-'4 5'} \"${D:-\"6  7\"}\" ${B:+y} ${E:+z}", "1|2|3|2|3|4 5|6  7|y"},
        {"N=16; python x.py $((N / 4 * 3 - 1)) $(( (N+1) % 5 )) $((N>8 && N!=9 ? 2+1 : 0)) $((${N}*-2))", "11|2|3|-32"},
        {"P=/a/b.tar.gz; python x.py ${P%.*} ${P%%.*} ${P##*/} ${P#*/} ${P/a/A} ${#P}",
         "/a/b.tar|/a/b|b.tar.gz|a/b.tar.gz|/A/b.tar.gz|11"},
        {"if [ 3 -gt 2 ] && [[ abc == a* ]]; then A=1; elif true; then A=2; else A=3; fi; python x.py $A", "1"},
        {"A=7B; if [ $A = 1B ]; then L=1\nelif [ \"$A\" = 7B ]; then L=2\nelse L=3; fi\npython x.py $L", "2"},
        {"case 13b in 7b) L=1;; 1[0-9]b|x) L=2;; *) L=3;; esac; python x.py $L", "2"},
        {"A=; for i in 1 2 3; do [ $i = 2 ] && continue; A=\"$A$i\"; done; unset X; python x.py ${A#?} $i", "3|3"},
        {"N=0; while [ $N -lt 5 ]; do N=$((N+1)); [ $N -eq 3 ] && break; done; python x.py $N", "3"},
        {"set -- a b c; shift; python x.py $# $1 \"$*\" $0", "2|b|b c|dir/x.sh"},
        {"f() { local A=$1; R=\"$R$A$2\"; return; R=no; }\nR=; f 1 2; f 3 4\npython x.py $R", "1234"},
        {"C=\"python x.py --n '1 2'\"; N=\"$C --m\"; eval $N", "--n|1 2|--m"},
        {"R=$(rm -rf /tmp/bevatron-never); python x.py $R a`rm -rf x`", "<cR>|a<cLINE_1>"},
        {"A=\"--p `pwd`/$(date) --q\"; A=\"$A --r\"; python x.py $A", "--p|<uPWD>/<cLINE_1>|--q|--r"},
        {"python x.py $HOME/a ${B}", "<uHOME>/a|<uB>"},
        {"[ -f /etc/passwd ] && A=1 || A=2\npython x.py $A", "<cLINE_1>"},
        {"X=1 && Y=2 || Z=3; ! true || W=4; { U=6; }; (python x.py $X$Y$W$U)", "1246"},
        {"cat <<E > d.json\n{\"n\": $((1+1))}\nE\ncat <<'E' > e.json\n$x\nE\npython x.py a", "a"},
        {"python x.py a > log 2>&1 | tee x; python y.py b &> log & wait", "b"},
        {"python x.py {1..3}{a,b{c,d}} \"{1,2}\" {x} {3..1} a{,b}; echo",
         "1a|1bc|1bd|2a|2bc|2bd|3a|3bc|3bd|{1,2}|{x}|3|2|1|a|ab"},
        {"python x.py {08..11} {3..01}", "08|09|10|11|03|02|01"},
        {"for i in {1..3}; do A+=$i; done; python x.py $A", "123"},
        {"A=1; B=2; f() { local A=2 B; B=$A$A; C=$B; }; f; (A=7; D=8); python x.py $A $B $C ${D:-no}", "1|2|22|no"},
        {"A=1; B=1; (A=2; (A=3; A+=4; B=5; python x.py $A); A+=6; f() { local A=7; B+=$A; }; f; A=8 : y; C=$A$B; "
         "python y.py); [ $A$B = 11 ] && python z.py ok",
         "ok"},
        {"A=1; B=1; (A=2; (A=3; B=5); A+=6; f() { local A=7; B+=$A; }; f; A=8 : y; python x.py $A$B); D=$A$B", "2617"},
        {"A=(1 2); B=1; (A+=(3); B+=2; unset B; A=4 B=5; ${C:=7}); A=9 : ; (exit 1); python x.py ${A[@]} $B $C",
         "1|2|1|<uC>"},
        {"A=1; A=2 python x.py $A; f() { R=$A; }; A=3 f; A=4 bash -c 'python x.py $A'\npython x.py $A $R", "1|3"},
        {"A=(1 2 3); python x.py $A ${A} ${#A} ${A[@]}", "1|1|1|1|2|3"},
        {"for x in 1 2 3; do for y in a b; do [ $x = 2 ] && break 2; S+=$x$y; done; done; python x.py $S", "1a1b"},
        {"for x in 1 2; do for y in a b; do [ $y = b ] && continue 2; S+=$x$y; done; done; python x.py $S", "1a2a"},
        {"A='a*'; [[ abc == $A ]] && B=1; [[ abc == \"$A\" ]] || C=2; case abc in \"a*\") D=1;; *) D=2; esac; "
         "python x.py $B$C$D",
         "122"},
        {"A=1; unset A; [ -z \"$A\" ] && A=gone; python x.py $A", "gone"},
        {"printf -v A %d 1; printf '%s' B; B=2; mapfile -t C < x; let 'D = 1'; python x.py $A $B $C $D",
         "<cA>|2|<cC>|<cD>"},
        {"python x.py $\"c d\" $'e f' $'a\\tb'", "c d|e f|<cLINE_1>"},
        {"cp y.py z; sed -i s/a/b/ train.py; $RUN python x.py b; alias p='python x.py'; vi train.py", "x.py|b"},
        {"A=<your path>; B=<n>\npython x.py $A $B", "<cA>|<cB>"},
        {"#SBATCH --nodes=4\n#SBATCH --gres=gpu:8\npython x.py $SLURM_NNODES $((SLURM_GPUS_ON_NODE*2))", "4|16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        EXPECT_STRING(words_of(cases[i].script), cases[i].words);
    EXPECT_OK(read_script("cat <<E > d.json\n{\"n\": $((1+1))}\nE\ncat <<'E' > e.json\n$x\nE\n"));
    EXPECT_INT(reading.files.count, 4);
    EXPECT_STRING(reading.files.items[1], "{\"n\": 2}\n");
    EXPECT_STRING(reading.files.items[3], "$x\n");
}

TEST(commands_in_texts) {
    EXPECT_OK(read_script("A=1\nsbatch <<E\n#!/bin/bash\nsrun -N 2 bash -c \"python x.py --n $A\"\nE\n"));
    EXPECT_INT(reading.call_count, 1);
    EXPECT_STRING(reading.calls[0].words.items[0], "srun");
    EXPECT_STRING(reading.calls[0].words.items[3], "python");
    EXPECT_STRING(reading.calls[0].words.items[6], "1");
    EXPECT_INT(reading.calls[0].line, 2);
}

TEST(what_is_not_decided) {
    EXPECT_OK(read_script("N=$(wc -l < hosts)\nif [ $N -gt 1 ]; then A=1; else A=2; fi\npython x.py $A $N"));
    EXPECT(strstr(shell_cause(&reading, "N"), "$(wc -l < hosts)"));
    EXPECT(strstr(shell_cause(&reading, "LINE_2"), "[ $N -gt 1 ]"));
    string_list_add(&set, "N=3");
    EXPECT_STRING(words_of("N=$(wc -l < hosts)\nif [ $N -gt 1 ]; then A=1; else A=2; fi\npython x.py $A $N"), "1|3");
    string_list_add(&set, "LINE_1=false");
    EXPECT_STRING(words_of("if [ -f x ]; then A=1; else A=2; fi\npython x.py $A"), "2");
    string_list_free(&set);
    string_list_add(&set, "1X=2");
    EXPECT_ERROR(read_script("true"), "write NAME=VALUE");
    string_list_free(&set);
    // A default and a condition take a variable as unset, and say so.
    EXPECT_STRING(words_of("if [ -z \"$A\" ]; then B=1; fi; python x.py $B"), "1");
    EXPECT_STRING(reading.assumed.items[0], "A");
    EXPECT_OK(read_script("[ $# -lt 1 ] && exit 1\npython x.py"));
    EXPECT_INT(reading.call_count, 0);
    EXPECT_INT(reading.exit_line, 1);
    string_list_add(&arguments, "one");
    EXPECT_STRING(words_of("[ $# -lt 1 ] && exit 1\npython x.py $1 $2"), "one|<u2>");
    string_list_free(&arguments);
    EXPECT_OK(read_script("if grep -q x y; then python x.py; fi"));
    EXPECT(reading.call_count == 1 && !reading.calls[0].is_sure);
}

static void repeat(struct buffer *out, const char *text, int times) {
    for (int i = 0; i < times; i++)
        buffer_append_string(out, text);
}

TEST(hostile_scripts_end) {
    static const char *const scripts[] = {
        "while true; do A=\"$A$A x\"; done",
        "while :; do while :; do while :; do B=1; done; done; done",
        "f() { f; f; }; f",
        "A=x; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28; do A=$A$A; done",
        "eval 'eval \"$X\"'; X='eval $X'; eval $X",
        ":(){ :|:& };:",
        "if true; then",
        "case x in",
        "for",
        "while",
        "f(",
        "((",
        "[[ a",
        "\"",
        "'",
        "`",
        "${",
        "$(",
        "$((",
        "A=(",
        "cat <<E",
        "cat <<",
        ")",
        "}",
        "fi",
        ";;",
        "&",
        "|",
        "<",
        ">(",
        "a(b)",
        "$((1/0))",
        "$((9223372036854775807+1))",
        "((x",
        "for ((i=0;",
        "${#}",
        "${!x}",
        "${a[}",
        "${a[$((",
        "A[1=2",
        "case x in y",
        "function",
        "! ! !",
        "[ ! ]",
        "[[ ( a ]]",
        "[",
        "test",
        "A=~",
        "${A//}",
        "${A/a",
        "$'a",
        "\\",
        "#SBATCH --nodes=",
    };
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
        if (read_script(scripts[i]) < 0)
            EXPECT(strstr(error_message(), "dir/x.sh, line 1: the script "));
    static const char *const deep[] = {"${A:-", "$((",       "$(",   "\"$(",  "if true; then ", "{ ",
                                       "( ",    "f() { ",    "!",    "[[ ( ", "A=$((1+(",       "while x; do ",
                                       "A=1;",  "cat <<E\n", "a | ", "a && ", "${A[${",         "\\\n"};
    for (size_t i = 0; i < sizeof deep / sizeof deep[0]; i++) {
        struct buffer text = {0};
        repeat(&text, deep[i], 10000);
        (void)read_script(buffer_string(&text));
        buffer_free(&text);
    }
    shell_reading_free(&reading);
    static const char bytes[] = "a\0b";
    EXPECT_ERROR(shell_read(&(struct shell_input){.name = "x", .text = bytes, .length = 3}, &reading), "byte 1 is 0");
}

// Their work is counted where nothing is expanded, too.
TEST(hostile_scripts_end_soon) {
    static const struct {
        const char *begin, *repeated, *end;
        int times;
    } cases[] = {
        {"A=\"$U\"\n", "A=$A$A\n", "[ \"$A\" = x ] && python x.py\n", 16},
        {"L='", "1 ", "'\nfor a in $L; do for b in $L; do if false; then ", 190},
        {"", ": `x`\n", "python x.py\n", 40000},
        {"python x.py ", "{1,2}", "\n", 40},
        {"python x.py ", "{1..9999999}", "\n", 1},
        {"A=", "aaaaaaaaaa", "; for i in {1..190}; do [[ $A == *a*a*a*b ]]; done; python x.py", 1000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buffer text = {0};
        buffer_append_string(&text, cases[i].begin);
        repeat(&text, cases[i].repeated, cases[i].times);
        buffer_append_string(&text, cases[i].end);
        if (strstr(cases[i].end, "if false")) {
            repeat(&text, "x", 200000);
            buffer_append_string(&text, "; fi; done; done; python x.py\n");
        }
        if (read_script(buffer_string(&text)) < 0)
            EXPECT(strstr(error_message(), "repeats or expands more than any"));
        buffer_free(&text);
    }
    shell_reading_free(&reading);
}

TEST_MAIN(TEST_CASE(words_are_those_of_bash), TEST_CASE(commands_in_texts), TEST_CASE(what_is_not_decided),
          TEST_CASE(hostile_scripts_end), TEST_CASE(hostile_scripts_end_soon))
