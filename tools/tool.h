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

struct argp;
struct argp_option;
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

/* Nobody has said by $NO_COLOR that a terminal is to have no colours. */
bool colours_wanted(void);

/* Did all of standard output arrive? @code; or, where that is good, EXIT_WRONG, and it is said. */
enum exit_code finish_output(enum exit_code code);

/* argp_parse(), whose own complaints begin with the tool's name, too, and not with its path. */
void read_options(const struct argp *argp, int argc, char **argv, unsigned int flags, void *input);

/* Arguments of --@name; a mistake is said, and ends the process. */
uint64_t option_number(struct argp_state *state, const char *name, const char *arg, uint64_t min,
		       uint64_t max);
double option_seconds(struct argp_state *state, const char *name, const char *arg, double min,
		      double max);
/* Which of @words, which end with NULL. */
unsigned int option_word(struct argp_state *state, const char *name, const char *arg,
			 const char *const *words);

/**
 * struct option_field - an option that goes into a field of a struct as it is
 * @name: of an option that takes a number or a word
 * @offset: of a uint32_t for numbers and @words, a bool where neither is, a const char * with @is_text
 * @min, @max: of a number
 */
struct option_field {
	int key;
	const char *name;
	size_t offset;
	uint32_t min, max;
	const char *const *words;
	bool is_text;
};

#define OPTION_NONE	{ 0, NULL, 0, 0, 0, NULL, false }
#define OPTION_NUMBER(key, name, type, field, min, max) \
	{ key, name, offsetof(type, field), min, max, NULL, false }
#define OPTION_WORD(key, name, type, field, words)	{ key, name, offsetof(type, field), 0, 0, words, false }
#define OPTION_FLAG(key, type, field)	{ key, NULL, offsetof(type, field), 0, 0, NULL, false }
#define OPTION_TEXT(key, type, field)	{ key, NULL, offsetof(type, field), 0, 0, NULL, true }

/* Put it where it belongs, in the struct at @base; false: @key is none of @fields. */
bool option_set(struct argp_state *state, const struct option_field *fields, size_t nr, void *base,
		int key, const char *arg);

/**
 * struct option_row - an option as one row of a table: what --help says, and where its value goes
 * @name: NULL: @help is the heading of group @key
 * @key: its letter; 0: it has none
 * @arg: what --help calls its argument; NULL: it takes none
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
	{ NULL, group, NULL, help, NULL, OPTION_NONE }
#define ROW_NUMBER(name, key, arg, type, field, min, max, help) \
	{ name, key, arg, help, NULL, OPTION_NUMBER(0, name, type, field, min, max) }
#define ROW_WORD(name, key, arg, type, field, words, help) \
	{ name, key, arg, help, NULL, OPTION_WORD(0, name, type, field, words) }
#define ROW_FLAG(name, key, type, field, help) \
	{ name, key, NULL, help, NULL, OPTION_FLAG(0, type, field) }
#define ROW_TEXT(name, key, arg, type, field, help) \
	{ name, key, arg, help, NULL, OPTION_TEXT(0, type, field) }
#define ROW_TAKE(name, key, arg, take, help)	{ name, key, arg, help, take, OPTION_NONE }

/*
 * The rows as argp wants them: @options has one more, which ends them. Keys are those or, from
 * @first on, made.
 */
void option_rows(const struct option_row *rows, size_t nr, int first, struct argp_option *options);

/* As option_set(). */
bool option_row_set(struct argp_state *state, const struct option_row *rows, size_t nr, int first,
		    void *base, int key, const char *arg);

#endif /* TOOLS_TOOL_H */
