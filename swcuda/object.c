// SPDX-License-Identifier: Apache-2.0
/*
 * Opaque handles. They look like pointers and point nowhere: whoever looks inside one crashes, and
 * one that was destroyed is refused instead of reaching whatever lies there now.
 *
 * A handle is tag | type | generation | index; the tag makes the address one that no process has.
 */
#include "internal.h"

#define TAG		0x5c00000000000000ull
#define TYPE_SHIFT	48
#define GEN_SHIFT	24
#define INDEX_MASK	(BIT(24) - 1)

struct entry {
	void *object;		/* NULL: free */
	enum sw_type type;
	u32 gen;
	u32 next_free;
};

static struct entry *table;
static u32 nr_entries, first_free = KV_NONE;

static int grow(void)
{
	u32 nr = nr_entries * 2 + 64;
	struct entry *wider = nr > INDEX_MASK ? NULL : realloc(table, nr * sizeof(*table));

	if (!wider)
		return -ENOMEM;
	table = wider;
	for (u32 i = nr; i-- > nr_entries;) {
		table[i] = (struct entry){ .next_free = first_free };
		first_free = i;
	}
	nr_entries = nr;
	return 0;
}

u64 sw_object_add(enum sw_type type, void *object)
{
	struct entry *entry;
	u32 i;

	if (first_free == KV_NONE && grow())
		return 0;
	i = first_free;
	entry = &table[i];
	first_free = entry->next_free;
	entry->object = object;
	entry->type = type;
	entry->gen = (entry->gen + 1) & INDEX_MASK;
	return TAG | (u64)type << TYPE_SHIFT | (u64)entry->gen << GEN_SHIFT | i;
}

void *sw_object(enum sw_type type, u64 handle)
{
	u32 i = handle & INDEX_MASK;

	if (i >= nr_entries || handle >> TYPE_SHIFT != (TAG >> TYPE_SHIFT | type))
		return NULL;
	return table[i].gen == (handle >> GEN_SHIFT & INDEX_MASK) ? table[i].object : NULL;
}

void sw_object_del(u64 handle)
{
	u32 i = handle & INDEX_MASK;

	table[i].object = NULL;
	table[i].next_free = first_free;
	first_free = i;
}

void sw_objects_exit(void)
{
	free(table);
	table = NULL;
	nr_entries = 0;
	first_free = KV_NONE;
}

void sw_for_each_object(void (*fn)(enum sw_type type, void *object))
{
	for (u32 i = 0; i < nr_entries; i++)
		if (table[i].object)
			fn(table[i].type, table[i].object);
}
