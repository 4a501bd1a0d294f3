// SPDX-License-Identifier: Apache-2.0
/* What consumers of a pool's events are told of the tier below it, and of a disk below that. */
#include "tests/support/sim_store.h"
#include "tests/tier/util.h"

#define BYTES		4096u
#define MAX_NUMBER	4096u

static struct kvmm_tier *tier;
static struct kvmm_pool *pool;
static char text[1024];

static void make_both(u32 nr_units, u64 layout)
{
	struct both both = both_of(8, nr_units);

	both.attr.block_bytes = both.host.block_bytes = BYTES;
	both.client.layout_id = layout;
	both.host.disk = disk;
	both_make(&both);
	pool = both.pool;
	tier = both.tier;
}

static void begin(void)
{
	begin_store(8, 64 << 10);
	store_attr.flags |= KVMM_DISK_NAMES;
	open_store();
}

TestSuite(disk_events, .init = begin, .fini = end_store);

static void settle(void)
{
	for (u32 i = 0; i < 200; i++)
		kvmm_tier_tick(tier);
}

/* "+1 +h1 +d1 -2": one is stored in the device, the host, on the disk; two is gone from the device. */
static void say(const struct kvmm_event *event)
{
	static const char *const media[] = { "", "h", "d", "?" };
	size_t len = strlen(text);

	snprintf(text + len, sizeof(text) - len, "%s%c%s%u", len ? " " : "",
		 event->kind == KVMM_EVENT_STORED ? '+' : '-', media[event->medium],
		 number_of(&event->key));
}

static struct kvmm_events *open_events(u32 media)
{
	struct kvmm_events_attr attr = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_events *events;

	attr.media = media;
	cr_assert_eq(kvmm_events_open(pool, &attr, &events), 0);
	return events;
}

static const char *told(struct kvmm_events *events)
{
	struct kvmm_event buf[32];
	u64 nr_lost;
	int nr;

	text[0] = '\0';
	while ((nr = kvmm_events_read(events, buf, ARRAY_SIZE(buf), &nr_lost)) > 0)
		for (int i = 0; i < nr; i++)
			say(&buf[i]);
	cr_assert_eq(nr, 0);
	cr_assert_eq(nr_lost, 0);
	return text;
}

/* ---- the host alone ---- */

/* The same of all that there is. */
static const char *all_names(struct kvmm_events *events)
{
	struct kvmm_snapshot snap;
	struct kvmm_event buf[2];
	int nr;

	text[0] = '\0';
	cr_assert_eq(kvmm_snapshot_begin(events, &snap), 0);
	while ((nr = kvmm_snapshot_read(events, &snap, buf, ARRAY_SIZE(buf))) > 0)
		for (int i = 0; i < nr; i++)
			say(&buf[i]);
	return text;
}

static void go_down_and_up(bool attach_first)
{
	struct kvmm_events *events, *host;

	pool = make_cache(8, "lru");
	tier = make_tier(2);
	if (attach_first)
		attach(pool, tier);
	events = open_events(~0u);
	host = open_events(1u << KVMM_MEDIUM_HOST);
	if (!attach_first)
		attach(pool, tier);
	cache_blocks(pool, 1, 2);
	offload_keys(pool, 1, 2, 0);
	cr_expect_str_eq(told(events), "+1 +2 +h1 +h2");
	cr_expect_str_eq(all_names(events), "+1 +2 +h1 +h2");
	cr_assert_eq(kvmm_reset_inactive(pool), 2);
	cr_expect_str_eq(told(events), "-2 -1", "the host has them");
	cr_expect_str_eq(all_names(events), "+h1 +h2");
	cr_assert_eq(load_keys(pool, 1, 1), 0);
	cr_expect_str_eq(told(events), "+1");
	cache_blocks(pool, 5, 1);
	offload_keys(pool, 5, 1, 0);
	cr_expect_str_eq(told(events), "+5 -h2 +h5");
	cr_expect_str_eq(told(host), "+h1 +h2 -h2 +h5");
	cr_assert_eq(kvmm_reset_cache(pool), 2);
	cr_expect_str_eq(told(events), "-1 -5 -h1 -h5");
	cr_expect_str_eq(all_names(events), "");
	cr_expect_str_eq(told(host), "-h1 -h5");
	kvmm_events_close(host);
	kvmm_events_close(events);
	end_both(pool, tier);
}

TEST_CALL(tier_events, copies_are_told_by_medium, go_down_and_up(true))
TEST_CALL(tier_events, tier_may_come_after_the_consumer, go_down_and_up(false))

Test(tier_events, names_are_removed_when_the_pool_lets_go_of_its_tier)
{
	struct kvmm_events *events;

	pool = make_cache(8, "lru");
	tier = make_tier(4);
	attach(pool, tier);
	events = open_events(~0u);
	cache_blocks(pool, 1, 2);
	offload_keys(pool, 1, 2, 0);
	told(events);
	cr_assert_eq(kvmm_tier_detach(pool), 0);
	cr_expect_str_eq(told(events), "-h1 -h2");
	cr_expect_str_eq(all_names(events), "+1 +2");
	kvmm_events_close(events);
	end_both(pool, tier);
}

/* ---- a disk below it ---- */

/* Whether each number is on the disk, as a snapshot says; how many. */
static u32 snapshot(struct kvmm_events *events, bool *has)
{
	struct kvmm_snapshot snap;
	struct kvmm_event buf[3];
	u32 nr_disk = 0;
	int nr;

	memset(has, 0, MAX_NUMBER);
	cr_assert_eq(kvmm_snapshot_begin(events, &snap), 0);
	while ((nr = kvmm_snapshot_read(events, &snap, buf, ARRAY_SIZE(buf))) > 0) {
		for (int i = 0; i < nr; i++) {
			u32 number = number_of(&buf[i].key);

			if (buf[i].medium != KVMM_MEDIUM_DISK)
				continue;
			cr_assert(number < MAX_NUMBER && !has[number], "%u twice", number);
			cr_assert_eq(buf[i].block, KVMM_EVENT_NO_BLOCK);
			has[number] = true;
			nr_disk++;
		}
	}
	cr_assert_eq(nr, 0);
	return nr_disk;
}

static u64 nr_records(void)
{
	struct kvmm_disk_stat stat = { .size = sizeof(stat) };

	cr_assert_eq(kvmm_disk_get_stat(disk, &stat), 0);
	return stat.nr_records;
}

/* Keys first ... first + nr - 1 go down, as far as the disk. */
static void send(u32 first, u32 nr)
{
	cache_blocks(pool, first, nr);
	offload_keys(pool, first, nr, KVMM_TIER_DROP);
	settle();
}

Test(disk_events, record_is_told_before_the_host_loses_its_copy)
{
	struct kvmm_events *events;

	make_both(2, 1);
	events = open_events(~0u);
	send(1, 1);
	cr_expect_str_eq(told(events), "+1 +h1 -1 +d1");
	send(2, 1);
	cr_expect_str_eq(told(events), "+2 +h2 -2 +d2");
	send(3, 1);
	cr_expect_str_eq(told(events), "+3 -h1 +h3 -3 +d3");
	kvmm_events_close(events);
	end_both(pool, tier);
}

Test(disk_events, names_survive_a_restart_and_are_told_to_their_layout_only)
{
	struct kvmm_events *events;
	bool has[MAX_NUMBER];

	make_both(4, 1);
	send(1, 4);
	end_both(pool, tier);
	open_store();
	make_both(4, 2);
	events = open_events(~0u);
	cr_expect_eq(snapshot(events, has), 0, "another model's");
	send(9, 1);
	cr_expect_str_eq(told(events), "+9 +h9 -9 +d9");
	kvmm_events_close(events);
	end_both(pool, tier);
	make_both(4, 1);
	events = open_events(~0u);
	cr_expect_eq(snapshot(events, has), 4);
	cr_expect(has[1] && has[2] && has[3] && has[4]);
	kvmm_events_close(events);
	end_both(pool, tier);
}

Test(disk_events, what_is_spoilt_is_removed)
{
	struct kvmm_events *events;

	make_both(1, 1);
	send(1, 1);
	send(2, 1);
	events = open_events(1u << KVMM_MEDIUM_DISK);
	for (u64 at = 8192; at + 64 < sim.bytes; at += 512)
		sim.content[at + 33] ^= 1;
	cr_expect_lt(load_keys(pool, 1, 1), 0);
	settle();
	kvmm_tier_poll(pool);
	cr_expect_str_eq(told(events), "-d1");
	kvmm_events_close(events);
	end_both(pool, tier);
}

Test(disk_events, pool_that_leaves_loses_all_of_them)
{
	struct kvmm_events *events;

	make_both(4, 1);
	events = open_events(1u << KVMM_MEDIUM_DISK);
	send(1, 1);
	cr_expect_str_eq(told(events), "+d1");
	cr_assert_eq(kvmm_tier_detach(pool), 0);
	cr_expect_str_eq(told(events), "-d1");
	kvmm_events_close(events);
	end_both(pool, tier);
}

Test(disk_events, store_that_keeps_no_names_tells_of_none)
{
	struct kvmm_events *events;
	bool has[MAX_NUMBER];

	store_attr.flags &= ~KVMM_DISK_NAMES;
	open_store();
	make_both(4, 1);
	events = open_events(~0u);
	send(1, 1);
	cr_expect_str_eq(told(events), "+1 +h1 -1");
	cr_expect_eq(nr_records(), 1);
	cr_expect_eq(snapshot(events, has), 0);
	kvmm_events_close(events);
	end_both(pool, tier);
}

/* ---- at random ---- */

static void mirror(struct kvmm_events *events, bool *has, u64 seed)
{
	struct kvmm_event buf[32];
	u64 nr_lost;
	int nr;

	while ((nr = kvmm_events_read(events, buf, ARRAY_SIZE(buf), &nr_lost)) > 0) {
		for (int i = 0; i < nr; i++) {
			bool stored = buf[i].kind == KVMM_EVENT_STORED;
			u32 number = number_of(&buf[i].key);

			cr_assert_eq(buf[i].medium, KVMM_MEDIUM_DISK);
			cr_assert_neq(has[number], stored, "seed %lu: %u", seed, number);
			has[number] = stored;
		}
	}
	cr_assert_eq(nr_lost, 0);
}

/*
 * More names than the disk has room for, so that segments are used again: the mirror is what a snapshot
 * says, and as many as the store counts; what it lacks cannot be loaded.
 */
Test(disk_events, mirror_is_right_after_random_calls)
{
	bool has[MAX_NUMBER] = { false }, now[MAX_NUMBER];
	u64 seed = 20261122, state = seed;
	struct kvmm_events *events;
	u32 nr_dropped = 0;

	fprintf(stderr, "seed %lu\n", seed);
	make_both(4, 1);
	events = open_events(1u << KVMM_MEDIUM_DISK);
	for (u32 i = 0, next = 1; i < 400; i++) {
		state = state * 6364136223846793005ull + 1442695040888963407ull;
		if (state >> 62) {
			send(next, 1 + (state >> 33) % 4);
			next += 4;
		} else {
			(void)!load_keys(pool, 1 + (state >> 33) % next, 1);
			settle();
		}
		mirror(events, has, seed);
		if (i % 20)
			continue;
		cr_assert_eq(snapshot(events, now), nr_records(), "seed %lu, call %u", seed, i);
		cr_assert(!memcmp(has, now, sizeof(has)), "seed %lu, call %u", seed, i);
		cr_assert_eq(kv_disk_check(disk), 0);
	}
	for (u32 i = 1; i < 200; i += 4)
		nr_dropped += !has[i];
	cr_expect_gt(nr_dropped, 20, "no segment was used again");
	kvmm_events_close(events);
	end_both(pool, tier);
}
