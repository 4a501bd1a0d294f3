/* SPDX-License-Identifier: Apache-2.0 */
/* What migrations between machines are compared with: the same transports, used barely. */
#ifndef BENCH_BARE_H
#define BENCH_BARE_H

#include <kv/types.h>

struct bare;

/* Two workers of UCX, and @bytes of memory of the second: 0 or -EIO. */
int bare_open(u64 bytes, struct bare **result);
void bare_close(struct bare *bare);
/* @nr pieces of @bytes, each with a put, into that memory, over and over; and a flush: 0 or -EIO. */
int bare_put(struct bare *bare, u64 base, const u32 *piece, u32 nr, u64 bytes);

/* 64 bytes, and the same back, by TCP over loopback: nanoseconds of one of @nr; or -EIO. */
s64 bare_round_trip(u32 nr);

#endif /* BENCH_BARE_H */
