// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as a batch of events: it is read or refused, never read past its end; each value that is
 * skipped ends within it. The same bytes as events: what is encoded is read again, whole.
 */
#include "tests/fuzz/require.h"
#include "ctl/wire.h"
#include "tools/events/unpack.c"
#include "tools/events/wire_read.c"

#define MAX_EVENTS	64u

/* A copy of just the size, so that a read past its end is seen. */
static void read_bytes(const uint8_t *data, size_t bytes)
{
	struct wire_event event[4];
	struct wire_batch batch = { .event = event, .max_events = 4 };
	u8 *copy = malloc(bytes ? bytes : 1);
	struct unpack unpack = { copy, bytes, 0 };

	require(copy);
	memcpy(copy, data, bytes);
	if (wire_read(copy, bytes, &batch) != -EBADMSG)
		for (u32 i = 0; i < batch.nr_events && i < 4; i++)
			require(event[i].kind < KVMM_NR_EVENT_KINDS && event[i].nr_hashes <= bytes);
	while (unpack.at < bytes && !unpack_skip(&unpack))
		require(unpack.at <= bytes);
	free(copy);
}

static void write_and_read(const uint8_t *data, size_t bytes)
{
	static struct kvmm_event events[MAX_EVENTS];
	static u8 buf[KVMM_WIRE_BYTES_FOR(MAX_EVENTS)];
	struct wire_event event[MAX_EVENTS];
	u64 hash[MAX_EVENTS];
	struct wire_batch batch = { .event = event, .max_events = MAX_EVENTS,
				    .hash = hash, .max_hashes = MAX_EVENTS };
	struct kvmm_wire wire = KVMM_WIRE_INIT;
	u32 nr = min(bytes / sizeof(events[0]), (size_t)MAX_EVENTS), nr_hashes = 0, nr_names = 0;
	s64 len;

	memcpy(events, data, nr * sizeof(events[0]));
	for (u32 i = 0; i < nr; i++) {
		events[i].kind %= KVMM_NR_EVENT_KINDS;
		events[i].medium %= KVMM_NR_MEDIA;
		nr_names += events[i].kind != KVMM_EVENT_CLEARED;
	}
	wire.format = bytes % KVMM_NR_WIRE_FORMATS;
	len = kvmm_wire_encode(&wire, 1, events, nr, buf, sizeof(buf));
	require(len > 0 && wire_read(buf, len, &batch) == len);
	for (u32 i = 0; i < batch.nr_events; i++)
		nr_hashes += event[i].nr_hashes;
	require(nr_hashes == nr_names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	read_bytes(data, bytes);
	write_and_read(data, bytes);
	return 0;
}
