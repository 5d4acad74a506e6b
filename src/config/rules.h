// Rules between flags, as rows: one flag needs, belongs to or excludes another, or has no effect without or with it.
// Rules that need computation are in validate_*.c.
//
// A row is written as on a command line. A term, "--gated-linear-unit", "--softmax-type learnable" or "--model bert
// --bert-no-binary-head", holds if each of its flags holds: one with values ("--optimizer muon|adaptive_muon") if it
// has one of them (a list: contains), one without if it differs from its default. Commas separate terms.
#ifndef CONFIG_RULES_H
#define CONFIG_RULES_H

#include "config/complaints.h"
#include "config/config.h"

enum rule_kind {
    RULE_NEEDS,      // refused unless one of the others holds
    RULE_BELONGS,    // like RULE_NEEDS, but useless without it: the remedy is to leave it out
    RULE_EXCLUDES,   // refused together with one of the others
    RULE_IDLE,       // a warning if the user gave it and none of the others holds
    RULE_IDLE_WITH,  // a warning if the user gave it and one of the others holds
};

struct flag_rule {
    enum rule_kind kind;
    const char *flags;   // terms; the rule holds for each of them
    const char *others;  // terms
    const char *why;     // appended to the others, e.g. ", the folder of …"; with ";" it has the remedy, too
    const char *when;    // terms; the rule applies if one of them holds. NULL: always
    unsigned uses;       // the rule also holds for each flag that has one of these (enum flag_use)
};

// The tables (rules_table.c); each ends with a row without flags. Those of training apply only to CONFIG_TRAIN, those
// of data not to CONFIG_GENERATE: other commands read the same files and do not use these flags.
extern const struct flag_rule rules_always[], rules_of_data[], rules_of_training[];

void rules_check(const struct flag_rule *rules, const struct config *config, struct complaints *complaints);

#endif
