// SPDX-License-Identifier: Apache-2.0
/*
 * A publisher: one thread that reads events, encodes batches, sends them, and answers requests in
 * between. It takes no lock of the pool's; events that it is too slow for are overwritten in the
 * ring, and then it publishes everything anew: it leaves out a sequence number, for subscribers
 * that count, and sends AllBlocksCleared and a snapshot, so that the others are right as well.
 */
#include <errno.h>
#include <string.h>

#include <kv/buf.h>
#include <kv/env.h>
#include <kv/err.h>
#include <kv/feed.h>
#include <kv/fork.h>
#include <kv/lock.h>
#include <kv/log.h>
#include <kv/mem.h>
#include <kv/pool.h>
#include <kv/sock.h>
#include <kv/sys.h>
#include <kvmm/ext/control.h>

#include "publisher.h"
#include "replay.h"
#include "stash.h"
#include "wire.h"
#include "zmq.h"

#define BATCH		512u
#define IDLE_NS		1000000ull
#define DOOR_NS		50000000ull		/* how often descriptors are looked for, */
#define SHUT_NS		500000000ull		/* and for that many more, taken for a moment */
#define SCARCE		4u		/* descriptors; with fewer no subscriber is let in */
#define AMPLE		16u			/* libzmq makes sockets with that many */
#define MAX_TOPIC	255u
#define ASK_SNAPSHOT	"kvmm-snapshot"
#define REPLAY_END	UINT64_MAX
#define SNAPSHOT_BATCHES	8192u		/* of 4 million names, at 512 each */

struct kvmm_publisher {
	struct kvmm_publisher	*next;		/* list_lock */

	/* Fixed while it runs. */
	const struct kvmm_pool	*pool;		/* borrowed; only compared */
	char			endpoint[PUBLISHER_NAME];
	struct kvmm_events	*events;	/* ours; the thread's */
	struct kvmm_wire	wire;
	struct wire_text	text;		/* of ->wire */
	char			topic[MAX_TOPIC + 1];
	u32			batch_max;
	struct zmq		zmq;
	void			*context;	/* ours */
	void			*pub;		/* ours; the thread's, as all that follows */
	void			*router;	/* ours; NULL: none */
	char			door[2][ZMQ_ENDPOINT_BYTES];	/* open ones; "": see zmq_door() */
	bool			is_shut[2];	/* one does not, for want of descriptors */
	u64			door_ns;	/* when that is looked at again */
	void			*thread;

	struct kvmm_event	*buf;		/* ours */
	u8			*payload;	/* ours */
	size_t			payload_bytes;
	/* Ours; what is told of the blocks in ->buf; NULL: nothing is kept. */
	u32			*token;
	u8			*note;
	struct kvmm_wire_block	*block;		/* by event, of the two above */
	struct replay		replay;
	u64			seq;		/* of the next batch */
	u32			stop;		/* atomic; set by kvmm_publisher_stop() */

	struct kvmm_publisher_stat stat;	/* atomic; the thread writes */
	struct stash		stash;		/* any thread; see there */
};

static struct kv_lock list_lock = { .rank = KV_RANK_LEAF };
static struct kvmm_publisher *list;	/* list_lock; those that run in this process, to watch */
static u32 list_epoch;			/* list_lock */

static void list_enter(void)
{
	kv_lock(&list_lock);
	if (kv_fork_passed(&list_epoch))
		list = NULL;
}

static void count(u64 *what, u64 nr)
{
	/* The thread is the only writer. */
	WRITE_ONCE(*what, *what + nr);
}

/* ---- sending ---- */

static void to_big_endian(u64 value, u8 byte[8])
{
	for (u32 i = 0; i < 8; i++)
		byte[i] = value >> 8 * (7 - i);
}

/* Into ->payload; how many bytes. It is large enough for a batch. */
static size_t encode(struct kvmm_publisher *publisher, u32 nr)
{
	struct pack pack = { .buf = publisher->payload, .room = publisher->payload_bytes };
	const struct kv_sys_ops *sys = kv_sys();
	u64 now_ns = sys->wall_ns ? sys->wall_ns(sys->ctx) : kv_clock_ns();

	/* Copies, since a thread that tells more may take their places. */
	for (u32 i = 0; publisher->block && i < nr; i++) {
		const struct kvmm_event *event = &publisher->buf[i];
		struct kvmm_wire_block *block = &publisher->block[i];
		struct stash_copy copy = {
			.token = publisher->token + (size_t)i * publisher->stash.block_tokens,
			.note = publisher->note + (size_t)i * publisher->stash.note_bytes,
		};

		*block = (struct kvmm_wire_block){ 0 };
		if (event->kind != KVMM_EVENT_STORED ||
		    !stash_get(&publisher->stash, &event->key, &copy))
			continue;
		block->tokens = copy.token;
		stash_note_read(copy.note, copy.note_bytes, block);
	}
	wire_write(&publisher->wire, now_ns / 1e9, publisher->buf, nr, publisher->block, &pack);
	KV_BUG_ON(pack.full);
	return pack.len;
}

/* ->buf has @nr events. Subscribers too slow for it lose the batch, and see it by the number. */
static void publish(struct kvmm_publisher *publisher, u32 nr)
{
	struct zmq_part part[3] = { { publisher->topic, strlen(publisher->topic) } };
	u8 seq[8];

	to_big_endian(publisher->seq, seq);
	part[1] = (struct zmq_part){ seq, sizeof(seq) };
	part[2] = (struct zmq_part){ publisher->payload, encode(publisher, nr) };
	replay_keep(&publisher->replay, publisher->seq, part[2].bytes, part[2].nr);
	if (zmq_send_parts(&publisher->zmq, publisher->pub, part, ARRAY_SIZE(part)))
		count(&publisher->stat.unsent, 1);
	publisher->seq++;
	count(&publisher->stat.batches, 1);
	count(&publisher->stat.events, nr);
	count(&publisher->stat.bytes, part[2].nr);
}

/* ---- a gap of our own ---- */

static void resync(struct kvmm_publisher *publisher, u64 nr_lost)
{
	struct kvmm_snapshot snap;
	int nr;

	count(&publisher->stat.lost, nr_lost);
	count(&publisher->stat.resyncs, 1);
	if (kvmm_snapshot_begin(publisher->events, &snap))
		return;
	publisher->seq++;
	publisher->buf[0] = (struct kvmm_event){ .kind = KVMM_EVENT_CLEARED };
	publish(publisher, 1);
	while ((nr = kvmm_snapshot_read(publisher->events, &snap, publisher->buf,
					publisher->batch_max)) > 0)
		publish(publisher, nr);
	/* Events overwritten since are the next gap. */
	kvmm_events_seek(publisher->events, snap.watermark);
}

static bool pump(struct kvmm_publisher *publisher)
{
	u64 nr_lost = 0;
	int nr = kvmm_events_read(publisher->events, publisher->buf, publisher->batch_max,
				  &nr_lost);

	if (nr < 0)
		return false;
	if (nr_lost) {
		resync(publisher, nr_lost);
		return true;
	}
	if (nr)
		publish(publisher, nr);
	return nr > 0;
}

/* ---- requests ---- */

static int answer(struct kvmm_publisher *publisher, const struct zmq_request *to, u64 number,
		  const void *bytes, size_t nr)
{
	u8 seq[8];
	struct zmq_part part[4] = { { to->part[0], to->bytes[0] }, { "", 0 }, { seq, sizeof(seq) },
				    { bytes, nr } };

	to_big_endian(number, seq);
	return zmq_send_parts(&publisher->zmq, publisher->router, part, ARRAY_SIZE(part));
}

static void answer_replay(struct kvmm_publisher *publisher, const struct zmq_request *request)
{
	u64 from = wire_big_endian(request->part[2]);
	const void *bytes;

	for (u32 i = 0; i < publisher->replay.nr; i++) {
		const struct replay_batch *batch = replay_at(&publisher->replay, i, &bytes);

		if (batch->seq >= from && answer(publisher, request, batch->seq, bytes, batch->nr))
			return;
	}
	answer(publisher, request, REPLAY_END, "", 0);
	count(&publisher->stat.replays, 1);
}

/*
 * Numbered with that of the next batch, from which on batches are to be applied. Its events begin
 * where our cursor stands, which is not behind the watermark: an event applied twice does no harm.
 */
static void answer_snapshot(struct kvmm_publisher *publisher, const struct zmq_request *request)
{
	u64 seq = publisher->seq;
	struct kvmm_snapshot snap;
	int nr;

	if (kvmm_snapshot_begin(publisher->events, &snap))
		return;
	while ((nr = kvmm_snapshot_read(publisher->events, &snap, publisher->buf,
					publisher->batch_max)) > 0)
		if (answer(publisher, request, seq, publisher->payload, encode(publisher, nr)))
			return;
	answer(publisher, request, REPLAY_END, "", 0);
	count(&publisher->stat.snapshots, 1);
}

static bool serve(struct kvmm_publisher *publisher)
{
	struct zmq_request request;

	if (!publisher->router || zmq_receive(&publisher->zmq, publisher->router, &request))
		return false;
	if (request.nr != 3 || request.bytes[0] > ZMQ_PART_BYTES || request.bytes[1])
		count(&publisher->stat.refused, 1);
	else if (request.bytes[2] == 8)
		answer_replay(publisher, &request);
	else if (request.bytes[2] == strlen(ASK_SNAPSHOT) &&
		 !memcmp(request.part[2], ASK_SNAPSHOT, strlen(ASK_SNAPSHOT)))
		answer_snapshot(publisher, &request);
	else
		count(&publisher->stat.refused, 1);
	return true;
}

/* ---- want of descriptors ---- */

/* How many descriptors the process could open, at most @max. They are taken for a moment. */
static u32 room(u32 max)
{
	const struct kv_sock_ops *ops = kv_sock();
	int fd[AMPLE];
	u32 nr = 0;

	while (nr < max && (fd[nr] = ops->bell(ops->ctx)) >= 0)
		nr++;
	for (u32 i = 0; i < nr; i++)
		ops->close(ops->ctx, fd[i]);
	return nr;
}

/*
 * Shut while descriptors are too few for subscribers that come; those that are there stay
 * connected. A door that does not open, for want of them or since another process has taken its
 * address, is tried again.
 */
static void mind_the_doors(struct kvmm_publisher *publisher)
{
	void *const socket[] = { publisher->pub, publisher->router };
	bool *is_shut = publisher->is_shut, was_open = false;
	u64 now = kv_clock_ns();
	u32 nr;

	if (now < publisher->door_ns)
		return;
	nr = room(is_shut[0] || is_shut[1] ? AMPLE : SCARCE);
	for (u32 i = 0; i < ARRAY_SIZE(socket); i++) {
		const char *door = publisher->door[i];

		if (!door[0] || (is_shut[i] ? nr < AMPLE : nr >= SCARCE))
			continue;
		if (is_shut[i] ? zmq_bind_door(&publisher->zmq, socket[i], door) :
				 publisher->zmq.unbind(socket[i], door))
			continue;
		was_open |= !is_shut[i];
		is_shut[i] = !is_shut[i];
	}
	count(&publisher->stat.shut, was_open);
	publisher->door_ns = now + (is_shut[0] || is_shut[1] ? SHUT_NS : DOOR_NS);
}

/* ---- the thread ---- */

static void run(void *arg)
{
	struct kvmm_events_stat stat = { .size = sizeof(stat) };
	struct kvmm_publisher *publisher = arg;
	u64 end;

	/* Pairs with kvmm_publisher_stop(): events from before are published. */
	while (!smp_load_acquire(&publisher->stop)) {
		bool busy = pump(publisher);

		busy |= serve(publisher);
		mind_the_doors(publisher);
		if (!busy)
			kv_env()->wait(kv_env()->ctx, &publisher->stop, 0, IDLE_NS);
	}
	/* All that has happened before the stop. */
	kvmm_events_get_stat(publisher->events, &stat);
	end = stat.happened;
	while (stat.cursor < end) {
		kv_events_flush(publisher->events);
		if (!pump(publisher))
			break;
		kvmm_events_get_stat(publisher->events, &stat);
	}
}

/* ---- coming and going ---- */

static int read_attr(const struct kvmm_publisher_attr *from, struct kvmm_publisher_attr *attr)
{
	const struct kvmm_publisher_attr preset = KVMM_PUBLISHER_ATTR_INIT;
	int err = kv_copy_attr(attr, sizeof(*attr), from ? from : &preset);

	if (err)
		return err;
	if (!attr->endpoint || !attr->topic || attr->note_bytes > KVMM_NOTE_MAX_BYTES)
		return kv_refuse(-EINVAL, "kvmm: publisher: no endpoint or no topic, or notes of "
				 "%u bytes", attr->note_bytes);
	if (!attr->high_water || attr->high_water > 1u << 30)
		return kv_refuse(-EINVAL, "kvmm: publisher: %u messages of a subscriber, not 1 to "
				 "2^30", attr->high_water);
	if (!kv_name_is_good("publisher", attr->endpoint, SIZE_MAX) ||
	    (attr->replay_endpoint &&
	     !kv_name_is_good("replay", attr->replay_endpoint, SIZE_MAX)) ||
	    (*attr->topic && !kv_name_is_good("topic", attr->topic, MAX_TOPIC + 1)))
		return -EINVAL;
	return 0;
}

static int open_events(struct kvmm_publisher *publisher, struct kvmm_pool *pool,
		       const struct kvmm_events_attr *attr)
{
	struct kvmm_events_attr wants = KVMM_EVENTS_ATTR_INIT;
	int err;

	wants.ring = 1u << 17;
	wants.batch_max = BATCH;
	wants.batch_us = 1000;
	if (attr) {
		err = kv_copy_attr(&wants, sizeof(wants), attr);
		if (err)
			return err;
	}
	publisher->batch_max = min(max(wants.batch_max, 1u), 1u << 16);
	return kvmm_events_open(pool, &wants, &publisher->events);
}

/* What is told, and the thread's copies of it. */
static int make_blocks(struct kvmm_publisher *publisher, struct kvmm_pool *pool, u32 nr_blocks,
		       u32 note_bytes)
{
	size_t nr = publisher->batch_max;
	struct kvmm_pool_stat stat;
	int err = kvmm_pool_get_stat(pool, &stat);

	if (!err)
		err = stash_init(&publisher->stash, nr_blocks, stat.block_tokens, note_bytes);
	if (err || !nr_blocks)
		return err;
	/* A note is shorter than it is in an event by the heads of its texts. */
	publisher->payload_bytes = KVMM_WIRE_BYTES_FOR_TOKENS(nr, stat.block_tokens) +
				   nr * note_bytes;
	publisher->token = kv_alloc_array(nr, stat.block_tokens * sizeof(*publisher->token));
	publisher->note = kv_alloc_array(nr, max(note_bytes, 1u));
	publisher->block = kv_alloc_array(nr, sizeof(*publisher->block));
	return publisher->token && publisher->note && publisher->block ? 0 : -ENOMEM;
}

static int make_parts(struct kvmm_publisher *publisher, struct kvmm_pool *pool,
		      const struct kvmm_publisher_attr *attr)
{
	int err = wire_copy(&publisher->wire, attr->wire);

	publisher->payload_bytes = KVMM_WIRE_BYTES_FOR(publisher->batch_max);
	if (!err)
		err = make_blocks(publisher, pool, attr->token_blocks, attr->note_bytes);
	if (err)
		return err;
	wire_own(&publisher->wire, &publisher->text);
	memcpy(publisher->topic, attr->topic, strlen(attr->topic));
	strncpy(publisher->endpoint, attr->endpoint, sizeof(publisher->endpoint) - 1);
	publisher->pool = pool;
	publisher->payload = kv_alloc_array(publisher->payload_bytes, 1);
	publisher->buf = kv_alloc_array(publisher->batch_max, sizeof(*publisher->buf));
	if (!publisher->payload || !publisher->buf)
		return -ENOMEM;
	return attr->replay_endpoint ? replay_init(&publisher->replay, attr->replay_batches,
						   attr->replay_bytes) : 0;
}

static int open_sockets(struct kvmm_publisher *publisher, const struct kvmm_publisher_attr *attr)
{
	/* Messages kept for a reader that does not read: one answer, be it replay or snapshot. */
	u32 batches = max(min(attr->replay_batches, attr->high_water), SNAPSHOT_BATCHES);
	const struct zmq *zmq = &publisher->zmq;
	int err = zmq_open(&publisher->zmq);

	if (err)
		return err;
	/* It would abort. */
	if (room(AMPLE) < AMPLE)
		return -EMFILE;
	publisher->context = zmq->ctx_new();
	if (!publisher->context)
		return -ENOMEM;
	err = zmq_start(zmq, publisher->context, ZMQ_PUB, attr->endpoint, attr->high_water,
			&publisher->pub);
	if (!err && attr->replay_endpoint)
		err = zmq_start(zmq, publisher->context, ZMQ_ROUTER, attr->replay_endpoint,
				min(batches + 1, attr->high_water), &publisher->router);
	if (!err)
		zmq_door(zmq, publisher->pub, ZMQ_PUB, attr->endpoint, publisher->door[0]);
	if (!err && attr->replay_endpoint)
		zmq_door(zmq, publisher->router, ZMQ_ROUTER, attr->replay_endpoint,
			 publisher->door[1]);
	return err;
}

/* Takes one that is half made, too. */
static void free_publisher(struct kvmm_publisher *publisher)
{
	const struct zmq *zmq = &publisher->zmq;

	if (publisher->router)
		zmq->close(publisher->router);
	if (publisher->pub)
		zmq->close(publisher->pub);
	if (publisher->context)
		zmq->ctx_term(publisher->context);
	kvmm_events_close(publisher->events);
	replay_exit(&publisher->replay);
	stash_exit(&publisher->stash);
	kv_free(publisher->token);
	kv_free(publisher->note);
	kv_free(publisher->block);
	kv_free(publisher->buf);
	kv_free(publisher->payload);
	kv_free(publisher);
}

int kvmm_publisher_start(struct kvmm_pool *pool, const struct kvmm_publisher_attr *attr,
			 struct kvmm_publisher **result)
{
	struct kvmm_publisher *publisher;
	struct kvmm_publisher_attr known;
	int err;

	kv_why_clear();
	err = read_attr(attr, &known);
	if (err || !pool || !result)
		return -EINVAL;
	publisher = kv_alloc(sizeof(*publisher));
	if (!publisher)
		return -ENOMEM;
	err = open_events(publisher, pool, known.events);
	if (!err)
		err = make_parts(publisher, pool, &known);
	if (!err)
		err = open_sockets(publisher, &known);
	if (!err)
		err = kv_sys()->spawn(kv_sys()->ctx, run, publisher, &publisher->thread) ?
		      -EAGAIN : 0;
	if (err) {
		free_publisher(publisher);
		return err;
	}
	list_enter();
	publisher->next = list;
	list = publisher;
	kv_unlock(&list_lock);
	*result = publisher;
	return 0;
}

/* Blocks are told one by one: a batch that is encoded meanwhile may have only the first of them. */
int kvmm_publisher_tell(struct kvmm_publisher *publisher, const struct kvmm_publisher_note *note)
{
	struct kvmm_publisher_note known;
	u8 buf[KVMM_NOTE_MAX_BYTES];
	u32 block_tokens, room;
	int bytes;

	if (!publisher || !note || kv_copy_attr(&known, sizeof(known), note) ||
	    (known.nr && !known.keys))
		return -EINVAL;
	if (kv_inherited(publisher))
		return -ECHILD;
	if (!publisher->stash.nr_places)
		return -EOPNOTSUPP;
	block_tokens = publisher->stash.block_tokens;
	room = publisher->stash.note_bytes;
	/* Once to learn whether all of them have room, then to keep them. */
	bytes = stash_note_check(&known);
	for (u32 i = 0; i < known.nr && bytes >= 0; i++)
		bytes = stash_note_pack(&known, i, block_tokens, buf, room);
	if (bytes < 0)
		return bytes;
	for (u32 i = 0; i < known.nr; i++) {
		struct stash_copy copy = { .note = buf };

		copy.note_bytes = stash_note_pack(&known, i, block_tokens, buf, room);
		copy.token = known.tokens ? (u32 *)known.tokens + (size_t)i * block_tokens : NULL;
		stash_put(&publisher->stash, &known.keys[i], &copy);
	}
	return 0;
}

void kvmm_publisher_stop(struct kvmm_publisher *publisher)
{
	struct kvmm_publisher **link = &list;

	if (!publisher || kv_inherited(publisher))
		return;
	list_enter();
	while (*link && *link != publisher)
		link = &(*link)->next;
	if (!KV_BUG_ON(!*link))
		*link = publisher->next;
	kv_unlock(&list_lock);
	/* Pairs with run(). */
	smp_store_release(&publisher->stop, 1);
	kv_env()->wake(kv_env()->ctx, &publisher->stop);
	kv_sys()->join(kv_sys()->ctx, publisher->thread);
	free_publisher(publisher);
}

u32 publishers_look(struct publisher_view *views, u32 max)
{
	u32 nr = 0;

	list_enter();
	for (const struct kvmm_publisher *at = list; at; at = at->next, nr++) {
		if (nr >= max)
			continue;
		views[nr].pool = at->pool;
		memcpy(views[nr].endpoint, at->endpoint, sizeof(at->endpoint));
		kv_peek_copy(&views[nr].stat, &at->stat, sizeof(at->stat));
		views[nr].stat.size = sizeof(at->stat);
	}
	kv_unlock(&list_lock);
	return nr;
}

/* Fields that an older caller has no room for are not written. */
int kvmm_publisher_get_stat(const struct kvmm_publisher *publisher,
			    struct kvmm_publisher_stat *stat)
{
	struct kvmm_publisher_stat known;

	if (kv_inherited(publisher))
		return -ECHILD;
	if (!publisher || kv_sized_is_bad(stat))
		return -EINVAL;
	kv_peek_copy(&known, &publisher->stat, sizeof(known));
	kv_give_sized(stat, &known, sizeof(known));
	return 0;
}
