// SPDX-License-Identifier: Apache-2.0
/* Lines of events from a socket or a file; see source.h. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kvmm/ext/control.h>

#include "../tool.h"
#include "source.h"

#define MAX_ROWS	4096
#define WAIT_NS		20000000

static volatile sig_atomic_t stopped;
static unsigned long long stop_at_ns;

static void on_signal(int number)
{
	stopped = number;
}

void source_catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	client_stop = &stopped;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static unsigned long long now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (unsigned long long)time.tv_sec * 1000000000 + (unsigned long long)time.tv_nsec;
}

void source_stop_after(unsigned long seconds)
{
	stop_at_ns = seconds ? now_ns() + seconds * 1000000000ull : 0;
}

bool source_is_stopped(void)
{
	return stopped || (stop_at_ns && now_ns() >= stop_at_ns);
}

bool source_wait(const struct source *source)
{
	struct timespec time = { 0, WAIT_NS };

	if (!stopped && !source->is_behind)
		nanosleep(&time, NULL);
	return !stopped;
}

/* ---- coming and going ---- */

int source_open_file(struct source *source, const char *path)
{
	memset(source, 0, sizeof(*source));
	source->file = strcmp(path, "-") ? fopen(path, "r") : stdin;
	if (source->file)
		return 0;
	snprintf(source->why, sizeof(source->why), "%s", strerror(errno));
	return -1;
}

static int ask(struct source *source)
{
	answer_free(&source->answer);
	source->at = NULL;
	if (client_call(&source->client, &source->answer, "events %s %s %u %s", source->pool,
			source->cursor, MAX_ROWS, source->wish)) {
		memcpy(source->why, source->client.why, sizeof(source->why));
		return -1;
	}
	source->at = source->answer.text;
	return 0;
}

int source_open_socket(struct source *source, const char *path, const char *pool, const char *wish)
{
	memset(source, 0, sizeof(*source));
	source->is_live = true;
	source->wish = wish;
	snprintf(source->pool, sizeof(source->pool), "%s", pool ? pool : "-");
	strcpy(source->cursor, "new");
	if (client_open(&source->client, path)) {
		memcpy(source->why, source->client.why, sizeof(source->why));
		return -1;
	}
	return ask(source);
}

void source_close(struct source *source)
{
	if (source->is_live) {
		answer_free(&source->answer);
		client_close(&source->client);
	} else if (source->file && source->file != stdin) {
		fclose(source->file);
	}
}

/* ---- lines ---- */

/* Rows that are no events: where to go on, and what is missing. */
static bool is_mark(struct source *source, const char *line, enum source_answer *answer)
{
	char seq[24], kind[8];

	if (sscanf(line, "%23[0-9]\t%7[a-z]\t", seq, kind) != 2)
		return false;
	*answer = SOURCE_EMPTY;
	if (!strcmp(kind, "next")) {
		source->is_behind = strtoull(seq, NULL, 10) -
				    strtoull(source->cursor, NULL, 10) >= MAX_ROWS;
		strcpy(source->cursor, seq);
		return true;
	}
	*answer = SOURCE_LOST;
	source->nr_lost = strtoull(strrchr(line, '\t') + 1, NULL, 10);
	return !strcmp(kind, "lost");
}

static enum source_answer take_line(struct source *source, const char *line, size_t nr,
				    struct kvmm_event *event)
{
	enum source_answer answer = SOURCE_EVENT;

	source->line++;
	if (!nr || *line == '#')
		return SOURCE_EMPTY;
	if (!kvmm_event_parse(line, nr, event) || is_mark(source, line, &answer))
		return answer;
	snprintf(source->why, sizeof(source->why), "%sline %llu is no event",
		 source->is_live ? "what the engine says makes no sense: " : "",
		 (unsigned long long)source->line);
	return SOURCE_ERROR;
}

static enum source_answer next_of_file(struct source *source, struct kvmm_event *event)
{
	enum source_answer answer = SOURCE_EMPTY;
	unsigned int nr_idle = 0;
	long nr = 0;

	for (; answer == SOURCE_EMPTY && nr_idle <= MAX_IDLE_LINES; nr_idle++) {
		nr = read_line(source->file, source->text, SOURCE_LINE);
		if (nr < 0)
			break;
		answer = take_line(source, source->text, (size_t)nr, event);
	}
	if (answer == SOURCE_EMPTY && nr_idle > MAX_IDLE_LINES) {
		snprintf(source->why, sizeof(source->why), "more than %u lines in a row are no events",
			 MAX_IDLE_LINES);
		return SOURCE_ERROR;
	}
	if (nr == LINE_LONG) {
		snprintf(source->why, sizeof(source->why), "line %llu has %u bytes or more",
			 (unsigned long long)source->line + 1, SOURCE_LINE);
		return SOURCE_ERROR;
	}
	if (answer == SOURCE_EMPTY && ferror(source->file)) {
		snprintf(source->why, sizeof(source->why), "%s", strerror(errno));
		return SOURCE_ERROR;
	}
	return answer;
}

static enum source_answer next_of_socket(struct source *source, struct kvmm_event *event)
{
	enum source_answer answer = SOURCE_EMPTY;

	if (!source->at && ask(source))
		return SOURCE_ERROR;
	while (answer == SOURCE_EMPTY && *source->at) {
		char *line = source->at, *end = line + strcspn(line, "\n");

		source->at = *end ? end + 1 : end;
		*end = '\0';
		answer = take_line(source, line, end - line, event);
	}
	if (answer == SOURCE_EMPTY)
		source->at = NULL;
	return answer;
}

enum source_answer source_next(struct source *source, struct kvmm_event *event)
{
	return source->is_live ? next_of_socket(source, event) : next_of_file(source, event);
}
