// SPDX-License-Identifier: Apache-2.0
/*
 * Names in memory: a flat table of 24 bytes a name, between three and nine tenths full.
 *
 * A name of 96 bytes is told by 128 bits that none outside can foresee: two hashes with secrets
 * of this process. That is enough to say where a record most likely is; the record itself says
 * whether it is. Layout, group and length are kept apart, since most records share them.
 *
 * The table grows by a fifth at a time: with 0.75 as the least filling after growing, a record
 * takes at most 32 bytes. Nothing is marked deleted: entries behind move up.
 */
#include <string.h>

#include <kv/bits.h>
#include <kv/env.h>
#include <kv/hash.h>
#include <kv/log.h>
#include <kv/mem.h>

#include "internal.h"

#define MIN_SLOTS	64u
#define NAME_WORDS	(sizeof(struct kvmm_disk_name) / sizeof(u64))

static_assert(NAME_WORDS % 2 == 0, "hashed by pairs");

int disk_index_init(struct disk_index *index)
{
	*index = (struct disk_index){ .nr_slots = MIN_SLOTS };
	index->entry = kv_alloc_array(MIN_SLOTS, sizeof(*index->entry));
	index->class = kv_alloc_array(DISK_MAX_CLASSES, sizeof(*index->class));
	for (u32 i = 0; i < ARRAY_SIZE(index->secret); i++)
		index->secret[i] = kv_random() | 1;
	if (index->entry && index->class)
		return 0;
	disk_index_exit(index);
	return -ENOMEM;
}

void disk_index_exit(struct disk_index *index)
{
	kv_free(index->entry);
	kv_free(index->class);
	kv_free(index->known);
	index->known = NULL;
	index->entry = NULL;
	index->class = NULL;
}

struct disk_fp disk_fp_of(const struct disk_index *index, const struct kvmm_disk_name *name)
{
	const u64 *secret = index->secret;
	u64 word[NAME_WORDS], a = secret[0], b = secret[1];

	memcpy(word, name, sizeof(word));
	for (u32 i = 0; i < NAME_WORDS; i += 2) {
		a = kv_mul_fold(a ^ word[i], word[i + 1] ^ secret[2]);
		b = kv_mul_fold(b ^ word[i + 1], word[i] ^ secret[3]);
	}
	return (struct disk_fp){ { kv_mul_fold(a ^ secret[1], secret[3]),
				   kv_mul_fold(b ^ secret[0], secret[2]) } };
}

static u32 home_of(const struct disk_index *index, struct disk_fp fp)
{
	return (fp.word[0] >> 32) * index->nr_slots >> 32;
}

static u32 after(const struct disk_index *index, u32 slot)
{
	return slot + 1 < index->nr_slots ? slot + 1 : 0;
}

struct disk_entry *disk_index_find(const struct disk_index *index, struct disk_fp fp)
{
	u32 slot = home_of(index, fp);

	for (; index->entry[slot].state; slot = after(index, slot))
		if (disk_same_fp(index->entry[slot].fp, fp))
			return &index->entry[slot];
	return NULL;
}

static struct disk_entry *insert(struct disk_index *index, const struct disk_entry *entry)
{
	u32 slot = home_of(index, entry->fp);

	kv_assert(entry->state != DISK_EMPTY);
	while (index->entry[slot].state)
		slot = after(index, slot);
	index->entry[slot] = *entry;
	return &index->entry[slot];
}

static int resize(struct disk_index *index, u32 nr_slots)
{
	struct disk_known *known = disk_names_resized(index, nr_slots), *old_known = index->known;
	struct disk_entry *entry = kv_alloc_array(nr_slots, sizeof(*entry)), *old = index->entry;
	u32 nr_old = index->nr_slots;

	if (!entry || !known != !old_known) {
		kv_free(entry);
		kv_free(known);
		return -ENOMEM;
	}
	index->entry = entry;
	index->known = known;
	index->nr_slots = nr_slots;
	for (u32 i = 0; i < nr_old; i++)
		if (old[i].state)
			disk_name_move(known, insert(index, &old[i]) - entry, old_known, i);
	kv_free(old);
	kv_free(old_known);
	return 0;
}

int disk_index_reserve(struct disk_index *index, u32 nr)
{
	u64 wanted = (u64)index->nr + nr, nr_slots = index->nr_slots;

	while (wanted * 10 > nr_slots * 9)
		nr_slots += nr_slots / 5;
	if (nr_slots == index->nr_slots)
		return 0;
	return nr_slots > UINT32_MAX ? -ENOMEM : resize(index, nr_slots);
}

int disk_index_class(struct disk_index *index, const struct kvmm_disk_name *name, u32 bytes)
{
	struct disk_class *class = index->class;
	u32 unused = index->nr_classes;

	for (u32 i = 0; i < index->nr_classes; i++) {
		if (!class[i].nr)
			unused = min(unused, i);
		else if (class[i].bytes == bytes && class[i].group == name->group &&
			 !memcmp(class[i].layout, name->layout, sizeof(name->layout)))
			return i;
	}
	if (unused == DISK_MAX_CLASSES)
		return -E2BIG;
	class[unused] = (struct disk_class){ .bytes = bytes, .group = name->group };
	memcpy(class[unused].layout, name->layout, sizeof(name->layout));
	index->nr_classes = max(index->nr_classes, unused + 1);
	return unused;
}

static void count_live(struct disk_index *index, const struct disk_entry *entry, int sign)
{
	if (entry->state != DISK_LIVE)
		return;
	index->nr_live += sign;
	index->nr_of_value[entry->value] += sign;
	index->live_bytes += (s64)sign * disk_entry_bytes(index, entry);
}

struct disk_entry *disk_index_add(struct disk_index *index, const struct disk_entry *entry)
{
	kv_assert(entry->class < index->nr_classes);
	kv_assert(index->nr < index->nr_slots);
	index->class[entry->class].nr++;
	index->nr++;
	count_live(index, entry, 1);
	return insert(index, entry);
}

void disk_index_set_state(struct disk_index *index, struct disk_entry *entry, u32 state)
{
	kv_assert(entry->state != DISK_EMPTY && state != DISK_EMPTY);
	count_live(index, entry, -1);
	entry->state = state;
	count_live(index, entry, 1);
}

void disk_index_set_value(struct disk_index *index, struct disk_entry *entry, u32 value)
{
	count_live(index, entry, -1);
	entry->value = min(value, DISK_NR_VALUES - 1);
	count_live(index, entry, 1);
}

/* Steps from one slot on to another. */
static u32 distance(const struct disk_index *index, u32 from, u32 to)
{
	return to >= from ? to - from : to + index->nr_slots - from;
}

/* An entry behind the hole that would rather stand in it moves there, and leaves the next one. */
void disk_index_del(struct disk_index *index, struct disk_entry *entry)
{
	u32 hole = entry - index->entry, slot = after(index, hole);

	count_live(index, entry, -1);
	kv_assert(index->class[entry->class].nr);
	kv_assert(index->nr);
	index->class[entry->class].nr--;
	index->nr--;
	for (; index->entry[slot].state; slot = after(index, slot)) {
		u32 home = home_of(index, index->entry[slot].fp);

		if (distance(index, home, slot) < distance(index, hole, slot))
			continue;
		index->entry[hole] = index->entry[slot];
		disk_name_move(index->known, hole, index->known, slot);
		hole = slot;
	}
	index->entry[hole] = (struct disk_entry){ .state = DISK_EMPTY };
}

u32 disk_index_median(const struct disk_index *index)
{
	u32 value = 0, nr = 0;

	while (value < DISK_NR_VALUES - 1) {
		nr += index->nr_of_value[value];
		if (2 * (u64)nr >= index->nr_live)
			break;
		value++;
	}
	return value;
}

static int broken(const char *what)
{
	kv_log(KV_LOG_ERR, "disk: the index is inconsistent: %s", what);
	return -EUCLEAN;
}

/* A recount for the counters; @classes has DISK_MAX_CLASSES numbers, all 0. */
static int recount(const struct disk_index *index, u32 *classes)
{
	struct disk_index seen = { .class = index->class };

	for (u32 i = 0; i < index->nr_slots; i++) {
		const struct disk_entry *entry = &index->entry[i];

		if (!entry->state)
			continue;
		if (entry->state > DISK_LIVE || entry->class >= index->nr_classes)
			return broken("what an entry says");
		if (disk_index_find(index, entry->fp) != entry)
			return broken("an entry cannot be found");
		seen.nr++;
		classes[entry->class]++;
		count_live(&seen, entry, 1);
	}
	if (seen.nr != index->nr || seen.nr_live != index->nr_live ||
	    seen.live_bytes != index->live_bytes)
		return broken("the number of entries");
	if (memcmp(seen.nr_of_value, index->nr_of_value, sizeof(seen.nr_of_value)))
		return broken("the number of a value");
	return 0;
}

int disk_index_check(const struct disk_index *index)
{
	u32 *classes = kv_alloc_array(DISK_MAX_CLASSES, sizeof(*classes));
	int err = classes ? recount(index, classes) : -ENOMEM;

	if (!err && !disk_names_are_sound(index))
		err = broken("a name");
	for (u32 i = 0; !err && i < index->nr_classes; i++)
		if (classes[i] != index->class[i].nr)
			err = broken("the number of a class");
	kv_free(classes);
	return err;
}
