// SPDX-License-Identifier: Apache-2.0
/*
 * What a consumer of events is told: names that come and go, in order, in which medium; what it has
 * missed; and how it finds back.
 */
#include <sys/wait.h>
#include <unistd.h>

#include <kv/feed.h>
#include <kvmm/ext/name.h>

#include "feed/events/events.h"
#include "tests/pool/util.h"
#include "tests/support/fault.h"

extern const struct pool_part events_part;

#define NR	8u

static struct kvmm_pool *pool;
static struct kvmm_events *events;
static char text[512];

static struct kvmm_events *open_with(u32 ring, u32 flags)
{
	struct kvmm_events_attr attr = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_events *opened;

	attr.ring = ring;
	attr.flags = flags;
	cr_assert_eq(kvmm_events_open(pool, &attr, &opened), 0);
	return opened;
}

static void set_up(void)
{
	fault_begin();
	pool = make_cache(NR, "lru");
	events = open_with(1024, 0);
}

static void tear_down(void)
{
	kvmm_events_close(events);
	end_pool(pool);
	fault_end();
}

TestSuite(events, .init = set_up, .fini = tear_down);

static void say(const struct kvmm_event *event)
{
	char *end = text + strlen(text), parent[16] = "";
	size_t room = sizeof(text) - strlen(text);

	if (event->flags & KVMM_EVENT_HAS_PARENT)
		snprintf(parent, sizeof(parent), "<%u", number_of(&event->parent));
	if (event->kind == KVMM_EVENT_CLEARED)
		snprintf(end, room, "clear ");
	else
		snprintf(end, room, "%c%u%s ", event->kind == KVMM_EVENT_STORED ? '+' : '-',
			 number_of(&event->key), parent);
}

/* "+3<2 -1 ": three was stored, two is its parent; one was removed. "?4 ": four are lost. */
static const char *told_to(struct kvmm_events *who)
{
	struct kvmm_event buf[64];
	u64 nr_lost;
	int nr;

	text[0] = '\0';
	do {
		nr = kvmm_events_read(who, buf, ARRAY_SIZE(buf), &nr_lost);
		cr_assert_geq(nr, 0);
		if (nr_lost)
			snprintf(text + strlen(text), 32, "?%lu ", (unsigned long)nr_lost);
		for (int i = 0; i < nr; i++)
			say(&buf[i]);
	} while (nr || nr_lost);
	return text;
}

static const char *told(void)
{
	return told_to(events);
}

static const char *snapshot(struct kvmm_events *who)
{
	struct kvmm_snapshot snap;
	struct kvmm_event buf[3];
	int nr;

	text[0] = '\0';
	cr_assert_eq(kvmm_snapshot_begin(who, &snap), 0);
	while ((nr = kvmm_snapshot_read(who, &snap, buf, ARRAY_SIZE(buf))) > 0)
		for (int i = 0; i < nr; i++)
			say(&buf[i]);
	cr_assert_eq(nr, 0);
	return text;
}

static kvmm_ref_t hold(u32 number)
{
	kvmm_ref_t ref;

	register_keys(pool, number, 1, &ref);
	return ref;
}

/* ---- what is told ---- */

Test(events, names_are_told_with_their_parents)
{
	cache_keys(pool, 1, 3);
	cr_expect_str_eq(told(), "+1 +2<1 +3<2 ");
	cr_expect_str_eq(told(), "");
}

Test(events, parent_of_first_block_is_the_one_that_was_given)
{
	kvmm_key_t key = key_of(8), parent = key_of(7);
	struct kvmm_prefix prefix = { &key, 1, 5, &parent, { 3, 0, 1 } };
	struct kvmm_event event;
	kvmm_mut_t mut;
	kvmm_ref_t ref;
	u64 nr_lost;

	cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	cr_assert_eq(kvmm_prefix_register(pool, &prefix, &mut, &ref), 0);
	cr_assert_eq(kvmm_events_read(events, &event, 1, &nr_lost), 1);
	cr_expect_eq(event.seq, 0);
	cr_expect_eq(event.position, 5);
	cr_expect_eq(event.domain.tenant, 3);
	cr_expect_eq(event.domain.group, 1);
	cr_expect_eq(event.medium, KVMM_MEDIUM_DEVICE);
	cr_expect_eq((int)event.block, kvmm_block_of_ref(pool, ref));
	cr_expect_eq(event.tokens, stat_of(pool).block_tokens);
	cr_expect_eq(number_of(&event.parent), 7);
	cr_assert_eq(kvmm_put(pool, ref), 0);
}

Test(events, evicted_name_is_removed_before_its_block_is_stored_anew)
{
	cache_keys(pool, 1, NR);
	told();
	cache_keys(pool, 20, 1);
	cr_expect_str_eq(told(), "-8 +20 ");
}

Test(events, duplicate_is_told_neither_when_it_comes_nor_when_it_goes)
{
	kvmm_ref_t first = hold(1), second = hold(1);
	int block = kvmm_block_of_ref(pool, first);

	cr_expect_str_eq(told(), "+1 ");
	cr_expect_str_eq(snapshot(events), "+1 +1 ", "a snapshot is of blocks");
	cr_assert_eq(kvmm_put(pool, first), 0);
	cr_assert_eq(kvmm_evict_blocks(pool, (u32 *)&block, 1), 1);
	cr_expect_str_eq(told(), "");
	block = kvmm_block_of_ref(pool, second);
	cr_assert_eq(kvmm_put(pool, second), 0);
	cr_assert_eq(kvmm_evict_blocks(pool, (u32 *)&block, 1), 1);
	cr_expect_str_eq(told(), "-1 ");
}

/* It is held, but nobody finds it: gone as far as others are concerned. */
Test(events, forgotten_name_is_removed_while_its_block_is_held)
{
	kvmm_ref_t first = hold(1), second;
	int block = kvmm_block_of_ref(pool, first);

	cr_assert_eq(kvmm_evict_blocks(pool, (u32 *)&block, 1), 1);
	cr_expect_str_eq(told(), "+1 -1 ");
	cr_expect_str_eq(snapshot(events), "");
	second = hold(1);
	cr_expect_str_eq(told(), "+1 ");
	cr_assert_eq(kvmm_put(pool, first), 0);
	cr_expect_str_eq(told(), "");
	cr_expect_str_eq(snapshot(events), "+1 ");
	cr_assert_eq(kvmm_put(pool, second), 0);
}

Test(events, reset_is_one_event)
{
	cache_keys(pool, 1, 4);
	told();
	cr_assert_geq(kvmm_reset_cache(pool), 0);
	cr_expect_str_eq(told(), "clear ");
	cache_keys(pool, 2, 1);
	cr_expect_str_eq(told(), "+2 ");
	cr_assert_geq(kvmm_reset_inactive(pool), 0);
	cr_expect_str_eq(told(), "-2 ");
}

Test(events, refused_reset_is_none)
{
	kvmm_ref_t ref = hold(1);

	told();
	cr_expect_eq(kvmm_reset_cache(pool), -EBUSY);
	cr_expect_str_eq(told(), "");
	cr_assert_eq(kvmm_put(pool, ref), 0);
	cache_keys(pool, 2, 1);
	cr_expect_str_eq(told(), "+2 ");
}

/* ---- consumers ---- */

Test(events, media_that_nobody_asked_for_are_passed_over)
{
	struct kvmm_events_stat stat = { .size = sizeof(stat) };
	struct kvmm_events_attr attr = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_events *below __cleanup(kvmm_events_close) = NULL;

	attr.media = 1u << KVMM_MEDIUM_HOST;
	cr_assert_eq(kvmm_events_open(pool, &attr, &below), 0);
	cache_keys(pool, 1, 3);
	cr_expect_str_eq(told_to(below), "");
	cr_expect_str_eq(snapshot(below), "");
	cr_assert_eq(kvmm_events_get_stat(below, &stat), 0);
	cr_expect_eq(stat.skipped, 3);
	cr_expect_eq(stat.read, 0);
}

/* Whoever got the number never wrote it: that is told between those before and those behind it. */
Test(events, gap_ends_a_batch)
{
	struct kv_ring *ring = ring_of(events);
	struct kvmm_event buf[4];
	u64 nr_lost;

	cache_keys(pool, 1, 1);
	ring->head++;
	ring->broken = ring->head;
	cache_keys(pool, 3, 1);
	cr_assert_eq(kvmm_events_read(events, buf, 4, &nr_lost), 1);
	cr_expect_eq(nr_lost, 0);
	cr_assert_eq(kvmm_events_read(events, buf, 4, &nr_lost), 1);
	cr_expect_eq(nr_lost, 1);
	cr_expect_eq(buf[0].seq, 2);
}

Test(events, each_consumer_reads_all_from_its_beginning_on)
{
	struct kvmm_events *late __cleanup(kvmm_events_close) = NULL;

	cache_keys(pool, 1, 2);
	late = open_with(16, 0);
	cache_keys(pool, 5, 1);
	cr_expect_str_eq(told_to(late), "+5 ");
	cr_expect_str_eq(told(), "+1 +2<1 +5 ");
	cr_expect_str_eq(snapshot(late), "+1 +2<1 +5 ");
}

/* A ring of 16: whoever has slept through 20 events is told that, and gets the younger half. */
Test(events, gap_is_told_where_it_is)
{
	struct kvmm_events_stat stat = { .size = sizeof(stat) };

	kvmm_events_close(events);
	end_pool(pool);
	pool = make_cache(32, "lru");
	events = open_with(16, 0);
	cache_keys(pool, 1, 20);
	cr_expect_str_eq(told(), "?12 +13<12 +14<13 +15<14 +16<15 +17<16 +18<17 +19<18 +20<19 ");
	cr_assert_eq(kvmm_events_get_stat(events, &stat), 0);
	cr_expect_eq(stat.happened, 20);
	cr_expect_eq(stat.read, 8);
	cr_expect_eq(stat.lost, 12);
	cr_assert_eq(kvmm_events_seek(events, 2), 0);
	cr_expect(!strncmp(told(), "?10 ", 4));
	cr_expect_eq(kvmm_events_seek(events, 21), -EINVAL);
}

Test(events, powers_of_two_are_positions)
{
	struct kvmm_events *few __cleanup(kvmm_events_close) = NULL;

	kvmm_events_close(events);
	end_pool(pool);
	pool = make_cache(128, "lru");
	events = open_with(1024, 0);
	few = open_with(16, KVMM_EVENTS_POW2);
	cache_keys(pool, 100, 64);
	cr_expect_str_eq(told_to(few), "+116<115 +132<131 ");
	for (u32 position = 1; position <= 1u << 20; position *= 2)
		cr_expect_eq(events_wants(few, KVMM_EVENT_STORED, KVMM_MEDIUM_DEVICE, position),
			     position >= 16 && position <= 65536);
	cr_expect_str_eq(snapshot(few), "+116<115 +132<131 ");
}

Test(events, sorted_batches_are_of_one_kind_each)
{
	struct kvmm_events *sorted __cleanup(kvmm_events_close) = open_with(16, KVMM_EVENTS_SORTED);
	struct kvmm_event buf[16];
	u64 nr_lost;

	cache_keys(pool, 1, 3);
	cache_keys(pool, 11, 2);
	cr_assert_geq(kvmm_reset_inactive(pool), 0);
	cr_assert_eq(kvmm_events_read(sorted, buf, 16, &nr_lost), 5);
	for (u32 i = 1; i < 5; i++)
		cr_expect(buf[i - 1].position < buf[i].position ||
			  (buf[i - 1].position == buf[i].position && buf[i - 1].seq < buf[i].seq));
	cr_assert_eq(kvmm_events_read(sorted, buf, 16, &nr_lost), 5);
	for (u32 i = 1; i < 5; i++)
		cr_expect_geq(buf[i - 1].position, buf[i].position);
}

Test(events, flush_makes_due_what_there_is_and_nothing_that_comes_later)
{
	struct kvmm_events_attr attr = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_events *slow;
	struct kvmm_event first;
	u64 nr_lost;

	attr.batch_us = 3600u * 1000000;
	cr_assert_eq(kvmm_events_open(pool, &attr, &slow), 0);
	cache_keys(pool, 1, 3);
	kv_events_flush(slow);
	cr_expect_eq(kvmm_events_read(slow, &first, 1, &nr_lost), 1);
	cache_keys(pool, 4, 1);
	cr_expect_str_eq(told_to(slow), "+2<1 +3<2 +4 ", "the rest of it is due as well");
	kv_events_flush(slow);
	cr_expect_str_eq(told_to(slow), "");
	cache_keys(pool, 5, 1);
	cr_expect_str_eq(told_to(slow), "", "an empty read leaves nothing armed");
	kvmm_events_close(slow);
}

Test(events, a_batch_is_of_batch_max_events_at_most)
{
	struct kvmm_events_attr attr = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_events *slow __cleanup(kvmm_events_close) = NULL;
	struct kvmm_event buf[16];
	u64 nr_lost;

	attr.batch_max = 4;
	cr_assert_eq(kvmm_events_open(pool, &attr, &slow), 0);
	cache_keys(pool, 1, 6);
	cr_expect_eq(kvmm_events_read(slow, buf, 16, &nr_lost), 4);
	cr_expect_eq(kvmm_events_read(slow, buf, 16, &nr_lost), 2);
	cr_expect_eq(kvmm_events_read(slow, buf, 16, &nr_lost), 0);
}

Test(events, batch_waits_for_its_window_or_until_it_is_full)
{
	struct kvmm_events_stat stat = { .size = sizeof(stat) };
	struct kvmm_events_attr attr = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_events *slow;

	attr.batch_us = 100;
	attr.batch_max = 4;
	cr_assert_eq(kvmm_events_open(pool, &attr, &slow), 0);
	cache_keys(pool, 1, 1);
	cr_expect_str_eq(told_to(slow), "");
	fake_env_advance(&fake, 99999);
	cr_expect_str_eq(told_to(slow), "");
	fake_env_advance(&fake, 1);
	cr_expect_str_eq(told_to(slow), "+1 ");
	cache_keys(pool, 2, 4);
	cr_expect_str_eq(told_to(slow), "+2 +3<2 +4<3 +5<4 ");
	/* A window begins when there is something; not before, and not with the one before. */
	fake_env_advance(&fake, 100000);
	cr_expect_str_eq(told_to(slow), "");
	fake_env_advance(&fake, 100000);
	cache_keys(pool, 6, 1);
	cr_expect_str_eq(told_to(slow), "");
	fake_env_advance(&fake, 60000);
	cr_assert_eq(kvmm_events_get_stat(slow, &stat), 0);
	cr_assert_eq(kvmm_events_seek(slow, stat.happened - 1), 0);
	cr_expect_str_eq(told_to(slow), "");
	fake_env_advance(&fake, 60000);
	cr_expect_str_eq(told_to(slow), "", "who went elsewhere waits anew");
	fake_env_advance(&fake, 40000);
	cr_expect_str_eq(told_to(slow), "+6 ");
	kvmm_events_close(slow);
}

static kvmm_ref_t name_block(kvmm_mut_t mut, u32 number)
{
	kvmm_key_t key = key_of(number);
	kvmm_ref_t ref;

	cr_assert_eq(kvmm_register(pool, &mut, &key, 1, &ref), 0);
	return ref;
}

static void sort_by_index(kvmm_mut_t *muts, u32 nr)
{
	for (u32 i = 1; i < nr; i++)
		for (u32 k = i; k && muts[k - 1].index > muts[k].index; k--) {
			kvmm_mut_t mut = muts[k];

			muts[k] = muts[k - 1];
			muts[k - 1] = mut;
		}
}

/* The walk stands behind block 0 when that gets the name of block 2, which loses it then. */
Test(events, name_that_goes_behind_a_walk_is_not_lost)
{
	struct kvmm_snapshot snap;
	struct kvmm_event event;
	kvmm_mut_t muts[3];
	kvmm_ref_t ref[3];
	int block;

	cr_assert_eq(kvmm_alloc(pool, 3, muts), 0);
	sort_by_index(muts, 3);
	ref[1] = name_block(muts[1], 2);
	ref[2] = name_block(muts[2], 1);
	told();
	cr_assert_eq(kvmm_snapshot_begin(events, &snap), 0);
	cr_assert_eq(kvmm_snapshot_read(events, &snap, &event, 1), 1);
	cr_assert_eq(number_of(&event.key), 2);
	ref[0] = name_block(muts[0], 1);
	block = kvmm_block_of_ref(pool, ref[2]);
	cr_assert_eq(kvmm_put(pool, ref[2]), 0);
	cr_assert_eq(kvmm_evict_blocks(pool, (u32 *)&block, 1), 1);
	cr_assert_eq(kvmm_events_seek(events, snap.watermark), 0);
	cr_expect_str_eq(told(), "+1 ", "while the walk goes on");
	cr_assert_eq(kvmm_snapshot_read(events, &snap, &event, 1), 0);
	cr_assert_eq(kvmm_events_seek(events, snap.watermark), 0);
	cr_expect_str_eq(told(), "+1 ");
	/* What happens when it is over is no part of it. */
	block = kvmm_block_of_ref(pool, ref[0]);
	ref[2] = hold(1);
	cr_assert_eq(kvmm_put(pool, ref[0]), 0);
	cr_assert_eq(kvmm_evict_blocks(pool, (u32 *)&block, 1), 1);
	cr_expect_str_eq(told(), "");
	ref[0] = ref[2];
	cr_assert_eq(kvmm_put_many(pool, ref, 2), 0);
}

/* ---- errors ---- */

Test(events, bad_attributes_are_refused)
{
	struct kvmm_events_attr attr = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_events *none = NULL;
	struct kvmm_event event;
	u64 nr_lost;

	cr_expect_eq(kvmm_events_open(NULL, NULL, &none), -EINVAL);
	cr_expect_eq(kvmm_events_open(pool, NULL, NULL), -EINVAL);
	attr.ring = 24;
	cr_expect_eq(kvmm_events_open(pool, &attr, &none), -EINVAL);
	attr.ring = 8;
	cr_expect_eq(kvmm_events_open(pool, &attr, &none), -EINVAL);
	attr = (struct kvmm_events_attr)KVMM_EVENTS_ATTR_INIT;
	attr.flags = 1u << 7;
	cr_expect_eq(kvmm_events_open(pool, &attr, &none), -EINVAL);
	attr.flags = 0;
	attr.batch_max = 0;
	cr_expect_eq(kvmm_events_open(pool, &attr, &none), -EINVAL);
	attr = (struct kvmm_events_attr)KVMM_EVENTS_ATTR_INIT;
	attr.ring = 1u << 25;
	cr_expect_eq(kvmm_events_open(pool, &attr, &none), -EINVAL);
	attr.ring = 16;
	attr.media = 1u << KVMM_NR_MEDIA;
	cr_expect_eq(kvmm_events_open(pool, &attr, &none), -EINVAL, "there is no such medium");
	cr_expect_null(none);
	cr_expect_eq(kvmm_events_read(events, NULL, 1, &nr_lost), -EINVAL);
	cr_expect_eq(kvmm_events_read(events, &event, 0, &nr_lost), -EINVAL);
	cr_expect_eq(kvmm_events_read(NULL, &event, 1, &nr_lost), -EINVAL);
	kvmm_events_close(NULL);
}

Test(events, pool_that_caches_nothing_has_no_events)
{
	struct kvmm_pool *plain __cleanup(end_pool) = make_pool(4);
	struct kvmm_events *none;

	cr_expect_eq(kvmm_events_open(plain, NULL, &none), -EOPNOTSUPP);
}

Test(events, opening_without_memory_changes_nothing)
{
	struct kvmm_events *second;
	int err = -ENOMEM;

	kvmm_events_close(events);
	end_pool(pool);
	pool = make_cache(NR, "lru");
	for (u64 n = 1; err; n++) {
		u64 bytes = kv_mem_bytes();

		fake_env_fail(&fake, n, false);
		err = kvmm_events_open(pool, NULL, &second);
		cr_assert(!err || err == -ENOMEM);
		if (err)
			cr_expect_eq(kv_mem_bytes(), bytes);
		cr_assert_lt(n, 20);
	}
	cr_expect_eq(stat_of(pool).metadata_bytes > 0, 1);
	events = second;
}

Test(events, memory_of_the_feed_is_the_pools)
{
	struct kvmm_events_stat stat = { .size = sizeof(stat) };
	u64 before, bytes;

	kvmm_events_close(events);
	end_pool(pool);
	pool = make_cache(NR, "lru");
	before = stat_of(pool).metadata_bytes;
	bytes = kv_mem_bytes();
	events = open_with(1024, 0);
	cr_assert_eq(kvmm_events_get_stat(events, &stat), 0);
	cr_expect_eq(stat_of(pool).metadata_bytes - before, stat.bytes);
	/* The consumer is its owner's, and what the allocator rounds up nobody's. */
	cr_expect(kv_mem_bytes() - bytes >= stat.bytes && stat.bytes >= 1024 * 64);
	cr_expect_lt(kv_mem_bytes() - bytes, stat.bytes + 4096);
}

Test(events, a_forked_child_is_told_nothing)
{
	int status;
	pid_t pid;

	cache_keys(pool, 1, 1);
	pid = fork();
	if (!pid) {
		struct kvmm_snapshot snap;
		struct kvmm_event event;
		u64 nr_lost;
		bool inert = kvmm_events_read(events, &event, 1, &nr_lost) == -ECHILD &&
			     kvmm_snapshot_begin(events, &snap) == -ECHILD &&
			     kvmm_snapshot_read(events, &snap, &event, 1) == -ECHILD;

		kvmm_events_close(events);
		_exit(!inert);
	}
	waitpid(pid, &status, 0);
	cr_expect_eq(status, 0);
	cr_expect_str_eq(told(), "+1 ");
}

/* ---- validation ---- */

Test(events, validation_sees_what_is_not_as_it_should_be)
{
	struct pool_events *of = pool->events;
	u64 *word[] = { &of->feed.parent[2].known, &of->feed.ring.slot[3].stamp,
			&of->feed.ring.broken };
	u64 bad[] = { 2, 5, 99 };

	cr_assert_eq(events_part.check(pool, NULL), 0);
	for (u32 i = 0; i < ARRAY_SIZE(word); i++) {
		u64 was = *word[i];

		*word[i] = bad[i];
		cr_expect_eq(events_part.check(pool, NULL), -EUCLEAN, "%u", i);
		*word[i] = was;
	}
	of->feed.kinds ^= 1;
	cr_expect_eq(events_part.check(pool, NULL), -EUCLEAN);
	of->feed.kinds ^= 1;
	pool->map->feed = NULL;
	cr_expect_eq(events_part.check(pool, NULL), -EUCLEAN);
	pool->map->feed = &of->feed;
	cr_assert_eq(events_part.check(pool, NULL), 0);
}

/* ---- names that change ---- */

static int change(u32 op, u32 number, kvmm_ref_t ref)
{
	struct kvmm_name name = { .key = key_of(number), .position = number };

	return kvmm_names_change(pool, &name, &ref, 1, op);
}

Test(events, block_that_is_private_again_is_removed)
{
	kvmm_ref_t ref = hold(1);
	kvmm_mut_t mut;

	cr_expect_eq(kvmm_unpublish(pool, &ref, 1, &mut), 0);
	cr_expect_str_eq(told(), "+1 -1 ");
	cr_expect_str_eq(snapshot(events), "");
	cr_expect_eq(kvmm_free(pool, &mut, 1), 0);
	cr_expect_str_eq(told(), "");
}

Test(events, new_name_is_stored_before_the_old_one_is_removed)
{
	kvmm_ref_t ref[2];

	register_keys(pool, 1, 2, ref);
	cr_expect_str_eq(told(), "+1 +2<1 ");
	cr_expect_eq(change(KVMM_NAME_RENAME, 5, ref[1]), 0);
	cr_expect_str_eq(told(), "+5 -2 ", "the block before it is another one, or none");
	cr_expect_str_eq(snapshot(events), "+1 +5 ");
	/* Another block has the name: nothing appears, and nothing goes. */
	cr_expect_eq(change(KVMM_NAME_RENAME, 1, ref[1]), 0);
	cr_expect_str_eq(told(), "-5 ");
	cr_expect_eq(change(KVMM_NAME_RENAME, 6, ref[1]), 0);
	cr_expect_str_eq(told(), "+6 ");
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
}

Test(events, each_name_of_a_block_is_told)
{
	kvmm_ref_t ref[2];
	u32 block;

	register_keys(pool, 1, 2, ref);
	told();
	cr_expect_eq(change(KVMM_NAME_ADD, 4, ref[0]), 0);
	cr_expect_eq(change(KVMM_NAME_ADD, 5, ref[0]), 0);
	cr_expect_eq(change(KVMM_NAME_ADD, 2, ref[0]), 0);
	cr_expect_str_eq(told(), "+4 +5 ", "2 was there");
	cr_expect_str_eq(snapshot(events), "+1 +2<1 +4 +5 +2 ");
	cr_expect_eq(change(KVMM_NAME_REMOVE, 4, ref[0]), 0);
	cr_expect_str_eq(told(), "-4 ");
	block = kvmm_block_of_ref(pool, ref[1]);
	cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 1);
	cr_expect_str_eq(told(), "", "2 is another block's, too");
	cr_expect_eq(change(KVMM_NAME_REMOVE, 1, ref[0]), 0);
	cr_expect_str_eq(told(), "-1 ", "5 was there before it was the first");
	block = kvmm_block_of_ref(pool, ref[0]);
	cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 1);
	cr_expect_str_eq(told(), "-5 -2 ");
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
	cr_expect_str_eq(told(), "");
}

Test(events, eviction_removes_all_names)
{
	kvmm_ref_t ref = hold(1);
	kvmm_mut_t mut[NR];

	cr_expect_eq(change(KVMM_NAME_ADD, 4, ref), 0);
	cr_expect_eq(change(KVMM_NAME_ADD, 5, ref), 0);
	cr_expect_eq(kvmm_put(pool, ref), 0);
	told();
	cr_expect_eq(kvmm_alloc(pool, NR, mut), 0);
	cr_expect_str_eq(told(), "-1 -4 -5 ");
	cr_expect_eq(kvmm_free(pool, mut, NR), 0);
}

Test(events, name_that_moves_is_there_all_the_time)
{
	kvmm_ref_t ref[2];

	register_keys(pool, 1, 2, ref);
	told();
	cr_expect_eq(change(KVMM_NAME_ADD, 1, ref[1]), 0);
	cr_expect_eq(change(KVMM_NAME_REMOVE, 1, ref[0]), 0);
	cr_expect_str_eq(told(), "");
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
}
