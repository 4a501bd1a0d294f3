// SPDX-License-Identifier: Apache-2.0
/*
 * The giver: the carrier to another process.
 *
 *	LIST --> TALLY --> OFFER --> ANSWER --> POUR --> (verify) --> (commit)
 *	 ^                                                   |
 *	 +------------------- more is listed ----------------+
 *
 * From the moment at which COMMIT may have left this process until ACK is here the job is in doubt:
 * the taker may have published, or may have died before. The source is then kept, held, in any
 * case; the taker's answer when the migration is offered to it again, by the same identifier,
 * ends the doubt. Until then there may be two copies of the same bytes, which does no harm.
 *
 * The window is offered by the taker; a giver with a device that cannot map it says so, and is
 * offered host memory then.
 */
#include <string.h>

#include <kv/env.h>
#include <kv/mem.h>

#include "conn.h"
#include "job.h"
#include "transport.h"

/* ---- the connection: the greeting, and the window ---- */

/* Where a taker serves; strings are ours, and fixed at creation. */
struct place {
	char *target;
	char *key_file;			/* or NULL: it is of this machine */
};

/* It belongs to one job at a time. */
struct link {
	struct kv_pool_view view;	/* of the pool on this side */
	struct conn conn;
	u32 far_kind;			/* enum window_kind of another machine; or WINDOW_NONE */
	struct wire_hello hello;	/* what the other side has said */
	bool is_ready;			/* the window is there */
	bool no_device;			/* a window of a device was refused */
	struct window window;		/* ours */
};

/* The kind it has become. */
static void say_window(struct link *link)
{
	const struct wire_window *shape = &link->window.shape;

	conn_say(&link->conn, WIRE_WINDOW, NULL, 0, shape, sizeof(*shape));
}

static int hear_window(struct link *link, const struct wire_msg *msg)
{
	struct window_offer offer;
	int err;

	if (link->window.ops ||
	    wire_get_window(msg, &offer.shape, &offer.blob, &offer.blob_bytes) ||
	    !offer.shape.kind || (offer.shape.kind == WINDOW_DEVICE && link->no_device))
		return -EPROTO;
	/* A far one has nothing to do with memory of this machine; others are not reached by it. */
	offer.fd = conn_take_fd(&link->conn);
	if (transport_of(offer.shape.kind)->is_far ?
	    offer.shape.kind != link->far_kind || offer.fd >= 0 :
	    link->far_kind || offer.fd < 0 || offer.blob_bytes) {
		if (offer.fd >= 0)
			kv_sock()->close(kv_sock()->ctx, offer.fd);
		return -EPROTO;
	}
	offer.conn = &link->conn;
	err = window_open(&link->window, &link->view, &offer);
	if (err && offer.shape.kind != WINDOW_DEVICE)
		return err;
	/* Asks for another one; of this one it is told when it is ready. */
	link->no_device = err;
	if (err)
		say_window(link);
	return 0;
}

static int hear_greeting(struct link *link, const struct wire_msg *msg)
{
	s32 status;

	switch (msg->head.type) {
	case WIRE_HELLO:
		return wire_get_hello(msg, &link->view, &link->hello);
	case WIRE_WINDOW:
		return hear_window(link, msg);
	case WIRE_ABORT:
		return wire_get_status(msg, &status) || !status ? -EPROTO : status;
	}
	return -EPROTO;
}

/* Content can go through the window: 0; -EINPROGRESS; or why not. */
static int open_up(struct link *link)
{
	int err = link->window.ops ? window_poll(&link->window, 0) : -EINPROGRESS;

	if (err)
		return err;
	say_window(link);
	link->is_ready = true;
	return 0;
}

/* Until it is ready: 0; -EINPROGRESS; or why not. */
static int link_greet(struct link *link)
{
	struct wire_msg msg;
	int ret = 0;

	while (!link->is_ready) {
		ret = conn_next(&link->conn, &msg);
		ret = ret > 0 ? hear_greeting(link, &msg) : ret ? ret : open_up(link);
		if (ret == -EINPROGRESS)
			return ret;
		if (ret < 0) {
			conn_break(&link->conn, ret);
			return ret;
		}
	}
	return 0;
}

/* The same; one that was ready may be broken by now. */
static int link_look(struct link *link)
{
	int err = link_greet(link);

	return err ? err : conn_look(&link->conn);
}

/* A message of that attempt: 1; 0; or why the link is broken. Others are skipped. */
static int link_next(struct link *link, const struct wire_id *id, u32 gen, struct wire_msg *msg)
{
	int ret;

	do
		ret = conn_next(&link->conn, msg);
	while (ret > 0 && (!wire_id_equal(&msg->head.id, id) || msg->head.gen != gen));
	return ret;
}

/* The key is read again for each link: it may be another one by now. */
static int dial_far(struct link *link, const char *addr, const char *key_file)
{
	const struct kv_sock_ops *ops = kv_sock();
	struct tls_key key;
	struct tls *tls;
	int err = key_file ? tls_read_key(key_file, &key) : -EINVAL, fd;

	if (!err)
		err = tls_make(&key, false, &tls);
	tls_forget_key(&key);
	if (err)
		return err;
	fd = ops->tcp_connect(ops->ctx, addr);
	if (fd >= 0)
		return conn_init(&link->conn, fd, tls);
	tls_free(tls);
	return fd;
}

static int dial(struct link *link, const struct place *to)
{
	const struct kv_sock_ops *ops = kv_sock();
	const char *addr;
	int kind = transport_find(to->target, &addr), fd;

	if (kind < 0)
		return kind;
	link->far_kind = kind;
	if (kind)
		return dial_far(link, addr, to->key_file);
	fd = to->key_file ? -EINVAL : ops->connect(ops->ctx, to->target);
	return fd < 0 ? fd : conn_init(&link->conn, fd, NULL);
}

/* To the process that serves there: 0; -EOPNOTSUPP a pool of ids; -ENOMEM; -errno. */
static int link_open(const struct kv_pool_view *view, const struct place *to, struct link **result)
{
	const struct wire_hello hello = wire_hello_of(view);
	struct link *link;
	int err;

	if (!view->dev)
		return -EOPNOTSUPP;
	link = kv_alloc(sizeof(*link));
	if (!link)
		return -ENOMEM;
	link->window.fd = -1;
	link->view = *view;
	err = dial(link, to);
	if (err) {
		kv_free(link);
		return err;
	}
	conn_say(&link->conn, WIRE_HELLO, NULL, 0, &hello, sizeof(hello));
	*result = link;
	return 0;
}

/* Waits for copies on their way. Takes NULL. */
static void link_close(struct link *link)
{
	if (!link)
		return;
	/* Nothing depends on the put that such a one began with: it is given up at once. */
	if (!link->is_ready)
		link->window.end_ns = kv_clock_ns();
	window_wait(&link->window);
	window_close(&link->window);
	conn_exit(&link->conn);
	kv_free(link);
}

/* ---- one of several ---- */

char *copy_of(const char *text)
{
	char *copy = text ? kv_alloc_array(strlen(text) + 1, 1) : NULL;

	return copy ? strcpy(copy, text) : NULL;
}

#define MAX_CHOICES	8u
#define CHOICE_NS	1000000000ull

/* Takers that are asked at once; the one that is chosen leaves it. */
struct choice {
	char *targets;			/* ours; each ends with a 0 */
	const char *target[MAX_CHOICES];
	struct link *link[MAX_CHOICES];	/* ours; NULL: it does not answer */
	u32 nr;
	u64 label;			/* of this side */
	bool is_timed;			/* they were looked at, */
	u64 until_ns;			/* and then one that has answered is chosen */
	int err;			/* why the last one does not */
};

static int choice_init(struct choice *choice, const char *targets, const char *label)
{
	char *at = copy_of(targets);

	choice->targets = at;
	choice->label = wire_label(label);
	while (at && choice->nr < MAX_CHOICES) {
		choice->target[choice->nr++] = at;
		at = strchr(at, ',');
		if (at)
			*at++ = '\0';
	}
	return !choice->targets ? -ENOMEM : at ? -E2BIG : 0;
}

int check_target(const char *target, bool is_list)
{
	struct choice choice = { .nr = !is_list, .target = { target } };
	int ret = is_list ? choice_init(&choice, target, NULL) : 0;
	const char *addr;

	for (u32 i = 0; i < choice.nr && ret >= 0; i++)
		ret = transport_find(choice.target[i], &addr);
	kv_free(choice.targets);
	return min(ret, 0);
}

/* Takes NULL. */
static void choice_close(struct choice *choice)
{
	if (!choice)
		return;
	for (u32 i = 0; i < choice->nr; i++)
		link_close(choice->link[i]);
	memset(choice->link, 0, sizeof(choice->link));
}

/* To all of them: 0; or why there is a link to none. */
static int choice_open(struct choice *choice, const struct kv_pool_view *view, char *key_file)
{
	bool any = false;

	choice_close(choice);
	choice->is_timed = false;
	for (u32 i = 0; i < choice->nr; i++) {
		const struct place to = { (char *)choice->target[i], key_file };
		int err = link_open(view, &to, &choice->link[i]);

		choice->err = err ? err : choice->err;
		any |= !err;
	}
	return any ? 0 : choice->err;
}

static bool is_near(const struct choice *choice, const struct link *link)
{
	return choice->label && link->hello.label == choice->label;
}

static bool is_better(const struct choice *choice, const struct link *a, const struct link *b,
		      u32 nr)
{
	bool has_room = a->hello.nr_free >= nr;

	if (!b || has_room != (b->hello.nr_free >= nr))
		return !b || has_room;
	if (is_near(choice, a) != is_near(choice, b))
		return is_near(choice, a);
	return a->hello.nr_free > b->hello.nr_free;
}

/* Number of the best for @nr blocks; -EINPROGRESS; or why there is none. */
static int choose(struct choice *choice, u32 nr)
{
	u64 now = kv_clock_ns();
	const struct link *best = NULL;
	int found = -ETIMEDOUT, nr_waits = 0;

	if (!choice->is_timed)
		choice->until_ns = kv_ns_after(now, CHOICE_NS);
	choice->is_timed = true;
	for (u32 i = 0; i < choice->nr; i++) {
		struct link *link = choice->link[i];
		int err = link ? link_look(link) : 0;

		if (!link)
			continue;
		nr_waits += err == -EINPROGRESS;
		if (err && err != -EINPROGRESS) {
			choice->err = err;
			choice->link[i] = NULL;
			link_close(link);
		} else if (!err && is_better(choice, link, best, nr)) {
			best = link;
			found = i;
		}
	}
	if (nr_waits && now < choice->until_ns)
		return -EINPROGRESS;
	return best || nr_waits ? found : choice->err;
}

/* ---- the carrier ---- */

enum remote_state { LIST, TALLY, OFFER, ANSWER, POUR };

/* The state of a slot of the window, as far as the giver knows. */
enum slot_state { SLOT_EMPTY, SLOT_FILLING, SLOT_LEAVING, SLOT_FULL, SLOT_SENT };

struct remote {
	struct link *link;		/* ours; NULL: it is not needed, or another job has it */
	struct place to;		/* @target is NULL: not chosen yet */
	struct choice *choice;		/* ours; or NULL: there is one place */
	struct wire_id id;		/* fixed at creation */
	u32 gen;
	u32 max_runs;
	enum remote_state state;
	u64 *sum;			/* ours; by number of the block */
	u32 nr_sums;
	u32 nr_names_sent;
	u32 nr_sums_sent;
	bool taken_over;		/* the link; none was made, and nothing accepted, since */
	bool offered;			/* the taker may have heard of it, */
	bool all_offered;		/* and of all that is listed */
	bool is_there;			/* the taker has it already: nothing is left to be done */
	bool verified;			/* all that is listed */
	u32 nr_verified;
	bool commit_sent;
	u32 nr;				/* blocks that are copied */
	u32 *from;			/* ours */
	u32 next;			/* number of the first that no slot has had */
	u32 nr_drained;			/* in order */
	u32 nr_before;			/* of these, by an earlier attempt */
	u32 nr_present;
	enum slot_state slot[WINDOW_SLOTS];
	u32 path;
	u32 nr_descriptors;
};

/* ---- messages ---- */

static struct conn_out message(const struct remote *remote, u32 type)
{
	return (struct conn_out){ .type = type, .gen = remote->gen, .id = &remote->id, .fd = -1 };
}

static void send(struct remote *remote, u32 type, const void *fixed, u32 bytes)
{
	conn_say(&remote->link->conn, type, &remote->id, remote->gen, fixed, bytes);
}

static bool has_link(const struct remote *remote)
{
	return remote->link && !remote->link->conn.err;
}

/* ---- prepare ---- */

static int choose_link(struct kvmm_migrate *job, struct remote *remote)
{
	u32 nr = job->goods.nr_refs;
	int i;

	for (u32 r = 0; r < job->goods.nr_ranges; r++)
		nr += job->goods.kind[r].nr;
	i = choose(remote->choice, nr);
	if (i < 0)
		return i;
	remote->to.target = copy_of(remote->choice->target[i]);
	if (!remote->to.target)
		return -ENOMEM;
	remote->link = remote->choice->link[i];
	remote->choice->link[i] = NULL;
	choice_close(remote->choice);
	return 0;
}

static int remote_prepare(struct kvmm_migrate *job)
{
	struct remote *remote = job->remote;
	int err = remote->link ? link_greet(remote->link) : choose_link(job, remote);

	if (err)
		return err;
	*remote = (struct remote){
		.link = remote->link, .to = remote->to, .choice = remote->choice, .id = remote->id,
		.gen = remote->gen, .taken_over = remote->taken_over,
		.max_runs = remote->max_runs, .sum = remote->sum, .from = remote->from,
		.nr_present = remote->nr_present, .nr_descriptors = remote->nr_descriptors,
	};
	remote->link->window.flags = job->copy_flags;
	remote->path = remote->link->window.ops->path;
	return 0;
}

/* ---- the offer ---- */

static int list_more(struct kvmm_migrate *job, struct remote *remote)
{
	u32 nr = job->goods.list.nr;

	remote->sum = longer_array(remote->sum, remote->nr_sums, nr, sizeof(*remote->sum));
	remote->from = longer_array(remote->from, remote->nr, nr, sizeof(*remote->from));
	remote->all_offered = remote->verified = false;
	remote->state = TALLY;
	return remote->sum && remote->from ? -EINPROGRESS : -ENOMEM;
}

static int tally(struct kvmm_migrate *job, struct remote *remote)
{
	const struct kv_pool_view *view = &job->goods.view;
	struct end end = end_of(view, job->goods.list.block);
	u32 nr = min(job->goods.list.nr - remote->nr_sums, sum_portion(view->block_bytes));
	int err = sum_list(&end, remote->nr_sums, nr, remote->sum + remote->nr_sums);

	if (err)
		return err;
	remote->nr_sums += nr;
	if (remote->nr_sums == job->goods.list.nr)
		remote->state = OFFER;
	return -EINPROGRESS;
}

static void send_offer(struct kvmm_migrate *job, struct remote *remote)
{
	const struct wire_offer offer = {
		.nr_refs = job->goods.nr_refs, .nr_ranges = job->goods.nr_ranges,
		.nr = job->goods.list.nr, .max_runs = remote->max_runs,
		.flags = job->goods.flags & (KVMM_MIGRATE_NO_EVICT | KVMM_MIGRATE_PRECOPY),
	};
	struct conn_out out = message(remote, WIRE_OFFER);

	out.fixed = &offer;
	out.fixed_bytes = sizeof(offer);
	out.more = job->goods.kind;
	out.more_bytes = offer.nr_ranges * sizeof(*job->goods.kind);
	conn_send(&remote->link->conn, &out);
	remote->offered = remote->all_offered = true;
}

/* @total items of @size bytes, of which @nr_sent have been sent. */
struct table {
	u32 type;			/* of its messages */
	const void *item;
	u32 size;
	u32 total;
	u32 *nr_sent;
};

/* As much as there is room for; whether that was all. */
static bool send_table(struct remote *remote, const struct table *table)
{
	u32 most = (WIRE_MAX_BYTES - sizeof(struct wire_part)) / table->size;

	while (*table->nr_sent < table->total && conn_has_room(&remote->link->conn)) {
		struct wire_part part = { *table->nr_sent,
					  min(table->total - *table->nr_sent, most) };
		struct conn_out out = message(remote, table->type);

		out.fixed = &part;
		out.fixed_bytes = sizeof(part);
		out.more = (const u8 *)table->item + (u64)part.first * table->size;
		out.more_bytes = part.nr * table->size;
		conn_send(&remote->link->conn, &out);
		*table->nr_sent += part.nr;
	}
	return *table->nr_sent == table->total;
}

static int offer(struct kvmm_migrate *job, struct remote *remote)
{
	const struct goods *goods = &job->goods;
	struct conn *conn = &remote->link->conn;
	const struct table names = { WIRE_NAMES, goods->name, sizeof(*goods->name),
				     goods->nr_refs, &remote->nr_names_sent };
	const struct table sums = { WIRE_SUMS, remote->sum, sizeof(*remote->sum), goods->list.nr,
				    &remote->nr_sums_sent };

	conn->held = true;
	if (!remote->all_offered && conn_has_room(conn))
		send_offer(job, remote);
	if (remote->all_offered && send_table(remote, &names) && send_table(remote, &sums))
		remote->state = ANSWER;
	conn_release(conn);
	return conn->err ? conn->err : -EINPROGRESS;
}

static int hear_accept(struct kvmm_migrate *job, struct remote *remote, const struct wire_msg *msg)
{
	struct wire_accept accept;
	const u8 *bits;

	if (wire_get_accept(msg, &accept, &bits))
		return -EPROTO;
	/* Else it has not been published, and will not be unasked. */
	job->in_doubt &= accept.answer == WIRE_COMMITTED;
	if (accept.status)
		return accept.status;
	/* Nothing but all of it can be there. */
	remote->is_there = accept.answer == WIRE_COMMITTED && job->is_last;
	if (accept.answer == WIRE_COMMITTED)
		return remote->is_there ? 0 : -EPROTO;
	if (accept.nr_refs != job->goods.nr_refs)
		return -EPROTO;
	remote->nr = 0;
	for (u32 i = 0; i < job->goods.list.nr; i++)
		if (i >= accept.nr_refs || !(bits[i / 8] >> i % 8 & 1))
			remote->from[remote->nr++] = job->goods.list.block[i];
	if (accept.nr_done > remote->nr || accept.nr_done < remote->nr_drained)
		return -EPROTO;
	remote->nr_present = job->goods.list.nr - remote->nr;
	remote->nr_before += accept.nr_done - remote->nr_drained;
	remote->next = remote->nr_drained = accept.nr_done;
	remote->state = POUR;
	remote->taken_over = false;
	return 0;
}

/* ---- messages that come ---- */

static int hear_drain(struct remote *remote, const struct wire_msg *msg)
{
	struct copy *copy;
	struct wire_fill drain;

	if (wire_get_fill(msg, &drain) || remote->slot[drain.slot] != SLOT_SENT)
		return -EPROTO;
	copy = &remote->link->window.copy[drain.slot];
	if (drain.status)
		return drain.status;
	if (copy->first != drain.first || copy->nr != drain.nr)
		return -EPROTO;
	remote->slot[drain.slot] = SLOT_EMPTY;
	remote->nr_drained += drain.nr;
	return 0;
}

static int hear(struct kvmm_migrate *job, struct remote *remote, const struct wire_msg *msg)
{
	s32 status;

	switch (msg->head.type) {
	case WIRE_ACCEPT:
		if (remote->state == POUR || !remote->all_offered || remote->is_there)
			return -EPROTO;
		return hear_accept(job, remote, msg);
	case WIRE_DRAIN:
		return hear_drain(remote, msg);
	case WIRE_VERIFIED:
		if (wire_get_status(msg, &status) || remote->nr_drained != remote->nr)
			return -EPROTO;
		remote->verified = !status;
		remote->nr_verified = status ? 0 : remote->nr;
		return status;
	case WIRE_ACK:
		if (!remote->commit_sent || wire_get_status(msg, &status))
			return -EPROTO;
		job->in_doubt = false;		/* one way or the other */
		remote->is_there = !status;
		return status;
	case WIRE_ABORT:
		if (wire_get_status(msg, &status) || !status)
			return -EPROTO;
		job->in_doubt = false;		/* an attempt to be committed was not */
		return status;
	}
	return -EPROTO;
}

/* All that has come: 0, or why it is over. */
static int listen(struct kvmm_migrate *job, struct remote *remote)
{
	struct wire_msg msg;
	int ret;

	while ((ret = link_next(remote->link, &remote->id, remote->gen, &msg)) > 0) {
		ret = hear(job, remote, &msg);
		if (ret == -EPROTO)
			conn_break(&remote->link->conn, ret);
		if (ret)
			return ret;
	}
	return remote->is_there ? 0 : ret;
}

/* What there was has gone: is the taker still there? */
static int remote_wait(struct kvmm_migrate *job)
{
	struct remote *remote = job->remote;

	return remote->offered ? listen(job, remote) : 0;
}

/* ---- pouring ---- */

/* Slots are sent in the order of their blocks: the taker counts on that. */
static bool is_next(const struct remote *remote, u32 slot)
{
	const struct window *window = &remote->link->window;

	for (u32 i = 0; i < WINDOW_SLOTS; i++)
		if (i != slot && remote->slot[i] != SLOT_EMPTY && remote->slot[i] != SLOT_SENT &&
		    window->copy[i].first < window->copy[slot].first)
			return false;
	return true;
}

static int pour_slot(struct remote *remote, u32 slot)
{
	struct window *window = &remote->link->window;
	u32 nr = min(remote->nr - remote->next, window->shape.slot_blocks);
	int err;

	if (remote->slot[slot] == SLOT_EMPTY && nr) {
		/* Of what fails a part may be on its way. */
		remote->slot[slot] = SLOT_LEAVING;
		err = window_fill(window, slot, remote->from, remote->next, nr);
		if (err < 0)
			return err;
		remote->next += nr;
		if (!err)
			remote->slot[slot] = SLOT_FILLING;
	}
	if (remote->slot[slot] == SLOT_FILLING) {
		err = copy_poll(&window->copy[slot]);
		if (err)
			return err == -EINPROGRESS ? 0 : err;
		remote->slot[slot] = SLOT_LEAVING;
		err = window_put(window, slot, window->copy[slot].nr);
		if (err)
			return err;
	}
	if (remote->slot[slot] == SLOT_LEAVING) {
		err = window_poll(window, slot);
		if (err)
			return err == -EINPROGRESS ? 0 : err;
		remote->slot[slot] = SLOT_FULL;
	}
	if (remote->slot[slot] == SLOT_FULL && is_next(remote, slot) &&
	    conn_has_room(&remote->link->conn)) {
		const struct copy *copy = &window->copy[slot];
		const struct wire_fill fill = { slot, copy->first, copy->nr, 0 };

		send(remote, WIRE_FILL, &fill, sizeof(fill));
		remote->slot[slot] = SLOT_SENT;
	}
	return 0;
}

static int pour(struct remote *remote)
{
	int err = 0;

	for (u32 i = 0; i < WINDOW_SLOTS && !err; i++)
		err = pour_slot(remote, i);
	remote->nr_descriptors = remote->link->window.nr_descriptors;
	if (err == -ECONNRESET)		/* of a window that is over */
		conn_break(&remote->link->conn, err);
	if (err)
		return err;
	return remote->nr_drained == remote->nr ? 0 : -EINPROGRESS;
}

static int copy_on(struct kvmm_migrate *job, struct remote *remote)
{
	int err = remote->offered ? listen(job, remote) : has_link(remote) ? 0 : -ECONNRESET;

	if (err || remote->is_there)
		return err;
	if (remote->state == POUR && remote->nr_sums < job->goods.list.nr)
		remote->state = LIST;
	switch (remote->state) {
	case LIST:
		return list_more(job, remote);
	case TALLY:
		return tally(job, remote);
	case OFFER:
		return offer(job, remote);
	case ANSWER:
		return -EINPROGRESS;
	case POUR:
		return pour(remote);
	}
	return -EINVAL;
}

/* ---- verify and commit ---- */

static int remote_verify(struct kvmm_migrate *job)
{
	struct remote *remote = job->remote;
	int err = listen(job, remote);

	if (err)
		return err;
	return remote->verified || remote->is_there ? 0 : -EINPROGRESS;
}

static int remote_commit(struct kvmm_migrate *job)
{
	struct remote *remote = job->remote;
	int err;

	if (!remote->commit_sent && !remote->is_there) {
		if (!has_link(remote))
			return -ECONNRESET;
		if (!conn_has_room(&remote->link->conn))
			return -EINPROGRESS;
		remote->commit_sent = job->in_doubt = true;
		send(remote, WIRE_COMMIT, NULL, 0);
	}
	err = remote->is_there ? 0 : listen(job, remote);
	if (err || !remote->is_there)
		return err ? err : -EINPROGRESS;
	job->in_doubt = remote->offered = false;
	/* It needs the source's device, and the job may be freed after that pool. */
	if (!(job->goods.flags & KVMM_MIGRATE_KEEP_LINK)) {
		link_close(remote->link);
		remote->link = NULL;
	}
	return 0;
}

/* ---- the way back ---- */

static void send_abort(struct remote *remote)
{
	const struct wire_status status = { -ECANCELED, 0 };

	if (remote->offered && !remote->commit_sent && has_link(remote) &&
	    conn_has_room(&remote->link->conn))
		send(remote, WIRE_ABORT, &status, sizeof(status));
}

/*
 * What is on its way to another machine may come late, and be read here from blocks that are
 * another's by then: it ends first, or with the link.
 */
static int end_leaving(struct remote *remote)
{
	bool leaving = false;
	int err;

	for (u32 i = 0; i < WINDOW_SLOTS; i++)
		leaving |= remote->slot[i] == SLOT_LEAVING;
	if (!remote->link || !leaving)
		return 0;
	err = window_end(&remote->link->window);
	if (err == -EINPROGRESS || (!err && has_link(remote)))
		return err;
	link_close(remote->link);
	remote->link = NULL;
	return 0;
}

/* The taker may still read the slots it leaves: it waits for that before it takes an offer. */
static int remote_undo(struct kvmm_migrate *job)
{
	struct remote *remote = job->remote;

	for (u32 i = 0; i < WINDOW_SLOTS && remote->link; i++)
		if (copy_poll(&remote->link->window.copy[i]) == -EINPROGRESS)
			return -EINPROGRESS;
	choice_close(remote->choice);
	send_abort(remote);
	remote->offered = false;
	return end_leaving(remote);
}

static int remote_resume(struct kvmm_migrate *job)
{
	struct remote *remote = job->remote;
	/* Of one in doubt only that taker knows; others that refused may be full. */
	bool anew = remote->choice && !job->in_doubt;
	struct link *link;

	if (anew || !has_link(remote)) {
		int err = anew ? choice_open(remote->choice, &job->goods.view,
					     remote->to.key_file) :
				 link_open(&job->goods.view, &remote->to, &link);

		if (err)
			return err;
		link_close(remote->link);
		remote->link = anew ? NULL : link;
		if (anew) {
			kv_free(remote->to.target);
			remote->to.target = NULL;
		}
		remote->taken_over = false;
		memset(remote->slot, 0, sizeof(remote->slot));	/* SLOT_EMPTY */
	}
	remote->gen++;
	return 0;
}

/* The taker may cut a link that it took for idle while the offer was on its way: once more then. */
static int remote_copy(struct kvmm_migrate *job)
{
	struct remote *remote = job->remote;
	int err = remote->link->is_ready ? 0 : remote_prepare(job);

	if (!err)
		err = copy_on(job, remote);
	if (err != -ECONNRESET || !remote->taken_over || has_link(remote))
		return err;
	remote->offered = false;
	return remote_resume(job) ? err : -EINPROGRESS;
}

static void forget_place(struct place *to)
{
	kv_free(to->target);
	kv_free(to->key_file);
}

static void free_choice(struct choice *choice)
{
	if (!choice)
		return;
	choice_close(choice);
	kv_free(choice->targets);
	kv_free(choice);
}

static void remote_free(struct kvmm_migrate *job)
{
	struct remote *remote = job->remote;

	if (remote->link) {
		window_wait(&remote->link->window);
		send_abort(remote);
	}
	link_close(remote->link);
	forget_place(&remote->to);
	free_choice(remote->choice);
	kv_free(remote->sum);
	kv_free(remote->from);
	kv_free(remote);
	job->remote = NULL;
}

static void remote_status(const struct kvmm_migrate *job, struct kvmm_migrate_status *status)
{
	const struct remote *remote = job->remote;

	/* Neither a connection that is through nor what UCX has to say makes it readable. */
	status->fd = has_link(remote) && !remote->is_there &&
		     (!remote->link->far_kind || remote->link->is_ready) ?
		     remote->link->conn.fd : -1;
	status->path = remote->path;
	status->nr_present = remote->nr_present;
	status->nr_copied = remote->nr_drained - remote->nr_before;
	status->nr_verified = remote->nr_verified;
	status->nr_descriptors = remote->nr_descriptors;
	for (u32 i = 0; i < remote->nr && remote->from; i++)
		status->nr_src_runs += !i || remote->from[i] != remote->from[i - 1] + 1;
}

static const struct carrier_ops remote_ops = {
	.prepare	= remote_prepare,
	.wait		= remote_wait,
	.copy		= remote_copy,
	.verify		= remote_verify,
	.commit		= remote_commit,
	.undo		= remote_undo,
	.resume		= remote_resume,
	.free		= remote_free,
	.status		= remote_status,
};

static bool is_same(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

/* NULL: there is none, or it leads elsewhere. What comes late for @before is skipped. */
static struct link *take_over(struct kvmm_migrate *before, const struct kvmm_migrate_attr *attr)
{
	struct remote *remote = before ? before->remote : NULL;
	struct link *link = remote ? remote->link : NULL;
	const struct wire_id none = { { 0 } };
	struct wire_msg msg;

	if (!link || !remote->to.target ||
	    (before->phase != KVMM_MIGRATE_GRACE && before->phase != KVMM_MIGRATE_DONE) ||
	    before->goods.pool != attr->src || !is_same(remote->to.target, attr->target) ||
	    !is_same(remote->to.key_file, attr->key_file) || link_next(link, &none, 0, &msg))
		return NULL;
	remote->link = NULL;
	link->window.nr_descriptors = 0;
	return link;
}

u64 remote_progress(const struct kvmm_migrate *job)
{
	return (u64)job->remote->nr_sums + job->remote->nr_names_sent + job->remote->nr_sums_sent;
}

void remote_break(struct kvmm_migrate *job)
{
	if (has_link(job->remote))
		conn_break(&job->remote->link->conn, -ETIMEDOUT);
}

const char *remote_target(const struct kvmm_migrate *job)
{
	return job->remote->to.target;
}

static int make_links(struct remote *remote, const struct kv_pool_view *view,
		      const struct kvmm_migrate_attr *attr)
{
	int err;

	remote->to.key_file = copy_of(attr->key_file);
	if (!remote->to.key_file != !attr->key_file)
		return -ENOMEM;
	if (attr->flags & KVMM_MIGRATE_ANY) {
		remote->choice = kv_alloc(sizeof(*remote->choice));
		err = remote->choice ? choice_init(remote->choice, attr->target, attr->label) :
				       -ENOMEM;
		return err ? err : choice_open(remote->choice, view, remote->to.key_file);
	}
	remote->to.target = copy_of(attr->target);
	if (!remote->to.target)
		return -ENOMEM;
	remote->link = take_over(attr->after, attr);
	remote->taken_over = remote->link;
	return remote->link ? 0 : link_open(view, &remote->to, &remote->link);
}

int remote_init(struct kvmm_migrate *job, const struct kvmm_migrate_attr *attr)
{
	struct kv_pool_view view;
	struct remote *remote = kv_alloc(sizeof(*remote));
	int err;

	if (!remote)
		return -ENOMEM;
	kv_pool_view(attr->src, &view);
	err = make_links(remote, &view, attr);
	if (err) {
		forget_place(&remote->to);
		free_choice(remote->choice);
		kv_free(remote);
		return err;
	}
	remote->id = (struct wire_id){ { kv_random(), kv_random() | 1 } };
	remote->max_runs = attr->max_runs;
	remote->gen = 1;
	job->remote = remote;
	job->ops = &remote_ops;
	return 0;
}
