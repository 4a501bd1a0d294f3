// SPDX-License-Identifier: Apache-2.0
/* What consumers of a pool's events are told of the tier below it. */
#include "tests/tier/util.h"

static char text[256];

/* "+1 +h1 -2": one is stored in the device, then in the host; two is gone from the device. */
static void say(const struct kvmm_event *event)
{
	size_t len = strlen(text);

	cr_assert_lt(event->medium, 2);
	snprintf(text + len, sizeof(text) - len, "%s%c%s%u", len ? " " : "",
		 event->kind == KVMM_EVENT_STORED ? '+' : '-', event->medium ? "h" : "",
		 number_of(&event->key));
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

static const char *snapshot(struct kvmm_events *events)
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

static struct kvmm_events *open_events(struct kvmm_pool *pool, u32 media)
{
	struct kvmm_events_attr attr = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_events *events;

	attr.media = media;
	cr_assert_eq(kvmm_events_open(pool, &attr, &events), 0);
	return events;
}

static void go_down_and_up(bool attach_first)
{
	struct kvmm_pool *pool = make_cache(8, "lru");
	struct kvmm_tier *tier = make_tier(2);
	struct kvmm_events *events, *host;

	if (attach_first)
		attach(pool, tier);
	events = open_events(pool, ~0u);
	host = open_events(pool, 1u << KVMM_MEDIUM_HOST);
	if (!attach_first)
		attach(pool, tier);
	cache_blocks(pool, 1, 2);
	offload_keys(pool, 1, 2, 0);
	cr_expect_str_eq(told(events), "+1 +2 +h1 +h2");
	cr_expect_str_eq(snapshot(events), "+1 +2 +h1 +h2");
	cr_assert_eq(kvmm_reset_inactive(pool), 2);
	cr_expect_str_eq(told(events), "-2 -1", "the host has them");
	cr_expect_str_eq(snapshot(events), "+h1 +h2");
	cr_assert_eq(load_keys(pool, 1, 1), 0);
	cr_expect_str_eq(told(events), "+1");
	cache_blocks(pool, 5, 1);
	offload_keys(pool, 5, 1, 0);
	cr_expect_str_eq(told(events), "+5 -h2 +h5");
	cr_expect_str_eq(told(host), "+h1 +h2 -h2 +h5");
	cr_assert_eq(kvmm_reset_cache(pool), 2);
	cr_expect_str_eq(told(events), "-1 -5 -h1 -h5");
	cr_expect_str_eq(snapshot(events), "");
	cr_expect_str_eq(told(host), "-h1 -h5");
	kvmm_events_close(host);
	kvmm_events_close(events);
	end_both(pool, tier);
}

TEST_CALL(tier_events, copies_are_told_by_medium, go_down_and_up(true))
TEST_CALL(tier_events, tier_may_come_after_the_consumer, go_down_and_up(false))

Test(tier_events, names_are_removed_when_the_pool_lets_go_of_its_tier)
{
	struct kvmm_pool *pool = make_cache(8, "lru");
	struct kvmm_tier *tier = make_tier(4);
	struct kvmm_events *events = open_events(pool, ~0u);

	attach(pool, tier);
	cache_blocks(pool, 1, 2);
	offload_keys(pool, 1, 2, 0);
	told(events);
	cr_assert_eq(kvmm_tier_detach(pool), 0);
	cr_expect_str_eq(told(events), "-h1 -h2");
	cr_expect_str_eq(snapshot(events), "+1 +2");
	kvmm_events_close(events);
	end_both(pool, tier);
}
