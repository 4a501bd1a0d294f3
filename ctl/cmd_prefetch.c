// SPDX-License-Identifier: Apache-2.0
/*
 * Hints from outside: a router that sends a prompt here says so before, and what of its prefix lies
 * in a tier below is in the device when the prompt comes.
 *
 * A hint is tried whenever the socket is polled, until all of it is there or it is too late; copies
 * go on in the engine's own polls. It never takes a block that ->reserve says requests need.
 */
#include <string.h>

#include <kv/env.h>
#include <kv/mem.h>
#include <kvmm/cache.h>
#include <kvmm/tier.h>

#include "command.h"
#include "control.h"

#define NR_HINTS	16u
#define HINT_KEYS	(KVMM_CONTROL_REQUEST_BYTES / (2 * KVMM_KEY_BYTES))
#define MAX_MS		60000u
#define TICK_MS		2u

struct hint {
	u64		id;		/* 0: none */
	u64		end_ns;
	kvmm_domain_t	domain;
	const char	*state;		/* NULL: under way */
	int		error;		/* of the last try */
	u32		position;
	u32		reserve;
	u32		nr;
	u32		nr_here;	/* of these, from the first on, when last looked at */
	u32		nr_begun;	/* loads */
	bool		has_parent;
	kvmm_key_t	parent;
	kvmm_key_t	key[HINT_KEYS];
};

/* Of a pool. control->lock. */
struct hints {
	u64		last_id;
	struct hint	hint[NR_HINTS];
};

/* No room now, too much on its way, or no answer yet: what the next time may be otherwise. */
static bool may_pass(int err)
{
	return err == -EAGAIN || err == -ENOSPC || err == -EDQUOT || err == -ENOENT;
}

static void try_hint(struct kvmm_pool *pool, struct hint *hint)
{
	struct kvmm_prefix prefix = { hint->key, hint->nr, hint->position,
				      hint->has_parent ? &hint->parent : NULL, hint->domain };
	int ret = kvmm_prefix_len(pool, &prefix);

	if (ret >= 0) {
		hint->nr_here = (u32)ret;
		ret = kvmm_tier_prefetch(pool, &prefix, hint->reserve);
	}
	hint->error = min(ret, 0);
	hint->nr_begun += (u32)max(ret, 0);
	if (ret < 0 && !may_pass(ret))
		hint->state = "failed";
	else if (hint->nr_here == hint->nr)
		hint->state = "done";
	else if (kv_clock_ns() >= hint->end_ns)
		hint->state = "late";
}

static u32 tick(struct kv_control_pool *entry, void **state)
{
	struct hints *hints = *state;
	u32 rest = UINT32_MAX;

	for (u32 i = 0; i < NR_HINTS; i++) {
		struct hint *hint = &hints->hint[i];

		if (!hint->id || hint->state)
			continue;
		try_hint(entry->pool, hint);
		rest = TICK_MS;
	}
	return rest;
}

/* ---- the request ---- */

/* All keys in one word. */
static int read_keys(struct kv_control_call *call, const char *word, kvmm_key_t *key, u32 max)
{
	size_t nr = strlen(word) / (2 * KVMM_KEY_BYTES);

	if (!nr || nr > max || strlen(word) % (2 * KVMM_KEY_BYTES))
		goto bad;
	for (size_t i = 0; i < nr; i++)
		if (!kv_text_read_key(word + i * 2 * KVMM_KEY_BYTES, &key[i]))
			goto bad;
	return (int)nr;
bad:
	return kv_call_error(call, -EINVAL, "'%.64s' is no key: %u digits of 0-9, a-f", word,
			     2 * KVMM_KEY_BYTES);
}

#define HINT(name, field) KV_COLUMN(name, NUMBER, struct hint, field)

static const struct {
	struct kv_column column;
	u64 max;
} numbers[] = {
	{ HINT("tenant=", domain.tenant), UINT32_MAX },
	{ HINT("layout=", domain.layout), UINT16_MAX },
	{ HINT("group=", domain.group), UINT16_MAX },
	{ HINT("position=", position), UINT32_MAX },
	{ HINT("reserve=", reserve), KVMM_MAX_BLOCKS },
};

static int read_word(struct kv_control_call *call, u32 i, struct hint *hint)
{
	u64 value;
	int err;

	if (!strncmp(call->arg[i], "parent=", 7)) {
		err = read_keys(call, call->arg[i] + 7, &hint->parent, 1);
		hint->has_parent = err == 1;
		return min(err, 0);
	}
	for (u32 n = 0; n < ARRAY_SIZE(numbers); n++) {
		const struct kv_column *column = &numbers[n].column;

		if (strncmp(call->arg[i], column->head, strlen(column->head)))
			continue;
		call->arg[i] += strlen(column->head);
		err = kv_call_number(call, i, 0, numbers[n].max, &value);
		if (!err)
			kv_column_set(column, hint, value);
		return err;
	}
	return kv_call_error(call, -EINVAL, "unknown word '%.64s'; try help prefetch",
			     call->arg[i]);
}

static int read_hint(struct kv_control_call *call, struct hint *hint)
{
	u64 ms = 0;
	int ret = kv_call_number(call, 0, 0, MAX_MS, &ms);

	hint->end_ns = kv_clock_ns() + ms * 1000000;
	if (!ret)
		ret = read_keys(call, call->arg[1], hint->key, HINT_KEYS);
	if (ret < 0)
		return ret;
	hint->nr = (u32)ret;
	for (u32 i = 2; i < call->nr_args; i++) {
		ret = read_word(call, i, hint);
		if (ret)
			return ret;
	}
	return 0;
}

/* ---- the answer ---- */

#define ROW(head, kind, field) KV_COLUMN(head, kind, struct hint, field)

static const struct kv_column columns[] = {
	ROW("id", NUMBER, id), ROW("ended:s", NAME, state), ROW("keys", NUMBER, nr),
	ROW("here", NUMBER, nr_here), ROW("loads", NUMBER, nr_begun), ROW("error", SIGNED, error),
};

/* That of the one that has ended first, if none is free; NULL: all are under way. */
static struct hint *place_for(struct hints *hints)
{
	struct hint *place = NULL;

	for (struct hint *hint = hints->hint; hint < hints->hint + NR_HINTS; hint++)
		if ((!hint->id || hint->state) && (!place || hint->id < place->id))
			place = hint;
	return place;
}

static int cmd_prefetch(struct kv_control_call *call)
{
	struct hints *hints;
	struct hint *hint, new = { 0 };
	int err = read_hint(call, &new);

	if (err)
		return err;
	if (!*call->state)
		*call->state = kv_alloc(sizeof(struct hints));
	hints = *call->state;
	if (!hints)
		return -ENOMEM;
	hint = place_for(hints);
	if (!hint)
		return kv_call_error(call, -EAGAIN, "%u hints of this pool are under way",
				     NR_HINTS);
	try_hint(call->pool, &new);
	if (new.error && !may_pass(new.error))
		return kv_call_error(call, new.error, "%s", new.error == -EOPNOTSUPP ?
				     "this pool has no tier below" : kvmm_strerror(new.error));
	new.id = ++hints->last_id;
	*hint = new;
	kv_text_head(call->text, columns, ARRAY_SIZE(columns));
	kv_text_row(call->text, columns, ARRAY_SIZE(columns), hint, 0);
	return 0;
}

static int cmd_status(struct kv_control_call *call)
{
	const struct hints *hints = *call->state;

	kv_text_head(call->text, columns, ARRAY_SIZE(columns));
	for (u32 i = 0; hints && i < NR_HINTS; i++)
		if (hints->hint[i].id)
			kv_text_row(call->text, columns, ARRAY_SIZE(columns), &hints->hint[i], 0);
	return 0;
}

static void pool_exit(struct kv_control_pool *entry, void **state)
{
	kv_free(*state);
	*state = NULL;
}

static const struct kv_command commands[] = {
	{ "prefetch", "POOL WITHIN_MS KEYS [position=N] [parent=KEY] [tenant=N] [layout=N] "
		      "[group=N] [reserve=N]",
	  "what tiers below have of a prefix comes to the device, until it is too late",
	  KV_COMMAND_POOL | KV_COMMAND_STEERS, 2, 8, cmd_prefetch },
	{ "prefetch-status", "POOL", "the last ones", KV_COMMAND_POOL, 0, 0, cmd_status },
	{ 0 },
};

const struct kv_command_set kv_commands_prefetch = {
	.commands = commands, .pool_exit = pool_exit, .tick = tick,
};
