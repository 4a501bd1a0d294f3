// SPDX-License-Identifier: Apache-2.0
/*
 * The gate that every caller passes.
 *
 * It is one word under the lock: closed for good once the pool has found that it contradicts
 * itself, and for a while when blocks are being moved. Callers wait for the latter on compact_lock
 * and look again.
 */
#include <kv/log.h>

#include "local.h"

noinline int __pool_enter_slow(struct kvmm_pool *pool)
{
	int err;

	while ((pool->gate & (GATE_STOPPED | GATE_FORKED)) == GATE_STOPPED) {
		kv_unlock(&pool->lock);
		kv_lock(&pool->compact_lock);
		kv_unlock(&pool->compact_lock);
		kv_lock(&pool->lock);
	}
	err = gate_refusal(pool->gate);
	if (err)
		kv_unlock(&pool->lock);
	return err;
}

/* A thread in a read section found the gate open: wait for it. */
void pool_stop(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->compact_lock);
	kv_assert_held(&pool->lock);
	WRITE_ONCE(pool->gate, pool->gate | GATE_STOPPED);
	pool_drain_local(pool);
	kv_unlock(&pool->lock);
	if (pool->caches)
		kv_rcu_synchronize();
}

void pool_resume(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->compact_lock);
	kv_assert_held(&pool->lock);
	/* Pairs with cache_begin(): a thread that gets in sees where everything lies now. */
	smp_store_release(&pool->gate, pool->gate & ~GATE_STOPPED);
}

void pool_poison(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	if (pool->gate & GATE_POISONED)
		return;
	kv_log(KV_LOG_ERR, "kvmm: pool %s contradicts itself and is closed", pool->name);
	WRITE_ONCE(pool->gate, pool->gate | GATE_POISONED);
	if (pool->armed)
		pool->local->disarm(pool);
	queue_refuse(pool, -EUCLEAN);
}

int pool_complain(const struct kvmm_pool *pool, const char *what, u32 nr)
{
	kv_log(KV_LOG_ERR, "kvmm: pool %s: %s (%u)", pool->name, what, nr);
	return -EUCLEAN;
}

int refuse_handle(const struct kvmm_pool *pool, u32 now, u32 gen)
{
	kv_count(KV_EV_BAD_HANDLE);
	return gen && gen - pool->gen_base < now - pool->gen_base ? -ESTALE : -EINVAL;
}
