/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of remote/: blocks on a server for keys and values, below all that is of
 * this machine.
 *
 *	resp.c		replies, as they come
 *	value.c		how keys and values look, and whether a value is the one that was asked for
 *	known.c		what the server was found to have, and names that it is to delete
 *	queue.c		requests from the call to their end
 *	wire.c		the connection: made, spoken over, given up
 *	store.c		the calls of the tier
 *	below.c		the ops that the tier has, and a disk in front
 *
 * Nothing here waits but forgetting for good and resetting, and these for ->deadline_ns at most.
 * Requests wait until a poll has the time to speak with the server.
 *
 * Locks: ->wire_lock (the connection; polls that find it taken leave it), then ->lock (all else).
 * No socket is called, and nothing is summed up, under ->lock.
 *
 * Invariants, which remote_check() recounts:
 *
 *  1. A request is free, in front (a block that another store writes first, or that is being
 *     summed up), waiting, or sent.
 *  2. A name is GONE if and only if exactly one deletion of it waits or was sent.
 *  3. Sent requests are answered in their order, which is that of ->sent.
 *  4. Every count equals a recount.
 *
 * The server's word, a number, is its epoch, a part of every key, and how often a name was deleted
 * in that. A store is done only while the word is the one that it was sent with. So none that
 * was sent before a deletion or a fence, by any process and over any connection, is done after it.
 */
#ifndef REMOTE_INTERNAL_H
#define REMOTE_INTERNAL_H

#include <kv/disk.h>
#include <kv/err.h>
#include <kv/lock.h>
#include <kv/tier.h>
#include <kv/types.h>

#include "resp.h"

#define WORD_EPOCH	28u		/* the epoch is above that bit */
#define WORD_END	(1ll << 53)	/* a number of Lua has no more bits */
#define REMOTE_MODEL	64u		/* with its NUL */
#define REMOTE_KEY	224u		/* most bytes of a key */
#define REMOTE_OUT	(16u << 10)
#define REMOTE_IN	(64u << 10)

/* ---- value.c ---- */

/* In front of a block. All of it is little endian. */
struct remote_value {
	u64	magic;
	u32	version;
	u32	bytes;		/* of the block */
	u64	sum;		/* XXH64 of the block */
	u64	model;		/* XXH64 of the model's name */
	u64	epoch;
	u64	layout;
	u64	domain;		/* kv_domain_word() */
	u8	key[KVMM_KEY_BYTES];
	u8	parent[KVMM_KEY_BYTES];
	u32	position;
	u16	has_parent;
	u16	zero;
	u8	zero2[28];
	u32	crc;		/* CRC-32C of all before it */
};

static_assert(sizeof(struct remote_value) == 128, "part of the format");

struct remote_wire;

static inline u64 remote_epoch(u64 word)
{
	return word >> WORD_EPOCH;
}

/* How many bytes of @key: of a block, of the word, and of one that connection @number stores. */
u32 remote_key(const char *model, u64 epoch, const struct kv_tier_name *name, char *key);
u32 remote_word_key(const char *model, char *key);
u32 remote_new_key(const char *model, u64 number, char *key);
/* ->sum is that of the block. */
void remote_value_fill(struct remote_value *value, const char *model, u64 epoch,
		       const struct kv_tier_io *io, u64 sum);
/* Is it what stands in front of the block of that name, which is as long? */
bool remote_value_is_good(const struct remote_value *value, const char *model, u64 epoch,
			  const struct kv_tier_io *io);

/* ---- known.c: ->lock held ---- */

enum known_state {
	KNOWN_NOT,
	KNOWN_ASKED,		/* until ->until_ns, like the next two */
	KNOWN_THERE,
	KNOWN_MISSING,
	KNOWN_GONE,		/* it was deleted, and the server has not said that it knows */
	KNOWN_STATES,
};

#define KNOWN_SET	8u
#define KNOWN_SETS	1024u	/* a power of two */

struct known_name {
	u64	key[2];
	u64	domain;
	u64	layout;
	u64	until_ns;
	u32	state;		/* enum known_state */
	u32	reserved;
};

/* Guard: ->lock of the store. */
struct remote_known {
	u64			seed;		/* fixed */
	struct known_name	*name;		/* ours; sets of KNOWN_SET */
	u32			nr_gone;
};

/* What is known of @name at @now_ns. */
enum known_state known_of(const struct remote_known *known, const struct kv_tier_name *name,
			  u64 now_ns);
/* False: there is no room, which KNOWN_GONE alone can fail for. A GONE one stays so. */
bool known_note(struct remote_known *known, const struct kv_tier_name *name,
		enum known_state state, u64 until_ns);
/* It is GONE no more. */
void known_deleted(struct remote_known *known, const struct kv_tier_name *name);
/* All but what is GONE. */
void known_clear(struct remote_known *known);

/* ---- requests ---- */

enum req_kind {
	REQ_FREE,
	REQ_PUT,
	REQ_GET,
	REQ_ASK,		/* is it there? */
	REQ_DEL,
	REQ_WORD,		/* is the epoch still the same? goes before all but REQ_PUT */
	NR_REQ_KINDS,
};

struct req {
	struct req		*next;		/* in its list */
	u32			kind;		/* enum req_kind */
	bool			is_void;	/* REQ_PUT in front: it was forgotten meanwhile */
	bool			is_staged;	/* REQ_PUT: the first of its two answers has come */
	u64			due_ns;
	u64			number;		/* in the order of asking */
	u64			word;		/* the server's, when it has come to this */
	u64			dels;		/* ->nr_dels of the connection, with this */
	u64			sum;		/* REQ_PUT: of the block */
	struct kv_tier_io	*io;		/* REQ_PUT, REQ_GET; NULL: over before its answer */
	struct kv_tier_name	name;
};

struct req_list {
	struct req	*first;
	struct req	*last;
	u32		nr;
};

/* ---- the connection; guard: ->wire_lock ---- */

enum wire_state {
	WIRE_DOWN,
	WIRE_GREETING,		/* it may still be under way; then ->nr_greetings answers are due */
	WIRE_UP,
};

struct remote_wire {
	enum wire_state	state;		/* ->lock too when it changes */
	int		fd;
	u32		nr_greetings;
	u64		last_ns;	/* when a byte came last, or one began to be waited for */
	u64		asked_until;	/* greeting: fences that it asks for */
	u64		nr_asked;	/* requests when it began */
	bool		is_raised;	/* greeting: an epoch that was too low was counted up */
	u64		number;		/* at random; of values that are not in their place yet */
	u64		nr_dels;	/* REQ_DEL that went out */
	u64		first_word;	/* the word, if no other process deletes, less ->nr_dels */
	struct req	*writing;	/* REQ_PUT, in ->sent: its block is being sent */
	u64		written;	/* of that */
	u32		out_at, out_len;
	u32		in_at, in_len;
	struct resp	resp;
	u64		body_at;	/* in the value that is being received */
	bool		body_is_good;	/* so far */
	struct remote_value value;	/* received so far */
	u8		out[REMOTE_OUT];
	u8		in[REMOTE_IN];
};

/* Of events; as in struct kvmm_tier_stat. */
struct remote_count {
	u64	stored, got, missed, wrong, failed, dropped, late, deleted, fences, given_up;
};

struct remote {
	/* Fixed at creation. */
	const struct kv_tier_ops *front;	/* NULL: there is none */
	void			*front_store;
	char			address[64];
	char			model[REMOTE_MODEL];
	char			user[64];
	char			password[128];
	u32			ttl_s;
	u64			deadline_ns;
	u32			max[NR_REQ_KINDS];
	u32			nr_reqs;
	struct req		*req;		/* ours */

	struct kv_lock		wire_lock;
	struct remote_wire	wire;

	struct kv_lock		lock __cacheline_aligned;
	struct remote_known	known;		/* ->lock */
	struct req_list		free;		/* ->lock */
	struct req_list		in_front;	/* ->lock; REQ_PUT; see invariant 1 */
	struct req_list		waiting;	/* ->lock */
	struct req_list		sent;		/* ->lock; changes under ->wire_lock too */
	u32			nr_used[NR_REQ_KINDS];	/* ->lock */
	struct kv_tier_io	**done;		/* ->lock; ours; a ring of those that are over */
	u32			done_at, nr_done, max_done;
	u64			nr_asked;	/* ->lock; requests so far */
	u64			word;		/* ->lock; 0: none was ever heard */
	u64			fences, fences_done;	/* ->lock; wanted, and over */
	u64			retry_ns;	/* ->lock; no connection before that */
	u64			put_ns;		/* ->lock; no store before that */
	u32			nr_failures;	/* ->lock; in a row */
	struct remote_count	count;		/* ->lock; read without it */
};

/* ---- queue.c: ->lock held ---- */

void list_push(struct req_list *list, struct req *req);
struct req *list_pop(struct req_list *list);
/* @req is in it. */
void list_del(struct req_list *list, const struct req *req);

/* One that waits for nothing yet, or NULL: too many of its kind. */
struct req *req_take(struct remote *remote, enum req_kind kind, const struct kv_tier_name *name);
void req_free(struct remote *remote, struct req *req);
/* To the end of those that wait. */
void req_wait(struct remote *remote, struct req *req, u64 now_ns);
/* Its caller hears of it at the next poll. */
void req_end_io(struct remote *remote, struct req *req, int error);
/* It is over, without an answer from the server, and free; no deletion. */
void req_fail(struct remote *remote, struct req *req);
/* Answered, or fenced. */
void req_deleted(struct remote *remote, struct req *req);

/* ---- wire.c: ->wire_lock held ---- */

/* Speak with the server for a while, and end what is overdue. */
void wire_pump(struct remote *remote);
/* Give the connection up; all but deletions has failed. @is_fault: not at once again. */
void wire_down(struct remote *remote, bool is_fault);
/* Could the server be asked, now or when it is due? ->lock held. */
bool wire_is_usable(const struct remote *remote, u64 now_ns);

/* ---- store.c: no lock held ---- */

enum kvmm_tier_answer remote_lookup(struct remote *remote, const struct kv_tier_name *name);
int remote_get(struct remote *remote, struct kv_tier_io *io);
int remote_put(struct remote *remote, struct kv_tier_io *io);
/* One that goes to the store in front first: NULL: there only. */
struct req *remote_put_begin(struct remote *remote, struct kv_tier_io *io);
/* The store in front did not begin. */
void remote_put_cancel(struct remote *remote, struct req *req);
/* That the store in front is through with: true: it goes on, and is over later. */
bool remote_put_from_front(struct remote *remote, const struct kv_tier_io *io);
int remote_forget(struct remote *remote, const struct kv_tier_name *names, u32 nr, bool for_good);
int remote_reset(struct remote *remote);
u32 remote_poll(struct remote *remote, struct kv_tier_io **done, u32 max);
/* 0 or -EUCLEAN. */
int remote_check(struct remote *remote);

#endif /* REMOTE_INTERNAL_H */
