/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all tools have in common, whatever they are about: --version, exit codes, how they complain, and how
 * values of options are read.
 */
#ifndef TOOLS_TOOL_H
#define TOOLS_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct argp_state;

/* What the process says at its end; argp says EXIT_INPUT, too. */
enum exit_code {
	EXIT_GOOD	= 0,
	EXIT_WRONG	= 1,	/* what was asked for failed, or something was found wrong */
	EXIT_INPUT	= 2,	/* bad usage, or an input file that is none */
};

#define COMPLAINT_BYTES	512

/* Say what went wrong, on stderr, after the name of the tool. Returns @code. */
enum exit_code complain(enum exit_code code, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The same for an errno of the library, with what was attempted; EXIT_WRONG, or EXIT_INPUT if
 * the option behind it names something that does not exist. */
enum exit_code complain_of(int err, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

enum { LINE_NONE = -1, LINE_LONG = -2 };
#define MAX_IDLE_LINES	(1u << 20)	/* in a row that say nothing: more come from a pipe without end */

/*
 * The next line of @in into @text, without its end: how many bytes; LINE_NONE; or LINE_LONG: it has @room
 * or more, which are not kept.
 */
long read_line(FILE *in, char *text, size_t room);

/* argp_error(), without what a terminal acts on in words of the command line. */
void bad_option(const struct argp_state *state, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The same with "Try --help"; EXIT_INPUT. For what argp does not see. */
enum exit_code complain_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * What this thread complains about goes into @text from now on, not to stderr; back with NULL.
 * Only the first complaint is kept.
 */
void complain_into(char text[COMPLAINT_BYTES]);

/* Called before a complaint is on stderr: whoever draws there wipes it. NULL: nobody. */
extern void (*complain_before)(void);

/* "29.6 MiB", in a buffer of the caller, which is returned. */
#define BYTES_TEXT	24
const char *text_of_bytes(double bytes, char text[BYTES_TEXT]);

/* Of standard output; 0 each where it is no terminal. */
void terminal_size(unsigned int *lines, unsigned int *columns);

/*
 * Words, each after a blank: from column @at on, and where one does not fit, on a line of its own behind
 * @indent blanks. @width 0: all fit. Where it ended.
 */
unsigned int print_words(FILE *out, const char *text, unsigned int at, unsigned int indent,
			 unsigned int width);

/* Nobody has said by $NO_COLOR that a terminal is to have no colours. */
bool colours_wanted(void);

/* Did all of standard output arrive? @code; or, where that is good, EXIT_WRONG, and it is said. */
enum exit_code finish_output(enum exit_code code);

/* Arguments of --@name; a mistake is said, and ends the process. */
uint64_t option_number(struct argp_state *state, const char *name, const char *arg, uint64_t min,
		       uint64_t max);
double option_seconds(struct argp_state *state, const char *name, const char *arg, double min,
		      double max);
/* A number with at most three digits behind the point, times 1,000. */
uint64_t option_milli(struct argp_state *state, const char *name, const char *arg, double min,
		      double max);
/* Which of @words, which end with NULL. */
unsigned int option_word(struct argp_state *state, const char *name, const char *arg,
			 const char *const *words);

/**
 * struct option_field - where a value goes that is taken as it is
 * @name: of an option that takes a number or a word
 * @offset: of a uint32_t for numbers and @words, a bool where neither is, a const char * with @is_text
 * @scale: of a number: what it is times, in a uint64_t; 0: a uint32_t has it
 * @min, @max: of a number
 */
struct option_field {
	const char *name;
	size_t offset;
	uint64_t scale, min, max;
	const char *const *words;
	bool is_text;
};

/**
 * struct option_row - an option as one row of a table: what --help says, and where its value goes
 * @name: NULL: @help is the heading of group @key
 * @key: its letter; 0: it has none
 * @arg: what --help calls its argument; NULL: it takes none
 * @help: NULL: another name of the row above
 * @take: what is done with it, in the struct at @base; NULL: it goes into @field
 */
struct option_row {
	const char *name;
	int key;
	const char *arg;
	const char *help;
	void (*take)(struct argp_state *state, void *base, const char *arg);
	struct option_field field;
};

#define ROW_HEAD(group, help) \
	{ NULL, group, NULL, help, NULL, { NULL, 0, 0, 0, 0, NULL, false } }
#define ROW_NUMBER(name, key, arg, type, field, min, max, help) \
	{ name, key, arg, help, NULL, { name, offsetof(type, field), 0, min, max, NULL, false } }
#define ROW_SCALED(name, key, arg, type, field, scale, min, max, help) \
	{ name, key, arg, help, NULL, { name, offsetof(type, field), scale, min, max, NULL, false } }
#define ROW_WORD(name, key, arg, type, field, words, help) \
	{ name, key, arg, help, NULL, { name, offsetof(type, field), 0, 0, 0, words, false } }
#define ROW_FLAG(name, key, type, field, help) \
	{ name, key, NULL, help, NULL, { NULL, offsetof(type, field), 0, 0, 0, NULL, false } }
#define ROW_TEXT(name, key, arg, type, field, help) \
	{ name, key, arg, help, NULL, { NULL, offsetof(type, field), 0, 0, 0, NULL, true } }
#define ROW_TAKE(name, key, arg, take, help) \
	{ name, key, arg, help, take, { NULL, 0, 0, 0, 0, NULL, false } }

/**
 * struct usage - a command line
 * @rows, @nr: its options
 * @args, @doc: for --help
 * @arg: an argument has come; NULL: none may
 * @end: all has been read; NULL: that needs no check
 * @in_order: arguments and options come as they stand there
 */
struct usage {
	const struct option_row *rows;
	size_t nr;
	const char *args;
	const char *doc;
	void (*arg)(struct argp_state *state, void *base, const char *arg);
	void (*end)(struct argp_state *state, void *base);
	bool in_order;
};

#define OPTION_ROWS(rows)	(rows), sizeof(rows) / sizeof((rows)[0])

/* Read it into the struct at @base; a mistake is said, after the tool's name, and ends the process. */
void read_options(const struct usage *usage, int argc, char **argv, void *base);

#endif /* TOOLS_TOOL_H */
