// SPDX-License-Identifier: Apache-2.0
/*
 * Links: how a giver meets a taker.
 *
 * The window is offered by the taker; a giver with a device that cannot map it says so, and is
 * offered host memory then.
 */
#include <string.h>

#include <kv/mem.h>

#include "link.h"

static int hear_window(struct kvmm_migrate_link *link, const struct wire_msg *msg)
{
	struct wire_window shape;
	int fd, err;

	if (wire_get_window(msg, &shape) || !shape.kind)
		return -EPROTO;
	fd = conn_take_fd(&link->conn);
	if (fd < 0)
		return -EPROTO;
	err = window_open(&link->window, &link->view, &shape, fd);
	if (err && shape.kind != WINDOW_DEVICE)
		return err;
	/* The kind it has become: WINDOW_NONE asks for another one. */
	if (err)
		shape = (struct wire_window){ .kind = WINDOW_NONE };
	conn_send(&link->conn, &(struct conn_out){
		.type = WIRE_WINDOW, .fixed = &shape, .fixed_bytes = sizeof(shape), .fd = -1 });
	if (!err)
		link->state = LINK_READY;
	return 0;
}

static int hear_hello(const struct kvmm_migrate_link *link, const struct wire_msg *msg)
{
	struct wire_hello hello;

	if (wire_get_hello(msg, &hello))
		return -EPROTO;
	if (hello.block_bytes != link->view.block_bytes ||
	    hello.nr_planes != link->view.planes.nr ||
	    hello.block_tokens != link->view.block_tokens ||
	    hello.layout != wire_layout(&link->view.planes))
		return -EMEDIUMTYPE;
	return 0;
}

static int hear(struct kvmm_migrate_link *link, const struct wire_msg *msg)
{
	s32 status;

	switch (msg->head.type) {
	case WIRE_HELLO:
		return hear_hello(link, msg);
	case WIRE_WINDOW:
		return hear_window(link, msg);
	case WIRE_ABORT:
		return wire_get_status(msg, &status) || !status ? -EPROTO : status;
	}
	return -EPROTO;
}

int link_greet(struct kvmm_migrate_link *link)
{
	const struct kv_pool_view *view = &link->view;
	const struct wire_hello hello = {
		.block_bytes = view->block_bytes, .layout = wire_layout(&view->planes),
		.nr_planes = view->planes.nr, .block_tokens = view->block_tokens,
		.caches = view->caches,
	};
	struct wire_msg msg;
	int ret = 0;

	if (link->state == LINK_NEW) {
		conn_send(&link->conn, &(struct conn_out){
			.type = WIRE_HELLO, .fixed = &hello, .fixed_bytes = sizeof(hello),
			.fd = -1 });
		link->state = LINK_GREETING;
	}
	while (link->state != LINK_READY) {
		ret = conn_next(&link->conn, &msg);
		if (!ret)
			return -EINPROGRESS;
		if (ret > 0)
			ret = hear(link, &msg);
		if (ret < 0) {
			conn_break(&link->conn, ret);
			return ret;
		}
	}
	return 0;
}

int link_next(struct kvmm_migrate_link *link, const struct wire_id *id, u32 gen,
	      struct wire_msg *msg)
{
	int ret;

	do
		ret = conn_next(&link->conn, msg);
	while (ret > 0 && (!wire_id_equal(&msg->head.id, id) || msg->head.gen != gen));
	return ret;
}

/* ---- the calls ---- */

int kvmm_migrate_connect(struct kvmm_pool *pool, const char *path,
			 struct kvmm_migrate_link **result)
{
	const struct kv_sock_ops *ops = kv_sock();
	struct kvmm_migrate_link *link;
	int err;

	if (!pool || !path || !result)
		return -EINVAL;
	err = kv_pool_refusal(pool);
	if (err)
		return err;
	link = kv_alloc(sizeof(*link));
	if (!link)
		return -ENOMEM;
	link->pool = pool;
	link->window.fd = -1;
	kv_pool_view(pool, &link->view);
	err = link->view.dev ? ops->connect(ops->ctx, path) : -EOPNOTSUPP;
	if (err >= 0)
		err = conn_init(&link->conn, err);
	if (err)
		kv_free(link);
	else
		*result = link;
	return err;
}

void kvmm_migrate_disconnect(struct kvmm_migrate_link *link)
{
	if (!link || kv_inherited(link))
		return;
	if (link->job)
		remote_unlink(link->job);
	window_wait(&link->window);
	window_close(&link->window);
	conn_exit(&link->conn);
	kv_free(link);
}

int kvmm_migrate_link_fd(const struct kvmm_migrate_link *link)
{
	if (kv_inherited(link))
		return -ECHILD;
	if (!link)
		return -EINVAL;
	return link->conn.err ? -ECONNRESET : link->conn.fd;
}
