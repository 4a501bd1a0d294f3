// SPDX-License-Identifier: Apache-2.0
/* Batches kept for replay; see replay.h. */
#include <errno.h>
#include <string.h>

#include <kv/mem.h>

#include "replay.h"

int replay_init(struct replay *replay, u32 max_batches, u64 max_bytes)
{
	*replay = (struct replay){ .max_batches = max_batches, .max_bytes = max_bytes };
	if (!max_batches || !max_bytes) {
		replay->max_batches = 0;
		return 0;
	}
	replay->batch = kv_alloc_array(max_batches, sizeof(*replay->batch));
	replay->bytes = kv_alloc_array(max_bytes, 1);
	if (replay->batch && replay->bytes)
		return 0;
	replay_exit(replay);
	return -ENOMEM;
}

void replay_exit(struct replay *replay)
{
	kv_free(replay->batch);
	kv_free(replay->bytes);
	replay->batch = NULL;
	replay->bytes = NULL;
	replay->max_batches = 0;
}

static void drop_oldest(struct replay *replay)
{
	replay->first = (replay->first + 1) % replay->max_batches;
	replay->nr--;
}

void replay_keep(struct replay *replay, u64 seq, const void *bytes, u32 nr)
{
	u64 left = replay->max_bytes ? replay->max_bytes - replay->end % replay->max_bytes : 0;
	struct replay_batch *batch;

	if (!replay->max_batches || nr > replay->max_bytes)
		return;
	if (nr > left)
		replay->end += left;
	if (replay->nr == replay->max_batches)
		drop_oldest(replay);
	while (replay->nr && replay->batch[replay->first].at + replay->max_bytes < replay->end + nr)
		drop_oldest(replay);
	batch = &replay->batch[(replay->first + replay->nr++) % replay->max_batches];
	*batch = (struct replay_batch){ seq, replay->end, nr };
	memcpy(replay->bytes + replay->end % replay->max_bytes, bytes, nr);
	replay->end += nr;
}

const struct replay_batch *replay_at(const struct replay *replay, u32 i, const void **bytes)
{
	const struct replay_batch *batch =
		&replay->batch[(replay->first + i) % replay->max_batches];

	*bytes = replay->bytes + batch->at % replay->max_bytes;
	return batch;
}
