// SPDX-License-Identifier: Apache-2.0
/* The plain pool of plain.h. */
#include <stdlib.h>
#include <string.h>

#include "plain.h"

/* ---- the free queue: a ring through the block behind the last ---- */

static void queue_put(struct plain *plain, u32 b, u32 before)
{
	struct plain_block *block = plain->block;
	u32 prev = block[before].prev;

	block[b].prev = prev;
	block[b].next = before;
	block[prev].next = b;
	block[before].prev = b;
	plain->nr_free++;
}

static void queue_del(struct plain *plain, u32 b)
{
	struct plain_block *block = plain->block;

	block[block[b].prev].next = block[b].next;
	block[block[b].next].prev = block[b].prev;
	plain->nr_free--;
}

/* ---- names ---- */

static u32 *bucket_of(const struct plain *plain, u64 name)
{
	return &plain->bucket[mix64(name) & plain->mask];
}

/* The oldest block of that name. */
static u32 find(const struct plain *plain, u64 name)
{
	u32 b = *bucket_of(plain, name);

	while (b != U32_NONE && plain->block[b].name != name)
		b = plain->block[b].next_of_name;
	return b;
}

static void name(struct plain *plain, u32 b, u64 name)
{
	u32 *at = bucket_of(plain, name);

	while (*at != U32_NONE)
		at = &plain->block[*at].next_of_name;
	*at = b;
	plain->block[b].name = name;
	plain->block[b].named = true;
	plain->block[b].next_of_name = U32_NONE;
}

static void forget(struct plain *plain, u32 b)
{
	u32 *at = bucket_of(plain, plain->block[b].name);

	while (*at != b)
		at = &plain->block[*at].next_of_name;
	*at = plain->block[b].next_of_name;
	plain->block[b].named = false;
}

/* ---- requests ---- */

/* The longest prefix that is there; those of it that nobody has are counted in *@nr_idle. */
static void match(const struct plain *plain, struct plain_ask *ask, u32 *nr_idle)
{
	u32 b;

	*nr_idle = 0;
	for (ask->nr_hits = 0; ask->nr_hits < ask->max_hits; ask->nr_hits++) {
		b = find(plain, ask->names[ask->nr_hits]);
		if (b == U32_NONE)
			return;
		ask->blocks[ask->nr_hits] = b;
		*nr_idle += !plain->block[b].refs;
	}
}

static u32 pop(struct plain *plain)
{
	u32 b = plain->block[plain->nr].next;

	queue_del(plain, b);
	if (plain->block[b].named)
		forget(plain, b);
	return b;
}

int plain_admit(struct plain *plain, struct plain_ask *ask)
{
	u32 nr_idle;

	match(plain, ask, &nr_idle);
	if (ask->nr - ask->nr_hits + nr_idle > plain->nr_free)
		return -ENOSPC;
	for (u32 i = 0; i < ask->nr_hits; i++)
		if (!plain->block[ask->blocks[i]].refs++)
			queue_del(plain, ask->blocks[i]);
	for (u32 i = ask->nr_hits; i < ask->nr; i++) {
		u32 b = pop(plain);

		ask->blocks[i] = b;
		plain->block[b].refs = 1;
		if (i < ask->nr_names)
			name(plain, b, ask->names[i]);
	}
	return 0;
}

/* The last block first; those without a name go before all others, in that order. */
void plain_release(struct plain *plain, const u32 *blocks, u32 nr)
{
	u32 head = plain->block[plain->nr].next;

	for (u32 i = nr; i-- > 0;) {
		u32 b = blocks[i];

		if (!--plain->block[b].refs)
			queue_put(plain, b, plain->block[b].named ? plain->nr : head);
	}
}

/* ---- beginning and end ---- */

int plain_init(struct plain *plain, u32 nr)
{
	u32 nr_buckets = 1024;

	while (nr_buckets < nr)
		nr_buckets *= 2;
	*plain = (struct plain){ .nr = nr, .mask = nr_buckets - 1 };
	plain->block = calloc((size_t)nr + 1, sizeof(*plain->block));
	plain->bucket = malloc(nr_buckets * sizeof(*plain->bucket));
	if (!plain->block || !plain->bucket) {
		plain_exit(plain);
		return -ENOMEM;
	}
	memset(plain->bucket, 0xff, nr_buckets * sizeof(*plain->bucket));
	plain->block[nr].prev = plain->block[nr].next = nr;
	for (u32 b = 0; b < nr; b++)
		queue_put(plain, b, nr);
	return 0;
}

void plain_exit(struct plain *plain)
{
	free(plain->block);
	free(plain->bucket);
	*plain = (struct plain){ .nr = 0 };
}
