/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A giver and a taker in one process, with a socket in between, and a system that can be spoilt.
 */
#ifndef NET_TEST_PAIR_H
#define NET_TEST_PAIR_H

#include <kv/sock.h>

#include "tests/net/util.h"

struct pair {
	struct kvmm_pool *src;
	struct kvmm_pool *dst;
	struct kvmm_migrate_server *server;
	char folder[64];
	char path[80];		/* or address */
	char key_file[80];	/* "": there is none */
	const char *way;	/* then; a transport */
};

/* What goes wrong with the socket; counts are of all calls of send and recv from spoil() on. */
struct spoil {
	u32 cut_at;		/* that call, and all later ones on its socket: -ECONNRESET; 0: none */
	u32 short_bytes;	/* no call transfers more; 0: any */
	u32 eintr_every;	/* so many calls; 0: never */
	int err;		/* cut_at says that instead, once */
	u32 nr_calls;
};

extern struct spoil spoil;

void pair_init(struct pair *pair, const char *src_device, const char *dst_device, u32 flags,
	       u64 window_bytes);
/* As between two machines, by the transport @way: false, it is not there. */
bool pair_init_far(struct pair *pair, const char *way, u64 window_bytes);
/* The taker again, after kvmm_migrate_serve_end(). */
void pair_serve(struct pair *pair, const struct kvmm_migrate_serve_attr *how);
void pair_exit(struct pair *pair);	/* validates */

struct kvmm_migrate_attr pair_attr(struct pair *pair);
/* A job for a new range of sequence @seq; it has to begin. */
struct kvmm_migrate *pair_begin_range(struct pair *pair, u64 seq, u32 nr);
/* By the link of @before, if that stands. */
struct kvmm_migrate *pair_begin_after(struct pair *pair, u64 seq, u32 nr,
				      struct kvmm_migrate *before);
/* It is the taker's, with its content, and the giver's no more; it is freed. */
bool pair_range_is_there(struct pair *pair, u64 seq, u32 nr);
struct kvmm_migrate_serve_stat pair_stat(struct pair *pair);
/* Both get on until the job ends, or nothing more happens: as kvmm_migrate_poll(). */
int pair_run(struct pair *pair, struct kvmm_migrate *job);
/* The same for the goods of a job of KVMM_MIGRATE_PRECOPY: until nothing more happens. */
int pair_turn(struct pair *pair, struct kvmm_migrate *job);
/* What is left for the taker to do. */
void pair_settle(struct pair *pair);

void spoil_begin(const struct spoil *how);
void spoil_end(void);

#endif /* NET_TEST_PAIR_H */
