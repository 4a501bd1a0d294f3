/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owners as an engine names them, which are numbers of 64 bits, as those of a recording, which are counted
 * from 0 in the order in which they are met.
 */
#ifndef DUMP_OWNERS_H
#define DUMP_OWNERS_H

#include "../report/recorder.h"

/* More than that are met as nobody: an hour of an engine that starts 290 requests a second. */
#define OWNERS_MAX	(1u << 20)

enum owner_kind { OWNER_SEQUENCE, OWNER_TAG };

/**
 * struct owners - a table of them
 * @key: id and kind of each, by number
 * @bucket: number + 1, or 0; @nr_buckets of them, a power of two
 */
struct owners {
	struct owner_key {
		u64 id;
		u32 kind;
	} *key;
	u32 *bucket;
	u32 nr;
	u32 room;
	u32 nr_buckets;
};

/**
 * owners_find() - its number
 * @is_new: set if it has not been met before
 *
 * Return: U32_NONE: there is no room.
 */
u32 owners_find(struct owners *owners, enum owner_kind kind, u64 id, bool *is_new);

void owners_exit(struct owners *owners);

#endif /* DUMP_OWNERS_H */
