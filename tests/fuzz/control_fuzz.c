// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes, from several clients in any pieces, at a control socket of two pools, with a host that runs
 * out of memory and sockets that are full or broken. Whatever comes: each client is told one greeting and
 * then whole answers, no byte more or less than they say; what is held for clients is bounded; the pools
 * stay sound. What a client is told is read by the tools' table parser, too.
 */
#include <stdlib.h>
#include <stdio.h>

#include <kv/mem.h>

#include "ctl/control.h"
#include "fuzz.h"

#include "tools/client/table.h"

#define NR_CLIENTS	4u
#define FIRST_FD	10
#define LISTENER	3
#define WATCH		4
#define MAX_STEPS	400u
#define MAX_TOLD	(1u << 16)

/* What a client has been told, byte by byte. */
enum telling { GREETING, HEAD, BODY };

struct client {
	bool is_there, has_ended, wants_in, wants_out, is_broken;
	char said[1024];	/* and not received yet */
	u32 nr_said;
	u32 room;		/* bytes that it takes now */
	enum telling telling;
	char line[256];
	u32 nr_line, nr_left;
	bool is_table;
	char *told;		/* of the answer */
	u32 nr_told;
};

static struct client client[NR_CLIENTS];
static u32 nr_coming;
static struct kvmm_control *control;
static struct kvmm_pool *pool[2];

/* ---- what is told ---- */

static void hear_head(struct client *c)
{
	unsigned int err = 0, bytes = 0;

	c->line[c->nr_line] = '\0';
	if (c->telling == GREETING) {
		require(!strcmp(c->line, "kvmm-control 1 fuzz") ||
			!strcmp(c->line, "err 11 17"));
		c->telling = *c->line == 'k' ? HEAD : BODY;
		bytes = *c->line == 'k' ? 0 : 17;
	} else {
		c->is_table = sscanf(c->line, "ok %u", &bytes) == 1;
		require(c->is_table || sscanf(c->line, "err %u %u", &err, &bytes) == 2);
		c->telling = bytes ? BODY : HEAD;
	}
	c->nr_line = c->nr_told = 0;
	c->nr_left = bytes;
}

static void hear(struct client *c, char byte)
{
	struct table table;

	if (c->telling != BODY) {
		if (byte == '\n') {
			hear_head(c);
			return;
		}
		require(c->nr_line < sizeof(c->line) - 1);
		c->line[c->nr_line++] = byte;
		return;
	}
	if (c->nr_told < MAX_TOLD)
		c->told[c->nr_told++] = byte;
	if (!--c->nr_left) {
		c->told[c->nr_told] = '\0';
		if (c->is_table && c->nr_told < MAX_TOLD && !strlen(c->told))
			require(!c->nr_told);
		if (c->is_table && c->nr_told < MAX_TOLD && !table_parse(&table, c->told))
			table_free(&table);
		c->telling = HEAD;
	}
}

/* ---- sockets of memory ---- */

static struct client *client_at(int fd)
{
	require(fd >= FIRST_FD && fd < (int)(FIRST_FD + NR_CLIENTS));
	require(client[fd - FIRST_FD].is_there);
	return &client[fd - FIRST_FD];
}

static int do_folder(void *ctx, const char *path)
{
	return 0;
}

static int do_listen(void *ctx, const char *path)
{
	return LISTENER;
}

static void do_unlink(void *ctx, const char *path)
{
}

static int do_watch(void *ctx)
{
	return WATCH;
}

static int do_accept(void *ctx, int fd, bool root_too)
{
	for (u32 i = 0; i < NR_CLIENTS && nr_coming; i++) {
		char *told = client[i].told;

		if (client[i].is_there)
			continue;
		nr_coming--;
		client[i] = (struct client){ .is_there = true, .told = told };
		return FIRST_FD + i;
	}
	return -EAGAIN;
}

static int do_connect(void *ctx, const char *path)
{
	return -ENOENT;
}

static void do_close(void *ctx, int fd)
{
	if (fd >= FIRST_FD)
		client_at(fd)->is_there = false;
}

static s64 do_send(void *ctx, int fd, const void *buf, size_t bytes, const int *fds, u32 nr)
{
	struct client *c = client_at(fd);
	u32 done = min(bytes, (size_t)c->room);

	require(bytes && !nr);
	if (c->is_broken)
		return -EPIPE;
	if (!done)
		return -EAGAIN;
	for (u32 i = 0; i < done; i++)
		hear(c, ((const char *)buf)[i]);
	c->room -= done;
	return done;
}

static s64 do_recv(void *ctx, int fd, void *buf, size_t bytes, int *fds, u32 *nr)
{
	struct client *c = client_at(fd);
	u32 done = min(bytes, (size_t)c->nr_said);

	*nr = 0;
	require(bytes);
	if (!done)
		return c->is_broken ? -ECONNRESET : c->has_ended ? 0 : -EAGAIN;
	memcpy(buf, c->said, done);
	c->nr_said -= done;
	memmove(c->said, c->said + done, c->nr_said);
	return done;
}

static int do_set(void *ctx, int watch, int fd, u32 events, bool is_new)
{
	if (fd < FIRST_FD)
		return 0;
	client_at(fd)->wants_in = events & KV_SOCK_IN;
	client_at(fd)->wants_out = events & KV_SOCK_OUT;
	return 0;
}

static void do_del(void *ctx, int watch, int fd)
{
	client_at(fd)->wants_in = client_at(fd)->wants_out = false;
}

static void do_hang_up(void *ctx, int fd)
{
}

static int do_wait(void *ctx, int watch, struct kv_sock_ready *ready, u32 max, int timeout_ms)
{
	int nr = 0;

	if (nr_coming)
		ready[nr++] = (struct kv_sock_ready){ LISTENER, KV_SOCK_IN };
	for (u32 i = 0; i < NR_CLIENTS; i++) {
		struct client *c = &client[i];
		u32 events = 0;

		if (!c->is_there)
			continue;
		if (c->wants_in && (c->nr_said || c->has_ended || c->is_broken))
			events |= KV_SOCK_IN;
		if (c->wants_out && (c->room || c->is_broken))
			events |= KV_SOCK_OUT;
		if (c->is_broken)
			events |= KV_SOCK_GONE;
		if (events)
			ready[nr++] = (struct kv_sock_ready){ FIRST_FD + i, events };
	}
	return nr;
}

static const struct kv_sock_ops sockets = {
	.folder = do_folder, .listen = do_listen, .unlink = do_unlink, .watch = do_watch,
	.accept = do_accept, .connect = do_connect, .close = do_close, .send = do_send, .recv = do_recv,
	.watch_set = do_set, .watch_del = do_del, .watch_wait = do_wait, .hang_up = do_hang_up,
};

/* ---- what clients say ---- */

static void say(struct client *c, const char *text, u32 nr)
{
	u32 room = sizeof(c->said) - c->nr_said;

	nr = min(nr, room);
	memcpy(c->said + c->nr_said, text, nr);
	c->nr_said += nr;
}

static const char *const words[] = {
	"alpha", "beta", "-", "7", "0", "1", "18446744073709551615", "want=4", "goal=", "goal=run",
	"goal=pageblocks", "goal=shorten", "goal=gather", "seq=7", "between", "drop", "best", "copy",
	"max_blocks=1", "watermark_high", "watermark_low", "background_threshold_pm",
	"pace_bytes_per_ms", "balloon_bytes", "tier_touches", "\r", "\x01", "/x",
};

static void say_word(struct client *c, const char *word)
{
	say(c, word, strlen(word));
	say(c, " ", 1);
}

static void say_command(struct client *c)
{
	const struct kv_command_set *set = kv_command_sets[any(KV_NR_COMMAND_SETS)];
	u32 nr = 0;

	while (set->commands[nr].name)
		nr++;
	say_word(c, set->commands[any(nr)].name);
}

static void say_bytes(struct client *c)
{
	for (u32 nr = any(64); nr; nr--)
		say(c, &(char){ any(256) }, 1);
}

static void use_pools(void)
{
	struct kvmm_pool *one = pool[any(2)];
	kvmm_range_t range;

	if (any(2))
		kvmm_range_free_seq(one, 7);
	else if (!kvmm_range_find_seq(one, 7, &range, 1))
		kvmm_range_alloc_attr(one, &(struct kvmm_range_attr){
				      .size = sizeof(struct kvmm_range_attr), .nr = 1 + any(5),
				      .seq = 7 }, &range);
}

static void step(void)
{
	struct client *c = &client[any(NR_CLIENTS)];

	switch (any(12)) {
	case 0: nr_coming += nr_coming < 2; break;
	case 1: say_command(c); break;
	case 2: say_word(c, words[any(ARRAY_SIZE(words))]); break;
	case 3: say(c, "\n", 1); break;
	case 4: say_bytes(c); break;
	case 5: c->room += 1u << any(16); c->room &= 0xffff; break;
	case 6: fake_env_advance(&fuzz.env, 1000000ull << any(17)); break;
	case 7: c->has_ended |= !any(8); break;
	case 8: c->is_broken |= !any(8); break;
	case 9: fail_soon(); break;
	case 10: use_pools(); break;
	case 11: say_command(c); say(c, "\n", 1); break;
	}
}

/* ---- a run ---- */

static struct kvmm_pool *make(const char *name)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .name = name, .policy = "lru",
				       .block_bytes = 64, .nr_blocks = 16 };
	struct kvmm_pool *made = NULL;

	require(!kvmm_pool_create(&attr, &made));
	return made;
}

static void open_all(void)
{
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;

	kv_sock_set(&sockets);
	pool[0] = make("alpha");
	pool[1] = make("beta");
	attr.name = "fuzz";
	attr.dir = "/nowhere";
	attr.max_clients = NR_CLIENTS - 1;
	attr.max_rate = 100;
	attr.max_answer_bytes = 8192;
	require(!kvmm_control_open(&attr, &control));
	require(!kvmm_control_add_pool(control, NULL, pool[0]));
	require(!kvmm_control_add_pool(control, NULL, pool[1]));
	for (u32 i = 0; i < NR_CLIENTS; i++) {
		client[i] = (struct client){ .told = client[i].told };
		if (!client[i].told)
			client[i].told = malloc(MAX_TOLD + 1);
	}
	nr_coming = 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	fuzz_begin(data, bytes);
	open_all();
	for (u32 i = 0; i < MAX_STEPS && fuzz.left; i++) {
		int ret;

		step();
		ret = kvmm_control_poll(control);
		require(ret >= 0 && ret <= 1000);
		require(!control->lock.held && !control->poll_lock.held);
	}
	fake_env_fail(&fuzz.env, 0, false);
	require(!kvmm_validate(pool[0]) && !kvmm_validate(pool[1]));
	kvmm_control_close(control);
	for (u32 i = 0; i < NR_CLIENTS; i++)
		require(!client[i].is_there);
	kvmm_pool_destroy(pool[0]);
	kvmm_pool_destroy(pool[1]);
	kv_sock_set(NULL);
	fuzz_end();
	return 0;
}
