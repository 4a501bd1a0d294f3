// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <strings.h>

#include "tests/fuzz/require.h"	/* programs without Criterion have it, too */
#include "tests/remote/fake_server.h"

#define FIRST_FD	100000
#define MAX_ARGS	9u

struct arg {
	const u8 *at;
	size_t bytes;
};

/* ---- bytes ---- */

static void put_bytes(struct fake_bytes *bytes, const void *data, size_t nr)
{
	if (bytes->nr + nr > bytes->room) {
		bytes->room = 2 * (bytes->nr + nr);
		bytes->at = realloc(bytes->at, bytes->room);
		require(bytes->at);
	}
	if (nr)
		memcpy(bytes->at + bytes->nr, data, nr);
	bytes->nr += nr;
}

static void put_text(struct fake_bytes *bytes, const char *text)
{
	put_bytes(bytes, text, strlen(text));
}

static void drop_bytes(struct fake_bytes *bytes)
{
	free(bytes->at);
	*bytes = (struct fake_bytes){ 0 };
}

/* ---- values ---- */

static struct fake_value *find(struct fake_server *fake, const struct arg *key)
{
	for (u32 i = 0; i < FAKE_KEYS; i++)
		if (fake->value[i].key && fake->value[i].key_bytes == key->bytes &&
		    !memcmp(fake->value[i].key, key->at, key->bytes))
			return &fake->value[i];
	return NULL;
}

static void drop_value(struct fake_value *value)
{
	free(value->key);
	free(value->value);
	*value = (struct fake_value){ 0 };
}

/* A free one, or, as with allkeys-lru, one that may go: never that of the epoch. */
static struct fake_value *make_room(struct fake_server *fake)
{
	for (u32 i = 0; i < FAKE_KEYS; i++)
		if (!fake->value[i].key)
			return &fake->value[i];
	for (;;) {
		struct fake_value *value = &fake->value[fake->nr_evicted++ % FAKE_KEYS];

		if (!strstr(value->key, ":epoch"))
			return value;
	}
}

static void set(struct fake_server *fake, const struct arg *key, const struct arg *content)
{
	struct fake_value *value = find(fake, key);

	value = value ? value : make_room(fake);
	drop_value(value);
	value->key = malloc(key->bytes + 1);
	memcpy(value->key, key->at, key->bytes);
	value->key[key->bytes] = '\0';
	value->key_bytes = (u32)key->bytes;
	value->value = malloc(content->bytes + 1);
	memcpy(value->value, content->at, content->bytes);
	value->value_bytes = (u32)content->bytes;
}

void fake_server_set(struct fake_server *fake, const char *key, const char *value)
{
	set(fake, &(struct arg){ (const u8 *)key, strlen(key) },
	    &(struct arg){ (const u8 *)value, strlen(value) });
}

struct fake_value *fake_server_find(struct fake_server *fake, const char *part, u32 from)
{
	for (u32 i = from; i < FAKE_KEYS; i++)
		if (fake->value[i].key && strstr(fake->value[i].key, part))
			return &fake->value[i];
	return NULL;
}

u32 fake_server_nr(const struct fake_server *fake)
{
	u32 nr = 0;

	for (u32 i = 0; i < FAKE_KEYS; i++)
		nr += fake->value[i].key && !strstr(fake->value[i].key, ":epoch");
	return nr;
}

/* ---- commands ---- */

static bool is_verb(const struct arg *arg, const char *verb)
{
	return arg->bytes == strlen(verb) && !strncasecmp((const char *)arg->at, verb, arg->bytes);
}

static void answer_get(struct fake_server *fake, struct fake_bytes *out, const struct arg *key)
{
	struct fake_value *value = find(fake, key);
	char head[32];

	fake->nr_gets++;
	if (!value) {
		put_text(out, "$-1\r\n");
		return;
	}
	snprintf(head, sizeof(head), "$%u\r\n", value->value_bytes);
	put_text(out, head);
	put_bytes(out, value->value, value->value_bytes);
	put_text(out, "\r\n");
}

static void answer_number(struct fake_bytes *out, long long number)
{
	char line[32];

	snprintf(line, sizeof(line), ":%lld\r\n", number);
	put_text(out, line);
}

static long long number_of(const void *text, size_t bytes)
{
	char copy[32] = "";

	memcpy(copy, text, min(bytes, sizeof(copy) - 1));
	return atoll(copy);
}

static void delete(struct fake_server *fake, const struct arg *key)
{
	struct fake_value *value = find(fake, key);

	fake->nr_dels++;
	if (value)
		drop_value(value);
}

/* A value moves from key 2 to key 1 if the number is still the one of @arg[4]. */
static void move(struct fake_server *fake, struct fake_bytes *out, const struct arg *arg,
		 long long number)
{
	struct fake_value *value = find(fake, &arg[3]), moved = { 0 };
	bool is_right = number == number_of(arg[4].at, arg[4].bytes);

	if (value) {
		moved = *value;
		*value = (struct fake_value){ 0 };
	}
	if (!is_right)
		answer_number(out, number);
	else
		put_text(out, value ? "+OK\r\n" : "-ERR no such key\r\n");
	if (value && is_right)
		set(fake, &arg[2], &(struct arg){ moved.value, moved.value_bytes });
	drop_value(&moved);
}

/* The scripts that there are: each has the key of a number first. */
static void do_script(struct fake_server *fake, struct fake_bytes *out, const char *script,
		      const struct arg *arg, u32 nr)
{
	bool is_fence = strstr(script, "pcall('DEL'"), is_del = strstr(script, "'INCRBY'");
	struct fake_value *value = find(fake, &arg[1]);
	long long number = value ? number_of(value->value, value->value_bytes) : 0;
	char text[32];

	if (strstr(script, "'RENAME'")) {
		move(fake, out, arg, number);
		return;
	}
	if (is_del && !is_fence && fake->del_error) {
		put_text(out, fake->del_error);
		return;
	}
	if (is_del && !is_fence)
		delete(fake, &arg[2]);
	if (is_del) {
		number += number_of(arg[3].at, arg[3].bytes);
		snprintf(text, sizeof(text), "%lld", number);
		set(fake, &arg[1], &(struct arg){ (const u8 *)text, strlen(text) });
	}
	fake->nr_words += nr == 2;
	answer_number(out, number);
}

static void answer_eval(struct fake_server *fake, struct fake_bytes *out, const struct arg *arg,
			u32 nr)
{
	char script[512] = "";

	require(arg[1].bytes < sizeof(script));
	memcpy(script, arg[1].at, arg[1].bytes);
	do_script(fake, out, script, arg + 2, nr - 2);
}

static void do_command(struct fake_server *fake, struct fake_link *link, const struct arg *arg,
		       u32 nr)
{
	struct fake_bytes *out = &link->out;
	struct fake_value *value = nr > 1 ? find(fake, &arg[1]) : NULL;

	fake->nr_commands++;
	if (fake->error) {
		put_text(out, fake->error);
	} else if (is_verb(&arg[0], "AUTH")) {
		link->is_known = fake->password && nr == 2 && is_verb(&arg[1], fake->password);
		put_text(out, link->is_known ? "+OK\r\n" : "-WRONGPASS invalid\r\n");
	} else if (fake->password && !link->is_known) {
		put_text(out, "-NOAUTH Authentication required.\r\n");
	} else if (is_verb(&arg[0], "GET") && nr == 2) {
		answer_get(fake, out, &arg[1]);
	} else if (is_verb(&arg[0], "SET") && fake->is_full) {
		put_text(out, "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
	} else if (is_verb(&arg[0], "SET") && nr == 5 && is_verb(&arg[3], "EX")) {
		fake->nr_sets++;
		set(fake, &arg[1], &arg[2]);
		put_text(out, "+OK\r\n");
	} else if (is_verb(&arg[0], "EXISTS") && nr == 2) {
		fake->nr_exists++;
		answer_number(out, value != NULL);
	} else if (is_verb(&arg[0], "EVAL") && nr >= 4) {
		answer_eval(fake, out, arg, nr);
	} else {
		fake->nr_refused++;
		put_text(out, "-ERR unknown command\r\n");
	}
}

/* "*3\r\n" or "$3\r\n": false: it is not there yet. */
static bool read_count(const struct fake_bytes *in, size_t *at, char kind, size_t *count)
{
	const u8 *end = memchr(in->at + *at, '\n', in->nr - *at);

	if (!end)
		return false;
	require(in->at[*at] == kind);
	*count = strtoul((const char *)in->at + *at + 1, NULL, 10);
	*at = (size_t)(end + 1 - in->at);
	return true;
}

static bool one_command(struct fake_server *fake, struct fake_link *link)
{
	struct arg arg[MAX_ARGS];
	size_t at = link->in.taken, nr;

	if (at == link->in.nr || !read_count(&link->in, &at, '*', &nr))
		return false;
	require(nr && nr <= MAX_ARGS);
	for (size_t i = 0; i < nr; i++) {
		if (at == link->in.nr || !read_count(&link->in, &at, '$', &arg[i].bytes) ||
		    link->in.nr - at < arg[i].bytes + 2)
			return false;
		arg[i].at = link->in.at + at;
		at += arg[i].bytes + 2;
		require(link->in.at[at - 1] == '\n');
	}
	do_command(fake, link, arg, (u32)nr);
	link->in.taken = at;
	return true;
}

static void run(struct fake_server *fake, struct fake_link *link)
{
	while (!fake->hangs && !link->is_dead && one_command(fake, link))
		;
}

void fake_server_run_late(struct fake_server *fake)
{
	for (u32 i = 0; i < fake->nr_links; i++)
		if (!fake->link[i].is_open)
			run(fake, &fake->link[i]);
}

/* ---- sockets ---- */

static struct fake_link *link_of(struct fake_server *fake, int fd)
{
	struct fake_link *link = &fake->link[fd - FIRST_FD];

	require(fd >= FIRST_FD && (u32)(fd - FIRST_FD) < fake->nr_links && link->is_open);
	return link;
}

static int fake_connect(void *ctx, const char *address)
{
	struct fake_server *fake = ctx;
	u32 i = 0;

	require(!strcmp(address, "127.0.0.1:6379"));
	fake->nr_connects++;
	if (fake->is_down)
		return -ECONNREFUSED;
	while (i < FAKE_LINKS && (fake->link[i].is_open || (fake->link[i].in.nr && fake->is_late)))
		i++;
	require(i < FAKE_LINKS);
	fake->nr_links = max(fake->nr_links, i + 1);
	drop_bytes(&fake->link[i].in);
	drop_bytes(&fake->link[i].out);
	fake->link[i].is_open = true;
	fake->link[i].is_dead = fake->link[i].is_known = fake->link[i].is_hung_up = false;
	for (u32 n = 0; fake->unasked && n < fake->nr_unasked; n++)
		put_text(&fake->link[i].out, fake->unasked);
	return FIRST_FD + (int)i;
}

static void fake_close(void *ctx, int fd)
{
	if (fd < FIRST_FD) {
		kv_sock_system.close(kv_sock_system.ctx, fd);
		return;
	}
	require(link_of(ctx, fd)->is_hung_up);
	link_of(ctx, fd)->is_open = false;
}

static void fake_hang_up(void *ctx, int fd)
{
	if (fd < FIRST_FD)
		kv_sock_system.hang_up(kv_sock_system.ctx, fd);
	else
		link_of(ctx, fd)->is_hung_up = true;
}

/* How many of @bytes go now; 0: it closes. */
static size_t cut(struct fake_server *fake, struct fake_link *link, size_t bytes)
{
	if (fake->piece)
		bytes = min(bytes, (size_t)fake->piece);
	if (!fake->close_in)
		return bytes;
	if (fake->close_in <= bytes) {
		fake->close_in = 0;
		link->is_dead = true;
		return 0;
	}
	fake->close_in -= (u32)bytes;
	return bytes;
}

static s64 fake_send(void *ctx, int fd, const void *buf, size_t bytes, const int *fds, u32 nr_fds)
{
	struct fake_server *fake = ctx;
	struct fake_link *link;

	if (fd < FIRST_FD)
		return kv_sock_system.send(kv_sock_system.ctx, fd, buf, bytes, fds, nr_fds);
	link = link_of(fake, fd);
	if (!link->is_dead)
		bytes = cut(fake, link, bytes);
	if (link->is_dead)
		return -EPIPE;
	put_bytes(&link->in, buf, bytes);
	run(fake, link);
	return (s64)bytes;
}

static void flip(struct fake_server *fake, u8 *at, size_t bytes)
{
	if (!fake->flip_in)
		return;
	if (fake->flip_in > bytes) {
		fake->flip_in -= (u32)bytes;
		return;
	}
	at[fake->flip_in - 1] ^= 1u << fake->flip_in % 8;
	fake->flip_in = 0;
}

static s64 fake_recv(void *ctx, int fd, void *buf, size_t bytes, int *fds, u32 *nr_fds)
{
	struct fake_server *fake = ctx;
	struct fake_link *link;

	if (fd < FIRST_FD)
		return kv_sock_system.recv(kv_sock_system.ctx, fd, buf, bytes, fds, nr_fds);
	link = link_of(fake, fd);
	run(fake, link);
	bytes = min(bytes, link->out.nr - link->out.taken);
	if (fake->stall_at)
		bytes = min(bytes, (size_t)fake->stall_at - fake->nr_answered);
	if (bytes)
		bytes = cut(fake, link, bytes);
	if (link->is_dead)
		return 0;
	if (!bytes && fake->idle)
		fake->idle();
	if (!bytes)
		return -EAGAIN;
	memcpy(buf, link->out.at + link->out.taken, bytes);
	link->out.taken += bytes;
	fake->nr_answered += (u32)bytes;
	flip(fake, buf, bytes);
	return (s64)bytes;
}

void fake_server_begin(struct fake_server *fake)
{
	memset(fake, 0, sizeof(*fake));
	fake->ops = kv_sock_system;
	fake->ops.ctx = fake;
	fake->ops.tcp_connect = fake_connect;
	fake->ops.close = fake_close;
	fake->ops.hang_up = fake_hang_up;
	fake->ops.send = fake_send;
	fake->ops.recv = fake_recv;
	kv_sock_set(&fake->ops);
}

void fake_server_die(struct fake_server *fake, bool loses_all)
{
	for (u32 i = 0; i < fake->nr_links; i++) {
		fake->link[i].is_dead = true;
		if (!fake->link[i].is_open)
			drop_bytes(&fake->link[i].in);
	}
	for (u32 i = 0; loses_all && i < FAKE_KEYS; i++)
		drop_value(&fake->value[i]);
}

void fake_server_end(struct fake_server *fake)
{
	for (u32 i = 0; i < fake->nr_links; i++) {
		require(!fake->link[i].is_open);
		drop_bytes(&fake->link[i].in);
		drop_bytes(&fake->link[i].out);
	}
	for (u32 i = 0; i < FAKE_KEYS; i++)
		drop_value(&fake->value[i]);
	require(fake->nr_refused == 0);
	kv_sock_set(NULL);
}
