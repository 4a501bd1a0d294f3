// SPDX-License-Identifier: Apache-2.0
/*
 * All who listen to pools at once: publishers with tokens, which are asked for replays and snapshots, the
 * disk that tells what it has, a control socket; and engines that register, evict, copy down and load
 * beside them. Own main(), exit code 0 if all is well.
 *
 * usage: publish_torture [SECONDS [SEED]]
 *
 * What a publisher sends is decoded in its own thread: numbers go up by one, or by two where it says that
 * all is told anew; tokens are those of their block or none at all. When all have stopped, whoever has
 * applied it has the same names, in each medium, as a snapshot. One publisher has a ring so short that
 * it loses often.
 */
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <kv/tier.h>

#include "ctl/zmq.h"
#include "tests/ctl/fake_zmq.h"
#include "tests/support/sim_disk.h"
#include "tests/support/tier_wait.h"
#include "tests/support/torture.h"
#include "tools/events/wire_read.h"

#define NR_POOLS	2u
#define NR_ENGINES	3u
#define NR_BLOCKS	48u
#define NR_UNITS	64u
#define NR_NAMES	160u
#define RUN		4u
#define BYTES		4096u
#define TOKENS		16u
#define SEGMENT		(64u << 10)
#define DISK_BYTES	(8 * SEGMENT + 24576)
#define BATCH		64u

/* Of one pool: what its publisher has said. Its thread's; when that has ended, main()'s. */
struct mirror {
	bool has[KVMM_NR_MEDIA][NR_NAMES];
	u64 next;			/* number of the next batch */
	u64 nr_batches, nr_anew, nr_answers;
};

enum { TURNS, LOOKS, NR_COUNTS };

static struct sim_disk sim;
static struct kvmm_disk *disk;
static struct kvmm_tier *tier;
static struct kvmm_pool *pool[NR_POOLS];
static struct kvmm_publisher *publisher[NR_POOLS];
static struct kvmm_control *control;
static struct mirror mirrors[NR_POOLS];
static int socket_fd = -1;		/* the looker's */

/* A key ends with its number, as hashes on the wire do. */
static kvmm_key_t key_of(u32 name)
{
	kvmm_key_t key = { { 0 } };

	key.byte[0] = name * 37;
	for (u32 i = 0; i < 4; i++)
		key.byte[15 - i] = name >> 8 * i;
	return key;
}

static u32 token_of(u64 name, u32 i)
{
	return name * 1000003 + i * 77;
}

/* ---- what publishers send ---- */

/* A message in parts, of this thread. */
static __thread struct {
	u32 nr;
	u8 topic;			/* its first byte, or of an identity */
	u8 seq[8];
	const u8 *payload;
	size_t bytes;
} message;

static u64 number_in(const u8 seq[8])
{
	u64 number = 0;

	for (u32 i = 0; i < 8; i++)
		number = number << 8 | seq[i];
	return number;
}

static void check_tokens(const struct wire_batch *batch, const struct wire_event *event)
{
	expect(!event->nr_tokens || event->nr_tokens == event->nr_hashes * TOKENS);
	for (u32 i = 0; i < event->nr_tokens; i++)
		expect(batch->token[event->first_token + i] ==
		     token_of(batch->hash[event->first_hash + i / TOKENS], i % TOKENS));
}

static void apply(struct mirror *mirror, const struct wire_batch *batch)
{
	for (u32 i = 0; i < batch->nr_events; i++) {
		const struct wire_event *event = &batch->event[i];

		if (event->kind == KVMM_EVENT_CLEARED) {
			memset(mirror->has, 0, sizeof(mirror->has));
			continue;
		}
		expect(event->medium < KVMM_NR_MEDIA);
		for (u32 h = 0; h < event->nr_hashes; h++)
			mirror->has[event->medium % KVMM_NR_MEDIA]
				   [batch->hash[event->first_hash + h] % NR_NAMES] =
				event->kind == KVMM_EVENT_STORED;
		check_tokens(batch, event);
	}
}

static struct wire_batch decode(const u8 *bytes, size_t nr)
{
	static __thread struct wire_event event[BATCH];
	static __thread u64 hash[BATCH];
	static __thread u32 token[BATCH * TOKENS];
	struct wire_batch batch = {
		.event = event, .hash = hash, .token = token,
		.max_events = BATCH, .max_hashes = BATCH, .max_tokens = BATCH * TOKENS,
	};

	expect(wire_read(bytes, nr, &batch) == (s64)nr);
	return batch;
}

static void take_batch(struct mirror *mirror)
{
	struct wire_batch batch = decode(message.payload, message.bytes);
	u64 seq = number_in(message.seq);
	bool anew = batch.nr_events == 1 && batch.event[0].kind == KVMM_EVENT_CLEARED;

	expect(seq == mirror->next + anew);
	mirror->next = seq + 1;
	mirror->nr_batches++;
	mirror->nr_anew += anew;
	apply(mirror, &batch);
}

/* What has been sent, or is in the pool now: an answer of nothing is the last one. */
static void take_answer(struct mirror *mirror)
{
	u64 seq = number_in(message.seq);
	struct wire_batch batch;

	mirror->nr_answers++;
	if (!message.bytes) {
		expect(seq == UINT64_MAX);
		return;
	}
	expect(seq <= mirror->next);
	batch = decode(message.payload, message.bytes);
	for (u32 i = 0; i < batch.nr_events; i++)
		check_tokens(&batch, &batch.event[i]);
}

/* topic, number, batch; or identity, nothing, number, batch. */
static void hear(int type, const void *bytes, size_t nr, bool more)
{
	u32 part = message.nr++;

	if (!part)
		message.topic = *(const u8 *)bytes;
	else if (part == (type == ZMQ_PUB ? 1 : 2) && nr == 8)
		memcpy(message.seq, bytes, 8);
	if (more)
		return;
	expect(part == (type == ZMQ_PUB ? 2 : 3));
	message.payload = bytes;
	message.bytes = nr;
	message.nr = 0;
	if (type == ZMQ_PUB)
		take_batch(&mirrors[message.topic & 1]);
	else
		take_answer(&mirrors[message.topic & 1]);
}

/* Now and then: who wants all since some number, and who wants all that there is. */
static int ask(void *bytes, size_t room, bool *more)
{
	static __thread u32 part;
	const u8 from[8] = { [7] = any(256) };

	if (!part && any(100))
		return -1;
	*more = part < 2;
	part = (part + 1) % 3;
	if (part == 1) {
		/* Which publisher's thread this is, is known by what it has sent. */
		memcpy(bytes, &message.topic, 1);
		return 1;
	}
	if (part == 2)
		return 0;
	if (any(2)) {
		memcpy(bytes, from, sizeof(from));
		return sizeof(from);
	}
	memcpy(bytes, "kvmm-snapshot", 13);
	return 13;
}

/* ---- engines ---- */

static u32 name_run(kvmm_key_t *keys, struct kvmm_prefix *prefix)
{
	u32 first = any(NR_NAMES / RUN) * RUN;

	for (u32 i = 0; i < RUN; i++)
		keys[i] = key_of(first + i);
	*prefix = (struct kvmm_prefix){ keys, RUN, 0, NULL, { 0, 0, 0 } };
	return first;
}

/* Of every second run, tokens and a session; of every third one of the others, the session alone. */
static void say_tokens(struct kvmm_publisher *to, u32 first, const kvmm_key_t *keys)
{
	struct kvmm_publisher_note note = KVMM_PUBLISHER_NOTE_INIT;
	u32 tokens[RUN][TOKENS];
	char session[16];

	for (u32 i = 0; i < RUN; i++)
		for (u32 t = 0; t < TOKENS; t++)
			tokens[i][t] = token_of(first + i, t);
	snprintf(session, sizeof(session), "session %u", first % 7);
	note.keys = keys;
	note.nr = RUN;
	note.session_id = session;
	if (first / RUN % 2)
		note.tokens = tokens[0];
	if (note.tokens || !(first / RUN % 3))
		expect(!kvmm_publisher_tell(to, &note));
}

static void compute(u32 p)
{
	struct kvmm_prefix prefix;
	kvmm_key_t keys[RUN];
	kvmm_mut_t muts[RUN];
	kvmm_ref_t refs[RUN];
	u32 first = name_run(keys, &prefix);

	say_tokens(publisher[p], first, keys);
	if (kvmm_alloc(pool[p], RUN, muts))
		return;
	if (kvmm_prefix_register(pool[p], &prefix, muts, refs))
		expect(!kvmm_free(pool[p], muts, RUN));
	else
		expect(!kvmm_put_many(pool[p], refs, RUN));
}

static void send_down(u32 p)
{
	struct kvmm_prefix prefix;
	kvmm_key_t keys[RUN];
	kvmm_ref_t refs[RUN];
	struct kvmm_tier_offload_args req = { .size = sizeof(req), .refs = refs };
	kvmm_tier_op_t op;
	int nr;

	name_run(keys, &prefix);
	nr = kvmm_prefix_match(pool[p], &prefix, refs);
	expect(nr >= 0);
	expect(!kvmm_put_many(pool[p], refs, nr));
	req.nr = nr;
	req.flags = any(2) ? KVMM_TIER_DROP : 0;
	if (!kvmm_tier_offload(pool[p], &req, &op) && any(2))
		expect(!kvmm_tier_abort(pool[p], op));
}

static void load(u32 p)
{
	struct kvmm_prefix prefix;
	kvmm_key_t keys[RUN];
	kvmm_ref_t refs[RUN];
	struct kvmm_tier_load_args req = { .size = sizeof(req), .prefix = &prefix };
	struct kvmm_tier_result result = { .size = sizeof(result), .nr = RUN, .refs = refs };
	kvmm_tier_op_t op;

	name_run(keys, &prefix);
	if (kvmm_tier_load(pool[p], &req, &op))
		return;
	expect(!tier_wait(pool[p], op, 60000000000ull));
	if (!kvmm_tier_get_result(pool[p], op, &result))
		expect(!kvmm_put_many(pool[p], refs, RUN));
}

static void other(u32 p)
{
	u32 block = any(NR_BLOCKS);
	struct kvmm_prefix prefix;
	kvmm_key_t keys[RUN];

	name_run(keys, &prefix);
	switch (any(16)) {
	case 0:
		kvmm_tier_forget(pool[p], &prefix);
		break;
	case 1:
		expect(kvmm_reset_inactive(pool[p]) >= 0);
		break;
	case 2:
		expect(!kvmm_validate(pool[p]));
		break;
	case 3:
		expect(!kv_tier_check(tier));
		break;
	case 4:
	case 5:
		kvmm_evict_blocks(pool[p], &block, 1);
		break;
	case 6:
	case 7:
		expect(kvmm_tier_tick(tier) >= 0);
		break;
	default:
		expect(kvmm_tier_poll(pool[p]) >= 0);
	}
}

static void run_engine(void)
{
	static void (*const deeds[])(u32 p) = { compute, compute, send_down, load, other };
	u32 p = any(NR_POOLS);

	deeds[any(ARRAY_SIZE(deeds))](p);
	done[TURNS]++;
}

/* ---- who looks ---- */

static int come(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = 300 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(addr.sun_path, kvmm_control_path(control));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	expect(!connect(fd, (struct sockaddr *)&addr, sizeof(addr)));
	return fd;
}

/* A line, and as many bytes as it says: false: there is nothing more. */
static bool skip_answer(int fd)
{
	char buf[4096];
	unsigned int err, bytes = 0;
	u32 nr = 0;

	do
		if (nr == sizeof(buf) || recv(fd, buf + nr, 1, 0) != 1)
			return false;
	while (buf[nr++] != '\n');
	buf[nr - 1] = '\0';
	expect(!strncmp(buf, "kvmm-control ", 13) || sscanf(buf, "ok %u", &bytes) == 1 ||
	     sscanf(buf, "err %u %u", &err, &bytes) == 2);
	while (bytes) {
		ssize_t got = recv(fd, buf, min(bytes, (unsigned int)sizeof(buf)), 0);

		if (got <= 0)
			return false;
		bytes -= got;
	}
	return true;
}

static void look(void)
{
	static const char *const said[] = {
		"stat\n", "tiers\n", "metrics\n", "events b new 10\n", "names a 100\n", "names b 100\n",
		"events a 0 100 all\n", "snapshot a\n", "vmstat\n",
	};
	const char *line = said[done[LOOKS]++ % ARRAY_SIZE(said)];

	if (socket_fd < 0) {
		socket_fd = come();
		expect(skip_answer(socket_fd));
	}
	expect(send(socket_fd, line, strlen(line), MSG_NOSIGNAL) == (ssize_t)strlen(line));
	expect(skip_answer(socket_fd));
}

/* ---- all of it ---- */

static void make_tier(void)
{
	struct kvmm_tier_disk_attr below = { .size = sizeof(below), .high_pm = 300 };
	struct kvmm_disk_attr attr = { .size = sizeof(attr), .flags = KVMM_DISK_CREATE,
				       .path = "/store", .max_bytes = DISK_BYTES,
				       .segment_bytes = SEGMENT };
	struct kvmm_tier_attr host = { .size = sizeof(host), .numa_node = -1,
				       .capacity_blocks = NR_UNITS, .block_bytes = BYTES };

	sim_disk_init(&sim, 2 * DISK_BYTES);
	sim_disk_install(&sim);
	attr.flags |= KVMM_DISK_NAMES;
	expect(!kvmm_disk_open(&attr, &disk));
	host.disk = disk;
	host.disk_attr = &below;
	expect(!kvmm_tier_host_create(&host, &tier));
}

static void make_pool(u32 p)
{
	struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru", .block_bytes = BYTES,
				       .block_tokens = TOKENS, .host = tier, .host_attr = &client };

	config.write = p ? KVMM_TIER_BACK : KVMM_TIER_THROUGH;
	client.config = &config;
	client.layout_id = 1 + p;
	expect(!kvmm_pool_create(&attr, &pool[p]));
}

static void publish(u32 p)
{
	struct kvmm_publisher_attr attr = KVMM_PUBLISHER_ATTR_INIT;
	struct kvmm_events_attr events = KVMM_EVENTS_ATTR_INIT;

	events.ring = p ? 64 : 1u << 16;
	events.batch_max = BATCH;
	attr.events = &events;
	attr.topic = p ? "1" : "0";
	attr.replay_endpoint = "inproc://replay";
	attr.replay_batches = 20;
	attr.replay_bytes = 64 << 10;
	attr.token_blocks = NR_NAMES / 2;
	attr.note_bytes = 64;
	expect(!kvmm_publisher_start(pool[p], &attr, &publisher[p]));
}

static void open_socket(const char *dir)
{
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;

	attr.name = "torture";
	attr.dir = dir;
	attr.flags = KVMM_CONTROL_THREAD;
	attr.max_rate = 1000000;
	attr.idle_ms = attr.output_ms = 600000;	/* of a machine that has other things to do */
	expect(!kvmm_control_open(&attr, &control));
	expect(!kvmm_control_add_pool(control, "a", pool[0]));
	expect(!kvmm_control_add_pool(control, "b", pool[1]));
}

/* Nothing goes down any more, and what was on its way has come. */
static void settle(u32 p)
{
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;

	config.write = KVMM_TIER_EXPLICIT;
	expect(!kvmm_tier_configure(pool[p], &config));
	for (u32 n = 0; n < 1000 && kvmm_tier_poll(pool[p]) + kvmm_tier_tick(tier); n++)
		;
	expect(!kvmm_validate(pool[p]));
}

/* Nobody does anything any more. */
static void compare(u32 p, struct kvmm_events *events)
{
	bool has[KVMM_NR_MEDIA][NR_NAMES] = { { 0 } };
	struct kvmm_event buf[BATCH];
	struct kvmm_snapshot snap;
	int nr;

	expect(!kvmm_snapshot_begin(events, &snap));
	while ((nr = kvmm_snapshot_read(events, &snap, buf, BATCH)) > 0)
		for (int i = 0; i < nr; i++)
			has[buf[i].medium][buf[i].key.byte[15] | buf[i].key.byte[14] << 8] = true;
	for (u32 medium = 0; medium < KVMM_NR_MEDIA; medium++)
		for (u32 name = 0; name < NR_NAMES; name++)
			expect(has[medium][name] == mirrors[p].has[medium][name]);
	printf("publish_torture: %llu batches, %llu times anew, %llu answers\n",
	       (unsigned long long)mirrors[p].nr_batches, (unsigned long long)mirrors[p].nr_anew,
	       (unsigned long long)mirrors[p].nr_answers);
}

static void end(void)
{
	for (u32 p = 0; p < NR_POOLS; p++) {
		struct kvmm_events *events;

		settle(p);
		kvmm_publisher_stop(publisher[p]);
		expect(!kvmm_events_open(pool[p], NULL, &events));
		compare(p, events);
		kvmm_events_close(events);
	}
	close(socket_fd);
	kvmm_control_close(control);
	for (u32 p = 0; p < NR_POOLS; p++)
		kvmm_pool_destroy(pool[p]);
	kvmm_tier_destroy(tier);
	kvmm_disk_close(disk);
	sim_disk_remove();
	sim_disk_exit(&sim);
	fake_zmq_remove();
}

int main(int argc, char **argv)
{
	u64 seconds = argc > 1 ? strtoull(argv[1], NULL, 0) : 2;
	u64 seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (u64)time(NULL);
	char dir[] = "/tmp/kvmm-torture-XXXXXX";

	printf("publish_torture: seed %llu\n", (unsigned long long)seed);
	if (!mkdtemp(dir))
		return 1;
	fake_zmq_install();
	fake_zmq.hears = hear;
	fake_zmq.asks = ask;
	make_tier();
	for (u32 p = 0; p < NR_POOLS; p++) {
		make_pool(p);
		publish(p);
	}
	open_socket(dir);
	for (u32 i = 0; i < NR_ENGINES; i++)
		torture_start(run_engine, 0, seed + i);
	torture_start(look, 0, seed);
	torture_end(seconds * NS_PER_SEC);
	end();
	rmdir(dir);
	expect(mirrors[0].nr_batches && mirrors[1].nr_anew);
	return torture_report("publish_torture", seed, NR_COUNTS,
			      (const char *const []){ "turns of engines", "looks" });
}
