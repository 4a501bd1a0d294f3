// SPDX-License-Identifier: Apache-2.0
/* What consumers of a pool's events are told of a disk below its tier. */
#include "tests/support/sim_disk.h"
#include "tests/tier/util.h"

#define BYTES		4096u
#define SEGMENT		(64u << 10)
#define MAX_BYTES	(8 * SEGMENT + 24576)
#define MAX_NUMBER	4096u

static struct sim_disk sim;
static struct kvmm_disk *disk;
static struct kvmm_tier *tier;
static struct kvmm_pool *pool;
static char text[1024];

static void open_disk(u32 flags)
{
	struct kvmm_disk_attr attr = { .size = sizeof(attr), .flags = KVMM_DISK_CREATE,
				       .path = "/store", .max_bytes = MAX_BYTES,
				       .segment_bytes = SEGMENT };

	attr.flags |= flags;
	cr_assert_eq(kvmm_disk_open(&attr, &disk), 0);
}

static void make_both(u32 nr_units, u64 layout)
{
	struct kvmm_tier_disk_attr below = { .size = sizeof(below), .high_pm = 0 };
	struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8, .policy = "lru" };
	struct kvmm_tier_attr host = KVMM_TIER_ATTR_INIT;

	host.block_bytes = attr.block_bytes = BYTES;
	host.capacity_blocks = nr_units;
	tier = make_tier_of(&host);
	cr_assert_eq(kvmm_tier_set_disk(tier, disk, &below), 0);
	config.write = KVMM_TIER_EXPLICIT;
	client.config = &config;
	client.layout_id = layout;
	attr.host = tier;
	attr.host_attr = &client;
	pool = make_pool_of(&attr);
}

static void begin(void)
{
	sim_disk_init(&sim, 2 * MAX_BYTES);
	sim_disk_install(&sim);
	open_disk(KVMM_DISK_NAMES);
}

static void end(void)
{
	cr_expect_eq(kv_disk_check(disk), 0);
	kvmm_disk_close(disk);
	sim_disk_remove();
	sim_disk_exit(&sim);
}

TestSuite(disk_events, .init = begin, .fini = end);

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
	cr_assert_eq(nr_lost, 0);
	return text;
}

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
	kvmm_disk_close(disk);
	open_disk(KVMM_DISK_NAMES);
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

	kvmm_disk_close(disk);
	open_disk(0);
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
