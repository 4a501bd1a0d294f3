// SPDX-License-Identifier: Apache-2.0
/*
 * The connection. Commands go out one behind the other, and are answered in that order.
 *
 * A block is stored under a key that no other connection has, and a script, which would copy it if
 * it was among the arguments, moves it.
 *
 * Each batch that reads begins with the question for the word: is the epoch, a part of every key,
 * still the same? A fence counts that up, and from then on no key of before is read by any process.
 *
 * A connection that is silent for as long as a load may take, or that says something else than it
 * should, is given up, and made again after a while that doubles each time.
 */
#include <stdio.h>
#include <string.h>

#include <kv/env.h>
#include <kv/log.h>
#include <kv/mem.h>
#include <kv/sock.h>

#include "internal.h"

/* Each has the key of the word first. */
#define ASK_SCRIPT	"return tonumber(redis.call('GET',KEYS[1])or'0')"
#define PUT_SCRIPT	"local w=redis.call('GET',KEYS[1])or'0' "				\
			"if w~=ARGV[1] then redis.call('DEL',KEYS[3]) return tonumber(w) end "	\
			"if ARGV[2]=='0' then redis.call('PERSIST',KEYS[3]) end "		\
			"return redis.call('RENAME',KEYS[3],KEYS[2])"
/* A server that is full takes more once a script has begun to write, which deleting is. */
#define DEL_SCRIPT	"redis.call('DEL',KEYS[2]) return redis.call('INCRBY',KEYS[1],ARGV[1])"
#define FENCE_SCRIPT	"redis.pcall('DEL',KEYS[2]) return redis.call('INCRBY',KEYS[1],ARGV[1])"

#define STAGED_S	60u	/* if the connection ends before the script, the block goes then */
#define COMMAND_MAX	1024u		/* most bytes of one, without its block */
#define IN_FRONT	512u		/* of a large block: its head, and what is before that */
#define PUMP_BYTES	(8u << 20)	/* most that one poll moves, each way */
#define RETRY_NS	100000000ull	/* after the first failure */
#define RETRY_DOUBLINGS	8u
#define REFUSED_NS	1000000000ull	/* no store after one that was refused */
#define KNOWN_NS	1000000000ull	/* for how long an answer is taken to hold */

bool wire_is_usable(const struct remote *remote, u64 now_ns)
{
	kv_assert_held(&remote->lock);
	return remote->fences == remote->fences_done &&
	       (remote->wire.state != WIRE_DOWN || now_ns >= remote->retry_ns);
}

/* ---- giving up ---- */

/* Deletions wait again, and before all others; so they go first on the next connection. */
static void end_all(struct remote *remote, bool waiting_too)
{
	struct req_list waiting = remote->waiting, sent = remote->sent;
	struct req *req;

	kv_assert_held(&remote->lock);
	remote->waiting = remote->sent = (struct req_list){ 0 };
	while ((req = list_pop(&sent))) {
		if (req->kind == REQ_DEL)
			list_push(&remote->waiting, req);
		else
			req_fail(remote, req);
	}
	while ((req = list_pop(&waiting))) {
		if (req->kind == REQ_DEL || !waiting_too)
			list_push(&remote->waiting, req);
		else
			req_fail(remote, req);
	}
}

static u64 pause_ns(const struct remote *remote)
{
	u64 half = RETRY_NS << min(remote->nr_failures, RETRY_DOUBLINGS) >> 1;

	return half + kv_random() % half;
}

void wire_down(struct remote *remote, bool is_fault)
{
	struct remote_wire *wire = &remote->wire;

	kv_assert_held(&remote->wire_lock);
	if (wire->fd >= 0) {
		kv_sock()->hang_up(kv_sock()->ctx, wire->fd);
		kv_sock()->close(kv_sock()->ctx, wire->fd);
	}
	wire->fd = -1;
	wire->writing = NULL;
	kv_wipe(wire->out, wire->out_len);
	wire->out_at = wire->out_len = 0;
	memset(&wire->resp, 0, sizeof(wire->resp));
	kv_lock(&remote->lock);
	wire->state = WIRE_DOWN;
	end_all(remote, is_fault);
	if (is_fault) {
		remote->retry_ns = kv_clock_ns() + pause_ns(remote);
		remote->nr_failures++;
		remote->count.given_up++;
	}
	kv_unlock(&remote->lock);
}

/* ---- sending ---- */

/*
 * It fits, as the server may say what it likes: a greeting is at most AUTH and two questions for
 * the word; commands are begun with room for COMMAND_MAX, which none is longer than; and the tail
 * of a block is alone, as a block is sent when all before it was.
 */
static void append(struct remote_wire *wire, const void *data, size_t bytes)
{
	kv_assert(wire->out_len + bytes <= REMOTE_OUT);
	memcpy(wire->out + wire->out_len, data, bytes);
	wire->out_len += (u32)bytes;
}

static void append_number(struct remote_wire *wire, char kind, u64 number)
{
	char text[32];

	append(wire, text, (size_t)snprintf(text, sizeof(text), "%c%llu\r\n", kind,
					    (unsigned long long)number));
}

static void append_arg(struct remote_wire *wire, const char *arg, size_t bytes)
{
	append_number(wire, '$', bytes);
	append(wire, arg, bytes);
	append(wire, "\r\n", 2);
}

static void append_text(struct remote_wire *wire, const char *arg)
{
	append_arg(wire, arg, strlen(arg));
}

static void append_decimal(struct remote_wire *wire, u64 number)
{
	char text[24];

	append_arg(wire, text, (size_t)snprintf(text, sizeof(text), "%llu",
						(unsigned long long)number));
}

/* @nr_keys with the word's, of which the others follow, and then @nr_args. */
static void append_eval(struct remote *remote, const char *script, u32 nr_keys, u32 nr_args)
{
	struct remote_wire *wire = &remote->wire;
	char key[REMOTE_KEY];

	append_number(wire, '*', 3 + nr_keys + nr_args);
	append_text(wire, "EVAL");
	append_text(wire, script);
	append_decimal(wire, nr_keys);
	append_arg(wire, key, remote_word_key(remote->model, key));
}

static void append_key(struct remote *remote, u64 word, const struct kv_tier_name *name)
{
	char key[REMOTE_KEY];

	append_arg(&remote->wire, key, remote_key(remote->model, remote_epoch(word), name, key));
}

static void append_new_key(struct remote *remote)
{
	char key[REMOTE_KEY];

	append_arg(&remote->wire, key, remote_new_key(remote->model, remote->wire.number, key));
}

/* @epochs: so many more, and a name that no block has is deleted: 0: it is only asked for. */
static void ask_word(struct remote *remote, u64 epochs)
{
	static const struct kv_tier_name none;

	append_eval(remote, epochs ? FENCE_SCRIPT : ASK_SCRIPT, epochs ? 2 : 1, epochs != 0);
	if (epochs) {
		append_key(remote, 0, &none);
		append_decimal(&remote->wire, epochs << WORD_EPOCH);
	}
	remote->wire.nr_greetings++;
}

static void greet(struct remote *remote)
{
	struct remote_wire *wire = &remote->wire;

	wire->nr_greetings = 0;
	wire->is_raised = false;
	wire->number = kv_random();
	wire->nr_dels = 0;
	if (remote->password[0]) {
		append_number(wire, '*', remote->user[0] ? 3 : 2);
		append_text(wire, "AUTH");
		if (remote->user[0])
			append_text(wire, remote->user);
		append_text(wire, remote->password);
		wire->nr_greetings++;
	}
	kv_lock(&remote->lock);
	wire->asked_until = remote->fences;
	wire->nr_asked = remote->nr_asked;
	ask_word(remote, remote->fences > remote->fences_done);
	kv_unlock(&remote->lock);
}

static int make_connection(struct remote *remote)
{
	struct remote_wire *wire = &remote->wire;
	int fd = kv_sock()->tcp_connect(kv_sock()->ctx, remote->address);

	if (fd < 0)
		return fd;
	wire->fd = fd;
	wire->last_ns = kv_clock_ns();
	kv_lock(&remote->lock);
	wire->state = WIRE_GREETING;
	kv_unlock(&remote->lock);
	greet(remote);
	return 0;
}

/* The block itself follows, and then end_block(). */
static void encode_put(struct remote *remote, struct req *req)
{
	struct remote_wire *wire = &remote->wire;
	struct remote_value value;

	append_number(wire, '*', 5);
	append_text(wire, "SET");
	append_new_key(remote);
	append_number(wire, '$', sizeof(value) + req->io->bytes);
	remote_value_fill(&value, remote->model, remote_epoch(req->word), req->io, req->sum);
	append(wire, &value, sizeof(value));
	wire->writing = req;
	wire->written = 0;
}

static void end_block(struct remote *remote)
{
	struct remote_wire *wire = &remote->wire;
	const struct req *req = wire->writing;

	wire->writing = NULL;
	append(wire, "\r\n", 2);
	append_text(wire, "EX");
	append_decimal(wire, remote->ttl_s ? remote->ttl_s : STAGED_S);
	append_eval(remote, PUT_SCRIPT, 3, 2);
	append_key(remote, req->word, &req->name);
	append_new_key(remote);
	append_decimal(wire, req->word);
	append_decimal(wire, remote->ttl_s);
}

static void encode(struct remote *remote, struct req *req)
{
	struct remote_wire *wire = &remote->wire;

	if (req->kind == REQ_PUT) {
		encode_put(remote, req);
	} else if (req->kind == REQ_DEL) {
		append_eval(remote, DEL_SCRIPT, 2, 1);
		append_key(remote, req->word, &req->name);
		append_text(wire, "1");
	} else if (req->kind == REQ_WORD) {
		append_eval(remote, ASK_SCRIPT, 1, 0);
	} else {
		append_number(wire, '*', 2);
		append_text(wire, req->kind == REQ_GET ? "GET" : "EXISTS");
		append_key(remote, req->word, &req->name);
	}
}

/*
 * The next one that was asked for before @until, and before the first that is no block to be
 * written the question for the word, which has to be younger than all of these. False: there is
 * none.
 */
static bool encode_next(struct remote *remote, u64 until, bool *is_checked)
{
	struct req *req;
	bool reads;

	kv_assert_held(&remote->wire_lock);
	kv_lock(&remote->lock);
	req = remote->waiting.first;
	reads = req && req->kind != REQ_PUT;
	if (!req || req->number > until) {
		req = NULL;
	} else if (reads && !*is_checked) {
		req = req_take(remote, REQ_WORD, NULL);
		*is_checked = req;	/* else it waits for an answer to one of those under way */
	} else {
		list_pop(&remote->waiting);
	}
	if (req) {
		req->word = remote->wire.first_word + remote->wire.nr_dels;
		remote->wire.nr_dels += req->kind == REQ_DEL;
		req->dels = remote->wire.nr_dels;
		list_push(&remote->sent, req);
	}
	kv_unlock(&remote->lock);
	if (req)
		encode(remote, req);
	return req;
}

/* What is there to be sent: false: nothing. */
static bool next_out(struct remote *remote, const u8 **from, u64 *bytes)
{
	struct remote_wire *wire = &remote->wire;

	if (wire->out_at < wire->out_len) {
		*from = wire->out + wire->out_at;
		*bytes = wire->out_len - wire->out_at;
		return true;
	}
	wire->out_at = wire->out_len = 0;
	if (!wire->writing)
		return false;
	*from = (const u8 *)wire->writing->io->buf + wire->written;
	*bytes = wire->writing->io->bytes - wire->written;
	return true;
}

static void was_sent(struct remote *remote, u64 bytes)
{
	struct remote_wire *wire = &remote->wire;

	if (wire->out_at < wire->out_len) {
		if (wire->state == WIRE_GREETING)	/* with the password */
			kv_wipe(wire->out + wire->out_at, bytes);
		wire->out_at += (u32)bytes;
		return;
	}
	wire->written += bytes;
	if (wire->written == wire->writing->io->bytes)
		end_block(remote);
}

static void fill_out(struct remote *remote, u64 until, bool *is_checked)
{
	struct remote_wire *wire = &remote->wire;

	while (wire->state == WIRE_UP && !wire->writing &&
	       wire->out_len + COMMAND_MAX <= REMOTE_OUT && encode_next(remote, until, is_checked))
		;
}

static int send_some(struct remote *remote)
{
	const struct kv_sock_ops *sock = kv_sock();
	u64 until, bytes, moved = 0;
	bool is_checked = false;
	const u8 *from;

	kv_lock(&remote->lock);
	until = remote->nr_asked;
	kv_unlock(&remote->lock);
	for (; moved < PUMP_BYTES; moved += bytes) {
		s64 ret;

		fill_out(remote, until, &is_checked);
		if (!next_out(remote, &from, &bytes))
			break;
		ret = sock->send(sock->ctx, remote->wire.fd, from, bytes, NULL, 0);
		if (ret <= 0)
			return kv_sock_is_passing(ret) ? 0 : ret ? (int)ret : -EPIPE;
		was_sent(remote, bytes = (u64)ret);
	}
	return 0;
}

/* ---- answers ---- */

/* The word is @number, and was asked for behind @dels of the connection's deletions. */
static int hear(struct remote *remote, s64 number, u64 dels)
{
	u64 word = (u64)number;

	kv_assert_held(&remote->lock);
	if (number < 0 || number >= WORD_END)
		return -EPROTO;
	if (word < remote->word)
		return -ESTALE;
	if (remote_epoch(word) != remote_epoch(remote->word))
		known_clear(&remote->known);
	remote->word = word;
	remote->wire.first_word = word - dels;
	return 0;
}

/* No key of before is read again: with that, all that was to be deleted before is. */
static void fenced(struct remote *remote)
{
	struct req_list waiting = remote->waiting;
	struct req *req;

	kv_assert_held(&remote->lock);
	remote->waiting = (struct req_list){ 0 };
	while ((req = list_pop(&waiting))) {
		if (req->kind == REQ_DEL && req->number <= remote->wire.nr_asked)
			req_deleted(remote, req);
		else
			list_push(&remote->waiting, req);
	}
	remote->count.fences++;
}

/*
 * The first word that is heard, or one that no fence of ours, nor any that was ever heard here,
 * is above. A server that has lost some, as one that begins anew from an old file, may have old
 * values, too: it is fenced, once on a connection.
 */
static int greeted(struct remote *remote, enum resp_kind kind, s64 number)
{
	struct remote_wire *wire = &remote->wire;
	bool is_fence, is_last = !--wire->nr_greetings;
	u64 word = (u64)number, epoch;
	int err = 0;

	if (kind == RESP_ERROR && !remote->nr_failures)
		kv_log(KV_LOG_WARN, "kvmm: remote tier: %s refuses to be talked to",
		       remote->address);
	if (kind != (is_last ? RESP_NUMBER : RESP_STATUS) || (is_last && number < 0))
		return -EPROTO;
	if (!is_last)
		return 0;
	kv_lock(&remote->lock);
	is_fence = wire->asked_until > remote->fences_done;
	epoch = remote_epoch(remote->word);
	if (word >= remote->word && remote_epoch(word) >= epoch + is_fence) {
		err = hear(remote, number, 0);
		if (!err && is_fence)
			fenced(remote);
		if (!err) {
			remote->fences_done = wire->asked_until;
			wire->state = WIRE_UP;
		}
	} else if (wire->is_raised) {
		err = -EPROTO;
	} else {
		ask_word(remote, epoch + 1 - remote_epoch(word));
		wire->is_raised = true;
	}
	kv_unlock(&remote->lock);
	return err;
}

/* Of a store that the server did not do, as it has another word: is it to be sent again? */
static bool is_wanted_yet(const struct remote *remote, const struct req *req)
{
	return req->io && remote->fences == remote->fences_done &&
	       known_of(&remote->known, &req->name, 0) != KNOWN_GONE;
}

/* Was it sent in the epoch that there is? */
static bool is_of_now(const struct remote *remote, const struct req *req)
{
	return remote_epoch(req->word) == remote_epoch(remote->word);
}

/* -EAGAIN: it was the first of two, and the other one says whether it was stored. */
static int put_answer(struct remote *remote, struct req *req, enum resp_kind kind, s64 number,
		      u64 now_ns)
{
	bool is_stored = kind == RESP_STATUS && is_of_now(remote, req);

	if (!req->is_staged) {
		req->is_staged = true;
		return kind == RESP_STATUS || kind == RESP_ERROR ? -EAGAIN : -EPROTO;
	}
	if (kind == RESP_NUMBER) {
		int err = hear(remote, number, req->dels);

		if (err || is_wanted_yet(remote, req))
			return err;
	} else if (kind == RESP_ERROR) {
		remote->put_ns = now_ns + REFUSED_NS;
	} else if (kind != RESP_STATUS) {
		return -EPROTO;
	}
	if (is_stored)
		known_note(&remote->known, &req->name, KNOWN_THERE, now_ns + KNOWN_NS);
	remote->count.stored += is_stored && req->io;
	remote->count.dropped += !is_stored && req->io;
	req_end_io(remote, req, is_stored || remote->front ? 0 : -EIO);
	return 0;
}

/* One that is refused takes a fence. */
static int del_answer(struct remote *remote, const struct req *req, enum resp_kind kind, s64 number)
{
	if (kind == RESP_NUMBER)
		return hear(remote, number, req->dels);
	if (kind != RESP_ERROR)
		return -EPROTO;
	remote->fences++;
	return -ESTALE;
}

/* ->wire.value and the block are there, in part if it was given up meanwhile. */
static int get_answer(struct remote *remote, struct req *req, enum resp_kind kind, bool is_right,
		      u64 now_ns)
{
	bool is_there = kind == RESP_END;

	if (!is_there && kind != RESP_NIL && kind != RESP_ERROR)
		return -EPROTO;
	is_right &= is_of_now(remote, req);
	if (req->io || !is_there)
		known_note(&remote->known, &req->name, is_right ? KNOWN_THERE : KNOWN_MISSING,
			   now_ns + KNOWN_NS);
	if (!req->io)
		return 0;
	remote->count.got += is_right;
	remote->count.wrong += is_there && !is_right;
	remote->count.missed += kind == RESP_NIL;
	remote->count.failed += kind == RESP_ERROR;
	req_end_io(remote, req, is_right ? 0 : is_there ? -EBADMSG : -ENOENT);
	return 0;
}

static int ask_answer(struct remote *remote, struct req *req, enum resp_kind kind, s64 number,
		      u64 now_ns)
{
	if (kind != RESP_NUMBER && kind != RESP_ERROR)
		return -EPROTO;
	if (kind == RESP_NUMBER && is_of_now(remote, req))
		known_note(&remote->known, &req->name, number ? KNOWN_THERE : KNOWN_MISSING,
			   now_ns + KNOWN_NS);
	return 0;
}

/* Before the lock is taken, as summing up takes time. */
static bool is_right_value(struct remote *remote, const struct req *req)
{
	const struct remote_wire *wire = &remote->wire;

	return req->kind == REQ_GET && req->io && wire->body_is_good &&
	       remote_value_is_good(&wire->value, remote->model, remote_epoch(req->word),
				    req->io) &&
	       wire->value.sum == kv_disk_sum(req->io->buf, req->io->bytes);
}

/* A deletion in an epoch that is over has met nothing; a store that has its block is sent again. */
static void end_answered(struct remote *remote, struct req *req)
{
	remote->nr_failures = 0;
	if (req->kind == REQ_PUT && req->io) {
		req->is_staged = false;
		list_push(&remote->waiting, req);
	} else if (req->kind != REQ_DEL) {
		req_free(remote, req);
	} else if (is_of_now(remote, req)) {
		req_deleted(remote, req);
		remote->count.deleted++;
	} else {
		req_wait(remote, req, 0);
	}
}

static int answer(struct remote *remote, enum resp_kind kind, s64 number)
{
	struct req *req = remote->sent.first;
	u64 now_ns = kv_clock_ns();
	bool is_right;
	int err;

	kv_assert_held(&remote->wire_lock);
	if (remote->wire.state == WIRE_GREETING)
		return greeted(remote, kind, number);
	if (!req || req == remote->wire.writing)
		return -EPROTO;
	is_right = kind == RESP_END && is_right_value(remote, req);
	kv_lock(&remote->lock);
	if (req->kind == REQ_PUT)
		err = put_answer(remote, req, kind, number, now_ns);
	else if (req->kind == REQ_GET)
		err = get_answer(remote, req, kind, is_right, now_ns);
	else if (req->kind == REQ_ASK)
		err = ask_answer(remote, req, kind, number, now_ns);
	else if (req->kind == REQ_DEL)
		err = del_answer(remote, req, kind, number);
	else
		err = kind == RESP_NUMBER ? hear(remote, number, req->dels) : -EPROTO;
	if (!err)
		end_answered(remote, list_pop(&remote->sent));
	kv_unlock(&remote->lock);
	return err == -EAGAIN ? 0 : err;
}

/* ---- receiving ---- */

static int begin_body(struct remote *remote, u64 bytes)
{
	struct remote_wire *wire = &remote->wire;
	const struct req *req = remote->sent.first;

	if (wire->state != WIRE_UP || !req || req->kind != REQ_GET)
		return -EPROTO;
	wire->body_at = 0;
	wire->body_is_good = req->io && bytes == sizeof(wire->value) + req->io->bytes;
	return 0;
}

/* Where the next bytes of a body go: NULL: they are not wanted. *@room of them at most. */
static u8 *body_place(struct remote *remote, u64 *room)
{
	struct remote_wire *wire = &remote->wire;
	const struct req *req = remote->sent.first;

	*room = wire->resp.left;
	if (!wire->body_is_good || !req->io)
		return NULL;
	if (wire->body_at >= sizeof(wire->value))
		return (u8 *)req->io->buf + wire->body_at - sizeof(wire->value);
	*room = min(*room, sizeof(wire->value) - wire->body_at);
	return (u8 *)&wire->value + wire->body_at;
}

static void was_received(struct remote_wire *wire, u64 bytes)
{
	wire->body_at += bytes;
	resp_take(&wire->resp, bytes);
}

static int take_in(struct remote *remote)
{
	struct remote_wire *wire = &remote->wire;
	const u8 *at = wire->in, *end = wire->in + wire->in_len;
	enum resp_kind kind;
	s64 number = 0;
	int err = 0;

	while (!err && (kind = resp_next(&wire->resp, &at, end, &number)) != RESP_MORE) {
		if (kind == RESP_BAD) {
			err = -EPROTO;
		} else if (kind == RESP_BULK) {
			err = begin_body(remote, (u64)number);
		} else if (kind == RESP_BODY) {
			u64 room;
			u8 *to = body_place(remote, &room);

			room = min(room, (u64)(end - at));
			if (to)
				memcpy(to, at, room);
			at += room;
			was_received(wire, room);
		} else {
			err = answer(remote, kind, number);
		}
	}
	return err;
}

/* In front of a large block little is received, so that most of it comes where it belongs. */
static size_t in_room(const struct remote *remote)
{
	const struct req *req = remote->sent.first;

	return req && req->io && req->kind == REQ_GET && req->io->bytes >= REMOTE_IN / 4 ?
	       IN_FRONT : REMOTE_IN;
}

/* Blocks are received where they belong; of each, the first bytes come by ->in. */
static int recv_some(struct remote *remote)
{
	const struct kv_sock_ops *sock = kv_sock();
	struct remote_wire *wire = &remote->wire;
	u64 room, moved = 0;
	int err = 0;

	while (!err && moved < PUMP_BYTES && (remote->sent.nr || wire->state == WIRE_GREETING)) {
		u8 *to = wire->resp.state == RESP_IN_BODY ? body_place(remote, &room) : NULL;
		bool is_direct = to && room >= IN_FRONT;
		int fds[KV_SOCK_FDS];
		u32 nr_fds = 0;		/* there are none over TCP */
		s64 ret = sock->recv(sock->ctx, wire->fd, is_direct ? to : wire->in,
				     is_direct ? room : in_room(remote), fds, &nr_fds);

		if (ret <= 0)
			return kv_sock_is_passing(ret) ? 0 : ret ? (int)ret : -ECONNRESET;
		wire->last_ns = kv_clock_ns();
		moved += (u64)ret;
		wire->in_len = is_direct ? 0 : (u32)ret;
		if (is_direct)
			was_received(wire, (u64)ret);
		err = take_in(remote);
	}
	return err;
}

/* ---- deadlines ---- */

static void end_late(struct remote *remote, struct req *req)
{
	remote->count.late++;
	req_fail(remote, req);
}

/* What is due is over, answered or not. -ETIMEDOUT: the server still reads the memory of one. */
static int end_overdue(struct remote *remote, u64 now_ns)
{
	struct req_list waiting;
	struct req *req;
	int err = 0;

	kv_lock(&remote->lock);
	waiting = remote->waiting;
	remote->waiting = (struct req_list){ 0 };
	while ((req = list_pop(&waiting))) {
		if (req->kind != REQ_DEL && req->due_ns <= now_ns)
			end_late(remote, req);
		else
			list_push(&remote->waiting, req);
	}
	for (req = remote->sent.first; req; req = req->next) {
		if (!req->io || req->due_ns > now_ns)
			continue;
		if (req == remote->wire.writing) {
			err = -ETIMEDOUT;
			continue;
		}
		remote->count.late++;
		remote->count.dropped += req->kind == REQ_PUT;
		remote->count.failed += req->kind == REQ_GET;
		req_end_io(remote, req, req->kind == REQ_PUT && remote->front ? 0 : -EIO);
	}
	kv_unlock(&remote->lock);
	return err;
}

static bool is_asked(struct remote *remote, u64 now_ns)
{
	bool is;

	kv_lock(&remote->lock);
	is = (remote->waiting.nr || remote->fences != remote->fences_done) &&
	     now_ns >= remote->retry_ns;
	kv_unlock(&remote->lock);
	return is;
}

static int speak(struct remote *remote)
{
	struct remote_wire *wire = &remote->wire;
	int err = 0;

	if (wire->state == WIRE_UP && !remote->sent.nr)
		wire->last_ns = kv_clock_ns();
	/* Twice: what waited for the greeting goes out behind it. */
	for (u32 i = 0; i < 2 && !err; i++) {
		err = send_some(remote);
		if (!err)
			err = recv_some(remote);
	}
	if (!err && kv_clock_ns() - wire->last_ns > remote->deadline_ns &&
	    (wire->state == WIRE_GREETING || remote->sent.nr))
		err = -ETIMEDOUT;
	return err;
}

static bool wants_fence(struct remote *remote)
{
	bool wants;

	kv_lock(&remote->lock);
	wants = remote->wire.state == WIRE_UP && remote->fences != remote->fences_done;
	kv_unlock(&remote->lock);
	return wants;
}

/* A fence is asked for where a connection begins. */
void wire_pump(struct remote *remote)
{
	u64 now_ns = kv_clock_ns();
	int err = 0, late;

	kv_assert_held(&remote->wire_lock);
	if (wants_fence(remote))
		wire_down(remote, false);
	if (remote->wire.state == WIRE_DOWN && is_asked(remote, now_ns))
		err = make_connection(remote);
	if (!err && remote->wire.state != WIRE_DOWN)
		err = speak(remote);
	late = end_overdue(remote, kv_clock_ns());
	err = err ? err : late;
	if (err)
		wire_down(remote, err != -ESTALE);
}
