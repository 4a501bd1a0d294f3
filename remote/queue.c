// SPDX-License-Identifier: Apache-2.0
/* Requests, from the call to their end. */
#include "internal.h"

void list_push(struct req_list *list, struct req *req)
{
	req->next = NULL;
	if (list->last)
		list->last->next = req;
	else
		list->first = req;
	list->last = req;
	list->nr++;
}

struct req *list_pop(struct req_list *list)
{
	struct req *req = list->first;

	if (req)
		list_del(list, req);
	return req;
}

void list_del(struct req_list *list, const struct req *req)
{
	struct req *before = NULL;

	if (list->first != req)
		for (before = list->first; before->next != req;)
			before = before->next;
	if (before)
		before->next = req->next;
	else
		list->first = req->next;
	if (list->last == req)
		list->last = before;
	list->nr--;
}

struct req *req_take(struct remote *remote, enum req_kind kind, const struct kv_tier_name *name)
{
	struct req *req;

	kv_assert_held(&remote->lock);
	if (remote->nr_used[kind] == remote->max[kind])
		return NULL;
	req = list_pop(&remote->free);
	*req = (struct req){ .kind = kind };
	if (name)
		req->name = *name;
	remote->nr_used[kind]++;
	return req;
}

void req_free(struct remote *remote, struct req *req)
{
	kv_assert_held(&remote->lock);
	kv_assert(remote->nr_used[req->kind] && !req->io);
	remote->nr_used[req->kind]--;
	req->kind = REQ_FREE;
	list_push(&remote->free, req);
}

void req_wait(struct remote *remote, struct req *req, u64 now_ns)
{
	kv_assert_held(&remote->lock);
	req->due_ns = now_ns + remote->deadline_ns;
	req->number = ++remote->nr_asked;
	list_push(&remote->waiting, req);
}

void req_end_io(struct remote *remote, struct req *req, int error)
{
	u32 at = (remote->done_at + remote->nr_done) % remote->max_done;

	kv_assert_held(&remote->lock);
	if (!req->io)
		return;
	kv_assert(remote->nr_done < remote->max_done);
	req->io->error = error;
	remote->done[at] = req->io;
	remote->nr_done++;
	req->io = NULL;
}

void req_fail(struct remote *remote, struct req *req)
{
	kv_assert_held(&remote->lock);
	kv_assert(req->kind != REQ_DEL);
	remote->count.dropped += req->kind == REQ_PUT && req->io;
	remote->count.failed += req->kind == REQ_GET && req->io;
	/* The store in front has it. */
	req_end_io(remote, req, req->kind == REQ_PUT && remote->front ? 0 : -EIO);
	req_free(remote, req);
}

void req_deleted(struct remote *remote, struct req *req)
{
	kv_assert_held(&remote->lock);
	known_deleted(&remote->known, &req->name);
	req_free(remote, req);
}
