// SPDX-License-Identifier: Apache-2.0
/*
 * Read-copy-update over liburcu's bp flavour, and the list of deferred frees.
 *
 * The problem is who pays for grace periods when no thread runs in the background. Deferring
 * only links the object into the limbo list. A caller that may wait calls kv_rcu_reap() now and
 * then: once enough has piled up, it takes the whole list, waits for one grace period on behalf
 * of all of it, and frees.
 *
 * Waiting for a grace period is a point of cancellation, of which liburcu knows nothing: a thread that
 * ended there would keep its locks, and ours.
 *
 * Locks: drain_lock serialises those who free, so that kv_rcu_barrier() also waits for a list
 * that another thread has taken already; it is held over the grace period. limbo.lock guards the
 * list; it is the last of all locks, because any may be held around kv_rcu_defer().
 */
#include <pthread.h>
#include <urcu/urcu-bp.h>

#include <kv/fork.h>
#include <kv/lock.h>
#include <kv/rcu.h>
#include <kv/sys.h>

#if defined(__SANITIZE_THREAD__)
#define KV_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KV_TSAN 1
#endif
#endif
#ifdef KV_TSAN
#include <sanitizer/tsan_interface.h>
#endif

/* A grace period costs microseconds; shared by this many frees it is lost in their own cost. */
#define REAP_AT		256

static struct {
	struct kv_lock		lock;
	struct kv_rcu_head	*first;		/* ->lock; newest first */
	u32			nr;		/* ->lock; READ_ONCE() as a hint */
} limbo = {
	.lock = { .rank = KV_RANK_LEAF, .id = UINT32_MAX },
};

static struct kv_lock drain_lock = { .rank = KV_RANK_CONFIG };

/*
 * liburcu is not built with ThreadSanitizer, which therefore misses that a read section which has
 * ended happens before the end of the grace period. These two say so. The tag is an address that
 * nothing else synchronises on: an edge too many would hide an early free.
 */
#ifdef KV_TSAN
static char grace_tag;
#endif

static inline void tsan_section_ends(void)
{
#ifdef KV_TSAN
	__tsan_release(&grace_tag);
#endif
}

static inline void tsan_grace_period_over(void)
{
#ifdef KV_TSAN
	__tsan_acquire(&grace_tag);
#endif
}

void kv_rcu_read_lock(void)
{
	urcu_bp_read_lock();
}

void kv_rcu_read_unlock(void)
{
	tsan_section_ends();
	urcu_bp_read_unlock();
}

void kv_rcu_defer(struct kv_rcu_head *head, void (*free)(struct kv_rcu_head *head))
{
	head->free = free;
	kv_lock(&limbo.lock);
	head->next = limbo.first;
	limbo.first = head;
	WRITE_ONCE(limbo.nr, limbo.nr + 1);
	kv_unlock(&limbo.lock);
}

static struct kv_rcu_head *take_limbo(void)
{
	struct kv_rcu_head *first;

	kv_lock(&limbo.lock);
	first = limbo.first;
	limbo.first = NULL;
	WRITE_ONCE(limbo.nr, 0);
	kv_unlock(&limbo.lock);
	return first;
}

static void wait_for_readers(void)
{
	int cancel = kv_cancel_off();

	urcu_bp_synchronize_rcu();
	kv_cancel_restore(cancel);
	tsan_grace_period_over();
}

/* Freeing may defer more; that is left for the next time. */
static void drain(void)
{
	struct kv_rcu_head *head, *next;

	/* Inside a read section the grace period would wait for ourselves. */
	if (KV_BUG_ON(urcu_bp_read_ongoing()))
		return;

	kv_lock(&drain_lock);
	head = take_limbo();
	if (head)
		wait_for_readers();
	for (; head; head = next) {
		next = head->next;
		head->free(head);
	}
	kv_unlock(&drain_lock);
}

void kv_rcu_reap(void)
{
	/* Both are hints. If somebody drains already, what came since can wait for the next. */
	if (READ_ONCE(limbo.nr) >= REAP_AT && !READ_ONCE(drain_lock.held))
		drain();
}

void kv_rcu_synchronize(void)
{
	if (KV_BUG_ON(urcu_bp_read_ongoing()))
		return;
	wait_for_readers();
}

void kv_rcu_barrier(void)
{
	drain();
}

/*
 * fork() copies one thread only. Without these a child would wait for read sections, and for
 * locks, of threads that it does not have.
 */
static void before_fork(void)
{
	kv_lock(&drain_lock);
	kv_fork_before();
	kv_lock(&limbo.lock);
	urcu_bp_before_fork();
}

static void after_fork_parent(void)
{
	urcu_bp_after_fork_parent();
	kv_unlock(&limbo.lock);
	kv_fork_after(false);
	kv_unlock(&drain_lock);
}

static void after_fork_child(void)
{
	urcu_bp_after_fork_child();
	kv_unlock(&limbo.lock);
	kv_fork_after(true);
	kv_unlock(&drain_lock);
}

/* If this fails (out of memory at start-up), only a child that goes on using us may hang. */
static void __attribute__((constructor)) watch_forks(void)
{
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}
