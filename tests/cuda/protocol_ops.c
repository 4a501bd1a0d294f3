// SPDX-License-Identifier: Apache-2.0
/*
 * What happens to blocks. Each kind of operation chooses blocks, finds out what it has to wait for,
 * waits, puts its work on a stream, and says what the blocks hold from then on.
 */
#include <stdio.h>

#include "protocol.h"

#define NR_WORDS	(BLOCK_BYTES / 8)
#define IS_FILL		(1ull << 63)	/* contents: one byte, all over */
#define MAX_READS	3
#define MAX_MOVES	6
#define MOOD_TRIES	1500

/* ---- contents ---- */

static u64 content_of(u32 block, u64 version)
{
	return (u64)(block + 1) << 40 | version;
}

static u64 word(u64 content, u32 i)
{
	if (content & IS_FILL)
		return (content & 0xff) * 0x0101010101010101ull;
	return mix(content + i * 0x9e3779b97f4a7c15ull);
}

static void write_piece(void *to, u64 content, u32 plane)
{
	u64 *words = to;

	for (u32 i = 0; i < shape[plane].bytes / 8; i++)
		words[i] = word(content, shape[plane].start / 8 + i);
}

void check_piece(const void *from, u64 content, u32 plane)
{
	const u64 *words = from;
	u64 bad = 0;

	for (u32 i = 0; i < shape[plane].bytes / 8; i++)
		bad |= words[i] ^ word(content, shape[plane].start / 8 + i);
	world.nr_wrong += !!bad;
}

static u64 piece_at(u32 place, u32 plane)
{
	return world.planes[plane].base + place * world.planes[plane].stride;
}

u8 *stage_at(u32 stage, u32 plane)
{
	return (u8 *)world.mem.ptr + stage * BLOCK_BYTES + shape[plane].start;
}

/* ---- who may be chosen ---- */

bool is_live(const struct block *block)
{
	return block->place != KV_NONE;
}

static bool is_movable(const struct block *block)
{
	return is_live(block) && block->is_complete && block->next == KV_NONE;
}

static bool is_moving(const struct block *block)
{
	return is_live(block) && block->next != KV_NONE;
}

/* Complete blocks are for readers; what does not exist yet will. */
static bool is_writable(const struct block *block)
{
	return !block->is_complete;
}

static struct block *choose(bool (*fits)(const struct block *block))
{
	u32 first = below(NR_BLOCKS);

	for (u32 i = 0; i < NR_BLOCKS; i++) {
		struct block *block = &world.block[(first + i) % NR_BLOCKS];

		if (fits(block))
			return block;
	}
	return NULL;
}

static u32 choose_place(void)
{
	u32 first = below(NR_PLACES);

	for (u32 i = 0; i < NR_PLACES; i++)
		if (!world.place[(first + i) % NR_PLACES].is_used)
			return (first + i) % NR_PLACES;
	return KV_NONE;
}

/* A block to write all of, with a place to do so. NULL: there is no room. */
static struct block *choose_target(void)
{
	struct block *block = choose(is_writable);

	if (block && !is_live(block))
		block->place = choose_place();
	if (!block || !is_live(block))
		return NULL;
	world.place[block->place].is_used = true;
	return block;
}

static struct place *place_of(const struct block *block)
{
	return &world.place[block->place];
}

static u64 new_content(struct block *block)
{
	return content_of(block - world.block, ++block->version);
}

static void written(struct block *block, u32 agent, u64 seq, u64 content)
{
	note_write(place_of(block), agent, seq, content);
	block->is_complete = below(3) > 0;
}

/* ---- a step of the engine: one kernel reads some blocks and writes one ---- */

struct step {
	u32 nr, dst;			/* dst: KV_NONE: none */
	u64 dst_content;
	u32 src[MAX_READS];
	u64 src_content[MAX_READS];
};

/* Thread p does plane p. */
static void step_run(const struct sw_kernel *kernel, const struct sw_grid *grid, u64 thread,
		     void **params)
{
	const struct step *step = params[0];

	for (u32 i = 0; i < step->nr; i++)
		check_piece((void *)piece_at(step->src[i], thread), step->src_content[i], thread);
	if (step->dst != KV_NONE)
		write_piece((void *)piece_at(step->dst, thread), step->dst_content, thread);
}

static void step_access(const struct sw_kernel *kernel, void **params,
			struct sw_access_list *list, sw_touch_fn touch)
{
	const struct step *step = params[0];

	for (u32 p = 0; p < NR_PLANES; p++) {
		for (u32 i = 0; i < step->nr; i++)
			touch(list, piece_at(step->src[i], p), shape[p].bytes, false);
		if (step->dst != KV_NONE)
			touch(list, piece_at(step->dst, p), shape[p].bytes, true);
	}
}

const struct sw_kernel step_kernel = {
	.name = "step", .nr_params = 1, .run = step_run, .access = step_access,
};

const char *step_text(void)
{
	static char text[160];

	snprintf(text, sizeof(text),
		 ".version 6.0\n.target sm_70\n.address_size 64\n"
		 ".visible .entry step(.param .align 8 .b8 step_param_0[%zu])\n{ ret; }\n",
		 sizeof(struct step));
	return text;
}

/* Other places than it writes; not one twice. */
static void add_reads(struct step *step, struct needs *needs)
{
	u32 wanted = 1 + below(MAX_READS);

	while (wanted--) {
		const struct block *block = choose(is_live);
		bool is_new = block && block->place != step->dst;

		for (u32 i = 0; i < step->nr; i++)
			is_new = is_new && step->src[i] != block->place;
		if (!is_new)
			continue;
		need_content(needs, place_of(block));
		step->src[step->nr] = block->place;
		step->src_content[step->nr++] = place_of(block)->content;
	}
}

static bool do_step(void)
{
	u32 id = below(NR_STREAMS);
	struct agent *me = &world.agent[id];
	struct block *block = below(2) ? choose_target() : NULL;
	struct step step = { .dst = KV_NONE };
	struct needs needs = { { 0 } };
	void *params[] = { &step };
	u64 seq;

	if (block) {
		step.dst = block->place;
		step.dst_content = new_content(block);
		need_users(&needs, place_of(block));
	}
	add_reads(&step, &needs);
	if (!block && !step.nr)
		return false;
	stall(me, &needs);
	MUST(cu.launch_kernel(world.step, NR_PLANES, 1, 1, 1, 1, 1, 0, me->stream, params, NULL));
	seq = given(me);
	for (u32 i = 0; i < step.nr; i++)
		world.place[step.src[i]].read_seq[id] = seq;
	if (block)
		written(block, id, seq, step.dst_content);
	return true;
}

/* ---- copies, on a stream of the engine ---- */

static bool do_copy(void)
{
	u32 id = below(NR_STREAMS);
	struct agent *me = &world.agent[id];
	const struct block *src = choose(is_live);
	struct block *dst = src ? choose_target() : NULL;
	struct needs needs = { { 0 } };
	u64 seq;

	if (!dst || src == dst)
		return false;
	need_content(&needs, place_of(src));
	need_users(&needs, place_of(dst));
	stall(me, &needs);
	for (u32 p = 0; p < NR_PLANES; p++)
		MUST(cu.memcpy_dtod_async(piece_at(dst->place, p), piece_at(src->place, p),
					  shape[p].bytes, me->stream));
	seq = given(me);
	place_of(src)->read_seq[id] = seq;
	written(dst, id, seq, place_of(src)->content);
	return true;
}

/* ---- through staging memory ---- */

static void stage_access(u32 nr, bool write)
{
	ctl->host_access(stage_at(nr, 0), BLOCK_BYTES, write);
}

/* What was read into it is looked at; then it is free. */
bool reap(u32 nr, bool patient)
{
	struct stage *stage = &world.stage[nr];

	if (stage->seq && !host_sees(stage->agent, stage->seq, patient))
		return false;
	if (stage->is_read) {
		stage_access(nr, false);
		for (u32 p = 0; p < NR_PLANES; p++)
			check_piece(stage_at(nr, p), stage->content, p);
	}
	*stage = (struct stage){ 0 };
	return true;
}

/* A stage to use. */
static bool take_stage(u32 *nr)
{
	*nr = below(NR_STAGES);
	return world.is_deep ? !world.stage[*nr].seq : reap(*nr, true);
}

static bool do_reap(void)
{
	u32 nr = below(NR_STAGES);

	return world.stage[nr].seq && reap(nr, below(2));
}

static u64 copy_on_stream(struct agent *me, u32 place, u32 nr, bool out)
{
	for (u32 p = 0; p < NR_PLANES; p++) {
		if (out)
			MUST(cu.memcpy_dtoh_async(stage_at(nr, p), piece_at(place, p),
						  shape[p].bytes, me->stream));
		else
			MUST(cu.memcpy_htod_async(piece_at(place, p), stage_at(nr, p),
						  shape[p].bytes, me->stream));
	}
	return given(me);
}

static u64 copy_by_device(const struct needs *needs, u32 place, u32 nr, bool out)
{
	struct agent *me = &world.agent[CARRIER];
	const struct kv_move move = { out ? place : nr, out ? nr : place, 1 };
	const struct kv_planes device = { world.planes, NR_PLANES };
	const struct kv_planes host = { world.stage_planes, NR_PLANES };
	const struct kv_copy copy = {
		.src = out ? device : host, .dst = out ? host : device, .moves = &move, .nr = 1,
		.dir = out ? KV_COPY_TO_HOST : KV_COPY_TO_DEVICE,
		.flags = world.mem.is_mapped && below(2) ? KV_COPY_MAPPED : 0,
		.after = join(me, needs),
	};
	struct kv_fence fence;

	MUST(ops->copy_blocks(world.dev, &copy, &fence));
	return submitted(me, fence);
}

static u64 copy_stage(u32 id, const struct needs *needs, u32 place, u32 nr, bool out)
{
	if (id == CARRIER)
		return copy_by_device(needs, place, nr, out);
	stall(&world.agent[id], needs);
	return copy_on_stream(&world.agent[id], place, nr, out);
}

static bool do_to_host(void)
{
	u32 id = below(2) ? CARRIER : below(NR_STREAMS), nr;
	const struct block *src = choose(is_live);
	struct needs needs = { { 0 } };
	u64 seq;

	if (!src || !take_stage(&nr))
		return false;
	need_content(&needs, place_of(src));
	seq = copy_stage(id, &needs, src->place, nr, true);
	place_of(src)->read_seq[id] = seq;
	world.stage[nr] = (struct stage){ id, seq, place_of(src)->content, true };
	return true;
}

static bool do_from_host(void)
{
	u32 id = below(2) ? CARRIER : below(NR_STREAMS), nr;
	struct block *dst = take_stage(&nr) ? choose_target() : NULL;
	struct needs needs = { { 0 } };
	u64 content, seq;

	if (!dst)
		return false;
	content = new_content(dst);
	stage_access(nr, true);
	for (u32 p = 0; p < NR_PLANES; p++)
		write_piece(stage_at(nr, p), content, p);
	need_users(&needs, place_of(dst));
	seq = copy_stage(id, &needs, dst->place, nr, false);
	written(dst, id, seq, content);
	world.stage[nr] = (struct stage){ id, seq, 0, false };
	return true;
}

/* ---- by the host, which waits first, and comes back when it is done ---- */

static void host_reads(const struct place *place, u32 at)
{
	u64 words[NR_WORDS];

	for (u32 p = 0; p < NR_PLANES; p++) {
		MUST(ops->read(world.dev, piece_at(at, p), words, shape[p].bytes));
		check_piece(words, place->content, p);
	}
}

static u64 host_writes(struct block *block)
{
	u64 words[NR_WORDS], content = new_content(block);

	for (u32 p = 0; p < NR_PLANES; p++) {
		write_piece(words, content, p);
		MUST(ops->write(world.dev, piece_at(block->place, p), words, shape[p].bytes));
	}
	return content;
}

static u64 host_fills(const struct block *block)
{
	u8 byte = below(256);

	for (u32 p = 0; p < NR_PLANES; p++)
		MUST(ops->fill(world.dev, piece_at(block->place, p), byte, shape[p].bytes));
	return IS_FILL | byte;
}

static bool do_by_host(void)
{
	bool write = below(2);
	struct block *block = write ? choose_target() : choose(is_live);
	struct needs needs = { { 0 } };

	if (!block)
		return false;
	if (write)
		need_users(&needs, place_of(block));
	else
		need_content(&needs, place_of(block));
	host_waits(&needs);
	if (write)
		written(block, CARRIER, 0, below(2) ? host_writes(block) : host_fills(block));
	else
		host_reads(place_of(block), block->place);
	return true;
}

/* ---- fills ---- */

static u64 fill_by_device(const struct needs *needs, u32 place, u8 byte)
{
	struct agent *me = &world.agent[MOVER];
	const struct kv_planes planes = { world.planes, NR_PLANES };
	const struct kv_move run = { 0, place, 1 };
	struct kv_fence fence;

	MUST(ops->fill_blocks(world.dev, &planes, &run, 1, byte, join(me, needs), &fence));
	return submitted(me, fence);
}

static u64 fill_on_stream(struct agent *me, const struct needs *needs, u32 place, u8 byte)
{
	stall(me, needs);
	for (u32 p = 0; p < NR_PLANES; p++)
		MUST(cu.memset_d8_async(piece_at(place, p), byte, shape[p].bytes, me->stream));
	return given(me);
}

static bool do_fill(void)
{
	u32 id = below(2) ? MOVER : below(NR_STREAMS);
	struct block *dst = choose_target();
	struct needs needs = { { 0 } };
	u8 byte = below(256);
	u64 seq;

	if (!dst)
		return false;
	need_users(&needs, place_of(dst));
	seq = id == MOVER ? fill_by_device(&needs, dst->place, byte) :
			    fill_on_stream(&world.agent[id], &needs, dst->place, byte);
	written(dst, id, seq, IS_FILL | byte);
	return true;
}

/* ---- the end of a block; its users may still be at it ---- */

static bool do_release(void)
{
	struct block *block = choose(is_movable);

	if (!block)
		return false;
	place_of(block)->is_used = false;
	block->place = KV_NONE;
	block->is_complete = false;
	return true;
}

/* ---- moves ---- */

static void publish(struct block *block, u32 to)
{
	vacate(place_of(block));
	block->place = to;
	block->next = KV_NONE;
}

/*
 * Either the new place is used from now on, by whoever waits for the fence; or it is when the host
 * has seen the end of the move, and the old one is read until then. In the first case the place
 * may be the destination of the next move of the same list.
 */
static bool plan_move(struct kv_move *move, struct needs *needs, bool at_once)
{
	struct block *block = choose(is_movable);
	u64 seq = world.agent[MOVER].seq + 1;
	u32 to = choose_place();

	if (!block || to == KV_NONE)
		return false;
	*move = (struct kv_move){ block->place, to, 1 };
	need_move(needs, place_of(block), &world.place[to]);
	place_of(block)->read_seq[MOVER] = seq;
	note_write(&world.place[to], MOVER, seq, place_of(block)->content);
	world.place[to].is_moved = true;
	block->next = to;
	if (at_once)
		publish(block, to);
	return true;
}

static struct kv_fence submit_moves(const struct kv_move *moves, u32 nr, struct kv_fence after)
{
	const struct kv_planes planes = { world.planes, NR_PLANES };
	const struct kv_copy copy = {
		.src = planes, .dst = planes, .moves = moves, .nr = nr, .after = after,
		.flags = KV_COPY_BACKGROUND,
	};
	struct kv_fence fence;

	if (below(2))
		MUST(ops->move_blocks(world.dev, &planes, moves, nr, after, &fence));
	else
		MUST(ops->copy_blocks(world.dev, &copy, &fence));
	return fence;
}

static bool do_move(void)
{
	struct agent *me = &world.agent[MOVER];
	struct kv_move moves[MAX_MOVES];
	u32 nr = 0, wanted = 1 + below(MAX_MOVES);
	struct needs needs = { { 0 } };
	bool at_once = below(2);

	while (nr < wanted && plan_move(&moves[nr], &needs, at_once))
		nr++;
	if (!nr)
		return false;
	/* Of this very list: that is what waves are for. */
	needs.seq[MOVER] = 0;
	submitted(me, submit_moves(moves, nr, join(me, &needs)));
	world.nr_moved += nr;
	return true;
}

static bool do_publish(void)
{
	struct block *block = choose(is_moving);

	if (!block)
		return false;
	if (obeys(R4) && !host_sees(MOVER, world.place[block->next].write_seq, below(4) == 0))
		return false;
	publish(block, block->next);
	return true;
}

/* ---- the rest ---- */

/* Grace periods end for the host when it looks. */
static bool do_look(void)
{
	u32 id = below(NR_AGENTS);
	u64 left = world.agent[id].seq - world.agent[id].seen;

	return left && host_sees(id, world.agent[id].seq - below(min(left, 8u)), below(4) == 0);
}

/* The path that is best depends on the clock, and each run is to be the same again: never AUTO. */
void set_path(void)
{
	u32 path = KV_PATH_KERNEL + below(KV_NR_PATHS - KV_PATH_KERNEL);

	MUST(ops->tune(world.dev, KV_KNOB_PATH, path));
}

static bool do_tune(void)
{
	set_path();
	return true;
}

static const struct {
	const char *name;
	bool (*run)(void);
	u32 share;			/* in 100 */
	bool asks;			/* the host does, for the end of work */
} kinds[NR_KINDS] = {
	[STEP]		= { "steps", do_step, 38, false },
	[COPY]		= { "copies", do_copy, 7, false },
	[TO_HOST]	= { "to host", do_to_host, 7, false },
	[FROM_HOST]	= { "from host", do_from_host, 6, false },
	[BY_HOST]	= { "by host", do_by_host, 1, true },
	[FILL]		= { "fills", do_fill, 5, false },
	[RELEASE]	= { "releases", do_release, 12, false },
	[MOVE]		= { "moves", do_move, 11, false },
	[PUBLISH]	= { "published", do_publish, 7, true },
	[REAP]		= { "reaped", do_reap, 3, true },
	[LOOK]		= { "looks", do_look, 2, true },
	[TUNE]		= { "tunings", do_tune, 1, false },
};

/*
 * Now and then nobody asks for a long time: then queues are long, and the engine's ring of fences
 * goes round with all of them open.
 */
static void set_mood(void)
{
	if (world.nr_tries++ % MOOD_TRIES == 0)
		world.is_deep = world.nr_tries > 1 && below(4) == 0;
}

void one_op(void)
{
	for (;;) {
		u32 dice = below(100), kind = 0;

		while (dice >= kinds[kind].share)
			dice -= kinds[kind++].share;
		set_mood();
		if ((world.is_deep && kinds[kind].asks) || !kinds[kind].run())
			continue;
		world.nr[kind]++;
		return;
	}
}

const char *kind_name(u32 kind)
{
	return kinds[kind].name;
}
