// SPDX-License-Identifier: Apache-2.0
/*
 * Hooks that listen to a registry of prefixes: touches, and nodes that tiers get and lose.
 *
 * Hooks are called by the thread that does it, after it, without a lock and outside read sections,
 * so that they may call anything. A hook's word counts the threads inside: so the thread that takes
 * it away can tell when it is empty. It does not wait for that: a hook may take itself away.
 */
#include <kv/bits.h>
#include <kv/err.h>

#include "radix.h"

#define HOOK_ON		BIT64(32)

/* ---- coming and going of hooks ---- */

/* ->config_lock held: as many more or fewer hooks of each kind that @hook is of. */
static void count_hook(struct kvmm_registry *reg, const struct hook *hook, u32 more)
{
	const struct kvmm_delegate *d = &hook->delegate;

	kv_assert_held(&reg->config_lock);
	if (d->on_touch)
		WRITE_ONCE(reg->nr_hooks[TOUCH_HOOK], reg->nr_hooks[TOUCH_HOOK] + more);
	if (d->on_present || d->on_absent)
		WRITE_ONCE(reg->nr_hooks[PRESENCE_HOOK], reg->nr_hooks[PRESENCE_HOOK] + more);
}

int kvmm_registry_delegate_sized(struct kvmm_registry *reg, const struct kvmm_delegate *delegate,
				 size_t size)
{
	struct hook *hook;
	int id = -ENOSPC;

	if (kv_inherited(reg))
		return -ECHILD;
	if (!reg || !kv_args_are_known(delegate, size, sizeof(*delegate)) ||
	    (!delegate->on_present && !delegate->on_absent && !delegate->on_touch))
		return -EINVAL;
	kv_lock(&reg->config_lock);
	hook = reg->hook;
	/* Pairs with hook_leave(): whichever thread was inside is done with it. */
	while (hook < reg->hook + KVMM_REGISTRY_HOOKS && smp_load_acquire(&hook->word))
		hook++;
	if (hook < reg->hook + KVMM_REGISTRY_HOOKS && reg->last_hook < INT32_MAX) {
		id = reg->last_hook++;
		hook->id = id;
		hook->delegate = *delegate;
		/* Pairs with hook_enter(). */
		smp_store_release(&hook->word, HOOK_ON);
		count_hook(reg, hook, 1);
	}
	kv_unlock(&reg->config_lock);
	return id;
}

int kvmm_registry_unhook(struct kvmm_registry *reg, int id)
{
	int err = 0;

	if (kv_inherited(reg))
		return -ECHILD;
	if (!reg)
		return -EINVAL;
	kv_lock(&reg->config_lock);
	if (id < 0 || (u32)id >= reg->last_hook)
		err = -EINVAL;
	for (u32 i = 0; !err && i < KVMM_REGISTRY_HOOKS; i++) {
		struct hook *hook = &reg->hook[i];
		u64 word = READ_ONCE(hook->word);

		if (hook->id != (u32)id)
			continue;
		while (word & HOOK_ON && !kv_cas(&hook->word, &word, word & ~HOOK_ON))
			;
		if (word & HOOK_ON)
			count_hook(reg, hook, -1);
		/* Pairs with hook_leave(): what was done inside is visible. */
		err = smp_load_acquire(&hook->word) ? -EBUSY : 0;
		break;
	}
	kv_unlock(&reg->config_lock);
	return err;
}

/* ---- calls ---- */

static bool hook_enter(struct hook *hook)
{
	u64 word = READ_ONCE(hook->word);

	while (word & HOOK_ON)
		/* Pairs with kvmm_registry_delegate(): function and context are written. */
		if (kv_cas(&hook->word, &word, word + 1))
			return true;
	return false;
}

static void hook_leave(struct hook *hook)
{
	u64 word = READ_ONCE(hook->word);

	/* Pairs with kvmm_registry_unhook() and _delegate(): our writes are visible. */
	while (!kv_cas(&hook->word, &word, word - 1))
		;
}

void radix_tell(struct kvmm_registry *reg, enum news_kind kind, u32 tier, struct news *news)
{
	kv_assert_not_held(&reg->config_lock);
	if (!news->nr)
		return;
	for (u32 i = 0; i < KVMM_REGISTRY_HOOKS; i++) {
		const struct kvmm_delegate *d = &reg->hook[i].delegate;
		struct hook *hook = &reg->hook[i];

		if (!hook_enter(hook))
			continue;
		if (kind == NEWS_PRESENT && d->on_present)
			d->on_present(d->ctx, tier, news->name, news->nr);
		if (kind == NEWS_ABSENT && d->on_absent)
			d->on_absent(d->ctx, tier, news->name, news->nr);
		if (kind == NEWS_TOUCH && d->on_touch)
			d->on_touch(d->ctx, news->name, news->nr);
		hook_leave(hook);
	}
	news->nr = 0;
}

/* ---- touches ---- */

bool kv_radix_wants_touches(const struct kvmm_registry *reg)
{
	return has_hooks(reg, TOUCH_HOOK);
}

void kv_radix_touch(struct kvmm_registry *reg, const struct kv_radix_name *names, u32 nr)
{
	struct news news = { .nr = 0 };

	if (!has_hooks(reg, TOUCH_HOOK))
		return;
	for (u32 i = 0; i < nr; i++) {
		news.name[news.nr++] = (struct kvmm_name){ names[i].key, names[i].domain,
							     names[i].position };
		if (news.nr == KVMM_REGISTRY_BATCH || i + 1 == nr)
			radix_tell(reg, NEWS_TOUCH, 0, &news);
	}
}

/* Names of those of @nodes that are there, at most KVMM_REGISTRY_BATCH. */
static void gather(const struct kvmm_registry *reg, const kvmm_node_t *nodes, u32 nr,
		   struct news *news)
{
	kv_assert(nr <= KVMM_REGISTRY_BATCH);
	news->nr = 0;
	kv_rcu_read_lock();
	for (u32 i = 0; i < nr; i++) {
		const struct node *node = node_of(reg, nodes[i]);

		if (node)
			news_add(news, node);
	}
	kv_rcu_read_unlock();
}

int kvmm_registry_touch(struct kvmm_registry *reg, const struct kvmm_prefix *prefix)
{
	kvmm_node_t nodes[KVMM_REGISTRY_BATCH];
	struct kvmm_prefix part;
	struct batch batch;
	struct news news;
	u32 nr = 0;

	if (kv_inherited(reg))
		return -ECHILD;
	if (!reg || radix_batch_of(prefix, &batch))
		return -EINVAL;
	part = *prefix;
	for (u32 first = 0; first < prefix->nr; first += part.nr) {
		part.keys = prefix->keys + first;
		part.nr = min(prefix->nr - first, KVMM_REGISTRY_BATCH);
		part.position = prefix->position + first;
		kvmm_registry_find(reg, &part, nodes);
		gather(reg, nodes, part.nr, &news);
		nr += news.nr;
		radix_tell(reg, NEWS_TOUCH, 0, &news);
	}
	return nr;
}

int kv_radix_touch_nodes(struct kvmm_registry *reg, const kvmm_node_t *nodes, uint32_t nr)
{
	struct news news;

	if (!reg || (!nodes && nr))
		return -EINVAL;
	for (u32 i = 0; i < nr; i++)
		if (!node_of(reg, nodes[i]))
			return radix_refuse(reg, nodes[i]);
	for (u32 first = 0; first < nr; first += KVMM_REGISTRY_BATCH) {
		gather(reg, nodes + first, min(nr - first, KVMM_REGISTRY_BATCH), &news);
		radix_tell(reg, NEWS_TOUCH, 0, &news);
	}
	return 0;
}
