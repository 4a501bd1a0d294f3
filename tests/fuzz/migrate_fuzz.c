// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as the other process of a migration: as a giver, and as a taker.
 *
 * Of another machine all bytes are garbage, since none of them is encrypted with the key.
 *
 * The first byte says which, and whether the rest is the stream itself or a recipe: a type, a length
 * and a payload for each message, which is then framed as it should be, so that what is behind the
 * frame is reached. Nothing may be found under a name, or lost, that a checksum does not vouch for: a
 * giver that lies is no better than one that is silent.
 */
#include <unistd.h>

#include <kv/sock.h>

#include "tests/fuzz/require.h"
#include "net/wire.h"
#include "tests/net/util.h"

#define NR_BLOCKS	32u
#define MAX_STREAM	(256u << 10)
#define FD		1000		/* of the socket; nobody looks at it */

static struct {
	u8 stream[MAX_STREAM];
	u32 nr, at;
	bool accepted;
	bool fd_sent;
	struct wire_id id;		/* that the giver under test has told */
	u32 gen;
} f;

static void must(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

/* ---- a system of one socket ---- */

static int fake_listen(void *ctx, const char *path)
{
	return FD + 1;
}

static void fake_unlink(void *ctx, const char *path)
{
}

static int fake_accept(void *ctx, int fd, bool root_too)
{
	if (f.accepted)
		return -EAGAIN;
	f.accepted = true;
	return FD;
}

static int fake_tcp_listen(void *ctx, const char *addr, u16 *port)
{
	*port = 1;
	return FD + 1;
}

static int fake_tcp_accept(void *ctx, int fd)
{
	return fake_accept(ctx, fd, false);
}

static s64 fake_secret(void *ctx, const char *path, void *buf, size_t bytes)
{
	memset(buf, '7', 64);
	return 64;
}

static int fake_connect(void *ctx, const char *path)
{
	return FD;
}

static void fake_close(void *ctx, int fd)
{
	if (fd < FD)
		kv_sock_system.close(NULL, fd);
}

/* What the giver calls its migration is what a taker knows of it, too. */
static s64 fake_send(void *ctx, int fd, const void *buf, size_t bytes, const int *fds, u32 nr_fds)
{
	struct wire_head head;

	if (bytes >= sizeof(head)) {
		memcpy(&head, buf, sizeof(head));
		if (head.magic == WIRE_MAGIC && head.id.half[1]) {
			f.id = head.id;
			f.gen = head.gen;
		}
	}
	return bytes;
}

static void patch_id(u8 *msg, u32 bytes)
{
	struct wire_head head;

	if (bytes < sizeof(head))
		return;
	memcpy(&head, msg, sizeof(head));
	if (head.magic != WIRE_MAGIC || head.gen != 0xffffffffu)
		return;
	head.id = f.id;
	head.gen = f.gen;
	memcpy(msg, &head, sizeof(head));
}

/* A message at a time, as the one that answers what was sent meanwhile. */
static s64 fake_recv(void *ctx, int fd, void *buf, size_t bytes, int *fds, u32 *nr_fds)
{
	struct wire_head head = { 0 };
	u32 nr = f.nr - f.at;

	*nr_fds = 0;
	if (nr >= sizeof(head))
		memcpy(&head, f.stream + f.at, sizeof(head));
	if (head.magic == WIRE_MAGIC && head.bytes <= WIRE_MAX_BYTES)
		nr = min(nr, (u32)sizeof(head) + head.bytes);
	nr = min(nr, (u32)bytes);
	memcpy(buf, f.stream + f.at, nr);
	patch_id(buf, nr);
	f.at += nr;
	if (nr && !f.fd_sent) {
		fds[0] = kv_sock_system.mem_make(NULL, 1 << 16);
		*nr_fds = fds[0] >= 0;
		f.fd_sent = true;
	}
	return nr;
}

static int fake_watch(void *ctx)
{
	return FD + 2;
}

static int fake_watch_set(void *ctx, int watch, int fd, u32 events, bool is_new)
{
	return 0;
}

static struct kv_sock_ops fake;

static void install(void)
{
	fake = kv_sock_system;
	fake.listen = fake_listen;
	fake.unlink = fake_unlink;
	fake.accept = fake_accept;
	fake.connect = fake_connect;
	fake.close = fake_close;
	fake.tcp_listen = fake_tcp_listen;
	fake.tcp_connect = fake_connect;
	fake.tcp_accept = fake_tcp_accept;
	fake.secret = fake_secret;
	fake.send = fake_send;
	fake.recv = fake_recv;
	fake.watch = fake_watch;
	fake.watch_set = fake_watch_set;
	kv_sock_set(&fake);
}

/* ---- streams ---- */

static void add_message(u32 type, const void *payload, u32 bytes, bool of_giver)
{
	struct wire_head head = {
		.magic = WIRE_MAGIC, .version = WIRE_VERSION, .type = type, .bytes = bytes,
		.gen = of_giver ? 1 : 0xffffffffu, .id = { { 5, 7 } },
		.sum = wire_sum(payload, bytes),
	};

	if (f.nr + sizeof(head) + bytes > MAX_STREAM)
		return;
	memcpy(f.stream + f.nr, &head, sizeof(head));
	memcpy(f.stream + f.nr + sizeof(head), payload, bytes);
	f.nr += sizeof(head) + bytes;
}

/* What every link begins with: the interesting part is behind it. */
static void add_greeting(bool of_giver)
{
	const struct kvmm_plane plane = { 1, NET_BLOCK_BYTES, NET_BLOCK_BYTES };
	const struct kv_planes planes = { &plane, 1 };
	struct wire_hello hello = { .block_bytes = NET_BLOCK_BYTES, .layout = wire_layout(&planes),
				    .nr_planes = 1, .block_tokens = 16, .caches = 1 };
	struct wire_window window = { .bytes = 4 * NET_BLOCK_BYTES, .kind = WINDOW_SHARED,
				      .slot_bytes = 2 * NET_BLOCK_BYTES, .slot_blocks = 2 };

	add_message(WIRE_HELLO, &hello, sizeof(hello), of_giver);
	add_message(WIRE_WINDOW, &window, sizeof(window), of_giver);
}

static void add_recipe(const u8 *data, size_t bytes, bool of_giver)
{
	while (bytes >= 2) {
		u32 len = min((size_t)data[1] * 4, bytes - 2);

		add_message(data[0] % (WIRE_NR_TYPES + 1), data + 2, len, of_giver);
		data += 2 + len;
		bytes -= 2 + len;
	}
}

/* ---- the two sides ---- */

static void fuzz_taker(struct kvmm_pool *pool, bool is_far)
{
	struct kvmm_migrate_serve_attr attr = { .size = sizeof(attr), .pool = pool,
						.path = "/nowhere/s",
						.window_bytes = 4 * NET_BLOCK_BYTES };
	struct kvmm_migrate_server *server;
	int err;

	if (is_far) {
		attr.path = "ucx://127.0.0.1:1";
		attr.key_file = "/nowhere/key";
	}
	err = kvmm_migrate_serve(&attr, &server);
	if (is_far && err == -EOPNOTSUPP)
		return;
	must(!err, "serve");
	for (u32 i = 0; i < 200; i++)
		kvmm_migrate_serve_tick(server);
	must(!kvmm_validate(pool), "pool");
	kvmm_migrate_serve_end(server);
}

static void fuzz_giver(struct kvmm_pool *pool, bool keys, bool is_far)
{
	struct kvmm_migrate_attr attr = { .size = sizeof(attr), .src = pool,
					  .target = "/nowhere/s" };
	struct kvmm_migrate *job = NULL;
	kvmm_ref_t refs[6];
	bool gone;
	int err;

	if (keys) {
		net_cache(pool, 0, 6);
		net_match(pool, 0, 6, refs);
		attr.what = KVMM_MIGRATE_REFS;
		attr.refs = refs;
		attr.nr_refs = 6;
	} else {
		attr.range = net_range(pool, 7, 6, 1);
	}
	if (is_far) {
		attr.target = "ucx://127.0.0.1:1";
		attr.key_file = "/nowhere/key";
	}
	err = kvmm_migrate_start(&attr, &job);
	must(!err || (is_far && err == -EOPNOTSUPP), "start");
	if (err)
		job = NULL;
	for (u32 i = 0; i < 200 && kvmm_migrate_poll(job) == -EINPROGRESS; i++)
		;
	gone = kvmm_migrate_poll(job) == 0;
	must(!gone || !is_far, "proof");
	kvmm_migrate_free(job);
	must(!kvmm_validate(pool), "pool");
	if (keys)
		must(net_cached(pool, 0, 6) == (gone ? 0 : 6) && !kvmm_put_many(pool, refs, 6), "keys");
	else
		must(gone || net_range_is(pool, attr.range, 7, 6), "range");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct kvmm_pool *pool;
	u8 how;

	if (!bytes)
		return 0;
	how = *data++;
	bytes--;
	f.nr = f.at = 0;
	f.accepted = f.fd_sent = false;
	f.id = (struct wire_id){ { 0, 0 } };
	install();
	pool = net_pool("host", NR_BLOCKS);
	if (how & 4)
		add_greeting(how & 1);
	if (how & 2) {
		add_recipe(data, bytes, how & 1);
	} else {
		u32 nr = min(bytes, (size_t)MAX_STREAM - f.nr);

		memcpy(f.stream + f.nr, data, nr);
		f.nr += nr;
	}
	if (how & 1)
		fuzz_taker(pool, how & 8);
	else
		fuzz_giver(pool, how & 8, how & 16);
	kvmm_pool_destroy(pool);
	kv_sock_set(NULL);
	return 0;
}
