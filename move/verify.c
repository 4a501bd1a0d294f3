// SPDX-License-Identifier: Apache-2.0
/*
 * Checksums of content, taken and compared beside all other work.
 *
 * A job is a few entries that are MOVING meanwhile, so neither their places nor their generations
 * change, and a fence. Where the device cannot sum on its own the engine's work is waited for, by
 * looking again, and then the sums: those are of a few blocks.
 */
#include <cache/cache.h>
#include <kv/log.h>
#include <kv/mem.h>

#include "flight.h"
#include "verify.h"

/* ---- work to be done ---- */

static void set_todo(struct verify *verify, u32 index)
{
	u64 *word = &verify->todo[index / KV_WORD_BITS], old = READ_ONCE(*word);
	u64 bit = BIT64(index % KV_WORD_BITS);

	do {
		if (old & bit)
			return;
	} while (!kv_cas(word, &old, old | bit));
	kv_fetch_add(&verify->nr_todo, 1);
}

static bool take_todo(struct verify *verify, u32 index)
{
	u64 *word = &verify->todo[index / KV_WORD_BITS], old = READ_ONCE(*word);
	u64 bit = BIT64(index % KV_WORD_BITS);

	do {
		if (!(old & bit))
			return false;
	} while (!kv_cas(word, &old, old & ~bit));
	kv_fetch_sub(&verify->nr_todo, 1);
	return true;
}

static void verify_registered(struct kvmm_pool *pool, const struct kv_handle *handles,
			      const struct kv_handle *found, u32 nr)
{
	struct verify *verify = verify_of(pool);

	kv_assert_reading();
	for (u32 i = 0; i < nr && READ_ONCE(verify->sample_pm); i++) {
		kvmm_key_t key = kv_entry_key(entry_at(pool, handles[i].index));

		if (kv_hash_key(&key, 0) % 1000 < READ_ONCE(verify->sample_pm))
			set_todo(verify, handles[i].index);
	}
}

static bool has_sum(const struct verify *verify, struct kv_handle handle)
{
	return verify->gen[handle.index] == handle.gen;
}

void __verify_moved(struct kvmm_pool *pool, u32 index)
{
	kv_assert_held(&pool->compact_lock);
	if (has_sum(pool->verify, entry_handle(pool, index)))
		set_todo(pool->verify, index);
}

u32 __verify_nr_moving(const struct kvmm_pool *pool)
{
	kv_assert_held(&pool->compact_lock);
	return pool->verify->job.nr;
}

/* ---- summing ---- */

/* Of blocks that keep their places; waits. */
static int sum_now(struct kvmm_pool *pool, const struct kv_move *runs, u32 nr, u64 *sums)
{
	struct kv_planes planes = { pool->plane, pool->nr_planes };
	struct kv_fence none = { 0 };
	int err = 0;

	kv_assert_held(&pool->compact_lock);
	for (u32 i = 0; i < nr && !err; sums += runs[i++].nr)
		err = pool->parts.dev->sum_blocks(pool->dev, &planes, runs[i].dst, runs[i].nr, none,
						  sums);
	return err ? -EIO : 0;
}

/* By the device alone: 0; -EBUSY it is at another's; -EOPNOTSUPP; -EIO. */
static int sum_start(struct kvmm_pool *pool, const struct kv_move *runs, u32 nr,
		     struct kv_fence after, struct kv_fence *fence)
{
	struct kv_planes planes = { pool->plane, pool->nr_planes };
	const struct kv_dev_ops *dev = pool->parts.dev;

	kv_assert_held(&pool->compact_lock);
	if (!dev->sum_start)
		return -EOPNOTSUPP;
	return dev->sum_start(pool->dev, &planes, runs, nr, after, fence);
}

/* ---- jobs ---- */

static bool job_add(struct kvmm_pool *pool, struct verify *verify, u32 index)
{
	struct verify_job *job = &verify->job;
	struct kv_handle handle = entry_handle(pool, index);

	kv_assert(verify->job.nr < VERIFY_BATCH);
	kv_assert_held(&pool->compact_lock);
	kv_assert_held(&pool->lock);
	if (lost_check(pool, &handle, 1) || kv_handle_step(&pool->entries, handle, kv_edge_move))
		return false;
	pool->steps->nr_moving++;
	job->handle[job->nr] = handle;
	job->run[job->nr++] = (struct kv_move){ .dst = entry_block(entry_at(pool, index)),
						.nr = 1 };
	return true;
}

static void look_at_entry(struct kvmm_pool *pool, struct verify *verify, u32 index, bool scrubs)
{
	kv_assert_held(&pool->compact_lock);
	kv_assert_held(&pool->lock);
	if (take_todo(verify, index)) {
		/* A caller has pinned it, or moves it: later. One that is gone needs no look. */
		if (!job_add(pool, verify, index) &&
		    kv_word_is(READ_ONCE(entry_at(pool, index)->word), KV_ENTRY_REGISTERED))
			set_todo(verify, index);
	} else if (scrubs && has_sum(verify, entry_handle(pool, index))) {
		job_add(pool, verify, index);
	}
}

/* Blocks that have to be looked at; else those with a checksum, in turns. ->lock held. */
static void collect(struct kvmm_pool *pool, struct verify *verify, bool scrubs)
{
	u32 max_nr = verify->nr_alone ? 1 : VERIFY_BATCH, step, at;
	u64 rest;

	kv_assert_held(&pool->compact_lock);
	kv_assert_held(&pool->lock);
	for (u32 n = 0; n < pool->nr_blocks && verify->job.nr < max_nr; n += max(step, 1u)) {
		/* Entries from here on, to the end of the word, that need no look. */
		at = verify->cursor % KV_WORD_BITS;
		rest = READ_ONCE(verify->todo[verify->cursor / KV_WORD_BITS]) >> at;
		step = rest ? (u32)__builtin_ctzll(rest) : KV_WORD_BITS - at;
		step = scrubs ? 0 : min(step, pool->nr_blocks - verify->cursor);
		if (!step)
			look_at_entry(pool, verify, verify->cursor, scrubs);
		verify->cursor += max(step, 1u);
		if (verify->cursor == pool->nr_blocks)
			verify->cursor = 0;
	}
}

static void release_job(struct kvmm_pool *pool, struct verify_job *job)
{
	kv_assert_held(&pool->compact_lock);
	kv_lock(&pool->lock);
	order_enter(&pool->order);
	for (u32 i = 0; i < job->nr; i++)
		entry_moved(pool, job->handle[i].index, job->handle[i].gen);
	order_leave(&pool->order);
	job->nr = 0;
	job->on_device = false;
	WRITE_ONCE(job->is_cheap, false);
	pool_leave(pool);
}

static void redo_job(struct kvmm_pool *pool, struct verify *verify)
{
	kv_assert_held(&pool->compact_lock);
	for (u32 i = 0; i < verify->job.nr; i++)
		set_todo(verify, verify->job.handle[i].index);
	release_job(pool, &verify->job);
}

/* Its sums are not fetched. */
static void drop_job(struct kvmm_pool *pool, struct verify *verify)
{
	kv_assert_held(&pool->compact_lock);
	if (verify->job.on_device && !verify->job.is_read)
		pool->parts.dev->sum_fetch(pool->dev, NULL, 0);
	redo_job(pool, verify);
}

/* The device lets it start behind the work that the engine had given it: as sum_start(). */
static int start_sums(struct kvmm_pool *pool, struct verify_job *job)
{
	int err = sum_start(pool, job->run, job->nr, job->after, &job->fence);

	kv_assert_held(&pool->compact_lock);
	job->on_device = !err;
	job->has_begun = err != -EBUSY;
	if (err != -EOPNOTSUPP)
		return err;
	job->fence = job->after;
	return 0;
}

static void start_job(struct kvmm_pool *pool, struct verify *verify, bool scrubs)
{
	struct steps *steps = pool->steps;
	struct verify_job *job = &verify->job;
	bool is_told = pool->completions.are_told;
	int err;

	kv_assert_held(&pool->compact_lock);
	kv_lock(&pool->lock);
	collect(pool, verify, scrubs);
	pool_leave(pool);
	if (!job->nr)
		return;
	verify->nr_alone -= verify->nr_alone != 0;
	job->is_read = false;
	completion_begin(&pool->completions, &job->completion);
	kv_lock(&steps->lock);
	err = steps_signal(pool, steps, &job->after);
	kv_unlock(&steps->lock);
	if (!err)
		err = start_sums(pool, job);
	job->error = is_told && err != -EBUSY ? err : 0;
	WRITE_ONCE(job->is_cheap, is_told || job->on_device);
	if (err && !is_told)
		redo_job(pool, verify);
}

/* Its sums, as far as the device is: 0, -EAGAIN, or why there are none. */
static int read_job(struct kvmm_pool *pool, struct verify_job *job)
{
	int err = job->error;

	kv_assert_held(&pool->compact_lock);
	if (err || job->is_read)
		return err;
	if (!job->has_begun)
		err = start_sums(pool, job);
	if (!err)
		err = pool->parts.dev->poll(pool->dev, job->fence);
	if (err == -EBUSY || err == -EAGAIN)
		return -EAGAIN;
	if (job->on_device)
		job->error = pool->parts.dev->sum_fetch(pool->dev, err ? NULL : job->sum,
							err ? 0 : job->nr);
	else if (!err)
		job->error = sum_now(pool, job->run, job->nr, job->sum);
	job->error = err ? err : job->error;
	job->is_read = true;
	return job->error;
}

/* True: its content is as it was. */
static bool compare(struct kvmm_pool *pool, struct verify *verify, struct kv_handle handle,
		    u32 block, u64 sum)
{
	kv_assert_held(&pool->compact_lock);
	verify->stat.checks++;
	if (verify->sum[handle.index] == sum)
		return true;
	kv_log(KV_LOG_ERR, "kvmm: pool %s: content of block %u is not what was registered",
	       pool->name, block);
	verify->stat.bad_blocks++;
	verify->gen[handle.index] = 0;
	return false;
}

static void lose_one(struct kvmm_pool *pool, struct kv_handle handle)
{
	bool closed = lose_begin(pool);

	kv_assert_held(&pool->compact_lock);
	entry_lose(pool, handle);
	lose_end(pool, closed);
}

static void conclude(struct kvmm_pool *pool, struct verify *verify)
{
	struct verify_job *job = &verify->job;

	kv_assert_held(&pool->compact_lock);
	for (u32 i = 0; i < job->nr; i++) {
		struct kv_handle handle = job->handle[i];

		if (lost_check(pool, &handle, 1))	/* kvmm_verify_blocks() was faster */
			continue;
		if (!has_sum(verify, handle)) {
			verify->sum[handle.index] = job->sum[i];
			verify->gen[handle.index] = handle.gen;
			verify->stat.sums++;
		} else if (!compare(pool, verify, handle, job->run[i].dst, job->sum[i])) {
			lose_one(pool, handle);
		}
	}
}

/* On some rank a block of it is wrong, or could not be summed: which one is seen one by one. */
static void blame(struct kvmm_pool *pool, struct verify *verify)
{
	struct verify_job *job = &verify->job;
	struct kv_handle handle = job->handle[0];

	kv_assert_held(&pool->compact_lock);
	if (job->nr > 1 || !has_sum(verify, handle) || lost_check(pool, &handle, 1)) {
		verify->nr_alone = job->nr;
		verify->cursor = handle.index;
		redo_job(pool, verify);
		return;
	}
	verify->stat.checks++;
	verify->stat.bad_blocks++;
	verify->gen[handle.index] = 0;
	lose_one(pool, handle);
	release_job(pool, job);
}

/* Returns how many blocks were looked at. */
static u32 end_job(struct kvmm_pool *pool, struct verify *verify)
{
	struct verify_job *job = &verify->job;
	u32 nr = job->nr;
	int err;

	kv_assert_held(&pool->compact_lock);
	if (!nr)
		return 0;
	err = completion_result(&pool->completions, &job->completion, read_job(pool, job));
	if (err == -EAGAIN)
		return 0;
	if (err) {
		if (pool->completions.are_told)
			blame(pool, verify);
		else
			redo_job(pool, verify);
		return 0;
	}
	conclude(pool, verify);
	release_job(pool, job);
	return nr;
}

/*
 * Where completions are told: is this rank through with the job, and were all of its blocks right?
 * A block without a checksum cannot be wrong. The answer stays the same until all ranks have it.
 */
void __verify_walk(struct kvmm_pool *pool, struct completion_walk *walk)
{
	struct verify *verify = verify_of(pool);
	struct verify_job *job = &verify->job;
	int err;

	kv_assert_held(&pool->compact_lock);
	if (!job->nr)
		return;
	err = read_job(pool, job);
	for (u32 i = 0; i < job->nr && !err; i++)
		if (has_sum(verify, job->handle[i]) &&
		    verify->sum[job->handle[i].index] != job->sum[i])
			err = job->error = -EBADMSG;
	completion_meet(walk, &job->completion, err);
}

void __verify_poll(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->compact_lock);
	end_job(pool, verify_of(pool));
}

void __verify_cancel(struct kvmm_pool *pool)
{
	struct verify *verify = verify_of(pool);
	struct verify_job *job = &verify->job;

	kv_assert_held(&pool->compact_lock);
	if (job->nr && job->on_device && pool->parts.dev->wait(pool->dev, job->fence))
		device_failed(pool);
	end_job(pool, verify);
	if (job->nr)	/* the engine's work goes on, or it was not told: it begins anew */
		drop_job(pool, verify);
}

u32 verify_look(struct kvmm_pool *pool, bool scrubs, bool *is_under_way)
{
	struct verify *verify = verify_of(pool);
	u32 nr = 0;

	*is_under_way = false;
	if (!verify)
		return 0;
	kv_lock(&pool->compact_lock);
	if (!pool_refusal(pool)) {
		nr = end_job(pool, verify);
		if (!verify->job.nr && READ_ONCE(verify->nr_todo))
			start_job(pool, verify, false);
		if (!verify->job.nr && scrubs)	/* nothing, or all of it is pinned */
			start_job(pool, verify, true);
		nr += end_job(pool, verify);	/* if the device has nothing else to do */
		*is_under_way = verify->job.nr;
	}
	kv_unlock(&pool->compact_lock);
	cache_after(pool);
	return nr;
}

bool verify_is_pending(struct kvmm_pool *pool)
{
	struct verify *verify = verify_of(pool);

	return verify && READ_ONCE(verify->nr_todo);
}

/* ---- flights ---- */

/* Legs that the device was asked for, else those of entries that have a checksum; in order. */
static u32 runs_of(struct kvmm_pool *pool, struct flight *flight, struct kv_move *runs)
{
	u32 nr = 0;

	kv_assert_held(&pool->steps->lock);
	for (u32 i = 0; i < flight->nr && nr < VERIFY_BATCH; i++) {
		struct leg *leg = &flight->leg[i];
		struct kv_handle handle = { owner_index(leg->owner), leg->gen };
		bool wanted = flight->summing ? leg->asked :
			      owner_kind(leg->owner) == OWNER_ENTRY &&
			      has_sum(pool->verify, handle);

		if (wanted && !leg->seen)
			runs[nr++] = (struct kv_move){ .src = i, .dst = flight->move[i].dst,
						       .nr = 1 };
	}
	return nr;
}

static void compare_legs(struct kvmm_pool *pool, struct flight *flight, const struct kv_move *runs,
			 u32 nr, const u64 *sums)
{
	struct verify *verify = pool->verify;

	kv_assert_held(&pool->steps->lock);
	for (u32 i = 0; i < nr; i++) {
		struct leg *leg = &flight->leg[runs[i].src];

		leg->seen = true;
		verify->stat.checks++;
		if (verify->sum[owner_index(leg->owner)] == sums[i])
			continue;
		leg->bad = true;
		verify->stat.bad_copies++;
		if (!pool->completions.are_told)
			set_todo(verify, owner_index(leg->owner));	/* or is it the source? */
	}
}

int verify_flight(struct kvmm_pool *pool, struct flight *flight)
{
	struct kv_move runs[VERIFY_BATCH];
	struct kv_fence none = { 0 };
	u64 sums[VERIFY_BATCH];
	u32 nr;
	int err;

	if (likely(!pool->verify))
		return 0;
	while ((nr = runs_of(pool, flight, runs))) {
		if (flight->summing) {
			flight->summing = false;
			err = pool->parts.dev->sum_fetch(pool->dev, sums, nr);
		} else {
			err = sum_start(pool, runs, nr, none, &flight->fence);
			flight->summing = !err;
			for (u32 i = 0; i < nr; i++)
				flight->leg[runs[i].src].asked = true;
			if (!err || err == -EBUSY)
				return -EAGAIN;
			if (err == -EOPNOTSUPP)
				err = sum_now(pool, runs, nr, sums);
		}
		if (!err)
			compare_legs(pool, flight, runs, nr, sums);
		/* A copy that the device could not sum is no better than one that failed. */
		for (u32 i = 0; err && i < nr; i++) {
			struct leg *leg = &flight->leg[runs[i].src];

			leg->seen = leg->bad = true;
			if (!pool->completions.are_told)
				set_todo(pool->verify, owner_index(leg->owner));
		}
	}
	return 0;
}

int verify_told_flight(struct kvmm_pool *pool, struct flight *flight)
{
	int err = verify_flight(pool, flight);

	for (u32 i = 0; i < flight->nr && !err; i++)
		err = flight->leg[i].bad ? -EIO : 0;
	return err;
}

void verify_drop_flight(struct kvmm_pool *pool, struct flight *flight)
{
	kv_assert_held(&pool->steps->lock);
	if (flight->summing)
		pool->parts.dev->sum_fetch(pool->dev, NULL, 0);
	flight->summing = false;
	if (!pool->verify || !pool->completions.are_told)
		return;
	for (u32 i = 0; i < flight->nr; i++) {
		u32 owner = flight->leg[i].owner;

		if (owner_kind(owner) == OWNER_ENTRY)
			__verify_moved(pool, owner_index(owner));
	}
}

/* ---- now ---- */

/* The caller has a reference; nothing moves: 1, 0 without checksum; -EIO. compact_lock held. */
static int verify_one(struct kvmm_pool *pool, struct verify *verify, struct kv_handle handle,
		      u32 block)
{
	const struct kv_move run = { .dst = block, .nr = 1 };
	u64 sum;

	kv_assert_held(&pool->compact_lock);
	if (!has_sum(verify, handle))
		return 0;
	if (pool->completions.are_told) {
		set_todo(verify, handle.index);
		return 1;
	}
	if (sum_now(pool, &run, 1, &sum))
		return -EIO;
	if (compare(pool, verify, handle, block, sum))
		return 1;
	lose_one(pool, handle);
	return -EIO;
}

static int verify_all(struct kvmm_pool *pool, struct verify *verify, const kvmm_ref_t *refs, u32 nr)
{
	int nr_done = 0, failed = 0;

	kv_assert_held(&pool->compact_lock);
	for (u32 i = 0; i < nr; i++) {
		u32 block;
		int ret = kvmm_blocks_of_refs(pool, &refs[i], 1, &block);

		if (!ret)
			ret = verify_one(pool, verify, as_handles(refs)[i], block);
		if (ret < 0)
			failed = ret;
		else
			nr_done += ret;
	}
	return failed ? failed : nr_done;
}

/* They may move until the lock is held: that they are held is all that is known by then. */
int kvmm_verify_blocks(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr)
{
	struct verify *verify;
	bool is_under_way;
	int ret;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool || (!refs && nr) || nr > INT32_MAX)
		return -EINVAL;
	if (!refs)
		return (int)verify_look(pool, true, &is_under_way);
	ret = kvmm_get_many(pool, refs, nr);
	if (ret)
		return ret;
	verify = verify_of(pool);
	kv_lock(&pool->compact_lock);
	flights_look(pool);
	if (verify)
		ret = verify_all(pool, verify, refs, nr);
	kv_unlock(&pool->compact_lock);
	kvmm_put_many(pool, refs, nr);
	cache_after(pool);
	return ret;
}

/* ---- making it ---- */

static void free_verify(struct verify *verify)
{
	if (!verify)
		return;
	kv_free(verify->sum);
	kv_free(verify->gen);
	kv_free(verify->todo);
	kv_free(verify);
}

static struct verify *make_verify(const struct kvmm_pool *pool)
{
	struct verify *verify = kv_alloc(sizeof(*verify));

	if (!verify)
		return NULL;
	verify->sum = kv_alloc_array(pool->nr_blocks, sizeof(*verify->sum));
	verify->gen = kv_alloc_array(pool->nr_blocks, sizeof(*verify->gen));
	verify->todo = kv_alloc_array(KV_WORDS(pool->nr_blocks), sizeof(*verify->todo));
	if (verify->sum && verify->gen && verify->todo)
		return verify;
	free_verify(verify);
	return NULL;
}

extern const struct pool_part verify_part;

static int set_locked(struct kvmm_pool *pool, u32 sample_pm)
{
	struct verify *verify = pool->verify;

	kv_assert_held(&pool->compact_lock);
	if (!steps_get(pool))
		return -ENOMEM;
	if (!verify)
		verify = make_verify(pool);
	if (!verify)
		return -ENOMEM;
	WRITE_ONCE(verify->sample_pm, sample_pm);
	/* Pairs with verify_of(). */
	smp_store_release(&pool->verify, verify);
	pool_observe(pool, &verify_part);
	return 0;
}

int verify_set(struct kvmm_pool *pool, const void *value)
{
	const struct kvmm_verify_attr *attr = value;
	struct kvmm_verify_attr known;
	int err;

	if (!attr)
		return -EINVAL;
	err = kv_copy_attr(&known, sizeof(known), attr);
	if (err)
		return err;
	if (known.sample_pm > 1000 || known.reserved)
		return -EINVAL;
	if (!pool->caches || !pool->nr_planes)
		return -EOPNOTSUPP;
	kv_lock(&pool->compact_lock);
	err = set_locked(pool, known.sample_pm);
	kv_unlock(&pool->compact_lock);
	return err;
}

/* The device's memory goes next. */
static void verify_exit(struct kvmm_pool *pool)
{
	if (pool->verify && pool->verify->job.nr && pool->dev)
		pool->parts.dev->wait(pool->dev, pool->verify->job.fence);
	free_verify(pool->verify);
}

static u64 verify_bytes(struct kvmm_pool *pool)
{
	return READ_ONCE(pool->verify) ? sizeof(*pool->verify) +
					 pool->nr_blocks * (sizeof(u64) + sizeof(u32)) +
					 KV_WORDS(pool->nr_blocks) * sizeof(u64) : 0;
}

/* ---- results ---- */

int verify_stat_read(struct kvmm_pool *pool, void *out)
{
	struct kvmm_verify_stat *stat = out;
	struct verify *verify;

	verify = verify_of(pool);
	if (!verify)
		return 0;
	kv_lock(&pool->compact_lock);
	*stat = verify->stat;
	stat->sample_pm = verify->sample_pm;
	stat->pending = READ_ONCE(verify->nr_todo);
	for (u32 i = 0; i < pool->nr_blocks; i++)
		stat->summed += kv_word_is(READ_ONCE(entry_at(pool, i)->word),
					   KV_ENTRY_REGISTERED) &&
				has_sum(verify, entry_handle(pool, i));
	kv_unlock(&pool->compact_lock);
	return 0;
}

static int verify_check(struct kvmm_pool *pool, const struct pool_recount *re)
{
	const struct verify *verify = pool->verify;
	u32 nr = 0;

	if (!verify)
		return 0;
	for (u32 i = 0; i < KV_WORDS(pool->nr_blocks); i++)
		nr += __builtin_popcountll(verify->todo[i]);
	if (nr != verify->nr_todo || verify->job.nr > VERIFY_BATCH ||
	    (verify->job.nr &&
	     !completion_is_sound(&pool->completions, &verify->job.completion)))
		return -EUCLEAN;
	for (u32 i = 0; i < verify->job.nr; i++) {
		struct kv_handle handle = verify->job.handle[i];
		u64 word = entry_at(pool, handle.index)->word;

		if (kv_word_gen(word) != handle.gen || !(word & KV_ENTRY_MOVING) ||
		    entry_block(entry_at(pool, handle.index)) != verify->job.run[i].dst)
			return -EUCLEAN;
	}
	return 0;
}

/* Its content may be another one than before; so may be what a job is summing. */
static void verify_renamed(struct kvmm_pool *pool, struct kv_handle handle)
{
	struct verify *verify = verify_of(pool);

	kv_assert_held(&pool->compact_lock);
	drop_job(pool, verify);
	verify->gen[handle.index] = 0;
}

static const struct pool_observer observer = {
	.registered	= verify_registered,
	.renamed	= verify_renamed,
};

POOL_PART(verify) = {
	.name	= "checksums of content",
	.exit	= verify_exit,
	.observer = &observer,
	.bytes	= verify_bytes,
	.check	= verify_check,
};
