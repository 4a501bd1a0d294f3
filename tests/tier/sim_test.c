// SPDX-License-Identifier: Apache-2.0
/* A disk that is only simulated: its time, its room, and what becomes of who goes in between. */
#include "research/sim_disk.h"
#include "tests/support/fake_env.h"
#include "tests/support/random.h"
#include "tests/tier/util.h"
#include "tier/below.h"

#define NR_HOST		4u
#define BYTES		1000u
#define LATENCY_NS	50u
#define MAX_SUNK	400u

/* A block takes 1000 ns to be written and 500 to be read, besides the latency. */
static const struct kvmm_tier_link write_link = { LATENCY_NS, 1000000000 };
static const struct kvmm_tier_link read_link = { LATENCY_NS, 2000000000 };

struct sim {
	struct kvmm_pool *pool;
	struct kvmm_tier *tier;
	u64 now;
};

static struct kvmm_tier *make_told(u32 nr_blocks)
{
	struct kvmm_tier_attr attr = KVMM_TIER_ATTR_INIT;

	attr.capacity_blocks = nr_blocks;
	attr.flags = KVMM_TIER_TOLD_CLOCK;
	return make_tier_of(&attr);
}

static int simulate(struct kvmm_tier *tier, u32 nr_blocks, u32 max_io)
{
	struct kvmm_tier_disk_attr attr = { .size = sizeof(attr), .high_pm = 0 };
	struct kvmm_tier_sim_attr sim = KVMM_TIER_SIM_ATTR_INIT;

	attr.max_put = attr.max_get = max_io;
	sim.capacity_blocks = nr_blocks;
	sim.write = write_link;
	sim.read = read_link;
	return kvmm_tier_simulate_disk(tier, &sim, &attr);
}

static struct sim make_sim_of(u32 nr_pool, u32 nr_host, u32 nr_disk, u32 max_io)
{
	struct both both = both_of_ids(nr_pool, nr_host, BYTES);

	both.tier = make_told(nr_host);
	cr_assert_eq(simulate(both.tier, nr_disk, max_io), 0);
	both.attr.flags = KVMM_POOL_DETERMINISTIC;
	both_make(&both);
	return (struct sim){ .pool = both.pool, .tier = both.tier };
}

static struct sim make_sim(u32 nr_disk)
{
	return make_sim_of(8, NR_HOST, nr_disk, 8);
}

#define SIM_TEST(name, make) \
	TEST_ON(struct sim, s, *s = make, end_both(s->pool, s->tier), tier_sim, name)

/* What comes to the host tier goes on to the disk with the same call. */
static void poll_once(struct sim *s)
{
	cr_assert_geq(kvmm_tier_poll(s->pool), 0);
}

static void tell(struct sim *s, u64 now)
{
	s->now = now;
	cr_assert_eq(kvmm_tier_clock(s->tier, now), 0);
	poll_once(s);
}

/* Until nothing is under way. */
static void settle(struct sim *s)
{
	u64 due = 0;

	poll_once(s);
	while (!kvmm_tier_due(s->pool, &due))
		tell(s, due);
}

/* Keys go to the host tier and on to the disk; the device has them no more. */
static void sink(struct sim *s, u32 first, u32 nr)
{
	kvmm_ref_t refs[MAX_SUNK];

	make_blocks(s->pool, first, nr, refs);
	send_down(s->pool, first, nr);
	settle(s);
	cr_assert_eq(kvmm_put_many(s->pool, refs, nr), 0);
	cr_assert_eq(kvmm_reset_inactive(s->pool), (int)nr);
}

static int end_load(struct sim *s, kvmm_tier_op_t op, u32 nr)
{
	kvmm_ref_t refs[8];
	int err = result_of(s->pool, op, nr, refs);

	if (!err)
		cr_assert_eq(kvmm_put_many(s->pool, refs, nr), 0);
	return err;
}

/* ---- time ---- */

SIM_TEST(bytes_come_one_after_the_other_and_latencies_side_by_side, make_sim(8))
{
	struct kvmm_tier_stat stat;
	kvmm_tier_op_t op;
	u64 due = 0, took, taken = 0;

	sink(s, 1, 4);		/* the last one is there at 4 * 1000 + 50 */
	cr_expect_eq(s->now, 4050);
	sink(s, 5, 4);
	cr_expect_str_eq(answers(s->pool, 1, 4), "2222");
	cr_expect_str_eq(answers(s->pool, 5, 4), "1111");
	cr_assert_eq(kvmm_tier_take_latency(s->pool, &taken, &took), 0);
	cr_expect_eq(took, 0, "nothing was loaded: %llu", (unsigned long long)took);

	tell(s, 10000);
	op = begin_load(s->pool, 1, 2);
	cr_assert_eq(kvmm_tier_due(s->pool, &due), 0);
	cr_expect_eq(kvmm_tier_due(s->pool, NULL), -EINVAL);
	cr_expect_eq(due, 10000 + 500 + 50);
	tell(s, 10000 + 2 * 500 + 49);
	cr_expect_eq(end_load(s, op, 2), -EAGAIN);
	tell(s, 10000 + 2 * 500 + 50);
	cr_expect_eq(end_load(s, op, 2), 0);
	cr_assert_eq(kvmm_tier_take_latency(s->pool, &taken, &took), 0);
	cr_expect_eq(took, 550 + 1050);
	cr_assert_eq(kvmm_tier_take_latency(s->pool, &taken, &took), 0);
	cr_expect_eq(took, 0);

	stat = tier_of(s->tier);
	cr_expect_eq(stat.demoted_bytes, 8 * BYTES);
	cr_expect_eq(stat.demote_ns, 2 * (4 * 50 + 1000 + 2000 + 3000 + 4000));
	cr_expect_eq(stat.promoted_bytes, 2 * BYTES);
	cr_expect_eq(stat.promote_ns, 550 + 1050);
	cr_expect_eq(stat.sim_blocks, 8);
	cr_expect_eq(client_of(s->pool).disk_loads, 2);
	cr_expect_eq(client_of(s->pool).disk_load_bytes, 2 * BYTES);
	cr_expect_eq(client_of(s->pool).disk_load_ns, 550 + 1050);
	cr_expect_eq(client_of(s->pool).disk_took.bucket[0], 1, "up to 1 us");
	cr_expect_eq(client_of(s->pool).disk_took.bucket[1], 1, "up to 2 us");
	cr_expect_eq(client_of(s->pool).reloads, 0, "what comes from the disk did not go down just now");
}

static void forget_on_disk(struct sim *s, u32 number)
{
	const struct below *below = s->tier->below;
	struct kv_tier_name name = { .key = prefix_of(number, 1)->keys[0],
				     .layout = s->tier->owner[NOBODY + 1].layout };

	below->ops->forget(below->store, &name, 1, true, NULL);
}

/* Somebody reads them there, and ends nothing else. */
static void touch_host(struct sim *s, u32 first, u32 nr)
{
	kvmm_tier_op_t op = begin_load(s->pool, first, nr);

	settle(s);
	cr_assert_eq(end_load(s, op, nr), 0);
	cr_assert_eq(kvmm_reset_inactive(s->pool), (int)nr);
}

/* Room for keys that are read from the disk is not made among keys of the same load. */
SIM_TEST(a_load_does_not_push_its_own_blocks_out_of_the_host_tier, make_sim(8))
{
	kvmm_tier_op_t op;

	sink(s, 1, 2);
	sink(s, 7, 2);
	sink(s, 3, 2);		/* 1 and 2 leave the host tier, ... */
	forget_on_disk(s, 3);
	forget_on_disk(s, 4);	/* ... 3 and 4 are nowhere else, ... */
	cr_expect_str_eq(answers(s->pool, 1, 4), "2211");
	touch_host(s, 7, 2);	/* ... and next to go there */
	op = begin_load(s->pool, 1, 4);
	cr_expect_str_eq(answers(s->pool, 7, 2), "22", "7 and 8 have made room");
	settle(s);
	cr_expect_eq(end_load(s, op, 4), 0);
}

/* ---- who is written ---- */

SIM_TEST(what_comes_to_the_host_tier_goes_on_in_the_same_poll, make_sim(8))
{
	u64 due = 0;

	cache_blocks(s->pool, 1, 2);
	send_down(s->pool, 1, 2);
	poll_once(s);			/* the copy ends at once */
	cr_assert_eq(kvmm_tier_due(s->pool, &due), 0);
	cr_expect_eq(due, 1050, "the first one is there then, not %llu", (unsigned long long)due);
	settle(s);
	cr_expect_eq(tier_of(s->tier).demoted, 2);
}

/* A burst is as long as the host tier itself, and several times what may be under way. */
SIM_TEST(a_burst_of_evictions_loses_nothing_while_the_disk_has_time,
	 make_sim_of(MAX_SUNK, MAX_SUNK, 4 * MAX_SUNK, 64))
{
	for (u32 i = 0; i < 3; i++) {
		sink(s, 1 + i * 1000, MAX_SUNK);
		cr_expect_eq(tier_of(s->tier).demoted, (i + 1) * MAX_SUNK);
	}
	cr_expect_eq(tier_of(s->tier).evicted, 2 * MAX_SUNK);
	cr_expect_eq(tier_of(s->tier).lost, 0);
	cr_expect_eq(strspn(answers(s->pool, 1, MAX_SUNK), "2"), MAX_SUNK);
}

/* Nothing is evicted between two looks but what has a copy: those behind them are found all the same. */
SIM_TEST(who_comes_bit_by_bit_is_found_behind_those_with_copies,
	 make_sim_of(8, MAX_SUNK, 4 * MAX_SUNK, 2))
{
	u32 nr = 0;

	for (; nr < MAX_SUNK; nr += 8)
		sink(s, 1 + nr, 8);
	for (u32 i = 0; i < 2 * MAX_SUNK / 8; i++, nr += 8)
		sink(s, 1 + nr, 8);
	cr_expect_eq(tier_of(s->tier).evicted, 2 * MAX_SUNK);
	cr_expect_eq(tier_of(s->tier).lost, 0);
}

/* ---- room ---- */

SIM_TEST(who_is_not_being_written_makes_room_however_many_before_him_are,
	 make_sim_of(120, 100, 400, 90))
{
	struct kvmm_tier_stat stat;

	cache_blocks(s->pool, 1, 100);
	send_down(s->pool, 1, 100);
	poll_once(s);		/* 90 are being written, and no time goes by */
	cache_blocks(s->pool, 201, 10);
	send_down(s->pool, 201, 10);
	poll_once(s);
	stat = tier_of(s->tier);
	cr_expect_eq(stat.evicted, 10);
	cr_expect_eq(stat.lost, 10);
	cr_expect_eq(strcspn(answers(s->pool, 201, 10), "-"), 10);
	cache_blocks(s->pool, 301, 10);
	send_down(s->pool, 301, 10);
	poll_once(s);
	cr_expect_eq(tier_of(s->tier).evicted, 20);
}

SIM_TEST(the_oldest_goes_and_what_was_read_stays_for_three_that_go, make_sim(6))
{
	kvmm_tier_op_t op;

	sink(s, 1, 4);
	sink(s, 5, 4);		/* 1, 2 make room */
	cr_expect_str_eq(answers(s->pool, 1, 1), "-");
	cr_expect_str_eq(answers(s->pool, 3, 2), "22");
	sink(s, 11, 4);	/* 3, 4, 5, 6: four have gone in all ... */
	op = begin_load(s->pool, 7, 2);
	settle(s);
	cr_expect_eq(end_load(s, op, 2), 0);
	cr_assert_eq(kvmm_reset_inactive(s->pool), 2);
	sink(s, 21, 4);	/* ... and more, so 7 and 8 stay, and 11 to 14 go */
	cr_expect_str_eq(answers(s->pool, 7, 2), "22");
	cr_expect_str_eq(answers(s->pool, 11, 1), "-");
	cr_expect_eq(tier_of(s->tier).sim_dropped, 10);
	cr_expect_eq(tier_of(s->tier).sim_blocks, 6);
}

/* ---- the end ---- */

Test(tier_sim, nobody_waits_for_a_clock_that_stands_still, .timeout = 20)
{
	struct sim s = make_sim(8);
	kvmm_tier_op_t op;

	sink(&s, 1, 4);
	sink(&s, 5, 4);
	op = begin_load(s.pool, 1, 2);
	cr_expect_eq(kvmm_tier_detach(s.pool), -EBUSY);
	cr_expect_eq(kvmm_tier_abort(s.pool, op), 0);
	cache_blocks(s.pool, 21, 2);
	send_down(s.pool, 21, 2);
	poll_once(&s);		/* they are being written */
	end_both(s.pool, s.tier);
}

/* Nothing is written to memory, so no pool waits for the disk; the tier has its end all the same. */
Test(tier_sim, what_a_pool_was_reading_when_it_went_ends_without_it)
{
	struct sim s = make_sim(8);
	struct both other = both_of_ids(8, NR_HOST, BYTES);
	const u32 *nr_reads = &s.tier->below->nr_used[BELOW_GET];

	other.tier = s.tier;
	other.attr.flags = KVMM_POOL_DETERMINISTIC;
	both_make(&other);
	sink(&s, 1, 4);
	sink(&s, 5, 4);
	begin_load(other.pool, 1, 2);
	kvmm_pool_destroy(other.pool);
	cr_expect_eq(*nr_reads, 2);
	cr_expect_eq(kv_tier_check(s.tier), 0);
	settle(&s);
	cr_expect_eq(*nr_reads, 0);
	cr_expect_str_eq(answers(s.pool, 1, 2), "22");
	end_both(s.pool, s.tier);
}

Test(tier_sim, attributes_that_make_no_sense_are_refused)
{
	struct kvmm_tier_sim_attr sim = KVMM_TIER_SIM_ATTR_INIT;
	struct kvmm_tier *tier = make_told(4), *real = make_tier(4);

	cr_expect_eq(kvmm_tier_simulate_disk(tier, &sim, NULL), -EINVAL);
	sim.capacity_blocks = KVMM_MAX_BLOCKS + 1;
	cr_expect_eq(kvmm_tier_simulate_disk(tier, &sim, NULL), -EINVAL);
	sim.capacity_blocks = 1;
	sim.reserved = 1;
	cr_expect_eq(kvmm_tier_simulate_disk(tier, &sim, NULL), -EINVAL);
	sim.reserved = 0;
	cr_expect_eq(kvmm_tier_simulate_disk(NULL, &sim, NULL), -EINVAL);
	cr_expect_eq(kvmm_tier_simulate_disk(tier, NULL, NULL), -EINVAL);
	cr_expect_eq(simulate(tier, 1, 5000), -EINVAL);
	cr_expect_eq(kvmm_tier_simulate_disk(real, &sim, NULL), -EOPNOTSUPP);
	cr_expect_eq(kvmm_tier_simulate_disk(tier, &sim, NULL), 0);
	cr_expect_eq(kvmm_tier_simulate_disk(tier, &sim, NULL), -EBUSY);
	kvmm_tier_destroy(real);
	kvmm_tier_destroy(tier);
}

Test(tier_sim, it_is_made_as_a_whole_or_not_at_all)
{
	static struct fake_env fake;
	struct kvmm_tier *tier;
	u32 n;

	fake_env_install(&fake);
	tier = make_told(4);
	for (n = 1;; n++) {
		u64 live = fake.nr_live;
		int err;

		fake_env_fail(&fake, n, false);
		err = simulate(tier, 8, 4);
		if (!fake_env_failed(&fake)) {
			cr_assert_eq(err, 0);
			break;
		}
		cr_expect_eq(err, -ENOMEM);
		cr_expect_eq(fake.nr_live, live);
	}
	fake_env_fail(&fake, 0, false);
	cr_expect_eq(n, 8);
	kvmm_tier_destroy(tier);
	cr_expect_eq(fake.nr_live, 0);
	fake_env_remove(&fake);
}

/* ---- at random, against a ring of names ---- */

#define NR_NAMES	24u
#define NR_PLACES	10u
#define MAX_IO		6u	/* of each kind */

struct place {
	u32 name;		/* NR_NAMES: a hole */
	u32 value;
	u32 readers;
	bool is_there;		/* else it is being written */
	bool is_dead;		/* nobody finds it, but it is not a hole yet */
};

struct transfer {
	struct kv_tier_io io;
	u64 due;
	u32 place;		/* NR_PLACES: none */
	bool is_get;
	bool is_used;
};

struct ring {
	struct kvmm_tier *tier;
	struct place place[NR_PLACES];
	struct transfer transfer[2 * MAX_IO];
	u32 at;
	u32 credit;
	u64 dropped;
	u64 busy[2];
	u64 now;
	u64 random;
};

#define draw(r, nr)	lcg_of(&(r)->random, nr)

static struct kv_tier_name name_of(u32 number)
{
	struct kv_tier_name name = { .layout = number % 2, .domain.tenant = number / 2 % 2 };

	name.key.byte[0] = (u8)(number / 4);
	return name;
}

static u32 place_of(const struct ring *r, u32 name)
{
	u32 i;

	for (i = 0; i < NR_PLACES; i++)
		if (r->place[i].name == name && !r->place[i].is_dead)
			break;
	return i;
}

static u32 next_place(struct ring *r)
{
	for (u32 n = 0; n < NR_PLACES; n++) {
		struct place *p = &r->place[r->at];
		u32 i = r->at;

		r->at = (r->at + 1) % NR_PLACES;
		if (p->name == NR_NAMES)
			return i;
		if (p->is_dead || !p->is_there || p->readers)
			continue;
		if (p->value && r->credit >= 3) {
			p->value /= 2;
			r->credit -= 3;
			continue;
		}
		r->credit = r->credit < 48 ? r->credit + 1 : 48;
		r->dropped++;
		return i;
	}
	return NR_PLACES;
}

static struct transfer *free_transfer(struct ring *r)
{
	for (u32 i = 0; i < 2 * MAX_IO; i++)
		if (!r->transfer[i].is_used)
			return &r->transfer[i];
	return NULL;
}

static void begin_transfer(struct ring *r, struct transfer *t, u32 place, bool is_get)
{
	u64 *busy = &r->busy[is_get];

	*busy = (*busy > r->now ? *busy : r->now) + (is_get ? BYTES / 2 : BYTES);
	t->due = *busy + LATENCY_NS;
	t->place = place;
	t->is_get = is_get;
	t->is_used = true;
}

static int model_put(struct ring *r, struct transfer *t, u32 name)
{
	u32 i;

	if (place_of(r, name) < NR_PLACES) {
		*t = (struct transfer){ .io = t->io, .due = r->now, .place = NR_PLACES, .is_used = true };
		return 0;
	}
	i = next_place(r);
	if (i == NR_PLACES)
		return -EAGAIN;
	r->place[i] = (struct place){ .name = name };
	begin_transfer(r, t, i, false);
	return 0;
}

static int model_get(struct ring *r, struct transfer *t, u32 name)
{
	u32 i = place_of(r, name);

	if (i == NR_PLACES)
		return -ENOENT;
	if (!r->place[i].is_there)
		return -EAGAIN;
	r->place[i].value++;
	r->place[i].readers++;
	begin_transfer(r, t, i, true);
	return 0;
}

static void do_transfer(struct ring *r, bool is_get)
{
	const struct below *below = r->tier->below;
	struct transfer *t = free_transfer(r);
	u32 name = draw(r, NR_NAMES);
	int err, want;

	if (!t)
		return;
	t->io = (struct kv_tier_io){ .name = name_of(name), .bytes = BYTES };
	err = is_get ? below->ops->get(below->store, &t->io) : below->ops->put(below->store, &t->io);
	want = is_get ? model_get(r, t, name) : model_put(r, t, name);
	cr_assert_eq(err, want, "%s of %u: %d, not %d", is_get ? "get" : "put", name, err, want);
}

static void model_forget(struct ring *r, u32 i)
{
	struct place *p = &r->place[i];

	p->is_dead = p->readers || !p->is_there;
	if (!p->is_dead)
		*p = (struct place){ .name = NR_NAMES };
}

static void do_forget(struct ring *r)
{
	const struct below *below = r->tier->below;
	u32 name = draw(r, NR_NAMES), i = place_of(r, name);
	struct kv_tier_name known = name_of(name);

	below->ops->forget(below->store, &known, 1, true, NULL);
	if (i < NR_PLACES)
		model_forget(r, i);
}

static void model_end(struct ring *r, struct transfer *t)
{
	struct place *p = &r->place[t->place];

	t->is_used = false;
	if (t->place == NR_PLACES)
		return;
	p->readers -= t->is_get;
	if (p->is_dead && !p->readers)
		*p = (struct place){ .name = NR_NAMES };
	else if (!t->is_get)
		p->is_there = true;
}

static void do_poll(struct ring *r)
{
	const struct below *below = r->tier->below;
	struct kv_tier_io *done[2 * MAX_IO];
	u32 nr, nr_due = 0;

	r->now += draw(r, 4) * 300;
	cr_assert_eq(kvmm_tier_clock(r->tier, r->now), 0);
	for (u32 i = 0; i < 2 * MAX_IO; i++)
		nr_due += r->transfer[i].is_used && r->transfer[i].due <= r->now;
	nr = below->ops->poll(below->store, done, 2 * MAX_IO);
	cr_assert_eq(nr, nr_due, "%u have ended, not %u", nr, nr_due);
	for (u32 i = 0; i < nr; i++) {
		struct transfer *t = container_of(done[i], struct transfer, io);

		cr_assert(t->is_used && t->due <= r->now);
		cr_assert_eq(t->io.ended_ns, t->due);
		model_end(r, t);
	}
}

static void compare(struct ring *r)
{
	const struct below *below = r->tier->below;
	u64 nr_there = 0, nr, dropped;

	for (u32 name = 0; name < NR_NAMES; name++) {
		u32 i = place_of(r, name);
		struct kv_tier_name known = name_of(name);
		u8 answer = below->ops->lookup(below->store, &known);
		u8 want = i == NR_PLACES ? KVMM_TIER_MISS :
				  r->place[i].is_there ? KVMM_TIER_HIT : KVMM_TIER_RETRY;

		cr_assert_eq(answer, want, "name %u: %u, not %u", name, answer, want);
		nr_there += want == KVMM_TIER_HIT;
	}
	below->ops->count(below->store, &nr, &dropped);
	cr_assert_eq(nr, nr_there);
	cr_assert_eq(dropped, r->dropped);
	cr_assert_eq(below->ops->check(below->store), 0);
}

static void run_ring(u64 seed, u32 nr_steps)
{
	struct ring r = { .tier = make_told(4), .random = seed };

	fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
	cr_assert_eq(simulate(r.tier, NR_PLACES, MAX_IO), 0);
	for (u32 i = 0; i < NR_PLACES; i++)
		r.place[i].name = NR_NAMES;
	for (u32 i = 0; i < nr_steps; i++) {
		u32 what = draw(&r, 16);

		if (what < 9)
			do_transfer(&r, what < 4);
		else if (what == 9)
			do_forget(&r);
		else
			do_poll(&r);
		compare(&r);
	}
	cr_expect_gt(r.dropped, 0);
	kvmm_tier_destroy(r.tier);
}

Test(tier_sim, at_random_it_does_what_a_ring_of_names_does)
{
	for (u64 seed = 1; seed <= 10; seed++)
		run_ring(seed, 2000);
}
