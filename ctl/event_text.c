// SPDX-License-Identifier: Apache-2.0
/*
 * Events as lines of text, and back: as the control socket, tools and files have them.
 *
 * All kinds have the same columns, separated by tabs; "-" stands for a column that a kind has not.
 * So any reader that can cut lines can read them, and no event needs another to be understood.
 */
#include <errno.h>
#include <string.h>

#include <kv/bits.h>
#include <kv/buf.h>
#include <kvmm/event.h>
#include <kvmm/ext/control.h>

#include "text.h"

enum column {
	SEQ, KIND, MEDIUM, KEY, PARENT, TENANT, LAYOUT, GROUP, POSITION, TOKENS, BLOCK, REQUEST,
	TIME, INPUT, OUTPUT, KEYS, HITS, BLOCKS, NR_COLUMNS,
};

static const struct kind {
	const char *name;
	u32 columns;		/* that it has, besides SEQ and KIND */
	u32 optional;		/* that may be "-" nevertheless */
} kinds[] = {
#define NAME	(BIT(KEY) | BIT(TENANT) | BIT(LAYOUT) | BIT(GROUP) | BIT(POSITION) | BIT(TOKENS))
#define DOMAIN	(BIT(TENANT) | BIT(LAYOUT) | BIT(GROUP))
#define SOME	(BIT(KEY) | BIT(PARENT) | BIT(POSITION) | BIT(REQUEST))
#define WHEN	(BIT(REQUEST) | BIT(TIME))
	[KVMM_EVENT_STORED] = { "stored", NAME | BIT(MEDIUM) | BIT(PARENT) | BIT(BLOCK),
				BIT(PARENT) | BIT(BLOCK) },
	[KVMM_EVENT_REMOVED] = { "removed", NAME | BIT(MEDIUM) | BIT(PARENT) | BIT(BLOCK),
				 BIT(PARENT) | BIT(BLOCK) },
	[KVMM_EVENT_CLEARED] = { "cleared", 0, 0 },
	[KVMM_EVENT_REQUEST] = { "request", WHEN | DOMAIN | BIT(INPUT) | BIT(OUTPUT) | BIT(KEYS),
				 0 },
	[KVMM_EVENT_REQUEST_KEYS] = { "request_keys", SOME, BIT(PARENT) },
	[KVMM_EVENT_REQUEST_END] = { "request_end", WHEN | BIT(INPUT) | BIT(OUTPUT) | BIT(HITS),
				     0 },
	[KVMM_EVENT_LOOKUP] = { "lookup", WHEN | DOMAIN | BIT(KEYS) | BIT(HITS) | BIT(BLOCKS), 0 },
	[KVMM_EVENT_LOOKUP_KEYS] = { "lookup_keys", SOME, BIT(PARENT) },
};

static const char *const media[KVMM_NR_MEDIA] = { "device", "host", "disk", "external" };
static const char hex[] = "0123456789abcdef";

/* One event in pieces; PARENT of KEYS is the second key. */
struct row {
	u64 value[NR_COLUMNS];
	kvmm_key_t key;
	kvmm_key_t parent;
	u32 has;		/* columns */
};

/* ---- writing ---- */

static void row_of_name(const struct kvmm_event *event, struct row *row)
{
	row->value[MEDIUM] = event->medium;
	row->value[TENANT] = event->domain.tenant;
	row->value[LAYOUT] = event->domain.layout;
	row->value[GROUP] = event->domain.group;
	row->value[POSITION] = event->position;
	row->value[TOKENS] = event->tokens;
	row->value[BLOCK] = event->block;
	row->key = event->key;
	row->parent = event->parent;
	if (!(event->flags & KVMM_EVENT_HAS_PARENT))
		row->has &= ~BIT(PARENT);
	if (event->block == KVMM_EVENT_NO_BLOCK)
		row->has &= ~BIT(BLOCK);
}

static void row_of_request(const struct kvmm_event *event, struct row *row)
{
	struct kvmm_event_request request = { .size = sizeof(request) };

	if (kvmm_event_get_request(event, &request))
		return;
	row->value[TENANT] = request.domain.tenant;
	row->value[LAYOUT] = request.domain.layout;
	row->value[GROUP] = request.domain.group;
	row->value[POSITION] = request.first;
	row->value[REQUEST] = request.request;
	row->value[TIME] = request.time_us;
	row->value[INPUT] = request.input;
	row->value[OUTPUT] = request.output;
	row->value[KEYS] = request.nr_keys;
	row->value[HITS] = request.hits;
	row->value[BLOCKS] = request.blocks;
	row->key = request.key[0];
	row->parent = request.key[1];
	if (request.nr_keys < 2)
		row->has &= ~BIT(PARENT);
}

static void add_cell(struct kv_buf *line, const struct row *row, enum column column)
{
	if (!(row->has & BIT(column))) {
		kv_buf_printf(line, "-");
	} else if (column == KEY || column == PARENT) {
		const kvmm_key_t *key = column == KEY ? &row->key : &row->parent;
		char text[2 * KVMM_KEY_BYTES];

		for (u32 i = 0; i < KVMM_KEY_BYTES; i++) {
			text[2 * i] = hex[key->byte[i] >> 4];
			text[2 * i + 1] = hex[key->byte[i] & 15];
		}
		kv_buf_printf(line, "%.*s", (int)sizeof(text), text);
	} else if (column == MEDIUM) {
		kv_buf_printf(line, "%s", media[row->value[MEDIUM]]);
	} else {
		kv_buf_printf(line, "%llu", (unsigned long long)row->value[column]);
	}
}

int kvmm_event_text(const struct kvmm_event *event, char *buf, size_t bytes)
{
	struct kv_buf line = { .at = buf, .bytes = bytes };
	struct row row = { .has = 0 };

	if (!event || !buf || event->medium >= KVMM_NR_MEDIA ||
	    event->kind >= ARRAY_SIZE(kinds) || !kinds[event->kind].name)
		return -EINVAL;
	row.has = kinds[event->kind].columns | BIT(SEQ);
	row.value[SEQ] = event->seq;
	if (event->kind < KVMM_NR_EVENT_KINDS)
		row_of_name(event, &row);
	else
		row_of_request(event, &row);
	for (u32 i = 0; i < NR_COLUMNS; i++) {
		kv_buf_printf(&line, "%s", i ? "\t" : "");
		if (i == KIND)
			kv_buf_printf(&line, "%s", kinds[event->kind].name);
		else
			add_cell(&line, &row, i);
	}
	return line.len < bytes ? (int)line.len : -ENOSPC;
}

/* ---- reading ---- */

struct cell {
	const char *text;
	size_t nr;
};

static bool cell_is(struct cell cell, const char *text)
{
	return cell.nr == strlen(text) && !memcmp(cell.text, text, cell.nr);
}

/* Decimal, and nothing else. */
static bool read_number(struct cell cell, u64 *number)
{
	*number = 0;
	for (size_t i = 0; i < cell.nr; i++) {
		u64 digit = (u8)cell.text[i] - '0';

		if (digit > 9 || *number > (UINT64_MAX - digit) / 10)
			return false;
		*number = *number * 10 + digit;
	}
	return cell.nr > 0;
}

bool kv_text_read_key(const char *digits, kvmm_key_t *key)
{
	for (u32 i = 0; i < KVMM_KEY_BYTES; i++) {
		const char *high = memchr(hex, digits[2 * i], 16);
		const char *low = memchr(hex, digits[2 * i + 1], 16);

		if (!high || !low)
			return false;
		key->byte[i] = (high - hex) << 4 | (low - hex);
	}
	return true;
}

static bool read_cell(struct cell cell, enum column column, struct row *row)
{
	static const u64 most[NR_COLUMNS] = {
		[SEQ] = UINT64_MAX, [TENANT] = UINT32_MAX, [LAYOUT] = UINT16_MAX,
		[GROUP] = UINT16_MAX, [POSITION] = UINT32_MAX, [TOKENS] = UINT32_MAX,
		[BLOCK] = UINT32_MAX - 1, [REQUEST] = UINT64_MAX, [TIME] = UINT64_MAX,
		[INPUT] = UINT32_MAX, [OUTPUT] = UINT32_MAX, [KEYS] = UINT32_MAX,
		[HITS] = UINT32_MAX, [BLOCKS] = UINT32_MAX,
	};

	if (column == KEY || column == PARENT)
		return cell.nr == 2 * KVMM_KEY_BYTES &&
		       kv_text_read_key(cell.text, column == KEY ? &row->key : &row->parent);
	if (column == MEDIUM) {
		u32 medium = 0;

		while (medium < KVMM_NR_MEDIA && !cell_is(cell, media[medium]))
			medium++;
		row->value[MEDIUM] = medium;
		return medium < KVMM_NR_MEDIA;
	}
	return read_number(cell, &row->value[column]) && row->value[column] <= most[column];
}

/* Cells of one line: false: not that many. */
static bool cut(const char *text, size_t nr, struct cell cell[NR_COLUMNS])
{
	const char *end = text + nr;

	for (u32 i = 0; i < NR_COLUMNS; i++) {
		const char *tab = memchr(text, '\t', end - text);

		if (!tab != (i == NR_COLUMNS - 1))
			return false;
		cell[i] = (struct cell){ text, (tab ? tab : end) - text };
		text = tab ? tab + 1 : end;
	}
	return true;
}

static bool read_row(const struct cell *cell, const struct kind *kind, struct row *row)
{
	for (u32 i = 0; i < NR_COLUMNS; i++) {
		bool wanted = i == SEQ || kind->columns & BIT(i);

		if (i == KIND)
			continue;
		if (cell_is(cell[i], "-")) {
			if (wanted && !(kind->optional & BIT(i)))
				return false;
			continue;
		}
		if (!wanted || !read_cell(cell[i], i, row))
			return false;
		row->has |= BIT(i);
	}
	return true;
}

/* The other way round as kvmm_event_get_request() has it. */
static void event_of_request(const struct row *row, struct kvmm_event *event)
{
	u64 word[4] = { row->value[REQUEST], row->value[TIME],
			row->value[OUTPUT] << 32 | row->value[INPUT], row->value[KEYS] };

	if (event->kind == KVMM_EVENT_LOOKUP)
		word[2] = row->value[BLOCKS] << 32 | row->value[HITS];
	if (event->kind == KVMM_EVENT_REQUEST_END)
		word[3] = row->value[HITS];
	memcpy(&event->key, &word[0], sizeof(event->key));
	memcpy(&event->parent, &word[2], sizeof(event->parent));
}

static void event_of(const struct row *row, struct kvmm_event *event)
{
	event->seq = row->value[SEQ];
	event->domain = (kvmm_domain_t){ row->value[TENANT], row->value[LAYOUT],
					 row->value[GROUP] };
	event->position = row->value[POSITION];
	event->tokens = row->value[TOKENS];
	event->block = row->has & BIT(BLOCK) ? row->value[BLOCK] : KVMM_EVENT_NO_BLOCK;
	event->medium = row->value[MEDIUM];
	event->flags = row->has & BIT(PARENT) ? KVMM_EVENT_HAS_PARENT : 0;
	event->key = row->key;
	event->parent = row->parent;
	if (event->kind == KVMM_EVENT_REQUEST_KEYS || event->kind == KVMM_EVENT_LOOKUP_KEYS)
		event->domain = (kvmm_domain_t){ (u32)row->value[REQUEST],
						 row->value[REQUEST] >> 32 & 0xffff,
						 row->value[REQUEST] >> 48 };
	else if (event->kind >= KVMM_EVENT_REQUEST)
		event_of_request(row, event);
}

int kvmm_event_parse(const char *text, size_t bytes, struct kvmm_event *event)
{
	struct cell cell[NR_COLUMNS];
	struct row row = { .has = 0 };
	u32 kind;

	if (!text || !event)
		return -EINVAL;
	if (!cut(text, bytes, cell))
		return -EBADMSG;
	for (kind = 0; kind < ARRAY_SIZE(kinds); kind++)
		if (kinds[kind].name && cell_is(cell[KIND], kinds[kind].name))
			break;
	if (kind == ARRAY_SIZE(kinds) || !read_row(cell, &kinds[kind], &row))
		return -EBADMSG;
	*event = (struct kvmm_event){ .kind = kind };
	event_of(&row, event);
	return 0;
}
