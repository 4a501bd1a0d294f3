/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads by number, for tables with a place for each: no two that live have the same one.
 *
 * The number is that of the thread's row of event counters. It is given back when the thread ends,
 * and what the thread did with its places is visible to the next one of that number. More threads
 * than rows have none.
 */
#ifndef KV_THREAD_H
#define KV_THREAD_H

#include <kv/stat.h>

#define KV_THREAD_SLOTS		KV_STAT_ROWS

/* Claims one, now and then, for a thread that has none: a number, or KV_NONE. */
u32 __kv_thread_slot_slow(void);

/* The calling thread's, or KV_NONE. */
static inline u32 kv_thread_slot(void)
{
	struct kv_stat_row *row = kv_stat_row;

	return likely(row) ? row->slot : KV_NONE;
}

static inline u32 kv_thread_claim_slot(void)
{
	struct kv_stat_row *row = kv_stat_row;

	return likely(row) ? row->slot : __kv_thread_slot_slow();
}

/*
 * @hook is called in each thread that has a number and ends, with that, and while it still has it;
 * no lock is held. From now on, for ever; one a process.
 */
void kv_thread_at_exit(void (*hook)(u32 slot));

#endif /* KV_THREAD_H */
