// SPDX-License-Identifier: Apache-2.0
/*
 * Copies by kernel: launches, and the lists of moves that are too long for parameters.
 *
 * The driver copies parameters when a launch is queued, so short lists of moves need no memory at
 * all. Longer ones go through a ring of pinned buffers and are uploaded in front of the launch: it
 * reads each move many times, and the host's memory is far away. A buffer is used again when the
 * event behind its launch is done.
 *
 * Planes that are not aligned for vectors are served by another kernel, so a wave is one launch
 * for each stretch of planes that are alike.
 */
#include <string.h>

#include <kv/log.h>

#include "engine.h"

#define VALUE_LAUNCHES	2u		/* rather than one with a list */
#define VALUE_PLANES	64u		/* of each side, if there are no lists */
#define JIT_LOG_BYTES	512u

static const char *const kernel_name[NR_KERNELS] = {
	[KERNEL_MOVE16]		= "kv_move16",
	[KERNEL_MOVE16_LIST]	= "kv_move16_list",
	[KERNEL_MOVE1]		= "kv_move1",
	[KERNEL_MOVE1_LIST]	= "kv_move1_list",
	[KERNEL_SUM]		= "kv_sum",
	[KERNEL_MOVE_SUM]	= "kv_move_sum",
};

static_assert(sizeof(u64) + 2 * KVMM_MAX_PLANES * sizeof(struct kvmm_plane) +
	      KV_LAUNCH_LIST_WORDS(KV_WAVE_MOVES) * sizeof(u32) <= KV_LIST_BYTES,
	      "planes and moves of the longest wave fit in a list");

/* ---- loading ---- */

int kv_kernels_load(struct kv_dev *dev)
{
	char text[JIT_LOG_BYTES] = "";
	kcu_jit_option option[] = { KCU_JIT_ERROR_LOG, KCU_JIT_ERROR_LOG_BYTES };
	void *value[] = { text, (void *)(uintptr_t)sizeof(text) };
	int err = kv_gpu_call(dev->gpu, module_load_data_ex, &dev->module, kv_kernel_ptx,
			      ARRAY_SIZE(option), option, value);

	text[sizeof(text) - 1] = '\0';
	if (err) {
		kv_log(KV_LOG_WARN, "kvmm: gpu %d: no kernels, copies will be slow: %s",
		       dev->gpu->ordinal, text);
		dev->module = NULL;
		return err;
	}
	for (u32 i = 0; i < NR_KERNELS && !err; i++)
		err = kv_gpu_call(dev->gpu, module_get_function, &dev->kernel[i], dev->module,
				  kernel_name[i]);
	if (err)
		kv_kernels_unload(dev);
	return err;
}

void kv_kernels_unload(struct kv_dev *dev)
{
	if (dev->module)
		kv_gpu_call(dev->gpu, module_unload, dev->module);
	dev->module = NULL;
}

/* ---- lists ---- */

/* A list being filled; at the same place on the host and on the device. */
struct draft {
	struct list *list;
	u8 *host;
	kcu_deviceptr addr;
	u32 used;
};

static int begin_list(struct kv_dev *dev, struct draft *draft)
{
	u32 i = dev->next_list;
	struct list *list = &dev->list[i];

	if (list->is_used && kv_gpu_call(dev->gpu, event_query, list->event)) {
		dev->count.nr_stalls++;
		if (kv_event_settle(dev, list->event, list->stream))
			return -EIO;
	}
	list->is_used = false;
	dev->next_list = (i + 1) % KV_NR_LISTS;
	*draft = (struct draft){
		.list = list, .host = dev->lists_host + i * KV_LIST_BYTES,
		.addr = dev->lists + i * KV_LIST_BYTES,
	};
	return 0;
}

/* Where it will be on the device. */
static kcu_deviceptr put(struct draft *draft, const void *from, u32 bytes)
{
	kcu_deviceptr at = draft->addr + draft->used;

	memcpy(draft->host + draft->used, from, bytes);
	draft->used += bytes;
	return at;
}

static u64 put_planes(struct draft *draft, const struct kv_launch_planes *planes)
{
	return put(draft, planes->plane, planes->nr * sizeof(*planes->plane));
}

/* Behind a stamp, by which the kernel knows its list from the one that was there before. */
static u64 put_stamped(struct kv_dev *dev, struct draft *draft,
		       const struct kv_launch_planes *planes, u32 *stamp)
{
	u64 word = *stamp = ++dev->list_stamp ?: ++dev->list_stamp;

	put(draft, &word, sizeof(word));
	return put_planes(draft, planes);
}

static int upload(struct kv_dev *dev, kcu_stream stream, const struct draft *draft)
{
	return kv_gpu_call(dev->gpu, memcpy_htod_async, draft->addr, draft->host, draft->used,
			   stream);
}

/* After the upload at the latest: from then on the buffer is in use. */
static void end_list(struct kv_dev *dev, kcu_stream stream, struct list *list)
{
	list->stream = stream;
	list->is_used = !kv_gpu_call(dev->gpu, event_record, list->event, stream);
	if (!list->is_used)
		kv_stream_settle(dev, stream);
}

/* ---- launching ---- */

/* Some planes of a wave, and the kernels for them. */
struct pass {
	struct job *job;
	struct kv_launch_planes src, dst;
	const struct kv_launch_planes *dst_of;	/* &src if they are the same planes */
	enum kernel_id by_value, by_list;
	bool vectors;
};

static int head_of(const struct pass *pass, struct kv_move_head *head)
{
	return kv_launch_head(head, &pass->src, pass->dst_of, pass->vectors);
}

static int launch(struct job *job, enum kernel_id kernel, void *args,
		  const struct kv_move_head *head, u32 nr_threads)
{
	struct kv_dev *dev = job->dev;
	void *params[] = { args };
	u32 cap;
	int err;

	if (!head->nr_blocks)
		return 0;
	if (job->copy->flags & KV_COPY_BACKGROUND)
		cap = dev->knob[KV_KNOB_BACKGROUND_GROUPS] ?: KV_BACKGROUND_GROUPS;
	else
		cap = dev->knob[KV_KNOB_GROUPS] ?: dev->costs.groups;
	err = kv_gpu_call(dev->gpu, launch_kernel, dev->kernel[kernel],
			  kv_launch_groups(head, cap), 1, 1, nr_threads, 1, 1, 0, job->stream,
			  params, NULL);
	job->nr_calls += !err;
	return err;
}

static int launch_by_value(struct pass *pass)
{
	struct job *job = pass->job;
	struct kv_move_args args;
	u32 done = 0;
	int err = 0;

	while (done < job->nr && !err) {
		int nr_threads = head_of(pass, &args.head);
		u32 nr = nr_threads < 0 ? 0 : kv_launch_moves(&args, &pass->src, pass->dst_of,
							      job->moves + done, job->nr - done);

		if (!nr)
			return -EINVAL;
		err = launch(job, pass->by_value, &args, &args.head, nr_threads);
		done += nr;
	}
	return err;
}

/* The planes must be in the list before the head is made, and the moves after it. */
static int draft_wave(struct pass *pass, struct draft *draft, struct kv_move_head *head)
{
	struct job *job = pass->job;
	int nr_threads;
	u32 *words, stamp;

	pass->src.table = put_stamped(job->dev, draft, &pass->src, &stamp);
	if (pass->dst_of != &pass->src)
		pass->dst.table = put_planes(draft, &pass->dst);
	nr_threads = head_of(pass, head);
	if (nr_threads < 0)
		return nr_threads;
	head->stamp = stamp;
	words = (u32 *)(draft->host + draft->used);
	head->moves = draft->addr + draft->used;
	if (kv_launch_list(head, words, job->moves, job->nr) != job->nr)
		return -EINVAL;
	draft->used += head->nr_moves * head->move_words * sizeof(*words);
	return nr_threads;
}

static int launch_list(struct pass *pass)
{
	struct job *job = pass->job;
	struct kv_move_head head;
	struct draft draft;
	int nr_threads, err;

	err = begin_list(job->dev, &draft);
	if (err)
		return err;
	nr_threads = draft_wave(pass, &draft, &head);
	if (nr_threads < 0)
		return nr_threads;
	err = upload(job->dev, job->stream, &draft);
	if (!err)
		err = launch(job, pass->by_list, &head, &head, nr_threads);
	end_list(job->dev, job->stream, draft.list);
	return err;
}

static int run_pass(struct pass *pass)
{
	struct kv_dev *dev = pass->job->dev;
	struct kv_move_head head;

	if (head_of(pass, &head) < 0 ||
	    pass->job->nr <= (KV_KERNEL_WORDS - head.first_word) / KV_KERNEL_RUN * VALUE_LAUNCHES)
		return launch_by_value(pass);
	if (dev->lists_host)
		return launch_list(pass);
	dev->count.fallback[KV_FALL_NO_MEMORY]++;
	return launch_by_value(pass);
}

/* Planes [first, first + nr) of the wave. */
static void set_planes(struct pass *pass, u32 first, u32 nr)
{
	const struct kv_copy *copy = pass->job->copy;

	pass->src = (struct kv_launch_planes){ copy->src.plane + first, nr, 0 };
	pass->dst = (struct kv_launch_planes){ copy->dst.plane + first, nr, 0 };
	pass->dst_of = copy->src.plane == copy->dst.plane ? &pass->src : &pass->dst;
}

static u32 most_planes(const struct kv_dev *dev, u32 nr)
{
	return dev->lists_host ? nr : min(nr, VALUE_PLANES);
}

/* ---- copies ---- */

bool kv_kernel_serves(const struct kv_planes *src, const struct kv_planes *dst)
{
	struct kv_launch_planes from = { src->plane, src->nr, 0 }, to = { dst->plane, dst->nr, 0 };
	struct kv_move_head head;

	return kv_launch_head(&head, &from, &to, false) > 0;
}

int kv_kernel_submit(struct job *job)
{
	const struct kv_copy *copy = job->copy;
	int err = 0;

	for (u32 i = 0, nr; i < copy->src.nr && !err; i += nr) {
		struct pass pass = { .job = job };

		nr = kv_launch_alike(copy->src.plane + i, copy->dst.plane + i,
				     most_planes(job->dev, copy->src.nr - i), &pass.vectors);
		pass.by_value = pass.vectors ? KERNEL_MOVE16 : KERNEL_MOVE1;
		pass.by_list = pass.vectors ? KERNEL_MOVE16_LIST : KERNEL_MOVE1_LIST;
		set_planes(&pass, i, nr);
		err = run_pass(&pass);
	}
	return err;
}

/* ---- checksums ---- */

bool kv_kernel_sums(const struct job *job)
{
	const struct kv_planes *src = &job->copy->src, *dst = &job->copy->dst;
	u64 list = sizeof(u64) + src->nr * (2 * sizeof(struct kvmm_plane) + sizeof(u64)) +
		   KV_LAUNCH_LIST_WORDS(job->nr) * sizeof(u32);
	bool vectors;

	return job->dev->lists_host && list <= KV_LIST_BYTES && job->nr_blocks <= KV_SUM_MOST &&
	       kv_launch_alike(src->plane, dst->plane, src->nr, &vectors) == src->nr && vectors;
}

int kv_kernel_move_sum(struct job *job, kcu_deviceptr sums)
{
	struct pass pass = { .job = job, .vectors = true };
	struct kv_move_sum_args args = { .sums = sums };
	struct draft draft;
	u64 pos = 0;
	int nr_threads, err;

	set_planes(&pass, 0, job->copy->src.nr);
	err = begin_list(job->dev, &draft);
	if (err)
		return err;
	/* The number of the first word of each plane. */
	args.first = draft.addr;
	for (u32 i = 0; i < job->copy->src.nr; i++) {
		put(&draft, &pos, sizeof(pos));
		pos += kv_sum_words(job->copy->src.plane[i].bytes);
	}
	nr_threads = draft_wave(&pass, &draft, &args.head);
	if (nr_threads < 0)
		return nr_threads;
	kv_launch_longer_chunks(&args.head);
	err = upload(job->dev, job->stream, &draft);
	if (!err)
		err = launch(job, KERNEL_MOVE_SUM, &args, &args.head, nr_threads);
	end_list(job->dev, job->stream, draft.list);
	return err;
}

int kv_kernel_sum(struct kv_dev *dev, const struct kv_planes *planes, u32 first, u32 nr,
		  kcu_deviceptr sums)
{
	struct kv_launch_planes table = { planes->plane, planes->nr, 0 };
	struct kv_sum_args args = {
		.sums = sums, .nr_planes = planes->nr, .nr_blocks = nr, .first = first,
		.nr_parts = kv_launch_sum_parts(nr, planes->nr, dev->costs.groups),
	};
	void *params[] = { &args };
	kcu_stream stream = dev->gpu->compact;
	struct draft draft;
	int err;

	err = begin_list(dev, &draft);
	if (err)
		return err;
	args.planes = put_stamped(dev, &draft, &table, &args.stamp);
	err = upload(dev, stream, &draft);
	if (!err)
		err = kv_gpu_call(dev->gpu, launch_kernel, dev->kernel[KERNEL_SUM],
				  kv_launch_sum_groups(&args, dev->costs.groups), 1, 1, 256, 1, 1,
				  0, stream, params, NULL);
	end_list(dev, stream, draft.list);
	return err;
}
