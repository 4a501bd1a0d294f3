/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol of two processes: framed, versioned, bounded.
 *
 *	giver			taker
 *	HELLO	------------->		how blocks are made
 *		<-------------	HELLO
 *		<-------------	WINDOW + descriptor		memory that both have
 *	WINDOW	------------->		mapped, or not: then another one is offered
 *	OFFER, NAMES, SUMS --->
 *		<-------------	ACCEPT	reserved; blocks there already; how far it had come
 *	FILL	------------->		a slot of the window is full
 *		<-------------	DRAIN	it is empty again
 *		<-------------	VERIFIED	all checksums agree
 *	COMMIT	------------->		published
 *		<-------------	ACK	now, and not before, the giver lets go of its own
 *	ABORT	<------------>		instead of anything
 *
 * With KVMM_MIGRATE_PRECOPY all from OFFER to VERIFIED comes again before COMMIT, with more blocks.
 *
 * Numbers are in the order of this machine. Nothing that comes in is believed: lengths, counts and
 * numbers are looked at here as far as they can be without knowing what went before.
 */
#ifndef NET_WIRE_H
#define NET_WIRE_H

#include <kv/pool_migrate.h>
#include <kv/types.h>
#include <kvmm/ext/migrate.h>

#define WIRE_MAGIC	0x674d566bu	/* "kVMg" */
#define WIRE_VERSION	2u
#define WIRE_MAX_BYTES	65536u		/* of a payload */

enum wire_type {
	WIRE_HELLO = 1,
	WIRE_WINDOW,
	WIRE_OFFER,
	WIRE_NAMES,
	WIRE_SUMS,
	WIRE_ACCEPT,
	WIRE_FILL,
	WIRE_DRAIN,
	WIRE_VERIFIED,
	WIRE_COMMIT,
	WIRE_ACK,
	WIRE_ABORT,
	WIRE_NR_TYPES,
};

/* A migration, of all that there ever are. */
struct wire_id {
	u64 half[2];
};

static inline bool wire_id_equal(const struct wire_id *a, const struct wire_id *b)
{
	return a->half[0] == b->half[0] && a->half[1] == b->half[1];
}

struct wire_head {
	u32 magic;
	u16 version;
	u16 type;		/* enum wire_type */
	u32 bytes;		/* of the payload */
	u32 gen;		/* which attempt */
	struct wire_id id;	/* all 0 before OFFER */
	u64 sum;		/* of the payload */
};

struct wire_hello {
	u64 block_bytes;
	u64 layout;		/* of the lengths of planes */
	u32 nr_planes;
	u32 block_tokens;
	u32 caches;
	u32 nr_free;		/* blocks, of a taker's pool */
	u64 label;		/* of its node: wire_label() */
};

enum window_kind { WINDOW_NONE, WINDOW_SHARED, WINDOW_DEVICE, WINDOW_UCX, WINDOW_NIXL,
		   WINDOW_NR_KINDS };

#define WINDOW_SLOTS	2u
#define WINDOW_BLOB_BYTES	8192u		/* at most */

/* Followed by a blob of the transport's, if the other side is far; else a descriptor goes along. */
struct wire_window {
	u64 bytes;		/* in all */
	u64 slot_bytes;
	u32 kind;		/* enum window_kind */
	u32 slot_blocks;
};

/* Followed by @nr_ranges of struct kv_range_kind. */
struct wire_offer {
	u32 nr_refs;
	u32 nr_ranges;
	u32 nr;			/* blocks */
	u32 flags;		/* KVMM_MIGRATE_NO_EVICT, KVMM_MIGRATE_PRECOPY */
	u32 max_runs;
	u32 reserved;
};

/* Followed by @nr of struct kv_block_name, or of u64. */
struct wire_part {
	u32 first;
	u32 nr;
};

enum wire_answer { WIRE_GO, WIRE_COMMITTED };

/* Followed by a bit a cached block: it is there already. */
struct wire_accept {
	s32 status;
	u32 answer;		/* enum wire_answer */
	u32 nr_done;		/* blocks that it has got, of those that are not there */
	u32 nr_refs;
};

struct wire_fill {
	u32 slot;
	u32 first;		/* of those that are not there */
	u32 nr;
	s32 status;		/* of DRAIN */
};

struct wire_status {
	s32 status;
	u32 reserved;
};

static_assert(sizeof(struct wire_head) == 40 && sizeof(struct wire_hello) == 40 &&
	      sizeof(struct wire_window) == 24 && sizeof(struct wire_offer) == 24 &&
	      sizeof(struct wire_accept) == 16 && sizeof(struct wire_fill) == 16 &&
	      sizeof(struct kv_block_name) == 48 && sizeof(struct kv_range_kind) == 32,
	      "no padding is sent");

/* A message as it lies in a buffer; aligned to nothing. */
struct wire_msg {
	struct wire_head head;
	const u8 *payload;
};

u64 wire_sum(const void *payload, u32 bytes);
u64 wire_layout(const struct kv_planes *planes);
u64 wire_label(const char *label);	/* NULL: 0 */
struct wire_hello wire_hello_of(const struct kv_pool_view *view);

/* The first message of @bytes: its length; 0 it is not whole yet; -EPROTO it will never be one. */
int wire_parse(const u8 *buf, u32 bytes, struct wire_msg *msg);

/* The payload, if it is one of that type: 0 or -EPROTO. */
/* -EMEDIUMTYPE: blocks are not made like those of @view. */
int wire_get_hello(const struct wire_msg *msg, const struct kv_pool_view *view,
		   struct wire_hello *hello);
int wire_get_window(const struct wire_msg *msg, struct wire_window *window, const u8 **blob,
		    u32 *blob_bytes);
int wire_get_offer(const struct wire_msg *msg, struct wire_offer *offer,
		   struct kv_range_kind *kinds);
int wire_get_part(const struct wire_msg *msg, u32 size, struct wire_part *part, const u8 **items);
int wire_get_accept(const struct wire_msg *msg, struct wire_accept *accept, const u8 **bits);
int wire_get_fill(const struct wire_msg *msg, struct wire_fill *fill);
int wire_get_status(const struct wire_msg *msg, s32 *status);

#endif /* NET_WIRE_H */
