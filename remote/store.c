// SPDX-License-Identifier: Apache-2.0
/* The calls of the tier, but for what a store in front makes of them. */
#include <string.h>

#include <kv/entry.h>
#include <kv/env.h>
#include <kv/hash.h>

#include "internal.h"

#define LOOK_NS		100000u		/* between looks of a thread that waits */

/*
 * Unknown names are asked for. After twice the deadline they are asked for again, and are a miss
 * in the second half of that time: a match asks again for as long as it hears RETRY.
 */
enum kvmm_tier_answer remote_lookup(struct remote *remote, const struct kv_tier_name *name)
{
	u64 now_ns = kv_clock_ns(), until_ns = now_ns + 2 * remote->deadline_ns;
	enum kvmm_tier_answer answer = KVMM_TIER_MISS;
	enum known_state known;
	struct req *req;

	kv_lock(&remote->lock);
	known = wire_is_usable(remote, now_ns) ? known_of(&remote->known, name, now_ns) :
						 KNOWN_MISSING;
	if (known == KNOWN_THERE) {
		answer = KVMM_TIER_HIT;
	} else if (known == KNOWN_ASKED) {
		if (known_of(&remote->known, name, now_ns + remote->deadline_ns) == KNOWN_ASKED)
			answer = KVMM_TIER_RETRY;
	} else if (known == KNOWN_NOT && (req = req_take(remote, REQ_ASK, name))) {
		req_wait(remote, req, now_ns);
		if (known_note(&remote->known, name, KNOWN_ASKED, until_ns))
			answer = KVMM_TIER_RETRY;
	}
	kv_unlock(&remote->lock);
	return answer;
}

int remote_get(struct remote *remote, struct kv_tier_io *io)
{
	u64 now_ns = kv_clock_ns();
	struct req *req = NULL;
	int err = -ENOENT;

	kv_lock(&remote->lock);
	if (wire_is_usable(remote, now_ns) &&
	    known_of(&remote->known, &io->name, now_ns) != KNOWN_GONE) {
		req = req_take(remote, REQ_GET, &io->name);
		err = req ? 0 : -EAGAIN;
	}
	if (req) {
		req->io = io;
		req_wait(remote, req, now_ns);
	}
	kv_unlock(&remote->lock);
	return err;
}

/* Is it to be sent? *@is_there: it need not be. */
static bool wants_put(struct remote *remote, const struct kv_tier_name *name, u64 now_ns,
		      bool *is_there)
{
	enum known_state known;
	bool is_usable;

	kv_assert_held(&remote->lock);
	is_usable = wire_is_usable(remote, now_ns);
	known = known_of(&remote->known, name, now_ns);
	*is_there = is_usable && known == KNOWN_THERE;
	is_usable &= *is_there || now_ns >= remote->put_ns;
	if (!is_usable || known == KNOWN_GONE)
		remote->count.dropped++;
	return is_usable && known != KNOWN_GONE && known != KNOWN_THERE;
}

/* It stands in ->in_front meanwhile, where forgetting finds it. False: it was forgotten. */
static bool sum_and_wait(struct remote *remote, struct req *req)
{
	bool is_void;

	req->sum = kv_disk_sum(req->io->buf, req->io->bytes);
	kv_lock(&remote->lock);
	list_del(&remote->in_front, req);
	is_void = req->is_void;
	if (!is_void) {
		req_wait(remote, req, kv_clock_ns());
	} else {
		req->io = NULL;
		req_free(remote, req);
	}
	kv_unlock(&remote->lock);
	return !is_void;
}

int remote_put(struct remote *remote, struct kv_tier_io *io)
{
	struct req *req = NULL;
	bool is_there, wants;

	kv_lock(&remote->lock);
	wants = wants_put(remote, &io->name, kv_clock_ns(), &is_there);
	if (wants || is_there)
		req = req_take(remote, REQ_PUT, &io->name);
	if (req)
		req->io = io;
	if (req && is_there) {
		io->was_there = true;
		req_end_io(remote, req, 0);
		req_free(remote, req);
	} else if (req) {
		list_push(&remote->in_front, req);
	}
	kv_unlock(&remote->lock);
	if (!req || is_there)
		return req ? 0 : -EAGAIN;
	return sum_and_wait(remote, req) ? 0 : -ECANCELED;
}

struct req *remote_put_begin(struct remote *remote, struct kv_tier_io *io)
{
	struct req *req;

	kv_lock(&remote->lock);
	req = req_take(remote, REQ_PUT, &io->name);
	if (req) {
		req->io = io;
		list_push(&remote->in_front, req);
	}
	remote->count.dropped += !req;
	kv_unlock(&remote->lock);
	return req;
}

void remote_put_cancel(struct remote *remote, struct req *req)
{
	kv_lock(&remote->lock);
	list_del(&remote->in_front, req);
	req->io = NULL;
	req_free(remote, req);
	kv_unlock(&remote->lock);
}

bool remote_put_from_front(struct remote *remote, const struct kv_tier_io *io)
{
	bool wants, is_there;
	struct req *req;

	kv_lock(&remote->lock);
	req = remote->in_front.first;
	while (req && req->io != io)
		req = req->next;
	wants = req && !io->error && !req->is_void &&
		wants_put(remote, &io->name, kv_clock_ns(), &is_there);
	kv_unlock(&remote->lock);
	if (wants)
		return sum_and_wait(remote, req);
	if (req)
		remote_put_cancel(remote, req);
	return false;
}

/* ---- forgetting ---- */

static bool is_same_name(const struct kv_tier_name *a, const struct kv_tier_name *b)
{
	return kv_key_equal(&a->key, &b->key) && a->layout == b->layout &&
	       kv_domain_word(a->domain) == kv_domain_word(b->domain);
}

/* Blocks of that name, or of any, that are not on their way yet, are not sent. */
static void void_puts(struct remote *remote, const struct kv_tier_name *name)
{
	struct req_list waiting = remote->waiting;
	struct req *req;

	kv_assert_held(&remote->lock);
	if (!remote->nr_used[REQ_PUT])
		return;
	for (req = remote->in_front.first; req; req = req->next)
		req->is_void |= !name || is_same_name(&req->name, name);
	remote->waiting = (struct req_list){ 0 };
	while ((req = list_pop(&waiting))) {
		if (req->kind == REQ_PUT && (!name || is_same_name(&req->name, name))) {
			req_end_io(remote, req, -ECANCELED);
			req_free(remote, req);
		} else {
			list_push(&remote->waiting, req);
		}
	}
}

/* False: it takes a fence. */
static bool delete(struct remote *remote, const struct kv_tier_name *name)
{
	struct req *req;

	kv_assert_held(&remote->lock);
	void_puts(remote, name);
	if (known_of(&remote->known, name, 0) == KNOWN_GONE)
		return true;
	req = req_take(remote, REQ_DEL, name);
	if (!req)
		return false;
	if (!known_note(&remote->known, name, KNOWN_GONE, 0)) {
		req_free(remote, req);
		return false;
	}
	req_wait(remote, req, 0);
	return true;
}

/* Names that are to be GONE no more, but for the first *@nr_over; and fences. */
struct wanted {
	const struct kv_tier_name *names;
	u32	nr, nr_over;
	u64	fences;
};

/* 0: it is over; -EAGAIN; -EIO the server cannot be asked at present. */
static int is_over(struct remote *remote, struct wanted *wanted)
{
	int ret = -EAGAIN;

	kv_lock(&remote->lock);
	while (wanted->nr_over < wanted->nr &&
	       known_of(&remote->known, &wanted->names[wanted->nr_over], 0) != KNOWN_GONE)
		wanted->nr_over++;
	if (wanted->nr_over == wanted->nr && remote->fences_done >= wanted->fences)
		ret = 0;
	else if (remote->wire.state == WIRE_DOWN && kv_clock_ns() < remote->retry_ns)
		ret = -EIO;
	kv_unlock(&remote->lock);
	return ret;
}

static int wait_for(struct remote *remote, struct wanted wanted)
{
	u64 until_ns = kv_clock_ns() + remote->deadline_ns;
	u32 word = 0;
	int ret;

	for (;;) {
		if (kv_trylock(&remote->wire_lock)) {
			wire_pump(remote);
			kv_unlock(&remote->wire_lock);
		}
		ret = is_over(remote, &wanted);
		if (ret != -EAGAIN || kv_clock_ns() >= until_ns)
			break;
		kv_env()->wait(kv_env()->ctx, &word, 0, LOOK_NS);
	}
	return ret ? -EIO : 0;
}

int remote_forget(struct remote *remote, const struct kv_tier_name *names, u32 nr, bool for_good)
{
	bool fits = true;
	u64 fences;

	kv_lock(&remote->lock);
	for (u32 i = 0; i < nr; i++)
		fits &= delete(remote, &names[i]);
	remote->fences += !fits;
	fences = remote->fences;
	kv_unlock(&remote->lock);
	return for_good ? wait_for(remote, (struct wanted){ names, nr, 0, fences }) : 0;
}

int remote_reset(struct remote *remote)
{
	u64 fences;

	kv_lock(&remote->lock);
	void_puts(remote, NULL);
	fences = ++remote->fences;
	kv_unlock(&remote->lock);
	return wait_for(remote, (struct wanted){ .fences = fences });
}

/* ---- the rest ---- */

u32 remote_poll(struct remote *remote, struct kv_tier_io **done, u32 max)
{
	u32 nr;

	if (kv_trylock(&remote->wire_lock)) {
		wire_pump(remote);
		kv_unlock(&remote->wire_lock);
	}
	kv_lock(&remote->lock);
	for (nr = 0; nr < max && remote->nr_done; nr++) {
		done[nr] = remote->done[remote->done_at];
		remote->done_at = (remote->done_at + 1) % remote->max_done;
		remote->nr_done--;
	}
	kv_unlock(&remote->lock);
	return nr;
}

static bool count_list(const struct req_list *list, u32 *nr_of)
{
	const struct req *req, *last = NULL;
	u32 nr = 0;

	for (req = list->first; req && nr <= list->nr; req = req->next) {
		nr_of[req->kind % NR_REQ_KINDS]++;
		last = req;
		nr++;
	}
	return nr == list->nr && last == list->last;
}

/* Each deletion has its name GONE. */
static bool dels_are_gone(const struct remote *remote, const struct req_list *list)
{
	for (const struct req *req = list->first; req; req = req->next)
		if (req->kind == REQ_DEL &&
		    known_of(&remote->known, &req->name, 0) != KNOWN_GONE)
			return false;
	return true;
}

static u32 count_gone(const struct remote *remote)
{
	u32 nr = 0;

	for (u32 i = 0; i < KNOWN_SETS * KNOWN_SET; i++)
		nr += remote->known.name[i].state == KNOWN_GONE;
	return nr;
}

int remote_check(struct remote *remote)
{
	u32 nr_of[NR_REQ_KINDS] = { 0 }, nr_taken = 0;
	bool is_good;

	kv_lock(&remote->lock);
	is_good = count_list(&remote->free, nr_of) && nr_of[REQ_FREE] == remote->free.nr &&
		  count_list(&remote->in_front, nr_of) && count_list(&remote->waiting, nr_of) &&
		  count_list(&remote->sent, nr_of) && nr_of[REQ_FREE] == remote->free.nr &&
		  remote->nr_done <= remote->max_done;
	for (u32 i = REQ_PUT; i < NR_REQ_KINDS; i++) {
		is_good &= nr_of[i] == remote->nr_used[i] && nr_of[i] <= remote->max[i];
		nr_taken += remote->nr_used[i];
	}
	is_good &= remote->free.nr + nr_taken == remote->nr_reqs;
	is_good = is_good && dels_are_gone(remote, &remote->waiting) &&
		  dels_are_gone(remote, &remote->sent);
	is_good &= count_gone(remote) == remote->known.nr_gone &&
		   remote->known.nr_gone == remote->nr_used[REQ_DEL];
	kv_unlock(&remote->lock);
	return is_good ? 0 : -EUCLEAN;
}
