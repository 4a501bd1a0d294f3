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

#endif /* CTL_TEXT_H */
