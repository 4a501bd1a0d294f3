/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text that grows, up to a limit.
 *
 * Text that does not fit, or for which there is no memory, is not written, nor is any that
 * comes behind it: ->err says so once, at the end, so that writers need not ask at each step.
 */
#ifndef CTL_TEXT_H
#define CTL_TEXT_H

#include <kv/types.h>
#include <kvmm/types.h>

struct kv_text {
	char	*buf;		/* ours; NULL until something was written */
	u32	len;
	u32	room;
	u32	max;		/* bytes that it may have; fixed at creation */
	int	err;		/* 0; -ENOMEM; -EFBIG */
};

static inline void kv_text_init(struct kv_text *text, u32 max)
{
	*text = (struct kv_text){ .max = max };
}

void kv_text_exit(struct kv_text *text);	/* empty again, and without an error */
void kv_text_bytes(struct kv_text *text, const void *bytes, size_t nr);
void kv_text_puts(struct kv_text *text, const char *string);
void kv_text_printf(struct kv_text *text, const char *format, ...) __printf(2, 3);

/*
 * One field of a table: bytes that would be taken for its end, or for the end of the line, or are
 * no character, are written as \xNN. An empty one is "-".
 */
void kv_text_word(struct kv_text *text, const char *string);

/* Cells of a column: a number of ->bytes, or... */
enum kv_cell {
	KV_CELL_NUMBER,
	KV_CELL_SIGNED,		/* s32 */
	KV_CELL_LIMIT,		/* u32; "-" where it is UINT32_MAX: there is none */
	KV_CELL_NONZERO,	/* "-" where it is 0 */
	KV_CELL_NAME,		/* const char *; "-" where it is NULL */
	KV_CELL_WORD,		/* const char *; as kv_text_word() has it, and so is this: */
	KV_CELL_CHARS,		/* char [] */
	KV_CELL_KEY,		/* kvmm_key_t */
};

/**
 * struct kv_column - a column of a table, and where the struct of a row has it
 * @head: its name; ":s" behind it says: text, even where it looks like a number
 * @kind: enum kv_cell
 * @bytes, @offset: of it in the struct
 * @needs: bits, one of which a row has to have; else its cell is "-"; 0: none
 */
struct kv_column {
	const char *head;
	u8 kind;
	u8 bytes;
	u16 needs;
	u32 offset;
};

#define KV_COLUMN_IF(needs, head, kind, of, field) \
	{ head, KV_CELL_##kind, sizeof(((of *)0)->field), needs, offsetof(of, field) }
#define KV_COLUMN(head, kind, of, field) KV_COLUMN_IF(0, head, kind, of, field)

/* Number @i of an array, if there are several; and set the first. */
u64 kv_column_number(const struct kv_column *column, const void *row, u32 i);
void kv_column_set(const struct kv_column *column, void *row, u64 number);

/* The cell alone; and all of them with tabs between them, as a line; and the line of names. */
void kv_text_cell(struct kv_text *text, const struct kv_column *column, const void *row);
void kv_text_row(struct kv_text *text, const struct kv_column *columns, u32 nr, const void *row,
		 u32 has);
void kv_text_head(struct kv_text *text, const struct kv_column *columns, u32 nr);

/* 2 * KVMM_KEY_BYTES of 0-9 and a-f, in event_text.c; false: not all of them are. */
bool kv_text_read_key(const char *digits, kvmm_key_t *key);

#endif /* CTL_TEXT_H */
