/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Observers: parts that are told of events of names and cached blocks, and that the callers do not
 * know. While no part observes, telling is the test of one word.
 *
 * Included by internal.h alone.
 */
#ifndef POOL_OBSERVER_H
#define POOL_OBSERVER_H

#include <kv/bits.h>

struct kv_query;
struct kvmm_name;

/**
 * struct pool_observer - a part's calls; NULL: it does not care
 * @staged: private blocks are being named, and cannot be found yet; in a read section
 * @registered: they can be found where @found is the same; in a read section
 * @published: the same, but of new ones only; no lock, no read section; the caller has references
 * @hit: where @refs have a gen blocks were hit, and are referenced; read section, or ->lock held
 * @touched: the same, but no lock and no read section
 * @looked_up: keys were looked up for a request of @nr_blocks; no lock held
 * @removed: names are about to leave the map; ->lock held
 * @reused: a block that was parked is about to be used otherwise; ->lock held
 * @naming: held blocks are about to have these names, added ones or other first ones; no lock held
 *	but compact_lock
 * @named: they have, unless they were forgotten meanwhile; the same
 * @unnamed: a block is about to lose this added name, an entry, told as @naming; ->lock held
 * @renamed: a held block, not found by its first name now, gets another one, without a parent; it
 *	is told as @removed, and as @registered, later. compact_lock held
 * @room: so many names there may be from now on: 0 or -ENOMEM; compact_lock held
 * @settle: work that was put off because a lock was held; no lock held
 * @clear_begin, @clear_end: between these all names go; the world has stopped, both locks held
 * @reset: nothing below the device is found any more: 0, or why it may be after a restart; the
 *	world has stopped, compact_lock held
 * @attached: the pool has got a tier; no lock held
 */
struct pool_observer {
	void (*staged)(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
		       const struct kv_handle *handles);
	void (*registered)(struct kvmm_pool *pool, const struct kv_handle *handles,
			   const struct kv_handle *found, u32 nr);
	void (*published)(struct kvmm_pool *pool, const struct kv_handle *handles,
			  const struct kv_handle *found, u32 nr);
	void (*hit)(struct kvmm_pool *pool, const struct kv_handle *refs, u32 nr);
	void (*touched)(struct kvmm_pool *pool, const struct kv_handle *refs, u32 nr);
	void (*looked_up)(struct kvmm_pool *pool, const struct kv_query *query, u32 nr_hits,
			  u32 nr_blocks);
	void (*removed)(struct kvmm_pool *pool, const struct kv_handle *handles, u32 nr);
	void (*reused)(struct kvmm_pool *pool, u32 block);
	void (*naming)(struct kvmm_pool *pool, const struct kv_handle *handles,
		       const struct kvmm_name *names, u32 nr);
	void (*named)(struct kvmm_pool *pool, const struct kv_handle *handles,
		      const struct kvmm_name *names, u32 nr);
	void (*unnamed)(struct kvmm_pool *pool, u32 name);
	void (*renamed)(struct kvmm_pool *pool, struct kv_handle handle);
	int (*room)(struct kvmm_pool *pool, u32 nr_names);
	void (*settle)(struct kvmm_pool *pool);
	void (*clear_begin)(struct kvmm_pool *pool);
	void (*clear_end)(struct kvmm_pool *pool);
	int (*reset)(struct kvmm_pool *pool);
	void (*attached)(struct kvmm_pool *pool);
};

/* From now on @part is told; its own state is there. A lock of the part is held. */
void pool_observe(struct kvmm_pool *pool, const struct pool_part *part);

/* Each part that cares for @event is told of it. */
#define pool_tell(pool, event, ...)							\
	do {										\
		/* Pairs with pool_observe(): the part's own state is there. */		\
		u64 __on = smp_load_acquire(&(pool)->observed);				\
											\
		for (; unlikely(__on); __on &= __on - 1) {				\
			const struct pool_observer *__to =				\
				(pool)->parts.all[__builtin_ctzll(__on)]->observer;	\
											\
			if (__to->event)						\
				__to->event((pool), ##__VA_ARGS__);			\
		}									\
	} while (0)

/* Each part that has an answer to @event is asked until one says an error, which is returned. */
#define pool_ask(pool, event, ...)							\
	({										\
		u64 __on = smp_load_acquire(&(pool)->observed);				\
		int __err = 0;								\
											\
		for (; __on && !__err; __on &= __on - 1) {				\
			const struct pool_observer *__to =				\
				(pool)->parts.all[__builtin_ctzll(__on)]->observer;	\
											\
			if (__to->event)						\
				__err = __to->event((pool), ##__VA_ARGS__);		\
		}									\
		__err;									\
	})

#endif /* POOL_OBSERVER_H */
