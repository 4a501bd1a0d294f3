// SPDX-License-Identifier: Apache-2.0
/*
 * Owners that are processes or threads: do they live?
 *
 * A number alone does not tell: the system gives it to another process later. With the time at
 * which it was started it does. Files are read with no lock held; an owner that is watched no
 * longer by then is not found again, and that is all.
 */
#include <stdio.h>
#include <string.h>

#include <kv/mem.h>
#include <kv/sys.h>
#include <lease/lease.h>

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

static struct lease_watch **find_watch(struct lease_table *table, u64 owner)
{
	u64 hash = kv_mul_fold(owner ^ table->secret, 0xe7037ed1a0b428dbull);
	struct lease_watch **at = &table->watch[hash % LEASE_WATCH_BUCKETS];

	kv_assert_held(&table->lock);
	while (*at && (*at)->owner != owner)
		at = &(*at)->next;
	return at;
}

/* Is there a /proc at all? Then a task that is not there does not live. */
static int no_such_task(void)
{
	const struct kv_sys_ops *sys = kv_sys();
	char text[STAT_BYTES];

	return sys->read_file(sys->ctx, "/proc/self/stat", text, sizeof(text)) ? -EOPNOTSUPP :
										 -ESRCH;
}

/* Takes @fresh, in place of a former one; NULL: there is none any more. */
static void set_watch(struct lease_table *table, u64 owner, struct lease_watch *fresh)
{
	struct lease_watch **at, *old;
	int more;

	kv_lock(&table->lock);
	at = find_watch(table, owner);
	old = *at;
	if (fresh)
		fresh->next = old ? old->next : NULL;
	if (old || fresh)
		*at = fresh ? fresh : old->next;
	more = !!fresh - !!old;
	WRITE_ONCE(table->nr_watches, table->nr_watches + more);
	kv_fetch_add(&table->bytes, more * (s64)sizeof(*fresh));
	kv_unlock(&table->lock);
	kv_free(old);
}

int kvmm_lease_watch(struct kvmm_pool *pool, uint64_t owner, int32_t pid, int32_t tid)
{
	struct lease_watch *fresh = NULL;
	struct lease_table *table;
	u64 start = 0;
	int err;

	if (!pool || !owner || pid < 0 || tid < 0 || (tid && !pid))
		return -EINVAL;
	err = pool_refusal(pool);
	if (!err && pid)
		err = read_start(pid, tid, &start);
	if (err)
		return err == -ESRCH ? no_such_task() : err;
	if (!pid && !leases_of(pool))
		return 0;
	err = leases_get(pool, &table);
	if (err)
		return err;
	if (pid) {
		fresh = kv_alloc(sizeof(*fresh));
		if (!fresh)
			return -ENOMEM;
		*fresh = (struct lease_watch){ .owner = owner, .start = start, .pid = pid,
					       .tid = tid };
	}
	set_watch(table, owner, fresh);
	return 0;
}

bool lease_owner_is_dead(struct lease_table *table, u64 owner, u64 round)
{
	struct lease_watch *at, watch = { .dead = false };
	u64 start = 0;
	int err;

	if (!READ_ONCE(table->nr_watches))
		return false;
	kv_lock(&table->lock);
	at = *find_watch(table, owner);
	if (at) {
		watch = *at;
		at->round = round;
	}
	kv_unlock(&table->lock);
	if (!at || watch.dead || watch.round == round)
		return watch.dead;
	err = read_start(watch.pid, watch.tid, &start);
	/* An owner is not taken for dead if its state cannot be found out. */
	if (err == -EOPNOTSUPP || (!err && start == watch.start))
		return false;
	kv_lock(&table->lock);
	at = *find_watch(table, owner);
	watch.dead = at && at->start == watch.start && at->pid == watch.pid;
	if (watch.dead)
		at->dead = true;
	kv_unlock(&table->lock);
	return watch.dead;
}
