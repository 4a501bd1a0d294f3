/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of a publisher: as they come by ZeroMQ, and as files of one behind the other. */
#ifndef TOOLS_EVENTS_WIRE_H
#define TOOLS_EVENTS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_MAX_BATCH	(64u << 20)	/* bytes */
#define WIRE_WHY	256

/* ---- batch.c ---- */

struct printer;

/* A batch, printed: bytes that it took; or -EBADMSG, -ENOMEM. */
int64_t batch_print(const struct printer *printer, const void *bytes, size_t nr, uint64_t *nr_events);

/* ---- zmq.c ---- */

/* A subscriber; libzmq is opened for it. */
struct subscriber {
	void *library;
	void *context;
	void *socket;
	uint8_t *buf;		/* ours; WIRE_MAX_BATCH */
	uint64_t seq;		/* of the last message */
	size_t nr;		/* bytes in ->buf */
	char why[WIRE_WHY];
};

int subscribe(struct subscriber *sub, const char *endpoint, const char *topic);
/* 1: a batch; 0: nothing for 100 ms; -1 and ->why. */
int subscriber_next(struct subscriber *sub);
void unsubscribe(struct subscriber *sub);

#endif /* TOOLS_EVENTS_WIRE_H */
