// SPDX-License-Identifier: Apache-2.0
/*
 * Owners that are processes or threads: do they live?
 *
 * A number alone does not tell: the system gives it to another process later. With the time at
 * which it was started it does. Files are read with no lock held, one after the other; an owner
 * that is unwatched meanwhile is not found again, and that is all.
 */
#include <stdio.h>
#include <string.h>

#include <kv/mem.h>
#include <kv/sys.h>
#include <pool/lease.h>

#define STAT_BYTES	1024u	/* the name in it has 64 at most */
#define START_FIELD	20u	/* words behind the name and the state, which is the first */

/*
 * Of "pid (name) state ppid ... start ...". The name may be anything, with brackets and blanks.
 * -ESRCH: it has ended, and waits for its parent to ask.
 */
static int parse_start(const char *text, u64 *start)
{
	unsigned long long value;
	const char *at = strrchr(text, ')');

	if (!at || !at[1] || !at[2])
		return -EOPNOTSUPP;
	at += 2;
	if (*at == 'Z' || *at == 'X')
		return -ESRCH;
	for (u32 i = 1; at && i < START_FIELD; i++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	if (!at || sscanf(at, "%llu", &value) != 1)
		return -EOPNOTSUPP;
	*start = value;
	return 0;
}

static int read_start(s32 pid, s32 tid, u64 *start)
{
	const struct kv_sys_ops *sys = kv_sys();
	char path[64], text[STAT_BYTES];
	int err;

	if (tid)
		snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	else
		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	err = sys->read_file(sys->ctx, path, text, sizeof(text));
	if (err == -ENOENT || err == -ESRCH)
		return -ESRCH;
	return err ? -EOPNOTSUPP : parse_start(text, start);
}

static struct lease_watch **watch_bucket(struct lease_table *table, u64 owner)
{
	u64 hash = kv_mul_fold(owner ^ table->secret, 0xe7037ed1a0b428dbull);

	return &table->watch[hash % LEASE_WATCH_BUCKETS];
}

static struct lease_watch **find_watch(struct lease_table *table, u64 owner)
{
	struct lease_watch **at = watch_bucket(table, owner);

	kv_assert_held(&table->lock);
	while (*at && (*at)->owner != owner)
		at = &(*at)->next;
	return at;
}

/* Takes @fresh. */
static int add_watch(struct lease_table *table, struct lease_watch *fresh)
{
	struct lease_watch **at;
	int err = 0;

	kv_lock(&table->lock);
	at = find_watch(table, fresh->owner);
	if (*at) {
		err = -EEXIST;
	} else {
		*at = fresh;
		WRITE_ONCE(table->nr_watches, table->nr_watches + 1);
		kv_fetch_add(&table->bytes, sizeof(*fresh));
	}
	kv_unlock(&table->lock);
	if (err)
		kv_free(fresh);
	return err;
}

/* Is there a /proc at all? Then a task that is not there does not live. */
static int no_such_task(void)
{
	const struct kv_sys_ops *sys = kv_sys();
	char text[STAT_BYTES];

	return sys->read_file(sys->ctx, "/proc/self/stat", text, sizeof(text)) ? -EOPNOTSUPP :
										 -ESRCH;
}

int kvmm_owner_watch(struct kvmm_pool *pool, uint64_t owner, int32_t pid, int32_t tid)
{
	struct lease_watch *fresh;
	struct lease_table *table;
	u64 start;
	int err;

	if (!pool || !owner || pid <= 0 || tid < 0)
		return -EINVAL;
	err = pool_refusal(pool);
	if (!err)
		err = read_start(pid, tid, &start);
	if (err)
		return err == -ESRCH ? no_such_task() : err;
	err = leases_get(pool, &table);
	if (err)
		return err;
	fresh = kv_alloc(sizeof(*fresh));
	if (!fresh)
		return -ENOMEM;
	*fresh = (struct lease_watch){ .owner = owner, .start = start, .pid = pid, .tid = tid };
	return add_watch(table, fresh);
}

int kvmm_owner_unwatch(struct kvmm_pool *pool, uint64_t owner)
{
	struct lease_watch **at, *old = NULL;
	struct lease_table *table;
	int err;

	if (!pool || !owner)
		return -EINVAL;
	err = pool_refusal(pool);
	if (err)
		return err;
	table = leases_of(pool);
	if (!table)
		return -ENOENT;
	kv_lock(&table->lock);
	at = find_watch(table, owner);
	if (*at) {
		old = *at;
		*at = old->next;
		WRITE_ONCE(table->nr_watches, table->nr_watches - 1);
		kv_fetch_sub(&table->bytes, sizeof(*old));
	}
	kv_unlock(&table->lock);
	kv_free(old);
	return old ? 0 : -ENOENT;
}

/* Number @i of a bucket. */
static bool copy_watch(struct lease_table *table, u32 bucket, u32 i, struct lease_watch *copy)
{
	const struct lease_watch *at;

	kv_lock(&table->lock);
	for (at = table->watch[bucket]; at && i; i--)
		at = at->next;
	if (at)
		*copy = *at;
	kv_unlock(&table->lock);
	return at != NULL;
}

/* An owner is not taken for dead if its state cannot be found out. */
static void ask_one(struct lease_table *table, const struct lease_watch *watch)
{
	struct lease_watch *at;
	u64 start = 0;
	int err;

	if (watch->dead)
		return;
	err = read_start(watch->pid, watch->tid, &start);
	if (err == -EOPNOTSUPP || (!err && start == watch->start))
		return;
	kv_lock(&table->lock);
	at = *find_watch(table, watch->owner);
	if (at && at->start == watch->start && at->pid == watch->pid)
		at->dead = true;
	kv_unlock(&table->lock);
}

void leases_ask(struct lease_table *table)
{
	struct lease_watch watch;

	if (!READ_ONCE(table->nr_watches))
		return;
	for (u32 bucket = 0; bucket < LEASE_WATCH_BUCKETS; bucket++)
		for (u32 i = 0; copy_watch(table, bucket, i, &watch); i++)
			ask_one(table, &watch);
}

bool lease_owner_is_dead(struct lease_table *table, u64 owner)
{
	const struct lease_watch *at;
	bool is_dead;

	if (!READ_ONCE(table->nr_watches))
		return false;
	kv_lock(&table->lock);
	at = *find_watch(table, owner);
	is_dead = at && at->dead;
	kv_unlock(&table->lock);
	return is_dead;
}
