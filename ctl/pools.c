// SPDX-License-Identifier: Apache-2.0
/*
 * The pools that a control socket shows, in the order of names: they come, are found, go.
 *
 * What is remembered of them, the views of all, is as old as control_views() allows. Everything
 * here is under control->lock.
 */
#include <string.h>

#include <kv/buf.h>
#include <kv/env.h>
#include <kv/log.h>
#include <kv/mem.h>
#include <kv/pool.h>
#include <kv/pool_migrate.h>

#include "control.h"

#define VIEW_NS	1000000ull	/* a view counts for so long */

void control_forget_views(struct kvmm_control *control)
{
	views_drop(&control->views);
	control->has_views = false;
}

struct kv_control_pool *kv_control_pools(const struct kvmm_control *control)
{
	kv_assert_held(&control->lock);
	return control->pools;
}

struct kv_control_pool *kv_control_find(const struct kvmm_control *control, const char *name)
{
	struct kv_control_pool *entry = kv_control_pools(control);

	while (entry && strcmp(entry->name, name))
		entry = entry->next;
	return entry;
}

/* ---- views ---- */

/* All pools, by the names that the socket has for them. */
static int view_all(struct kvmm_control *control)
{
	struct kvmm_metrics_attr attr = KVMM_METRICS_ATTR_INIT;
	struct kvmm_pool **pools;
	const char **names;
	int err = -ENOMEM;
	u32 room = 1;

	for (struct kv_control_pool *at = kv_control_pools(control); at; at = at->next)
		room++;
	pools = kv_alloc_array(room, sizeof(*pools));
	names = kv_alloc_array(room, sizeof(*names));
	if (pools && names) {
		for (struct kv_control_pool *at = control->pools; at; at = at->next) {
			pools[attr.nr_pools] = at->pool;
			names[attr.nr_pools++] = at->name;
		}
		attr.pools = pools;
		attr.names = names;
		err = views_take(&attr, &control->views);
	}
	kv_free(pools);
	kv_free(names);
	return err;
}

/* Lines that allocators write are read no more often, however many clients ask. */
static int look(struct kvmm_control *control)
{
	u64 now = kv_clock_ns();
	int err;

	kv_assert_held(&control->lock);
	if (control->has_views && now - control->viewed_ns < VIEW_NS)
		return 0;
	control_forget_views(control);
	err = view_all(control);
	control->has_views = !err;
	control->viewed_ns = now;
	return err;
}

int control_views(struct kv_control_call *call, u32 i, struct views *shown)
{
	bool is_named = !call->pool && call->nr_args > i;
	int err = look(call->control);

	if (err)
		return err;
	*shown = call->control->views;
	if (is_named)
		call->entry = kv_control_find(call->control, call->arg[i]);
	if (is_named && !call->entry)
		return kv_call_error(call, -ENOENT, "there is no pool '%.64s'", call->arg[i]);
	if (!call->entry)
		return 0;
	while (shown->pool->pool != call->entry->pool)
		shown->pool++;
	shown->nr_pools = 1;
	shown->nr_tiers = shown->pool->tier != NULL;
	shown->tier = shown->pool->tier;
	return 0;
}

int control_open_views(struct kv_control_call *call, struct views *shown)
{
	int err = control_views(call, 0, shown);

	return !err && call->entry && shown->pool->is_closed ? -EUCLEAN : err;
}

int control_rows(struct kv_control_call *call, const char *head,
		 void (*write)(struct kv_text *text, const struct pool_view *view))
{
	struct views shown;
	int err = control_open_views(call, &shown);

	if (err)
		return err;
	kv_text_puts(call->text, head);
	for (u32 i = 0; i < shown.nr_pools; i++)
		if (!shown.pool[i].is_closed)
			write(call->text, &shown.pool[i]);
	return 0;
}

/* ---- they come and go ---- */

/* It is off the list; those that are on it may use it still. ->lock held, or the end. */
static void end_pool(struct kvmm_control *control, struct kv_control_pool *entry)
{
	for (struct kv_control_pool *other = control->pools; other; other = other->next)
		for (u32 i = 0; i < KV_NR_COMMAND_SETS; i++)
			if (other->state[i] && control->sets[i]->other_exit)
				control->sets[i]->other_exit(entry, &other->state[i]);
	for (u32 i = 0; i < KV_NR_COMMAND_SETS; i++)
		if (entry->state[i] && control->sets[i]->pool_exit)
			control->sets[i]->pool_exit(entry, &entry->state[i]);
	kv_free(entry);
}

void control_end_pools(struct kvmm_control *control)
{
	while (control->pools) {
		struct kv_control_pool *entry = control->pools;

		control->pools = entry->next;
		end_pool(control, entry);
	}
	control_forget_views(control);
}

/* Where it belongs, or NULL: that name or that pool is there already. */
static struct kv_control_pool **place_for(struct kvmm_control *control,
					  const struct kv_control_pool *new)
{
	struct kv_control_pool **at = &control->pools, **place = NULL;

	for (; *at; at = &(*at)->next) {
		int order = strcmp((*at)->name, new->name);

		if (!order || (*at)->pool == new->pool)
			return NULL;
		if (order > 0 && !place)
			place = at;
	}
	return place ? place : at;
}

int kvmm_control_add_pool(struct kvmm_control *control, const char *name, struct kvmm_pool *pool)
{
	struct kv_control_pool *entry, **place;
	int err = control_refusal(control);

	kv_why_clear();
	if (err || !pool)
		return err ? err : -EINVAL;
	name = name ? name : kv_pool_name(pool);
	/* Clients have to be able to say it. */
	if (!kv_name_is_good("pool", name, KVMM_CONTROL_NAME) || !strcmp(name, "-") ||
	    strchr(name, ' '))
		return -EINVAL;
	entry = kv_alloc(sizeof(*entry));
	if (!entry)
		return -ENOMEM;
	entry->pool = pool;
	memcpy(entry->name, name, strlen(name));
	kv_lock(&control->lock);
	control_forget_views(control);
	place = place_for(control, entry);
	if (place) {
		entry->next = *place;
		*place = entry;
	}
	kv_unlock(&control->lock);
	if (!place)
		kv_free(entry);
	return place ? 0 : -EEXIST;
}

int kvmm_control_remove_pool(struct kvmm_control *control, struct kvmm_pool *pool)
{
	struct kv_control_pool **at, *entry;
	int err = control_refusal(control);

	if (err || !pool)
		return err ? err : -EINVAL;
	kv_lock(&control->lock);
	control_forget_views(control);
	for (at = &control->pools; *at && (*at)->pool != pool;)
		at = &(*at)->next;
	entry = *at;
	if (entry) {
		*at = entry->next;
		end_pool(control, entry);
	}
	kv_unlock(&control->lock);
	return entry ? 0 : -ENOENT;
}
