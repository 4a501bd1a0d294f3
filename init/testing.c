// SPDX-License-Identifier: Apache-2.0
/*
 * The public end of the env seam: <kvmm/ext/testing.h> puts a host of the test behind it.
 *
 * A host is asked about time, random numbers and whether memory is to be had, but never for the
 * memory itself: memory allocated before a host came, or under it, can be freed at any time. The
 * table is set before any thread can see it and is left alone afterwards; a thread that still uses
 * it when the host goes has broken kvmm_testing_set_host()'s rule.
 */
#include <string.h>

#include <kv/atomic.h>
#include <kv/env.h>
#include <kv/lock.h>
#include <kv/mem.h>
#include <kv/pool.h>
#include <kv/rcu.h>
#include <kv/stat.h>
#include <kvmm/ext/testing.h>

static struct kv_lock host_lock = { .rank = KV_RANK_CONFIG, .id = 2 };
static struct kvmm_testing_host host;		/* host_lock; fixed while host_ops is in force */
static struct kv_env_ops host_ops;		/* as host */

static void *host_alloc(void *ctx, size_t bytes, size_t align)
{
	if (host.refuse_alloc && host.refuse_alloc(host.ctx, bytes))
		return NULL;
	return kv_env_system.alloc(kv_env_system.ctx, bytes, align);
}

static u64 host_clock_ns(void *ctx)
{
	return host.clock_ns(host.ctx);
}

/*
 * Really waits, so that the thread waited for gets on. A waiter that was woken, or found that there
 * is nothing to wait for, has not used its time up.
 */
static void host_wait(void *ctx, u32 *word, u32 old, u64 ns)
{
	kv_env_system.wait(kv_env_system.ctx, word, old, ns);
	if (READ_ONCE(*word) == old)
		host.waited(host.ctx, ns);
}

static u64 host_random(void *ctx)
{
	return host.random(host.ctx);
}

static void host_log(void *ctx, int level, const char *line)
{
	host.log(host.ctx, level, line);
}

static void fill_ops(void)
{
	host_ops = kv_env_system;
	host_ops.alloc = host_alloc;
	if (host.clock_ns)
		host_ops.clock_ns = host_clock_ns;
	if (host.waited)
		host_ops.wait = host_wait;
	if (host.random)
		host_ops.random = host_random;
	if (host.log)
		host_ops.log = host_log;
}

/* In place of the system only: a table that another host has put there stays. */
static int install(const struct kvmm_testing_host *new)
{
	int err = kv_env() != &kv_env_system ? -EBUSY : kv_copy_attr(&host, sizeof(host), new);

	if (err)
		return err;
	fill_ops();
	kv_env_set(&host_ops);
	return 0;
}

int kvmm_testing_set_host(const struct kvmm_testing_host *new)
{
	int err = 0;

	kv_lock(&host_lock);
	if (new)
		err = install(new);
	else if (kv_env() == &host_ops)
		kv_env_set(NULL);
	kv_unlock(&host_lock);
	return err;
}

int kvmm_testing_get_state(struct kvmm_testing_state *state)
{
	size_t size = state ? state->size : 0;
	struct kvmm_testing_state all;

	if (size < sizeof(size) || size > sizeof(all) || size % sizeof(u64))
		return -EINVAL;
	kv_rcu_barrier();
	all = (struct kvmm_testing_state){
		.size = size,
		.host_bytes = kv_mem_bytes(),
		.nr_bugs = kv_stat_sum(KV_EV_BUG),
		.nr_bad_handles = kv_stat_sum(KV_EV_BAD_HANDLE),
	};
	memcpy(state, &all, size);
	return 0;
}
