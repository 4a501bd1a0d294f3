/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run found: exact fields for machines, and lines with a label for people. Both go to the
 * report page; standard output gets one of them.
 */
#ifndef REPLAY_RESULTS_H
#define REPLAY_RESULTS_H

#include <stdio.h>

#include "common.h"

#define RESULTS_MAX_FIELDS	96
#define RESULTS_MAX_LINES	32
#define RESULTS_MAX_TILES	4

/* A field; @text is its JSON. */
struct field {
	const char *key;
	char *text;
};

struct line {
	const char *label;
	char text[96];
};

struct results {
	struct field field[RESULTS_MAX_FIELDS];
	struct line line[RESULTS_MAX_LINES];
	struct line tile[RESULTS_MAX_TILES];
	u32 nr_fields;
	u32 nr_lines;
	u32 nr_tiles;
};

/* Fields. Keys are borrowed; a field without memory is left out. */
void results_num(struct results *results, const char *key, u128 value);
void results_str(struct results *results, const char *key, const char *value);
void results_bool(struct results *results, const char *key, bool value);
void results_hex(struct results *results, const char *key, u64 value);
void results_raw(struct results *results, const char *key, const char *json);

/* A line for people; labels are borrowed. */
void results_say(struct results *results, const char *label, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* A short line that the report page shows large. */
void results_tile(struct results *results, const char *label, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* One object, with and without the end of the line. */
void results_print_json(const struct results *results, FILE *out);
void results_print_members(const struct results *results, FILE *out);

void results_print_text(const struct results *results, FILE *out);
void results_exit(struct results *results);

/* Decimal digits of a large number into @buf (40 bytes). Returns @buf. */
char *format_u128(u128 value, char buf[40]);

/* part of whole, for people; 0 of 0 is 0. */
double share(u128 part, u128 whole);

/* "12,345,678"; good until this thread has asked for four more. */
const char *grouped(u64 value);

#endif /* REPLAY_RESULTS_H */
