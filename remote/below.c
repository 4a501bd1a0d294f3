// SPDX-License-Identifier: Apache-2.0
/*
 * A server below a host tier, or below the disk of one: a block is written to the disk, then to the
 * server, and is read from the disk where that has it. What the server does not take is dropped.
 */
#include <stdio.h>
#include <string.h>

#include <kv/buf.h>
#include <kv/env.h>
#include <kv/log.h>
#include <kv/mem.h>
#include <kv/remote.h>
#include <kv/sock.h>
#include <tier/below.h>

#include "internal.h"

#define LOCK_ID		((1u << 30) + 16)
#define NR_ASKED	1024u
#define NR_DELS		2048u
#define NR_WORDS	16u
#define DEADLINE_NS	50000000u
#define POLL_MAX	16u

static enum kvmm_tier_answer lookup(void *store, const struct kv_tier_name *name)
{
	struct remote *remote = store;
	enum kvmm_tier_answer answer = KVMM_TIER_MISS;

	if (remote->front)
		answer = remote->front->lookup(remote->front_store, name);
	return answer == KVMM_TIER_MISS ? remote_lookup(remote, name) : answer;
}

static int put(void *store, struct kv_tier_io *io)
{
	struct remote *remote = store;
	struct req *req;
	int err;

	if (!remote->front)
		return remote_put(remote, io);
	req = remote_put_begin(remote, io);
	err = remote->front->put(remote->front_store, io);
	if (err && req)
		remote_put_cancel(remote, req);
	return err;
}

static int get(void *store, struct kv_tier_io *io)
{
	struct remote *remote = store;

	if (remote->front &&
	    remote->front->lookup(remote->front_store, &io->name) == KVMM_TIER_HIT)
		return remote->front->get(remote->front_store, io);
	return remote_get(remote, io);
}

static int forget(void *store, const struct kv_tier_name *names, u32 nr, bool for_good, u8 *had)
{
	struct remote *remote = store;
	int err = 0, ret;

	if (remote->front)
		err = remote->front->forget(remote->front_store, names, nr, for_good, had);
	ret = remote_forget(remote, names, nr, for_good);
	return err ? err : ret;
}

static int reset(void *store)
{
	struct remote *remote = store;
	int err = remote->front ? remote->front->reset(remote->front_store) : 0;
	int ret = remote_reset(remote);

	return err ? err : ret;
}

static u32 poll(void *store, struct kv_tier_io **done, u32 max)
{
	struct kv_tier_io *some[POLL_MAX];
	struct remote *remote = store;
	u32 nr = 0, nr_some = 0;

	if (remote->front)
		nr_some = remote->front->poll(remote->front_store, some, min(max, POLL_MAX));
	for (u32 i = 0; i < nr_some; i++)
		if (!remote_put_from_front(remote, some[i]))
			done[nr++] = some[i];
	return nr + remote_poll(remote, done + nr, max - nr);
}

static int check(void *store)
{
	struct remote *remote = store;
	int err = remote->front ? remote->front->check(remote->front_store) : 0;

	return err ? err : remote_check(remote);
}

static void remote_glance(void *store, struct kvmm_tier_stat *stat)
{
	const struct remote *remote = store;
	struct remote_count count;

	kv_peek_copy(&count, &remote->count, sizeof(count));
	stat->remote_stored = count.stored;
	stat->remote_got = count.got;
	stat->remote_missed = count.missed;
	stat->remote_wrong = count.wrong;
	stat->remote_failed = count.failed;
	stat->remote_dropped = count.dropped;
	stat->remote_late = count.late;
	stat->remote_deleted = count.deleted;
	stat->remote_fences = count.fences;
	stat->remote_given_up = count.given_up;
	stat->remote_deleting = kv_peek(&remote->known.nr_gone);
	stat->remote_away = kv_peek(&remote->wire.state) == WIRE_DOWN &&
			    kv_peek(&remote->nr_failures);
}

/* ---- what only the store in front has ---- */

static void glance(void *store, struct kvmm_disk_stat *stat)
{
	struct remote *remote = store;

	remote->front->glance(remote->front_store, stat);
}

static void tell(void *store, u32 number, u64 layout, struct kv_feed *feed)
{
	struct remote *remote = store;

	remote->front->tell(remote->front_store, number, layout, feed);
}

static bool next_name(void *store, u64 layout, u64 *cursor, struct kv_tier_name *name)
{
	struct remote *remote = store;

	return remote->front->next_name(remote->front_store, layout, cursor, name);
}

/* ---- coming and going ---- */

static void free_remote(struct remote *remote)
{
	if (!remote)
		return;
	kv_free(remote->known.name);
	kv_free(remote->done);
	kv_free(remote->req);
	kv_wipe(remote->password, sizeof(remote->password));
	kv_free(remote);
}

static void close_remote(void *store)
{
	struct remote *remote = store;

	kv_lock(&remote->wire_lock);
	wire_down(remote, false);
	kv_unlock(&remote->wire_lock);
	if (remote->front && remote->front->close)
		remote->front->close(remote->front_store);
	free_remote(remote);
}

#define REMOTE_OPS							\
	.close = close_remote, .lookup = lookup, .put = put, .get = get,\
	.forget = forget, .reset = reset, .poll = poll, .check = check,	\
	.remote_glance = remote_glance

static const struct kv_tier_ops remote_ops = { REMOTE_OPS };
static const struct kv_tier_ops behind_disk_ops = {
	REMOTE_OPS, .glance = glance, .tell = tell, .next_name = next_name,
};

/* A part of keys and commands: "" if @text is NULL. */
static bool copy_text(const char *what, const char *text, char *to, size_t room)
{
	if (!text)
		return true;
	if (!kv_name_is_good(what, text, room))
		return false;
	memcpy(to, text, strlen(text) + 1);
	return true;
}

static int copy_attr(struct remote *remote, const struct kvmm_tier_remote_attr *attr)
{
	if (!attr->address || !attr->model || attr->reserved || (attr->user && !attr->password) ||
	    strchr(attr->model, ':') || strchr(attr->model, ' '))
		return -EINVAL;
	if (!copy_text("server", attr->address, remote->address, sizeof(remote->address)) ||
	    !copy_text("model", attr->model, remote->model, sizeof(remote->model)) ||
	    !copy_text("user", attr->user, remote->user, sizeof(remote->user)) ||
	    !copy_text("password", attr->password, remote->password, sizeof(remote->password)))
		return -EINVAL;
	if (!kv_tcp_is_address(remote->address))
		return kv_refuse(-EINVAL, "kvmm: tier: %s is no address as 10.0.0.7:6379 is",
				 remote->address);
	remote->ttl_s = attr->ttl_s;
	remote->deadline_ns = attr->deadline_ns ? attr->deadline_ns : DEADLINE_NS;
	return remote->deadline_ns > 60000000000ull ? -EINVAL : 0;
}

static int make_parts(struct remote *remote, const struct kvmm_tier_disk_attr *how)
{
	remote->max[REQ_PUT] = how->max_put;
	remote->max[REQ_GET] = how->max_get;
	remote->max[REQ_ASK] = NR_ASKED;
	remote->max[REQ_DEL] = NR_DELS;
	remote->max[REQ_WORD] = NR_WORDS;
	for (u32 i = 0; i < NR_REQ_KINDS; i++)
		remote->nr_reqs += remote->max[i];
	remote->max_done = how->max_put + how->max_get;
	remote->req = kv_alloc_array(remote->nr_reqs, sizeof(*remote->req));
	remote->done = kv_alloc_array(remote->max_done, sizeof(struct kv_tier_io *));
	remote->known.name = kv_alloc_array(KNOWN_SETS * KNOWN_SET, sizeof(*remote->known.name));
	if (!remote->req || !remote->done || !remote->known.name)
		return -ENOMEM;
	for (u32 i = 0; i < remote->nr_reqs; i++)
		list_push(&remote->free, &remote->req[i]);
	remote->known.seed = kv_random();
	remote->wire.fd = -1;
	kv_lock_init(&remote->wire_lock, KV_RANK_TIER, LOCK_ID);
	kv_lock_init(&remote->lock, KV_RANK_TIER, LOCK_ID + 1);
	return 0;
}

/* It takes the place of the disk, which it has in front from then on. */
static void put_behind(struct kvmm_tier *tier, struct remote *remote)
{
	struct below *below = tier->below;

	remote->front = below->ops;
	remote->front_store = below->store;
	below->ops = &behind_disk_ops;
	below->store = remote;
}

int kv_tier_set_remote(struct kvmm_tier *tier, const struct kvmm_tier_remote_attr *from,
		       const struct kvmm_tier_disk_attr *how)
{
	struct kvmm_tier_remote_attr attr;
	struct kvmm_tier_disk_attr known;
	struct remote *remote;
	int err = kv_copy_attr(&attr, sizeof(attr), from);

	if (!err)
		err = tier_disk_attr(how, &known);
	if (err)
		return err;
	if (!tier->unit_bytes)
		return -EOPNOTSUPP;
	remote = kv_alloc_lines(1, sizeof(*remote));
	err = remote ? copy_attr(remote, &attr) : -ENOMEM;
	if (!err)
		err = make_parts(remote, &known);
	if (!err && tier->below)
		put_behind(tier, remote);
	else if (!err)
		err = kv_tier_set_below(tier, &remote_ops, remote, &known);
	if (err)
		free_remote(remote);
	return err;
}
