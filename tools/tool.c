// SPDX-License-Identifier: Apache-2.0
/* What all tools have in common; see tool.h. */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <kvmm/types.h>

#include "must.h"
#include "plain.h"
#include "tool.h"

/* ---- argp: libc finds both by their names ---- */

static void print_version(FILE *out, struct argp_state *state)
{
	fprintf(out, "%s %s\n", program_invocation_short_name, kvmm_version());
}

__attribute__((visibility("default")))
void (*argp_program_version_hook)(FILE *out, struct argp_state *state) = print_version;

__attribute__((visibility("default")))
error_t argp_err_exit_status = EXIT_INPUT;

/* ---- complaints ---- */

static __thread char *complaint_into;
void (*complain_before)(void);

void complain_into(char text[COMPLAINT_BYTES])
{
	complaint_into = text;
	if (text)
		*text = '\0';
}

/* Somebody who runs many takes the messages, or they are for people. */
static void say(const char *text)
{
	if (complaint_into && !*complaint_into)
		snprintf(complaint_into, COMPLAINT_BYTES, "%s", text);
	if (complaint_into)
		return;
	if (complain_before)
		complain_before();
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, text);
}

/* With @why behind it, where there is one. */
static void vsay(const char *why, const char *format, va_list args)
{
	char text[COMPLAINT_BYTES];
	int n = vsnprintf(text, sizeof(text), format, args);

	if (why && n >= 0 && n < (int)sizeof(text))
		snprintf(text + n, sizeof(text) - (size_t)n, ": %s", why);
	make_plain(text, strlen(text));
	say(text);
}

enum exit_code complain(enum exit_code code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsay(NULL, format, args);
	va_end(args);
	return code;
}

enum exit_code complain_of(int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsay(kvmm_strerror(err), format, args);
	va_end(args);
	return err == -ENOENT || err == -EINVAL ? EXIT_INPUT : EXIT_WRONG;
}

enum exit_code complain_usage(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsay(NULL, format, args);
	va_end(args);
	fprintf(stderr, "Try `%s --help' or `%s --usage' for more information.\n",
		program_invocation_short_name, program_invocation_short_name);
	return EXIT_INPUT;
}

void bad_option(const struct argp_state *state, const char *format, ...)
{
	char text[COMPLAINT_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	make_plain(text, strlen(text));
	argp_error(state, "%s", text);
}

long read_line(FILE *in, char *text, size_t room)
{
	size_t nr = 0;
	int c;

	while ((c = getc_unlocked(in)) != EOF && c != '\n') {
		if (nr == room - 1)
			return LINE_LONG;
		text[nr++] = (char)c;
	}
	text[nr] = '\0';
	return nr || c != EOF ? (long)nr : LINE_NONE;
}

const char *text_of_bytes(double bytes, char text[BYTES_TEXT])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	unsigned int i = 0;

	for (; bytes >= 1024 && i + 1 < sizeof(units) / sizeof(units[0]); i++)
		bytes /= 1024;
	snprintf(text, BYTES_TEXT, "%.*f %s", i ? 1 : 0, bytes, units[i]);
	return text;
}

void terminal_size(unsigned int *lines, unsigned int *columns)
{
	struct winsize size = { 0 };

	if (isatty(STDOUT_FILENO))
		ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	*lines = size.ws_row;
	*columns = size.ws_col;
}

unsigned int print_words(FILE *out, const char *text, unsigned int at, unsigned int indent,
			 unsigned int width)
{
	while (*text) {
		unsigned int nr = 1 + (unsigned int)strcspn(text + 1, " ");

		if (width && at > indent && at + nr > width) {
			fprintf(out, "\n%*s", (int)indent - 1, "");
			at = indent - 1;
		}
		fwrite(text, 1, nr, out);
		at += nr;
		text += nr;
	}
	return at;
}

bool colours_wanted(void)
{
	const char *no = getenv("NO_COLOR");

	return !no || !*no;
}

enum exit_code finish_output(enum exit_code code)
{
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	return code ? code : complain(EXIT_WRONG, "standard output: %s", strerror(errno));
}

/* ---- values of options ---- */

uint64_t option_number(struct argp_state *state, const char *name, const char *arg, uint64_t min,
		       uint64_t max)
{
	unsigned long long v;
	char *end;

	errno = 0;
	v = strtoull(arg, &end, 10);
	if (*arg < '0' || *arg > '9' || *end || errno || v < min || v > max)
		bad_option(state, "--%s: '%s' is not a number from %llu to %llu", name, arg,
			   (unsigned long long)min, (unsigned long long)max);
	return v;
}

double option_seconds(struct argp_state *state, const char *name, const char *arg, double min,
		      double max)
{
	char *end;
	double s = strtod(arg, &end);

	if (*arg < '0' || *arg > '9' || *end || !(s >= min && s <= max))
		bad_option(state, "--%s: '%s' is not a number of seconds from %g to %.10g", name, arg,
			   min, max);
	return s;
}

uint64_t option_milli(struct argp_state *state, const char *name, const char *arg, double min,
		      double max)
{
	char *end;
	double value = strtod(arg, &end);

	if (*arg < '0' || *arg > '9' || *end || !(value >= min && value <= max))
		bad_option(state, "--%s: '%s' is not a number from %g to %g", name, arg, min, max);
	return (uint64_t)(value * 1000 + 0.5);
}

unsigned int option_word(struct argp_state *state, const char *name, const char *arg,
			 const char *const *words)
{
	char all[256] = "";
	unsigned int i;

	for (i = 0; words[i] && strcmp(words[i], arg); i++) {
		strncat(all, i ? ", " : "", sizeof(all) - strlen(all) - 1);
		strncat(all, words[i], sizeof(all) - strlen(all) - 1);
	}
	if (!words[i])
		bad_option(state, "--%s: there is no '%s', only %s", name, arg, all);
	return i;
}

static void set_field(struct argp_state *state, const struct option_field *field, void *base,
		      const char *arg)
{
	void *to = (char *)base + field->offset;

	if (field->is_text)
		*(const char **)to = arg;
	else if (field->words)
		*(uint32_t *)to = option_word(state, field->name, arg, field->words);
	else if (field->scale)
		*(uint64_t *)to = field->scale * option_number(state, field->name, arg, field->min,
							       field->max);
	else if (field->name)
		*(uint32_t *)to = (uint32_t)option_number(state, field->name, arg, field->min, field->max);
	else
		*(bool *)to = true;
}

#define FIRST_KEY	256	/* of rows without a letter */

static int row_key(const struct option_row *rows, size_t i)
{
	return rows[i].key ? rows[i].key : FIRST_KEY + (int)i;
}

/* What argp gives to parse(). */
struct parse {
	const struct usage *usage;
	void *base;
};

static bool take_option(struct argp_state *state, const struct parse *parse, int key, const char *arg)
{
	const struct option_row *rows = parse->usage->rows;
	size_t i = 0, nr = parse->usage->nr;

	while (i < nr && !(rows[i].name && row_key(rows, i) == key))
		i++;
	if (i < nr && rows[i].take)
		rows[i].take(state, parse->base, arg);
	else if (i < nr)
		set_field(state, &rows[i].field, parse->base, arg);
	return i < nr;
}

static error_t parse_key(int key, char *arg, struct argp_state *state)
{
	const struct parse *parse = state->input;
	const struct usage *usage = parse->usage;

	if (take_option(state, parse, key, arg))
		return 0;
	if (key == ARGP_KEY_ARG && usage->arg)
		usage->arg(state, parse->base, arg);
	else if (key == ARGP_KEY_ARG)
		bad_option(state, "unexpected argument '%s'", arg);
	else if (key == ARGP_KEY_END && usage->end)
		usage->end(state, parse->base);
	else
		return ARGP_ERR_UNKNOWN;
	return 0;
}

/* argp's own complaints begin with the path of the tool, which for that time is its name. */
void read_options(const struct usage *usage, int argc, char **argv, void *base)
{
	char *path = argc ? argv[0] : NULL, *slash = path ? strrchr(path, '/') : NULL;
	struct argp_option *options = must_alloc((usage->nr + 1) * sizeof(*options));
	struct argp argp = { options, parse_key, usage->args, usage->doc, NULL, NULL, NULL };
	struct parse parse = { usage, base };

	for (size_t i = 0; i < usage->nr; i++) {
		const struct option_row *row = &usage->rows[i];

		options[i] = (struct argp_option){
			.name	= row->name,
			.key	= row->name ? row_key(usage->rows, i) : 0,
			.arg	= row->arg,
			.flags	= row->help ? 0 : OPTION_ALIAS,
			.doc	= row->help,
			.group	= row->name ? 0 : row->key,
		};
	}
	if (slash)
		argv[0] = slash + 1;
	argp_parse(&argp, argc, argv, usage->in_order ? ARGP_IN_ORDER : 0, NULL, &parse);
	if (path)
		argv[0] = path;		/* by which the loader still says where we are */
	free(options);
}
