// SPDX-License-Identifier: Apache-2.0
/* kvmm-events: what a pool tells, as it happens, from a file, or to a file. */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kvmm/ext/control.h>
#include <kvmm/types.h>

#include "../client/options.h"
#include "../tool.h"
#include "print.h"
#include "source.h"
#include "wire.h"

enum mode { TAIL, DECODE, RECORD, NAMES };

static const char *const wishes[] = { "names", "requests", "lookups", "all", NULL };
static const char *const modes[] = { "tail", "decode", "record", "names", NULL };

struct options {
	struct client_options client;
	enum mode mode;
	uint32_t what;		/* of wishes[] */
	const char *zmq;
	const char *topic;
	const char *file;
	uint64_t seconds;
	unsigned int nr_args;
};

static const struct option_row rows[] = {
	CLIENT_SOCKET, CLIENT_POOL("the only one"), CLIENT_JSON, CLIENT_COUNT("no end"),
	ROW_WORD("what", 0, "WHAT", struct options, what, wishes,
		"names, requests (and names), lookups (and names), all [names]"),
	ROW_TEXT("zmq", 0, "ENDPOINT", struct options, zmq,
		"From a publisher instead, as tcp://127.0.0.1:5557"),
	ROW_TEXT("topic", 0, "TEXT", struct options, topic, "Only messages whose topic begins so [all]"),
	ROW_SCALED("seconds", 0, "N", struct options, seconds, 1, 1, 1u << 24, "Stop after so long"),
};

static const char doc[] =
	"Show what names come and go in a pool.\v"
	"tail: as it happens. names: all that is cached now. record: to FILE, which kvmm-trace reads; from a "
	"publisher, its batches one behind the other. decode: such batches, of any engine that speaks the "
	"format, from FILE or standard input.\n"
	"\n"
	"A line is an event: seq, counted by the pool; kind: stored, removed, cleared, and of requests and lookups; "
	"medium: where the block lies; then what it has of these: key and parent (half of their digits, all of "
	"them in JSON), tenant, layout, group, position in the prompt in blocks, tokens of the block, block (its "
	"id), request, time_us, input and output tokens, keys asked for, hits, blocks.\n"
	"\n"
	"Examples:\n"
	"  kvmm-events tail --count 10\n"
	"  kvmm-events tail --what requests --json | jq .input\n"
	"  kvmm-events record --what requests --seconds 60 day.events\n"
	"  kvmm-events record --zmq tcp://127.0.0.1:5557 day.batches && kvmm-events decode day.batches\n"
	"\n"
	"Exit code: 0 good; 1 there is no engine or publisher, or it has gone, or events were lost in between; "
	"2 bad usage or a bad file.";

static void add_arg(struct argp_state *state, void *base, const char *arg)
{
	struct options *opt = base;
	unsigned int i;

	if (opt->nr_args++ == 0) {
		for (i = 0; modes[i] && strcmp(modes[i], arg); i++)
			;
		if (!modes[i])
			bad_option(state, "there is no command '%s', only tail, names, record, decode", arg);
		opt->mode = i;
	} else if (opt->nr_args == 2 && (opt->mode == DECODE || opt->mode == RECORD)) {
		opt->file = arg;
	} else {
		bad_option(state, "unexpected argument '%s'", arg);
	}
}

static void check(struct argp_state *state, void *base)
{
	const struct options *opt = base;

	if (!opt->nr_args)
		bad_option(state, "tail, names, record, or decode?");
	if (opt->mode == RECORD && !opt->file)
		bad_option(state, "record: to which file?");
	if (opt->zmq && (opt->client.socket || opt->client.pool || opt->mode == NAMES || opt->mode == DECODE))
		bad_option(state, "--zmq: with tail or record, and without --socket or --pool");
}

/* ---- until when ---- */

struct until {
	uint64_t nr_events;
	uint64_t nr_lost;
};

static bool is_over(const struct options *opt, const struct printer *printer,
		    const struct until *until)
{
	return source_is_stopped() || ferror(printer->out) ||
	       (opt->client.count && until->nr_events >= opt->client.count);
}

/* There is something to record: what the file had goes now and not before. */
static int begin_record(const struct options *opt, const struct printer *printer)
{
	struct stat file;

	if (opt->mode != RECORD)
		return EXIT_GOOD;
	if (fstat(fileno(printer->out), &file) ||
	    (S_ISREG(file.st_mode) && ftruncate(fileno(printer->out), 0)))
		return complain(EXIT_WRONG, "%s: %s", opt->file, strerror(errno));
	if (!opt->zmq)
		fputs(KVMM_EVENT_COLUMNS "\n", printer->out);
	return EXIT_GOOD;
}

/* ---- from a control socket ---- */

static void show(const struct printer *printer, const struct source *source,
		 enum source_answer answer, const struct kvmm_event *event, struct until *until)
{
	if (answer == SOURCE_LOST) {
		until->nr_lost += source->nr_lost;
		print_lost(printer, source->nr_lost);
	} else if (answer == SOURCE_EVENT) {
		until->nr_events++;
		print_event(printer, event);
	}
}

static int follow(const struct options *opt, const struct printer *printer, struct source *source)
{
	struct until until = { .nr_events = 0 };
	enum source_answer answer;
	struct kvmm_event event;

	while (!is_over(opt, printer, &until)) {
		answer = source_next(source, &event);
		if (answer == SOURCE_ERROR)
			return complain(EXIT_WRONG, "%s", source->why);
		show(printer, source, answer, &event, &until);
		if (answer == SOURCE_EMPTY) {
			fflush(printer->out);
			source_wait(source);
		}
	}
	return until.nr_lost ? complain(EXIT_WRONG, "%s: events were lost", source->client.path) :
			       EXIT_GOOD;
}

static int from_socket(const struct options *opt, const struct printer *printer)
{
	struct source source;
	int code;

	if (source_open_socket(&source, opt->client.socket, opt->client.pool,
			       wishes[opt->what]))
		code = complain(EXIT_WRONG, "%s", source.why);
	else
		code = begin_record(opt, printer);
	if (!code)
		code = follow(opt, printer, &source);
	source_close(&source);
	return code;
}

/* ---- all names ---- */

enum { PLACE_BYTES = 96 };

/* Of an answer; the last row says where to go on: 1, or 0 that was all. -1: it makes no sense. */
static int show_names(const struct options *opt, const struct printer *printer,
		      struct until *until, char *text, char place[PLACE_BYTES])
{
	unsigned long long watermark, cursor;
	unsigned int at, medium;
	struct kvmm_event event;
	char kind[8];

	for (char *line = text, *end; *line; line = end) {
		if (is_over(opt, printer, until))
			return 0;
		end = line + strcspn(line, "\n");
		if (*end)
			*end++ = '\0';
		if (*line == '#')
			continue;
		if (!kvmm_event_parse(line, strlen(line), &event)) {
			print_event(printer, &event);
			until->nr_events++;
			continue;
		}
		if (sscanf(line, "%llu\t%7s\t-\t-\t-\t-\t-\t-\t%u\t-\t%u\t%llu", &watermark, kind, &at,
			   &medium, &cursor) != 5)
			return -1;
		snprintf(place, PLACE_BYTES, " %llu %u %u %llu", watermark, medium, at, cursor);
		return !strcmp(kind, "more");
	}
	return -1;
}

static int names(const struct options *opt, const struct printer *printer)
{
	struct client client;
	struct until until = { .nr_events = 0 };
	struct answer answer = { 0 };
	char place[PLACE_BYTES] = "";
	int more = 1;

	if (client_open(&client, opt->client.socket))
		return client_wrong(&client);
	while (more > 0) {
		if (client_call(&client, &answer, "names %s 4096%s", opt->client.pool ? opt->client.pool : "-",
				place))
			return client_wrong(&client);
		more = show_names(opt, printer, &until, answer.text, place);
		answer_free(&answer);
	}
	client_close(&client);
	return more ? complain(EXIT_WRONG, "names: the answer makes no sense") : EXIT_GOOD;
}

/* ---- from a publisher ---- */

static int take_batch(const struct options *opt, const struct printer *printer,
		      const struct subscriber *sub, struct until *until)
{
	if (opt->mode == TAIL)
		return batch_print(printer, sub->buf, sub->nr, &until->nr_events) > 0 ? EXIT_GOOD :
			complain(EXIT_WRONG, "%s: a message that is no batch of events", opt->zmq);
	until->nr_events++;
	return fwrite(sub->buf, 1, sub->nr, printer->out) == sub->nr ? EXIT_GOOD :
		complain(EXIT_WRONG, "%s: %s", opt->file, strerror(errno));
}

static int from_publisher(const struct options *opt, const struct printer *printer)
{
	struct until until = { .nr_events = 0 };
	struct subscriber sub;
	int code = EXIT_GOOD, got;
	uint64_t next = 0;

	if (subscribe(&sub, opt->zmq, opt->topic))
		code = complain(EXIT_WRONG, "%s: %s", opt->zmq, sub.why);
	else
		code = begin_record(opt, printer);
	while (!code && !is_over(opt, printer, &until)) {
		got = subscriber_next(&sub);
		if (got < 0)
			code = complain(EXIT_WRONG, "%s: %s", opt->zmq, sub.why);
		if (got <= 0) {
			fflush(printer->out);
			continue;
		}
		if (next && sub.seq != next)
			until.nr_lost++;
		next = sub.seq + 1;
		code = take_batch(opt, printer, &sub, &until);
	}
	unsubscribe(&sub);
	if (!code && until.nr_lost)
		code = complain(EXIT_WRONG, "%s: batches were lost", opt->zmq);
	return code;
}

/* ---- from a file of batches ---- */

/* A part of the file that holds any one batch. */
struct window {
	FILE *file;
	uint8_t *buf;		/* ours; WIRE_MAX_BATCH */
	size_t nr;		/* bytes in it */
	size_t at;		/* of them that are done with */
	uint64_t passed;	/* bytes of the file before it */
};

/* Decoded bytes leave the window, and others come: have any? */
static bool refill(struct window *window)
{
	size_t got;

	window->nr -= window->at;
	window->passed += window->at;
	memmove(window->buf, window->buf + window->at, window->nr);
	window->at = 0;
	got = fread(window->buf + window->nr, 1, WIRE_MAX_BATCH - window->nr, window->file);
	window->nr += got;
	return got;
}

static int decode_all(const struct options *opt, const struct printer *printer, struct window *window)
{
	struct until until = { .nr_events = 0 };

	while (!is_over(opt, printer, &until)) {
		size_t left = window->nr - window->at;
		int64_t used = left ? batch_print(printer, window->buf + window->at, left,
						  &until.nr_events) : 0;

		if (used == -ENOMEM)
			return complain(EXIT_WRONG, "no memory");
		if (used > 0)
			window->at += used;
		else if (!refill(window))	/* else the rest of it has come, maybe */
			return !left ? EXIT_GOOD :
			       complain(EXIT_INPUT, "byte %llu: this is no batch of events",
					(unsigned long long)(window->passed + window->at));
	}
	return EXIT_GOOD;
}

static int decode(const struct options *opt, const struct printer *printer)
{
	const char *name = opt->file && strcmp(opt->file, "-") ? opt->file : NULL;
	struct window window = { .file = name ? fopen(name, "r") : stdin };
	int code;

	if (!window.file)
		return complain(EXIT_INPUT, "%s: %s", name, strerror(errno));
	window.buf = malloc(WIRE_MAX_BATCH);
	code = window.buf ? decode_all(opt, printer, &window) : complain(EXIT_WRONG, "no memory");
	if (!code && ferror(window.file))
		code = complain(EXIT_INPUT, "%s: %s", name ? name : "-", strerror(errno));
	free(window.buf);
	if (name)
		fclose(window.file);
	return code;
}

/* ---- all of it ---- */

static int run(const struct options *opt, struct printer *printer)
{
	if (opt->mode == DECODE)
		return decode(opt, printer);
	if (opt->mode == NAMES)
		return names(opt, printer);
	source_stop_after(opt->seconds);
	source_catch_signals();
	return opt->zmq ? from_publisher(opt, printer) : from_socket(opt, printer);
}

static int open_output(const struct options *opt, struct printer *printer)
{
	unsigned int lines;
	int fd;

	if (opt->mode != RECORD) {
		terminal_size(&lines, &printer->width);
		printer->colours = !opt->client.json && isatty(STDOUT_FILENO) && colours_wanted();
		return EXIT_GOOD;
	}
	fd = open(opt->file, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	printer->out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!printer->out)
		return complain(EXIT_INPUT, "%s: %s", opt->file, strerror(errno));
	printer->table = true;
	return EXIT_GOOD;
}

int main(int argc, char **argv)
{
	static const struct usage usage = {
		OPTION_ROWS(rows), "tail\nnames\nrecord FILE\ndecode [FILE]", doc, add_arg, check, false,
	};
	struct options opt = { .topic = "" };
	struct printer printer = { .out = stdout };
	int code;

	read_options(&usage, argc, argv, &opt);
	printer.json = opt.client.json;
	code = open_output(&opt, &printer);
	if (code)
		return code;
	code = run(&opt, &printer);
	if ((ferror(printer.out) || fclose(printer.out)) && !code)
		code = complain(EXIT_WRONG, "output: %s", strerror(errno));
	return code;
}
