/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all tools have in common, whatever they are about: --version, exit codes, how they complain, and how
 * values of options are read.
 */
#ifndef TOOLS_TOOL_H
#define TOOLS_TOOL_H

#include <stdint.h>

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

/* The same with "Try --help"; EXIT_INPUT. For what argp does not see. */
enum exit_code complain_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * What this thread complains about goes into @text from now on, not to stderr; back with NULL.
 * Only the first complaint is kept.
 */
void complain_into(char text[COMPLAINT_BYTES]);

/* Called before a complaint is on stderr: whoever draws there wipes it. NULL: nobody. */
extern void (*complain_before)(void);

/* Did all of standard output arrive? @code, or EXIT_WRONG where it was good, and that is said. */
enum exit_code finish_output(enum exit_code code);

/* Arguments of --@name; a mistake is said, and ends the process. */
uint64_t option_number(struct argp_state *state, const char *name, const char *arg, uint64_t min,
		       uint64_t max);
double option_seconds(struct argp_state *state, const char *name, const char *arg, double min,
		      double max);
/* Which of @words, which end with NULL. */
unsigned int option_word(struct argp_state *state, const char *name, const char *arg,
			 const char *const *words);

#endif /* TOOLS_TOOL_H */
