// SPDX-License-Identifier: Apache-2.0
/*
 * A server below a tier that nobody uses: blocks are stored and loaded by their names, one at a time, from
 * a server that has lost them, has spoilt them, hangs, or is away. Each transfer says what became of it.
 */
#include "metrics_run.h"
#include "tests/remote/fake_server.h"
#include "tier/below.h"

#define TIER		"server"
#define BYTES		4096u
#define MS		1000000ull
#define DEADLINE	(50 * MS)

static struct kvmm_pool *pool;
static struct kvmm_tier *tier;
static struct fake_server fake;
static u8 buffer[BYTES];
static u32 nr_names = 1;	/* each is stored once */

static struct {
	u64 stored, loaded, missed, wrong, failed, dropped, late, deleted, fences, given_up;
} count;

static const struct kv_tier_ops *ops(void)
{
	return tier->below->ops;
}

static struct kv_tier_name name_of(u32 n)
{
	struct kv_tier_name name = { .layout = 9 };

	memcpy(&name.key, &n, sizeof(n));
	return name;
}

/* What became of it; not even begun: that error. */
static int transfer(u32 n, bool stores)
{
	struct kv_tier_io io = { .name = name_of(n), .buf = buffer, .bytes = BYTES }, *done;
	int err = stores ? ops()->put(tier->below->store, &io) : ops()->get(tier->below->store, &io);

	for (u32 i = 0; !err && i < 1000; i++) {
		if (ops()->poll(tier->below->store, &done, 1))
			return io.error;
		pass(fake.hangs ? DEADLINE / 4 : 0);
	}
	return err ? err : -ETIMEDOUT;
}

static void store(void)
{
	memset(buffer, (int)nr_names, BYTES);
	must(transfer(nr_names++, true), "store");
	count.stored++;
}

static void load(void)
{
	u32 n = nr_names - 1;

	must(transfer(n, false), "load");
	must(buffer[BYTES - 1] == (u8)n ? 0 : -1, "content");
	count.loaded++;
}

static void miss(void)
{
	if (transfer(nr_names++, false) != -ENOENT)
		must(-1, "miss");
	count.missed++;
}

/* A bit of each block there is another one meanwhile. */
static void load_wrong(void)
{
	store();
	for (u32 i = 0; i < FAKE_KEYS; i++)
		if (fake.value[i].value_bytes > BYTES)
			fake.value[i].value[BYTES] ^= 4;
	if (transfer(nr_names - 1, false) != -EBADMSG)
		must(-1, "wrong");
	for (u32 i = 0; i < FAKE_KEYS; i++)
		if (fake.value[i].value_bytes > BYTES)
			fake.value[i].value[BYTES] ^= 4;
	count.wrong++;
}

/* It is not asked from then on, for a while. */
static void hang(void)
{
	struct kv_tier_io *done;

	fake.hangs = true;
	if (transfer(nr_names++, false) != -EIO)
		must(-1, "late");
	pass(DEADLINE);
	must((int)ops()->poll(tier->below->store, &done, 1), "none");
	fake.hangs = false;
	count.failed++;
	count.late++;
	count.given_up++;
	if (transfer(nr_names++, true) != -EAGAIN)
		must(-1, "away");
	count.dropped++;
}

static void come_back(void)
{
	pass(60000 * MS);
	miss();
}

static void delete_one(void)
{
	struct kv_tier_name name = name_of(any(nr_names));

	must(ops()->forget(tier->below->store, &name, 1, true, NULL), "forget");
	count.deleted++;
}

static void remote_use(void)
{
	u32 what = any(12);

	if (what < 3)
		store();
	else if (what < 5)
		store(), load();
	else if (what < 7)
		miss();
	else if (what < 8)
		load_wrong();
	else if (what < 10)
		delete_one();
	else if (what < 11)
		hang(), come_back();
	else
		must(ops()->reset(tier->below->store), "reset"), count.fences++;
}

static void remote_expect(void)
{
	struct kv_tier_name name = name_of(nr_names);
	bool is_away = run_seed % 2;

	come_back();
	if (is_away) {
		hang();
		ops()->forget(tier->below->store, &name, 1, false, NULL);
	}
	expect_tier("kvmm_tier_remote_stored_blocks_total", TIER, count.stored);
	expect_tier("kvmm_tier_remote_loaded_blocks_total", TIER, count.loaded);
	expect_tier("kvmm_tier_remote_missed_blocks_total", TIER, count.missed);
	expect_tier("kvmm_tier_remote_wrong_blocks_total", TIER, count.wrong);
	expect_tier("kvmm_tier_remote_failed_blocks_total", TIER, count.failed);
	expect_tier("kvmm_tier_remote_dropped_blocks_total", TIER, count.dropped);
	expect_tier("kvmm_tier_remote_late_total", TIER, count.late);
	expect_tier("kvmm_tier_remote_deleted_names_total", TIER, count.deleted);
	expect_tier("kvmm_tier_remote_fences_total", TIER, count.fences);
	expect_tier("kvmm_tier_remote_given_up_total", TIER, count.given_up);
	expect_tier("kvmm_tier_remote_pending_names", TIER, is_away);
	expect_tier("kvmm_tier_remote_away", TIER, is_away);
}

static struct kvmm_pool *remote_make(const char *dir)
{
	struct kvmm_tier_remote_attr server = KVMM_TIER_REMOTE_ATTR_INIT;
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .name = "served", .block_bytes = BYTES,
				       .nr_blocks = 4, .policy = "lru" };
	struct kvmm_tier_attr host = { .size = sizeof(host), .numa_node = -1, .name = TIER,
				       .block_bytes = BYTES, .capacity_blocks = 4 };

	fake_server_begin(&fake);
	server.address = "127.0.0.1:6379";
	server.model = "toy";
	server.deadline_ns = DEADLINE;
	host.remote = &server;
	must(kvmm_tier_host_create(&host, &tier), "tier");
	attr.host = tier;
	must(kvmm_pool_create(&attr, &pool), "pool");
	return pool;
}

static void remote_end(void)
{
	kvmm_pool_destroy(pool);
	kvmm_tier_destroy(tier);
	fake_server_end(&fake);
}

const struct part metrics_remote = { remote_make, remote_use, remote_expect, remote_end };
