// SPDX-License-Identifier: Apache-2.0
/* Results as JSON and as text. Integers are printed digit by digit, never through a double. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../json.h"
#include "results.h"

char *format_u128(u128 value, char buf[40])
{
	char digits[40];
	int n = 0;

	do {
		digits[n++] = (char)('0' + (int)(value % 10));
		value /= 10;
	} while (value);
	for (int i = 0; i < n; i++)
		buf[i] = digits[n - 1 - i];
	buf[n] = '\0';
	return buf;
}

const char *grouped(u64 value)
{
	static __thread char bufs[4][32];
	static __thread unsigned int next;
	char plain[40], *buf = bufs[next++ % 4];
	size_t n = strlen(format_u128(value, plain)), at = 0;

	for (size_t i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			buf[at++] = ',';
		buf[at++] = plain[i];
	}
	buf[at] = '\0';
	return buf;
}

double share(u128 part, u128 whole)
{
	return whole ? (double)part / (double)whole : 0;
}

void results_raw(struct results *results, const char *key, const char *json)
{
	char *text = strdup(json);

	if (!text || results->nr_fields == RESULTS_MAX_FIELDS) {
		free(text);
		return;
	}
	results->field[results->nr_fields++] = (struct field){ key, text };
}

void results_num(struct results *results, const char *key, u128 value)
{
	char buf[40];

	results_raw(results, key, format_u128(value, buf));
}

void results_str(struct results *results, const char *key, const char *value)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return;
	json_string(value, out);
	fclose(out);
	if (text)
		results_raw(results, key, text);
	free(text);
}

void results_bool(struct results *results, const char *key, bool value)
{
	results_raw(results, key, value ? "true" : "false");
}

void results_hex(struct results *results, const char *key, u64 value)
{
	char text[20];

	snprintf(text, sizeof(text), "\"%016llx\"", (unsigned long long)value);
	results_raw(results, key, text);
}

__attribute__((format(printf, 5, 0)))
static void add_line(struct line *line, u32 *nr, u32 max, const char *label,
		     const char *format, va_list args)
{
	if (*nr == max)
		return;
	line[*nr].label = label;
	vsnprintf(line[*nr].text, sizeof(line->text), format, args);
	(*nr)++;
}

void results_say(struct results *results, const char *label, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add_line(results->line, &results->nr_lines, RESULTS_MAX_LINES, label, format, args);
	va_end(args);
}

void results_tile(struct results *results, const char *label, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add_line(results->tile, &results->nr_tiles, RESULTS_MAX_TILES, label, format, args);
	va_end(args);
}

void results_print_members(const struct results *results, FILE *out)
{
	putc('{', out);
	for (u32 i = 0; i < results->nr_fields; i++) {
		fputs(i ? ", " : "", out);
		json_string(results->field[i].key, out);
		fprintf(out, ": %s", results->field[i].text);
	}
	putc('}', out);
}

void results_print_json(const struct results *results, FILE *out)
{
	results_print_members(results, out);
	putc('\n', out);
}

void results_print_text(const struct results *results, FILE *out)
{
	for (u32 i = 0; i < results->nr_lines; i++)
		fprintf(out, "%-18s %s\n", results->line[i].label, results->line[i].text);
}

void results_exit(struct results *results)
{
	for (u32 i = 0; i < results->nr_fields; i++)
		free(results->field[i].text);
	memset(results, 0, sizeof(*results));
}
