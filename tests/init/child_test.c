// SPDX-License-Identifier: Apache-2.0
/*
 * Each exported function is called in a child that was forked while another thread held a lock of every
 * rank, about objects of the parent: it returns at once, and refuses what is the parent's. The rows come
 * from the headers (child_calls.py), so there is no function without one.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kvmm/ext/lease.h>
#include <kvmm/ext/testing.h>

#include "alloc/slab.h"
#include "ctl/control.h"
#include "lease/lease.h"
#include "percpu/arena.h"
#include "percpu/mag.h"
#include "move/background.h"
#include "move/step.h"
#include "tier/pool/tier.h"
#include "tests/ctl/fake_zmq.h"
#include "tests/init/child_below.h"
#include "tests/pool/util.h"

#define NR_BLOCKS	1024u
#define CHILD_SECONDS	20u
#define MAX_LOCKS	512u

/* One object of each kind, for the rows. */
static struct {
	struct kvmm_pool *pool, *other;
	struct kvmm_registry *registry;
	struct kvmm_slab_cache *slab_cache;
	struct kvmm_tier *tier;
	struct kvmm_disk *disk;
	struct kvmm_disk_view *disk_view;
	struct kvmm_control *control;
	struct kvmm_publisher *publisher;
	struct kvmm_events *events;
	struct kvmm_gang *gang;
	struct kvmm_group_attr group;
	struct kvmm_groups *groups;
	struct kvmm_tables *tables;
	struct kvmm_key_ctx *key_ctx;
	struct kvmm_seq *seq;
	struct kvmm_migrate *migrate;
	struct kvmm_migrate_server *migrate_server;
	struct kvmm_migrate_auto *migrate_auto;
	kvmm_stream_t stream;
	char folder[64];
} f;

/* ---- arguments ---- */

static struct {
	kvmm_key_t keys[8];
	uint32_t numbers[8];
	struct kvmm_gang_want wants[1];
	uint64_t space[8][512];
	char text[sizeof(uint64_t[8][512])];
	uint32_t at;
} s = { .wants = { { .kind = KVMM_GANG_RANGE, .nr = 1 } }, .text = "x" };

static void *scratch(void)
{
	return s.space[s.at++ % 8];
}

static void *own(const void *arg, size_t bytes)
{
	return memcpy(scratch(), arg, bytes);
}

#define HANDLE(type)	(*(type *)memcpy(scratch(), (uint32_t[16]){ 0, 1, 1, 1 }, 64))

static void do_nothing(void)
{
}

/* ---- the parent ---- */

static char *path_of(const char *name)
{
	static char path[96];

	snprintf(path, sizeof(path), "%s/%s", f.folder, name);
	return path;
}

static struct kvmm_pool *make_one(const char *name, struct kvmm_registry *registry)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .name = name, .device = "host",
				       .policy = "lru", .nr_blocks = NR_BLOCKS,
				       .block_bytes = TEST_BLOCK_BYTES, .registry = registry };

	return make_pool_of(&attr);
}

#define must(call)	cr_assert_eq((call), 0, "%s", #call)

static void make_below(void)
{
	struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_attr tier = { .size = sizeof(tier), .numa_node = -1, .device = "host",
				       .capacity_blocks = 64, .block_bytes = TEST_BLOCK_BYTES };
	struct kvmm_disk_attr disk = KVMM_DISK_ATTR_INIT;

	must(kvmm_tier_host_create(&tier, &f.tier));
	must(kvmm_tier_attach(f.pool, f.tier, &client));
	disk.path = path_of("store");
	disk.max_bytes = 64 << 20;
	must(kvmm_disk_open(&disk, &f.disk));
}

static void make_requests(void)
{
	struct kvmm_key_attr keys = KVMM_KEY_ATTR_INIT;
	struct kvmm_groups_attr groups = KVMM_GROUPS_ATTR_INIT;
	struct kvmm_gang_attr gang = KVMM_GANG_ATTR_INIT;
	struct kvmm_seq_attr seq = KVMM_SEQ_ATTR_INIT;
	struct kvmm_prefix prefix = { .keys = s.keys, .nr = 4 };

	keys.block_tokens = 16;
	must(kvmm_key_ctx_create(&keys, &f.key_ctx));
	seq.keys = f.key_ctx;
	seq.prompt = s.numbers;
	seq.nr_prompt = 8;
	must(kvmm_seq_create(f.pool, &seq, &f.seq));
	must(kvmm_seq_schedule_prefill(f.seq, 1));	/* a call may look at its state after it has looked for a fork */
	f.group = (struct kvmm_group_attr){ .pool = f.pool };
	groups.group = &f.group;
	groups.nr = 1;
	must(kvmm_groups_create(&groups, &f.groups));
	cr_assert_geq(kvmm_groups_match(f.groups, &prefix, 64, &f.tables), 0);
	gang.pools = &f.pool;
	gang.nr_pools = 1;
	gang.wants = s.wants;
	gang.nr = 1;
	must(kvmm_gang_reserve(&gang, &f.gang, NULL));
}

static void make_migrations(void)
{
	struct kvmm_migrate_serve_attr serve = { .size = sizeof(serve), .pool = f.other };
	struct kvmm_migrate_auto_attr watch = KVMM_MIGRATE_AUTO_INIT;
	struct kvmm_migrate_attr attr = KVMM_MIGRATE_ATTR_INIT;

	serve.path = path_of("socket");
	must(kvmm_migrate_serve(&serve, &f.migrate_server));
	attr.src = f.pool;
	attr.dst = f.other;
	attr.range = take(f.pool, 3, 0);
	must(kvmm_migrate_start(&attr, &f.migrate));
	watch.src = f.pool;
	watch.dst = f.other;
	watch.low = 10;
	watch.high = 20;
	watch.max_blocks = 8;
	watch.interval_ms = 1;
	must(kvmm_migrate_auto_start(&watch, &f.migrate_auto));
}

/* All that a pool makes when it is asked for the first time. */
static void use_pool(void)
{
	struct kvmm_background how = KVMM_BACKGROUND_INIT;
	struct kvmm_verify_attr verify = { .size = sizeof(verify), .sample_pm = 1000 };
	struct kvmm_events_attr events = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_lease_attr owner = { .size = sizeof(owner), .owner = 7 };
	kvmm_mut_t mut;
	struct kvmm_prefix prefix = { .keys = s.keys, .nr = 1 };
	struct kvmm_lease_attr hold = KVMM_LEASE_ATTR_INIT;
	kvmm_lease_t held;
	uint64_t epoch;

	s.keys[0] = key_of(1);
	cache_keys(f.pool, 1, 8);
	hold.prefix = &prefix;
	cr_assert_eq(kvmm_lease_take(f.pool, &hold, &held), 1);
	must(kvmm_stream_add(f.pool, NULL, KVMM_STREAM_TABLES, &f.stream));
	must(kvmm_step_begin(f.pool, f.stream, &epoch));
	must(kvmm_background_set(f.pool, &how));
	must(kvmm_verify_set(f.pool, &verify));
	must(kvmm_events_open(f.pool, &events, &f.events));
	must(kvmm_alloc(f.pool, 1, &mut));
	must(kvmm_lease_own_muts(f.pool, &owner, &mut, 1));
	kv_lock(&f.pool->lock);
	must(arenas_start(f.pool, 2));
	kv_unlock(&f.pool->lock);
}

static void make_all(void)
{
	struct kvmm_registry_attr registry = KVMM_REGISTRY_ATTR_INIT;
	struct kvmm_slab_attr slab = { .size = sizeof(slab), .name = "objects", .object_bytes = 64,
				       .base_block_bytes = 4096, .nr_blocks = 64 };
	struct kvmm_control_attr control = KVMM_CONTROL_ATTR_INIT;
	struct kvmm_publisher_attr publisher = KVMM_PUBLISHER_ATTR_INIT;

	snprintf(f.folder, sizeof(f.folder), "/tmp/kvmm-child-XXXXXX");
	cr_assert_not_null(mkdtemp(f.folder));
	must(kvmm_slab_cache_create(&slab, &f.slab_cache));
	registry.capacity = 64;
	must(kvmm_registry_create(&registry, &f.registry));
	f.pool = make_one("pool", f.registry);
	f.other = make_one("other", NULL);
	use_pool();
	make_below();
	make_requests();
	make_migrations();
	control.dir = f.folder;
	must(kvmm_control_open(&control, &f.control));
	must(kvmm_control_add_pool(f.control, "pool", f.pool));
	fake_zmq_install();
	publisher.token_blocks = 4;
	must(kvmm_publisher_start(f.pool, &publisher, &f.publisher));
}

/* ---- locks ---- */

static struct kv_lock *locks[MAX_LOCKS];
static u32 nr_locks;
static u32 is_held;		/* atomic */

static void add(struct kv_lock *lock)
{
	cr_assert_lt(nr_locks, MAX_LOCKS);
	locks[nr_locks++] = lock;
}

static int compare(const void *left, const void *right)
{
	const struct kv_lock *a = *(struct kv_lock *const *)left, *b = *(struct kv_lock *const *)right;

	return a->rank != b->rank ? (a->rank > b->rank) - (a->rank < b->rank) : (a->id > b->id) - (a->id < b->id);
}

/* The lock of @rank in an object that only its own file knows the fields of. */
static struct kv_lock *lock_in(void *object, enum kv_lock_rank rank)
{
	const struct kv_mem_header *header = (const struct kv_mem_header *)object - 1;
	struct kv_lock *found = NULL;

	for (size_t at = 0; at + sizeof(*found) <= header->bytes; at += sizeof(u32)) {
		struct kv_lock *lock = (struct kv_lock *)((char *)object + at);

		/* Its thread may have it just now. */
		if (lock->held > 1 || lock->waiters > 1 || lock->rank != rank || lock->id)
			continue;
		cr_assert_null(found, "more than one lock of rank %u", rank);
		found = lock;
	}
	cr_assert_not_null(found, "no lock of rank %u", rank);
	return found;
}

/* In the order in which they may be taken; a lock of every rank is there. */
static void collect_locks(void)
{
	u32 ranks = 0;

	add(&f.control->poll_lock);
	add(&f.control->lock);
	add(&f.pool->background->thread_lock);
	add(&f.pool->background->lock);
	add(&f.pool->compact_lock);
	add(&f.pool->steps->lock);
	add(&f.pool->lower->lock);
	child_locks_below(f.tier, f.disk, f.registry, add);
	add(&f.pool->lock);
	add(&f.slab_cache->lock);
	add(&f.pool->order.lock);
	add(&f.pool->order.log_lock);
	add(&f.pool->arenas->arena[0].lock);
	add(&f.pool->zone->lock);
	add(&f.slab_cache->zone->lock);
	add(&f.pool->leases->lock);
	add(&f.pool->door.pressure.lock);
	add(lock_in(f.migrate_auto, KV_RANK_TICK));
	qsort(locks, nr_locks, sizeof(locks[0]), compare);
	for (u32 i = 0; i < nr_locks; i++)
		cr_assert_gt((uintptr_t)locks[i], 4096u, "%u", i);
	for (u32 i = 0; i < nr_locks; i++)
		ranks |= BIT(locks[i]->rank);
	cr_expect_eq(ranks, BIT(KV_RANK_LEAF + 1) - BIT(KV_RANK_CONTROL), "%x", ranks);
}

static void *hold_all(void *arg)
{
	/* Without the rules about ids: not all of these are ever held together. */
	for (u32 i = 0; i < nr_locks; i++)
		while (kv_xchg_acquire(&locks[i]->held, kv_epoch))
			usleep(100);
	smp_store_release(&is_held, 1);
	for (;;)
		pause();
	return NULL;
}

/* ---- the rows ---- */

/*
 * ANY: it is about nothing of the parent's; ONCE: it ends what works in a child, too; NONE: no errno, but
 * something that is neither a lie nor a wait.
 */
enum answer { ANY, ONCE, NOTHING, NONE, REFUSED };

#define ROW(call, answer, ...)	static intptr_t try_##call(void) { return (intptr_t)(__VA_ARGS__); }
#include <generated/child_calls.h>
#undef ROW

static const struct {
	const char *name;
	enum answer answer;
	intptr_t (*try)(void);
} rows[] = {
#define ROW(call, answer, ...)	{ #call, answer, try_##call },
#include <generated/child_calls.h>
#undef ROW
};

static u32 early_row = KV_NONE;	/* is tried by a fork handler that is older than the library's */

static void try_and_exit(u32 i)
{
	intptr_t ret;

	alarm(CHILD_SECONDS);
	/* What the first call left behind the second one would wait for. */
	ret = rows[i].try();
	if (rows[i].answer != ONCE)
		ret = rows[i].try();
	if (rows[i].answer == REFUSED && (int)ret != -ECHILD) {
		fprintf(stderr, "%s() said %d\n", rows[i].name, (int)ret);
		_exit(1);
	}
	_exit(0);
}

static void try_early(void)
{
	if (early_row != KV_NONE)
		try_and_exit(early_row);
}

/* Children's handlers run in the order in which they were registered: before the library's constructors. */
static void __attribute__((constructor(101))) come_first(void)
{
	pthread_atfork(NULL, NULL, try_early);
}

static void try_row(u32 i, bool early)
{
	int status = -1;
	pid_t pid;

	early_row = early ? i : KV_NONE;
	pid = fork();
	if (!pid)
		try_and_exit(i);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0, "%s%s: %x", rows[i].name, early ? ", early" : "", status);
}

static void try_all(bool early)
{
	pthread_t thread;

	make_all();
	collect_locks();
	cr_assert_eq(pthread_create(&thread, NULL, hold_all, NULL), 0);
	while (!smp_load_acquire(&is_held))
		usleep(100);
	for (u32 i = 0; i < ARRAY_SIZE(rows); i++)
		try_row(i, early);
}

Test(child, is_refused_by_each_call_at_once, .timeout = 600)
{
	try_all(false);
}

Test(child, is_refused_in_fork_handlers_that_run_before_ours, .timeout = 600)
{
	try_all(true);
}
