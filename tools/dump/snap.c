// SPDX-License-Identifier: Apache-2.0
/*
 * Snapshots as text. What is read may be anybody's: each field is checked, runs must follow one another,
 * and the last line must say how many there were, so that half a file is not taken for a whole one.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../plain.h"
#include "snap.h"

#define MAX_COLUMNS	64u
#define MAX_FILE	(4ull << 30)
#define FIRST_LINE	"# kvmm-snapshot 1"

enum kind { KIND_U32, KIND_U64, KIND_STATE, KIND_FLAGS, KIND_KEY };

static const struct {
	const char *name;
	enum kind kind;
	size_t offset;
} columns[SNAP_NR_COLUMNS] = {
#define COLUMN(number, text, type, field)	\
	[number] = { text, type, offsetof(struct snap_row, field) }
	COLUMN(SNAP_FIRST, "first", KIND_U32, first),
	COLUMN(SNAP_COUNT, "count", KIND_U32, nr),
	COLUMN(SNAP_STATE, "state", KIND_STATE, state),
	COLUMN(SNAP_FLAGS, "flags", KIND_FLAGS, flags),
	COLUMN(SNAP_OWNER, "owner", KIND_U64, owner),
	COLUMN(SNAP_CLASS, "class", KIND_U32, cls),
	COLUMN(SNAP_PINS, "pins", KIND_U32, pins),
	COLUMN(SNAP_REFS, "refs", KIND_U32, refs),
	COLUMN(SNAP_AGE, "age_ns", KIND_U64, age_ns),
	COLUMN(SNAP_SEQ, "seq", KIND_U64, seq),
	COLUMN(SNAP_TENANT, "tenant", KIND_U32, tenant),
	COLUMN(SNAP_GROUP, "group", KIND_U32, group),
	COLUMN(SNAP_LAYOUT, "layout", KIND_U32, layout),
	COLUMN(SNAP_POSITION, "position", KIND_U32, position),
	COLUMN(SNAP_PRIO, "prio", KIND_U32, prio),
	COLUMN(SNAP_DEADLINE, "deadline_ns", KIND_U64, deadline_ns),
	COLUMN(SNAP_KEYS, "key", KIND_KEY, key),
	COLUMN(SNAP_PARENT, "parent", KIND_KEY, parent),
	COLUMN(SNAP_INDEX, "index", KIND_U32, index),
	COLUMN(SNAP_GEN, "gen", KIND_U32, gen),
	COLUMN(SNAP_TIERS, "tiers", KIND_U32, tiers),
};

static int __attribute__((format(printf, 2, 3))) fail(struct snap *snap, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(snap->why, sizeof(snap->why), format, args);
	va_end(args);
	return -1;
}

/* ---- fields ---- */

static int read_number(const char *cell, uint64_t most, uint64_t *number)
{
	char *end;

	if (*cell < '0' || *cell > '9')
		return -1;
	errno = 0;
	*number = strtoull(cell, &end, 10);
	return *end || errno || *number > most ? -1 : 0;
}

static int read_state(const char *cell, uint32_t *state)
{
	for (*state = 0; *state < KVMM_NR_MAP_STATES; ++*state)
		if (!strcmp(cell, kvmm_map_state_name(*state)))
			return 0;
	return -1;
}

static int read_flags(const char *cell, char *flags)
{
	size_t len = strlen(cell);

	if (len >= sizeof(((struct snap_row *)0)->flags) ||
	    strspn(cell, "abcdefghijklmnopqrstuvwxyz") != len)
		return -1;
	memcpy(flags, cell, len + 1);
	return 0;
}

static int hex_digit(char c)
{
	const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

static int read_key(const char *cell, uint8_t *key)
{
	for (unsigned int i = 0; i < SNAP_KEY; i++) {
		int high = hex_digit(cell[2 * i]);
		int low = high < 0 ? -1 : hex_digit(cell[2 * i + 1]);

		if (low < 0)
			return -1;
		key[i] = high << 4 | low;
	}
	return cell[2 * SNAP_KEY] ? -1 : 0;
}

static int read_field(struct snap_row *row, enum snap_column column, const char *cell)
{
	void *field = (char *)row + columns[column].offset;
	uint64_t number;

	if (!strcmp(cell, "-"))
		return 0;
	row->has |= 1u << column;
	switch (columns[column].kind) {
	case KIND_U32:
		if (read_number(cell, UINT32_MAX, &number))
			return -1;
		*(uint32_t *)field = number;
		return 0;
	case KIND_U64:
		return read_number(cell, UINT64_MAX, field);
	case KIND_STATE:
		return read_state(cell, field);
	case KIND_FLAGS:
		return read_flags(cell, field);
	default:
		return read_key(cell, field);
	}
}

/* SNAP_NR_COLUMNS: one that later versions may have. */
static enum snap_column column_of(const char *name)
{
	enum snap_column column = 0;

	while (column < SNAP_NR_COLUMNS && strcmp(name, columns[column].name))
		column++;
	return column;
}

/* ---- rows ---- */

static int add_room(struct snap *snap)
{
	size_t room = snap->room ? 2 * snap->room : 1024;
	struct snap_row *row;

	if (snap->nr < snap->room)
		return 0;
	row = realloc(snap->row, room * sizeof(*row));
	if (!row)
		return fail(snap, "no memory for %zu runs", room);
	snap->row = row;
	snap->room = room;
	return 0;
}

static uint32_t end_of(const struct snap *snap)
{
	const struct snap_row *last = snap->nr ? &snap->row[snap->nr - 1] : NULL;

	return last ? last->first + last->nr : 0;
}

int snap_add_row(struct snap *snap, const char *const *names, const char *const *cells, unsigned int nr)
{
	const uint32_t needed = 1u << SNAP_FIRST | 1u << SNAP_COUNT | 1u << SNAP_STATE;
	struct snap_row row = { 0 };

	for (unsigned int i = 0; i < nr; i++) {
		enum snap_column column = column_of(names[i]);

		if (column < SNAP_NR_COLUMNS && read_field(&row, column, cells[i]))
			return fail(snap, "run %zu: '%.32s' is no %s", snap->nr, cells[i], names[i]);
	}
	if ((row.has & needed) != needed)
		return fail(snap, "run %zu: no first, count or state", snap->nr);
	if (row.first != end_of(snap) || !row.nr || row.nr > snap->nr_blocks ||
	    row.first > snap->nr_blocks - row.nr)
		return fail(snap, "run %zu: %u blocks from %u on are out of place", snap->nr, row.nr,
			    row.first);
	if (add_room(snap))
		return -1;
	snap->row[snap->nr++] = row;
	return 0;
}

int snap_end(struct snap *snap)
{
	if (end_of(snap) != snap->nr_blocks)
		return fail(snap, "%u of %u blocks", end_of(snap), snap->nr_blocks);
	return 0;
}

/* ---- below ---- */

const char *const snap_media[SNAP_NR_MEDIA] = { "host", "disk" };

int snap_add_below(struct snap *snap, const struct snap_name *name)
{
	size_t room = snap->room_below ? 2 * snap->room_below : 1024;
	struct snap_name *below;

	if (snap->nr_below == snap->room_below) {
		below = room <= SNAP_MAX_BELOW ? realloc(snap->below, room * sizeof(*below)) : NULL;
		if (!below)
			return fail(snap, "no room for %zu names below", room);
		snap->below = below;
		snap->room_below = room;
	}
	snap->below[snap->nr_below++] = *name;
	return 0;
}

/* "host 0 0 0 17 KEY" */
static int read_below(struct snap *snap, const char *value)
{
	struct snap_name name;
	char medium[8], key[2 * SNAP_KEY + 1];
	int end = 0;

	if (sscanf(value, "%7[a-z] %10u %10u %10u %10u %32[0-9a-f]%n", medium, &name.tenant,
		   &name.group, &name.layout, &name.position, key, &end) != 6 || value[end] ||
	    read_key(key, name.key))
		return -1;
	for (name.medium = 0; name.medium < SNAP_NR_MEDIA; name.medium++)
		if (!strcmp(medium, snap_media[name.medium]))
			return snap_add_below(snap, &name);
	return 0;		/* a tier of later versions */
}

/* ---- lines ---- */

/* The next line, without its end; NULL: there is none that ends. */
static char *take_line(char **text)
{
	char *line = *text, *end = strchr(line, '\n');

	if (!end)
		return NULL;
	*end = '\0';
	*text = end + 1;
	return line;
}

/* Fields of a line; more than @max count, but are not stored. */
static unsigned int cut(char *line, const char **fields, unsigned int max)
{
	unsigned int nr = 0;

	for (char *at = line; at; nr++) {
		char *end = strchr(at, '\t');

		if (end)
			*end++ = '\0';
		if (nr < max)
			fields[nr] = at;
		at = end;
	}
	return nr;
}

static int read_name(const char *cell, char *name)
{
	size_t len = strlen(cell);

	if (!len || len >= SNAP_NAME)
		return -1;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)cell[i] <= ' ' || cell[i] == 0x7f)
			return -1;
	memcpy(name, cell, len + 1);
	make_plain(name, len);
	return 0;
}

/* Lines of later versions do not matter. */
static int read_head_line(struct snap *snap, const char *name, const char *value)
{
	uint64_t number;

	if (!strcmp(name, "pool"))
		return read_name(value, snap->pool);
	if (!strcmp(name, "engine"))
		return read_name(value, snap->engine);
	if (!strcmp(name, "block_bytes"))
		return read_number(value, 1ull << 40, &snap->block_bytes);
	if (!strcmp(name, "time_ns"))
		return read_number(value, UINT64_MAX, &snap->time_ns);
	if (!strcmp(name, "below"))
		return read_below(snap, value);
	if (!strcmp(name, "blocks")) {
		if (read_number(value, KVMM_MAX_BLOCKS, &number))
			return -1;
		snap->nr_blocks = number;
	} else if (!strcmp(name, "block_tokens")) {
		if (read_number(value, 1u << 20, &number))
			return -1;
		snap->block_tokens = number;
	}
	return 0;
}

/* Up to the names of columns, which are left in @names. How many, or -1. */
static int read_head(struct snap *snap, char **text, const char **names)
{
	char *line = take_line(text);
	unsigned int nr;

	if (!line || strcmp(line, FIRST_LINE))
		return fail(snap, "no snapshot, or of another version");
	while ((line = take_line(text)) && *line != '#') {
		const char *fields[2];

		if (cut(line, fields, 2) != 2 || read_head_line(snap, fields[0], fields[1]))
			return fail(snap, "bad line '%.40s'", line);
	}
	if (!line)
		return fail(snap, "it ends before the first run");
	nr = cut(line + 1, names, MAX_COLUMNS);
	if (nr > MAX_COLUMNS)
		return fail(snap, "%u columns", nr);
	return nr;
}

static int read_end(struct snap *snap, const char *const *fields, unsigned int nr, const char *rest)
{
	uint64_t number;

	if (nr != 2 || read_number(fields[1], UINT32_MAX, &number) || number != snap->nr || *rest)
		return fail(snap, "the last line is wrong, or not the last");
	return snap_end(snap);
}

int snap_parse(struct snap *snap, char *text, size_t bytes)
{
	const char *names[MAX_COLUMNS], *fields[MAX_COLUMNS];
	int nr_columns;
	char *line;

	*snap = (struct snap){ .pool = "pool", .engine = "-" };
	if (strlen(text) != bytes)
		return fail(snap, "it is no text");
	nr_columns = read_head(snap, &text, names);
	if (nr_columns < 0)
		return -1;
	while ((line = take_line(&text))) {
		unsigned int nr = cut(line, fields, MAX_COLUMNS);

		if (!strcmp(fields[0], "end"))
			return read_end(snap, fields, nr, text);
		if (nr != (unsigned int)nr_columns)
			return fail(snap, "run %zu: %u fields", snap->nr, nr);
		if (snap_add_row(snap, names, fields, nr))
			return -1;
	}
	return fail(snap, "it ends behind run %zu", snap->nr);
}

/* ---- files ---- */

/* It goes on as text, and began as a snapshot does: else there is no need to read to its end. */
static bool may_go_on(const char *text, size_t bytes, size_t nr)
{
	return !memchr(text + bytes, '\0', nr) &&
	       (bytes || !strncmp(text, FIRST_LINE, nr < strlen(FIRST_LINE) ? nr : strlen(FIRST_LINE)));
}

static char *read_all(FILE *file, size_t *bytes)
{
	size_t room = 1 << 16, nr;
	char *text = malloc(room), *more;

	*bytes = 0;
	while (text && (nr = fread(text + *bytes, 1, room - *bytes - 1, file)) > 0) {
		bool more_to_come = may_go_on(text, *bytes, nr);

		*bytes += nr;
		if (!more_to_come)
			break;
		if (room - *bytes > 1)
			continue;
		room *= 2;
		more = room <= MAX_FILE ? realloc(text, room) : NULL;
		if (!more)
			free(text);
		text = more;
	}
	if (text)
		text[*bytes] = '\0';
	return text;
}

int snap_read(struct snap *snap, const char *path)
{
	FILE *file = strcmp(path, "-") ? fopen(path, "r") : stdin;
	char *text = NULL;
	size_t bytes;
	int err;

	*snap = (struct snap){ 0 };
	if (!file)
		return fail(snap, "%s", strerror(errno));
	text = read_all(file, &bytes);
	if (!text)
		err = fail(snap, "more than %llu GiB, or no memory for it", MAX_FILE >> 30);
	else if (ferror(file))
		err = fail(snap, "it cannot be read");
	else
		err = snap_parse(snap, text, bytes);
	free(text);
	if (file != stdin)
		fclose(file);
	return err;
}

static void write_key(const uint8_t *key, FILE *out)
{
	for (unsigned int i = 0; i < SNAP_KEY; i++)
		fprintf(out, "%02x", key[i]);
}

static void write_field(const struct snap_row *row, enum snap_column column, FILE *out)
{
	const void *field = (const char *)row + columns[column].offset;

	if (!snap_has(row, column))
		fputc('-', out);
	else if (columns[column].kind == KIND_U32)
		fprintf(out, "%u", *(const uint32_t *)field);
	else if (columns[column].kind == KIND_U64)
		fprintf(out, "%llu", *(const unsigned long long *)field);
	else if (columns[column].kind == KIND_STATE)
		fputs(kvmm_map_state_name(row->state), out);
	else if (columns[column].kind == KIND_FLAGS)
		fputs(row->flags, out);
	else
		write_key(field, out);
}

static void write_below(const struct snap_name *name, FILE *out)
{
	fprintf(out, "below\t%s %u %u %u %u ", snap_media[name->medium], name->tenant, name->group,
		name->layout, name->position);
	write_key(name->key, out);
	fputc('\n', out);
}

void snap_write(const struct snap *snap, FILE *out)
{
	fprintf(out, FIRST_LINE "\npool\t%s\nengine\t%s\nblocks\t%u\nblock_tokens\t%u\n"
		     "block_bytes\t%llu\ntime_ns\t%llu\n", snap->pool, snap->engine, snap->nr_blocks,
		snap->block_tokens, (unsigned long long)snap->block_bytes,
		(unsigned long long)snap->time_ns);
	for (size_t i = 0; i < snap->nr_below; i++)
		write_below(&snap->below[i], out);
	fputc('#', out);
	for (unsigned int i = 0; i < SNAP_NR_COLUMNS; i++)
		fprintf(out, "%s%s", i ? "\t" : "", columns[i].name);
	for (size_t i = 0; i < snap->nr; i++)
		for (unsigned int c = 0; c < SNAP_NR_COLUMNS; c++) {
			fputc(c ? '\t' : '\n', out);
			write_field(&snap->row[i], c, out);
		}
	fprintf(out, "\nend\t%zu\n", snap->nr);
}

void snap_free(struct snap *snap)
{
	free(snap->row);
	free(snap->below);
	snap->row = NULL;
	snap->below = NULL;
	snap->nr_below = snap->room_below = 0;
	snap->nr = snap->room = 0;
}
