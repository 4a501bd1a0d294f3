/* SPDX-License-Identifier: Apache-2.0 */
/* What migrations between machines are compared with: the same transports, used barely. */
#ifndef BENCH_BARE_H
#define BENCH_BARE_H

#include <kv/types.h>

struct bare;

/**
 * struct bare_ops - one that puts pieces
 * @open: both sides, and @bytes of memory of the second: 0 or -EIO
 * @put: @nr pieces of @bytes, each with a put, into that memory, over and over; until all are
 *	there: 0 or -EIO
 */
struct bare_ops {
	int (*open)(u64 bytes, struct bare **result);
	void (*close)(struct bare *bare);
	int (*put)(struct bare *bare, u64 base, const u32 *piece, u32 nr, u64 bytes);
};

extern const struct bare_ops bare_ucx;		/* two workers */
extern const struct bare_ops bare_nixl;		/* two agents, without a thread; a batch of all */

/* 64 bytes, and the same back, by TCP over loopback: nanoseconds of one of @nr; or -EIO. */
s64 bare_round_trip(u32 nr);

#endif /* BENCH_BARE_H */
