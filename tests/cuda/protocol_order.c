// SPDX-License-Identifier: Apache-2.0
/*
 * Who waits for whom, and which rule says so.
 *
 * A place knows its writer and its readers since. From that follows what the next one must wait
 * for; what it waits for is as little as can be, so that the checker has much to look at: nothing
 * that it has waited for before, nothing that the host has seen the end of, and the event that is
 * right behind, if there is one.
 */
#include "protocol.h"

static void signal_agent(struct agent *agent)
{
	MUST(ops->signal(world.dev, agent->stream, &agent->last.fence));
	agent->last.seq = agent->seq;
	agent->mark[agent->seq % NR_MARKS] = agent->last;
}

/* A fence that is not before @seq of @agent: whatever is known exactly, else what there is. */
static struct mark fence_for(struct agent *agent, u64 seq)
{
	const struct mark *mark = &agent->mark[seq % NR_MARKS];

	if (mark->seq == seq)
		return *mark;
	if (agent->last.seq < seq)
		signal_agent(agent);
	return agent->last;
}

static bool must_wait(const struct agent *me, u32 other, u64 seq)
{
	const struct agent *agent = &world.agent[other];

	return me != agent && seq > me->waited[other] && seq > agent->seen;
}

void stall(struct agent *me, const struct needs *needs)
{
	for (u32 i = 0; i < NR_AGENTS; i++) {
		struct mark mark;

		if (!must_wait(me, i, needs->seq[i]))
			continue;
		mark = fence_for(&world.agent[i], needs->seq[i]);
		MUST(ops->stall(world.dev, me->stream, mark.fence));
		me->waited[i] = mark.seq;
		world.nr_stalls++;
	}
}

/* The same for what takes a fence to wait for. */
struct kv_fence join(struct agent *me, const struct needs *needs)
{
	struct kv_fence fence[NR_AGENTS] = { { 0 } }, all;
	u32 nr = 0;

	for (u32 i = 0; i < NR_AGENTS; i++) {
		struct mark mark;

		if (!must_wait(me, i, needs->seq[i]))
			continue;
		mark = fence_for(&world.agent[i], needs->seq[i]);
		fence[nr++] = mark.fence;
		me->waited[i] = mark.seq;
	}
	world.nr_stalls += nr;
	if (nr < 2)
		return fence[0];
	MUST(ops->join(world.dev, fence, nr, &all));
	return all;
}

/* Something was put on a stream; to record an event right behind it makes the tightest order. */
u64 given(struct agent *me)
{
	me->seq++;
	if (!below(3))
		signal_agent(me);
	return me->seq;
}

u64 submitted(struct agent *me, struct kv_fence fence)
{
	me->last = (struct mark){ ++me->seq, fence };
	me->mark[me->seq % NR_MARKS] = me->last;
	return me->seq;
}

bool host_sees(u32 id, u64 seq, bool patient)
{
	struct agent *agent = &world.agent[id];
	struct mark mark;
	int err;

	if (seq <= agent->seen)
		return true;
	mark = fence_for(agent, seq);
	err = patient ? ops->wait(world.dev, mark.fence) : ops->poll(world.dev, mark.fence);
	if (err == -EAGAIN)
		return false;
	must(err, "a fence");
	agent->seen = max(agent->seen, mark.seq);
	return true;
}

void host_waits(const struct needs *needs)
{
	for (u32 i = 0; i < NR_AGENTS; i++)
		host_sees(i, needs->seq[i], true);
}

/* ---- the rules ---- */

bool obeys(enum rule rule)
{
	world.nr_dropped += world.dropped == rule;
	return world.dropped != rule;
}

static void need(struct needs *needs, u32 agent, u64 seq)
{
	needs->seq[agent] = max(needs->seq[agent], seq);
}

static void need_writer(struct needs *needs, const struct place *place)
{
	need(needs, place->writer, place->write_seq);
}

/* To write a place: also if its users knew it under another name. */
void need_users(struct needs *needs, const struct place *place)
{
	need_writer(needs, place);
	for (u32 i = 0; i < NR_AGENTS; i++)
		need(needs, i, place->read_seq[i]);
}

/* To read it. */
void need_content(struct needs *needs, const struct place *place)
{
	if (!place->is_moved || obeys(R4))
		need_writer(needs, place);
}

/* To move from one to the other. */
void need_move(struct needs *needs, const struct place *from, const struct place *to)
{
	if (obeys(R3))
		need_writer(needs, from);
	if (obeys(R2))
		need_users(needs, to);
}

void note_write(struct place *place, u32 agent, u64 seq, u64 content)
{
	*place = (struct place){
		.content = content, .write_seq = seq, .writer = agent, .is_used = true,
		.is_moved = false,
	};
}

/* Nobody new will read it there. Its users are remembered until somebody wants the place. */
void vacate(struct place *place)
{
	place->is_used = false;
	if (obeys(R5))
		return;
	place->write_seq = 0;
	memset(place->read_seq, 0, sizeof(place->read_seq));
}

