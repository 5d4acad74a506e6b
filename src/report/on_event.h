// --on-event: a shell command that is run on events of a run, e.g. to notify a chat. It gets the facts as environment
// variables (BEVATRON_EVENT, BEVATRON_TEXT, …) and as a JSON object on its standard input; docs/events.md lists them.
// See base/command_queue.h for why it can neither delay nor stop the run.
#ifndef REPORT_ON_EVENT_H
#define REPORT_ON_EVENT_H

#include "report/metrics.h"

struct on_event;

struct on_event_options {
    const char *command;
    const char *run;  // name of the run: the folder of --save
    const char *job;  // the scheduler's number of the job, NULL for none
};
// The strings must outlive it. NULL if there is no command. Nothing is started before the first event.
struct on_event *on_event_open(const struct on_event_options *options);
// May be called from several threads; NULL is fine.
void on_event_tell(struct on_event *on_event, const struct metrics_event *event);
// Waits at most this long for running and queued commands. NULL is fine.
void on_event_wait(struct on_event *on_event, double seconds);
void on_event_close(struct on_event *on_event, double seconds);

#endif
