/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where events come from, one at a time: an engine's control socket, or a file of the same lines.
 *
 * Neither is believed: a line that is no event ends it, with a sentence that says which one.
 */
#ifndef TOOLS_EVENTS_SOURCE_H
#define TOOLS_EVENTS_SOURCE_H

#include <stdio.h>

#include <kvmm/event.h>

#include "../client/client.h"

enum source_answer {
	SOURCE_ERROR = -1,	/* ->why */
	SOURCE_EMPTY,		/* socket: nothing new; file: the end */
	SOURCE_EVENT,
	SOURCE_LOST,		/* ->nr_lost are missing here */
};

#define SOURCE_LINE	4096u	/* bytes of the longest one in a file, and its end */

/**
 * struct source - one of them
 * @is_live: a socket
 * @nr_lost: with SOURCE_LOST
 * @line: of a file
 * @cursor: of a socket: where to go on
 * @is_behind: of a socket: the last answer was full
 * @wish: what is asked for: "names", "requests", "lookups", "all"
 * @why: what went wrong
 */
struct source {
	bool is_live;
	uint64_t nr_lost;
	uint64_t line;
	char why[CLIENT_WHY];

	FILE *file;
	char text[SOURCE_LINE];	/* line of ->file */

	struct client client;
	struct answer answer;	/* ours */
	char *at;		/* in ->answer; NULL: read up */
	char pool[64];
	char cursor[24];
	bool is_behind;
	const char *wish;
};

/* 0, or -1 and ->why. @path "-": standard input. */
int source_open_file(struct source *source, const char *path);
/* The same; @path, @pool NULL: the only one. */
int source_open_socket(struct source *source, const char *path, const char *pool, const char *wish);
void source_close(struct source *source);

enum source_answer source_next(struct source *source, struct kvmm_event *event);

/* Sleep a little, unless more is there already, or a signal came that ends the tool: false. */
bool source_wait(const struct source *source);
/* SIGINT and SIGTERM end source_wait() from now on, not the tool. */
void source_catch_signals(void);
bool source_is_stopped(void);
/* So many seconds from now on are enough, too; 0: no end. */
void source_stop_after(unsigned long seconds);

#endif /* TOOLS_EVENTS_SOURCE_H */
