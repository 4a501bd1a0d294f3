// SPDX-License-Identifier: Apache-2.0
/*
 * The server of a control socket: clients come, are served, are sent away.
 *
 * One loop, by one thread at a time, in which nothing waits for a client. Two locks: the poller's,
 * which is only tried, and that of the pools, which is held while a command writes into memory, and
 * never while something is sent. So a client that is stuck holds its own place and nothing else.
 */
#include <stdio.h>
#include <string.h>

#include <kv/buf.h>
#include <kv/env.h>
#include <kv/err.h>
#include <kv/log.h>
#include <kv/mem.h>
#include <kv/sys.h>

#include "control.h"

#define NR_READY	64u
#define NR_ACCEPTS	64u		/* a round */
#define ROUND_MS	1000u		/* the longest between two */
#define GRACE_NS	1000000000ull	/* a client that asked for nothing by then may have to go */
#define SECOND_NS	1000000000ull
#define COST_SHARE	8u		/* a client has the thread for at most 1/8 of the time */
#define COST_MAX_NS	50000000ull	/* more is not the answer's doing: the thread did not run */
#define SHUT_NS		100000000ull	/* no client is let in, where none could be */
#define MAX_CLIENTS	1024u
#define MAX_RATE	1000000u
#define MIN_ANSWER	4096u

static void count(u64 *what, u64 nr)
{
	/* The poller is the only writer. */
	WRITE_ONCE(*what, *what + nr);
}

/* ---- clients come and go ---- */

static void drop(struct kvmm_control *control, u32 place)
{
	const struct kv_sock_ops *ops = kv_sock();

	ops->watch_del(ops->ctx, control->watch, control->peer[place]->fd);
	ops->hang_up(ops->ctx, control->peer[place]->fd);
	peer_free(control->peer[place]);
	control->peer[place] = NULL;
	count(&control->stat.clients, -1);
}

/* A place, maybe of a client that has had time to ask for something and did not; or NULL. */
static struct kv_peer **find_place(struct kvmm_control *control, u64 now)
{
	u32 nr = control->attr.max_clients, oldest = nr;

	for (u32 i = 0; i < nr; i++) {
		const struct kv_peer *peer = control->peer[i];

		if (!peer)
			return &control->peer[i];
		if (!peer->nr_requests && now - peer->came_ns > GRACE_NS &&
		    (oldest == nr || peer->came_ns < control->peer[oldest]->came_ns))
			oldest = i;
	}
	if (oldest == nr)
		return NULL;
	drop(control, oldest);
	count(&control->stat.dropped, 1);
	return &control->peer[oldest];
}

static void let_in(struct kvmm_control *control, int fd, u64 now)
{
	static const char full[] = "err 11 17\ntoo many clients\n";
	const struct kv_sock_ops *ops = kv_sock();
	struct kv_peer **place = find_place(control, now);
	struct kv_peer *peer;

	peer = place ? peer_make(fd, now, control->attr.max_answer_bytes) : NULL;
	if (!peer) {
		/* A client that does not take the line at once does not get it. */
		ops->send(ops->ctx, fd, full, sizeof(full) - 1, NULL, 0);
		ops->close(ops->ctx, fd);
		count(&control->stat.refused, 1);
		return;
	}
	if (ops->watch_set(ops->ctx, control->watch, fd, KV_SOCK_IN, true)) {
		peer_free(peer);
		count(&control->stat.refused, 1);
		return;
	}
	peer->wants = KV_SOCK_IN;
	peer->nr_head = snprintf(peer->head, sizeof(peer->head), "kvmm-control 1 %s\n",
				 control->name);
	*place = peer;
	count(&control->stat.clients, 1);
	count(&control->stat.accepted, 1);
}

/* The door is watched from now on, or is not. */
static int watch_door(const struct kvmm_control *control, bool on)
{
	const struct kv_sock_ops *ops = kv_sock();

	return ops->watch_set(ops->ctx, control->watch, control->fd, on ? KV_SOCK_IN : 0, false);
}

/* Short of descriptors or memory, a client that came stays at the door, which would call on. */
static void let_all_in(struct kvmm_control *control, u64 now)
{
	const struct kv_sock_ops *ops = kv_sock();

	for (u32 i = 0; i < NR_ACCEPTS; i++) {
		int fd = ops->accept(ops->ctx, control->fd, true);

		if (fd == -EPERM) {
			count(&control->stat.refused, 1);
		} else if (fd >= 0) {
			let_in(control, fd, now);
		} else {
			if (fd != -EAGAIN) {
				control->is_shut = true;
				count(&control->stat.shut, 1);
				control->shut_ns = now;
				watch_door(control, false);
			}
			return;
		}
	}
}

/* Nanoseconds until it is opened again. */
static u64 open_door(struct kvmm_control *control, u64 now)
{
	if (!control->is_shut)
		return UINT64_MAX;
	if (now - control->shut_ns < SHUT_NS)
		return control->shut_ns + SHUT_NS - now;
	control->is_shut = watch_door(control, true);
	return 0;
}

/* ---- one client ---- */

/* Nanoseconds until its next request may be answered; a second's worth may come at once. */
static u64 until_due(const struct kv_peer *peer, u64 now)
{
	return peer->due_ns > now + SECOND_NS ? peer->due_ns - now - SECOND_NS : 0;
}

static void answer(struct kvmm_control *control, struct kv_peer *peer, u64 now)
{
	char line[KVMM_CONTROL_REQUEST_BYTES];
	u64 start = kv_clock_ns(), took;
	int err = -EINVAL;

	if (peer_take_line(peer, line)) {
		kv_lock(&control->lock);
		err = kv_command_run(control, line, &peer->body);
		kv_unlock(&control->lock);
	} else {
		kv_text_puts(&peer->body, "that is no text");
	}
	/* Charged by time as well: a client that asks for long answers gets fewer. */
	took = min(kv_ns_since(start), COST_MAX_NS);
	peer->due_ns = max(peer->due_ns, start) +
		       max(SECOND_NS / control->attr.max_rate, took * COST_SHARE);
	peer->nr_requests++;
	peer_answer(peer, err, now);
	count(&control->stat.requests, 1);
	count(&control->stat.errors, !!err);
}

static u64 time_out_at(const struct kvmm_control *control, const struct kv_peer *peer)
{
	return peer_talks(peer) ? kv_ns_after(peer->took_ns, control->attr.output_ms * 1000000ull) :
				  kv_ns_after(peer->heard_ns, control->attr.idle_ms * 1000000ull);
}

/* 0, or -errno: close it. */
static int serve(struct kvmm_control *control, struct kv_peer *peer, u64 now)
{
	const struct kv_sock_ops *ops = kv_sock();
	u64 nr_bytes = 0;
	int err = peer_move(peer, now, &nr_bytes);
	u32 wants;

	if (!err && peer_asks(peer) && !until_due(peer, now)) {
		answer(control, peer, now);
		peer->ready = 0;
		err = peer_move(peer, now, &nr_bytes);
	} else if (!err && peer->nr_in == sizeof(peer->in) && !peer->nr_line) {
		/* Full, without an end of line: the next bytes cannot be told from it. */
		kv_text_puts(&peer->body, "that line is too long");
		peer_answer(peer, -E2BIG, now);
		peer->is_last = true;
		peer->nr_in = 0;
		count(&control->stat.dropped, 1);
		peer->ready = 0;
		err = peer_move(peer, now, &nr_bytes);
	}
	count(&control->stat.bytes, nr_bytes);
	if (!err && now >= time_out_at(control, peer)) {
		count(&control->stat.dropped, 1);
		err = -ETIMEDOUT;
	}
	peer->ready = 0;
	wants = peer_wants(peer);
	if (!err && wants != peer->wants)
		err = ops->watch_set(ops->ctx, control->watch, peer->fd, wants, false);
	peer->wants = wants;
	return err;
}

/* Nanoseconds until there is something to do for it that no event will tell of. */
static u64 peer_due(const struct kvmm_control *control, const struct kv_peer *peer, u64 now)
{
	u64 end = time_out_at(control, peer), rest = end > now ? end - now : 0;

	return peer_asks(peer) ? min(rest, until_due(peer, now)) : rest;
}

/* ---- a round ---- */

/* The client that stands first is served first the next time, too, unless others get a turn. */
static u64 serve_all(struct kvmm_control *control, u64 now)
{
	u32 nr = control->attr.max_clients;
	u64 rest = ROUND_MS * 1000000ull;

	for (u32 i = 0; i < nr; i++) {
		u32 place = (control->turn + i) % nr;
		struct kv_peer *peer = control->peer[place];

		if (!peer)
			continue;
		if (serve(control, peer, now))
			drop(control, place);
		else
			rest = min(rest, peer_due(control, peer, now));
	}
	control->turn = (control->turn + 1) % nr;
	return rest;
}

/* Work that commands have begun goes on. */
static u32 tick_all(struct kvmm_control *control)
{
	u32 rest = ROUND_MS;

	kv_lock(&control->lock);
	for (struct kv_control_pool *entry = control->pools; entry; entry = entry->next)
		for (u32 i = 0; i < KV_NR_COMMAND_SETS; i++)
			if (entry->state[i] && control->sets[i]->tick)
				rest = min(rest, control->sets[i]->tick(entry, &entry->state[i]));
	kv_unlock(&control->lock);
	return rest;
}

u32 control_round(struct kvmm_control *control, int timeout_ms)
{
	const struct kv_sock_ops *ops = kv_sock();
	struct kv_sock_ready ready[NR_READY];
	bool anybody = false;
	u64 now, rest;
	int nr;

	nr = ops->watch_wait(ops->ctx, control->watch, ready, NR_READY, timeout_ms);
	for (int i = 0; i < nr; i++) {
		anybody |= ready[i].fd == control->fd;
		for (u32 k = 0; k < control->attr.max_clients; k++)
			if (control->peer[k] && control->peer[k]->fd == ready[i].fd)
				control->peer[k]->ready = ready[i].events;
	}
	now = kv_clock_ns();
	if (anybody)
		let_all_in(control, now);
	rest = min(serve_all(control, now), open_door(control, now));
	return min((rest + 999999) / 1000000, (u64)tick_all(control));
}

static void run(void *arg)
{
	struct kvmm_control *control = arg;
	u32 rest = 0;

	kv_lock(&control->poll_lock);
	/* Pairs with kvmm_control_close(). */
	while (!smp_load_acquire(&control->stop))
		rest = control_round(control, rest);
	kv_unlock(&control->poll_lock);
}

/* ---- coming and going ---- */

static int check_attr(const struct kvmm_control_attr *attr)
{
	if (attr->flags & ~(KVMM_CONTROL_THREAD | KVMM_CONTROL_READ_ONLY) || attr->reserved)
		return kv_refuse(-EINVAL, "kvmm: control: flags 0x%x or what is reserved is none",
				 attr->flags);
	if (!attr->max_clients || attr->max_clients > MAX_CLIENTS)
		return kv_refuse(-EINVAL, "kvmm: control: %u clients, not 1 to %u",
				 attr->max_clients, MAX_CLIENTS);
	if (!attr->max_rate || attr->max_rate > MAX_RATE || !attr->idle_ms || !attr->output_ms)
		return kv_refuse(-EINVAL, "kvmm: control: @max_rate is not 1 to %u, or a time is 0",
				 MAX_RATE);
	if (attr->max_answer_bytes < MIN_ANSWER || attr->max_answer_bytes > 1u << 30)
		return kv_refuse(-EINVAL, "kvmm: control: answers of %u bytes, not %u to 2^30",
				 attr->max_answer_bytes, MIN_ANSWER);
	return 0;
}

static int read_attr(struct kvmm_control *control, const struct kvmm_control_attr *from)
{
	const struct kvmm_control_attr preset = KVMM_CONTROL_ATTR_INIT;
	struct kvmm_control_attr *attr = &control->attr;
	int err = kv_copy_attr(attr, sizeof(*attr), from ? from : &preset);

	if (!err)
		err = check_attr(attr);
	if (err)
		return err;
	control->peer = kv_alloc_array(attr->max_clients, sizeof(*control->peer));
	return control->peer ? 0 : -ENOMEM;
}

static void in_child(struct kv_fork_node *node)
{
	struct kvmm_control *control = container_of(node, struct kvmm_control, fork_node);

	/* Else it would seem to be served, without a server, once the parent has ended. */
	kv_sock()->close(kv_sock()->ctx, control->fd);
	control->fd = -1;
}

/* Takes one that is half made, too. The thread has ended. */
static void free_control(struct kvmm_control *control)
{
	const struct kv_sock_ops *ops = kv_sock();

	for (u32 i = 0; control->peer && i < control->attr.max_clients; i++)
		if (control->peer[i])
			drop(control, i);
	control_end_pools(control);
	if (control->fd >= 0) {
		ops->close(ops->ctx, control->fd);
		ops->unlink(ops->ctx, control->path);
	}
	if (control->watch >= 0)
		ops->close(ops->ctx, control->watch);
	if (control->bell >= 0)
		ops->close(ops->ctx, control->bell);
	kv_free(control->peer);
	kv_free(control);
}

static int watch_socket(struct kvmm_control *control)
{
	const struct kv_sock_ops *ops = kv_sock();
	int err;

	control->watch = ops->watch(ops->ctx);
	if (control->watch < 0)
		return control->watch;
	err = ops->watch_set(ops->ctx, control->watch, control->fd, KV_SOCK_IN, true);
	if (err || !(control->attr.flags & KVMM_CONTROL_THREAD))
		return err;
	control->bell = ops->bell(ops->ctx);
	if (control->bell < 0)
		return control->bell;
	err = ops->watch_set(ops->ctx, control->watch, control->bell, KV_SOCK_IN, true);
	if (err)
		return err;
	return kv_sys()->spawn(kv_sys()->ctx, run, control, &control->thread) ? -EAGAIN : 0;
}

int kvmm_control_open(const struct kvmm_control_attr *attr, struct kvmm_control **result)
{
	struct kvmm_control *control;
	int err;

	kv_why_clear();
	if (!result)
		return -EINVAL;
	control = kv_alloc(sizeof(*control));
	if (!control)
		return -ENOMEM;
	control->sets = kv_command_sets;
	control->fd = control->watch = control->bell = -1;
	kv_lock_init(&control->lock, KV_RANK_CONTROL, 1);
	kv_lock_init(&control->poll_lock, KV_RANK_CONTROL, 0);
	err = read_attr(control, attr);
	if (!err)
		err = control_listen(control);
	if (!err)
		err = watch_socket(control);
	if (err) {
		free_control(control);
		return err;
	}
	/* Strings of the caller's are not looked at again. */
	control->attr.name = control->attr.dir = NULL;
	kv_fork_add(&control->fork_node, in_child);
	*result = control;
	return 0;
}

void kvmm_control_close(struct kvmm_control *control)
{
	if (control_refusal(control))
		return;
	kv_fork_del(&control->fork_node);
	if (control->thread) {
		/* Pairs with run(). */
		smp_store_release(&control->stop, 1);
		kv_sock()->ring(kv_sock()->ctx, control->bell);
		kv_sys()->join(kv_sys()->ctx, control->thread);
	}
	free_control(control);
}

/* ---- polling ---- */

int kvmm_control_poll(struct kvmm_control *control)
{
	int ret = control_refusal(control);

	if (ret)
		return ret;
	if (control->thread || !kv_trylock(&control->poll_lock))
		return -EBUSY;
	ret = control_round(control, 0);
	kv_unlock(&control->poll_lock);
	return ret;
}

int kvmm_control_get_stat(const struct kvmm_control *control, struct kvmm_control_stat *stat)
{
	struct kvmm_control_stat known;

	if (kv_inherited(control))
		return -ECHILD;
	if (!control || kv_sized_is_bad(stat))
		return -EINVAL;
	kv_peek_copy(&known, &control->stat, sizeof(known));
	known.path = control->path;
	known.fd = control->thread ? -EBUSY : control->watch;
	kv_give_sized(stat, &known, sizeof(known));
	return 0;
}
