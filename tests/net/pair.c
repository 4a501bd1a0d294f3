// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/net/pair.h"

#define MAX_POLLS	20000u

static void must(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "pair: %s\n", what);
	abort();
}

static void make_pair(struct pair *pair, const char *src_device, const char *dst_device)
{
	*pair = (struct pair){ .src = net_pool(src_device, 64), .dst = net_pool(dst_device, 64) };
	snprintf(pair->folder, sizeof(pair->folder), "/tmp/kvmm-net-%d-XXXXXX", getpid());
	must(mkdtemp(pair->folder) != NULL, "folder");
}

void pair_serve(struct pair *pair, const struct kvmm_migrate_serve_attr *how)
{
	struct kvmm_migrate_serve_attr attr = *how;
	struct kvmm_migrate_serve_stat stat;

	attr.pool = pair->dst;
	attr.path = pair->path;
	attr.key_file = *pair->key_file ? pair->key_file : NULL;
	must(!kvmm_migrate_serve(&attr, &pair->server), "serve");
	must(!kvmm_migrate_serve_get_stat(pair->server, &stat), "look");
	if (attr.key_file)
		snprintf(pair->path, sizeof(pair->path), "%s://127.0.0.1:%u", pair->way,
			 stat.port);
}

void pair_init(struct pair *pair, const char *src_device, const char *dst_device, u32 flags,
	       u64 window_bytes)
{
	struct kvmm_migrate_serve_attr attr = KVMM_MIGRATE_SERVE_INIT;

	make_pair(pair, src_device, dst_device);
	snprintf(pair->path, sizeof(pair->path), "%s/s", pair->folder);
	attr.flags = flags;
	attr.window_bytes = window_bytes;
	pair_serve(pair, &attr);
}

static void make_key(struct pair *pair)
{
	FILE *file;

	snprintf(pair->key_file, sizeof(pair->key_file), "%s/key", pair->folder);
	file = fopen(pair->key_file, "w");
	must(file && !chmod(pair->key_file, 0600) &&
	     fprintf(file, "%064x\n", getpid()) == 65 && !fclose(file), "key");
}

bool pair_init_far(struct pair *pair, const char *way, u64 window_bytes)
{
	struct kvmm_migrate_serve_attr attr = KVMM_MIGRATE_SERVE_INIT;

	make_pair(pair, "host", "host");
	make_key(pair);
	pair->way = way;
	snprintf(pair->path, sizeof(pair->path), "%s://127.0.0.1:0", way);
	attr.pool = pair->dst;
	attr.path = pair->path;
	attr.key_file = pair->key_file;
	if (kvmm_migrate_serve(&attr, &pair->server) == -EOPNOTSUPP) {
		pair_exit(pair);
		return false;
	}
	kvmm_migrate_serve_end(pair->server);
	attr.window_bytes = window_bytes;
	pair_serve(pair, &attr);
	return true;
}

void pair_settle(struct pair *pair)
{
	for (u32 i = 0; i < 20; i++)
		kvmm_migrate_serve_tick(pair->server);
}

void pair_exit(struct pair *pair)
{
	kvmm_migrate_serve_end(pair->server);
	must(!kvmm_validate(pair->src), "source");
	must(!kvmm_validate(pair->dst), "destination");
	kvmm_pool_destroy(pair->src);
	kvmm_pool_destroy(pair->dst);
	if (*pair->key_file)
		unlink(pair->key_file);
	rmdir(pair->folder);
}

struct kvmm_migrate_attr pair_attr(struct pair *pair)
{
	struct kvmm_migrate_attr attr = { .size = sizeof(attr), .src = pair->src,
					  .target = pair->path,
					  .key_file = *pair->key_file ? pair->key_file : NULL };

	return attr;
}

struct kvmm_migrate *pair_begin_after(struct pair *pair, u64 seq, u32 nr,
				      struct kvmm_migrate *before)
{
	struct kvmm_migrate_attr attr = pair_attr(pair);
	struct kvmm_migrate *job = NULL;

	attr.what = KVMM_MIGRATE_RANGE;
	attr.range = net_range(pair->src, seq, nr, 1);
	attr.after = before;
	attr.flags = KVMM_MIGRATE_KEEP_LINK;
	must(!kvmm_migrate_start(&attr, &job), "start");
	return job;
}

struct kvmm_migrate *pair_begin_range(struct pair *pair, u64 seq, u32 nr)
{
	return pair_begin_after(pair, seq, nr, NULL);
}

bool pair_range_is_there(struct pair *pair, u64 seq, u32 nr)
{
	kvmm_range_t range;

	return !kvmm_range_find_seq(pair->src, seq, NULL, 0) &&
	       kvmm_range_find_seq(pair->dst, seq, &range, 1) == 1 &&
	       net_range_is(pair->dst, range, seq, nr) && !kvmm_range_free(pair->dst, range);
}

struct kvmm_migrate_serve_stat pair_stat(struct pair *pair)
{
	struct kvmm_migrate_serve_stat stat;

	must(!kvmm_migrate_serve_get_stat(pair->server, &stat), "stat");
	return stat;
}

int pair_run(struct pair *pair, struct kvmm_migrate *job)
{
	int err = -EINPROGRESS;

	for (u32 i = 0; i < MAX_POLLS && err == -EINPROGRESS; i++) {
		err = kvmm_migrate_poll(job);
		kvmm_migrate_serve_tick(pair->server);
	}
	return err;
}

int pair_turn(struct pair *pair, struct kvmm_migrate *job)
{
	int err = -EINPROGRESS;

	for (u32 i = 0; i < MAX_POLLS && err == -EINPROGRESS; i++) {
		u32 before = net_status(job).nr_verified;

		err = kvmm_migrate_poll(job);
		kvmm_migrate_serve_tick(pair->server);
		if (net_status(job).phase == KVMM_MIGRATE_WAIT && net_status(job).nr_verified == before)
			break;
	}
	return err;
}

/* ---- a system that can be spoilt ---- */

struct spoil spoil;
static struct kv_sock_ops spoilt;

static bool is_cut(s64 *err)
{
	spoil.nr_calls++;
	if (spoil.eintr_every && spoil.nr_calls % spoil.eintr_every == 0) {
		*err = -EINTR;
		return true;
	}
	if (!spoil.cut_at || spoil.nr_calls < spoil.cut_at)
		return false;
	*err = spoil.err ? spoil.err : -ECONNRESET;
	if (spoil.err)
		spoil.cut_at = 0;
	return true;
}

static s64 spoilt_send(void *ctx, int fd, const void *buf, size_t bytes, const int *fds, u32 nr_fds)
{
	s64 err;

	if (is_cut(&err))
		return err;
	if (spoil.short_bytes)
		bytes = min(bytes, (size_t)spoil.short_bytes);
	return kv_sock_system.send(NULL, fd, buf, bytes, fds, nr_fds);
}

static s64 spoilt_recv(void *ctx, int fd, void *buf, size_t bytes, int *fds, u32 *nr_fds)
{
	s64 err;

	if (is_cut(&err))
		return err;
	if (spoil.short_bytes)
		bytes = min(bytes, (size_t)spoil.short_bytes);
	return kv_sock_system.recv(NULL, fd, buf, bytes, fds, nr_fds);
}

void spoil_begin(const struct spoil *how)
{
	spoil = *how;
	spoilt = kv_sock_system;
	spoilt.send = spoilt_send;
	spoilt.recv = spoilt_recv;
	kv_sock_set(&spoilt);
}

void spoil_end(void)
{
	kv_sock_set(NULL);
}
