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
	struct hook *free = NULL;
	bool removes;
	int err = 0;

	if (kv_inherited(reg))
		return -ECHILD;
	if (!reg || !kv_args_are_known(delegate, size, sizeof(*delegate)))
		return -EINVAL;
	removes = !delegate->on_present && !delegate->on_absent && !delegate->on_touch;
	kv_lock(&reg->config_lock);
	for (struct hook *hook = reg->hook; hook < reg->hook + KVMM_REGISTRY_HOOKS; hook++) {
		/* Pairs with hook_leave(): what was done inside is visible, and over if it is 0. */
		u64 word = smp_load_acquire(&hook->word);

		if (!word)
			free = hook;
		if (!word || hook->delegate.ctx != delegate->ctx)
			continue;
		if (!removes && word & HOOK_ON)
			err = -EEXIST;
		if (!removes)
			continue;
		while (word & HOOK_ON && !kv_cas(&hook->word, &word, word & ~HOOK_ON))
			;
		if (word & HOOK_ON)
			count_hook(reg, hook, -1);
		if (smp_load_acquire(&hook->word))
			err = -EBUSY;
	}
	if (!err && !removes && !free)
		err = -ENOSPC;
	if (!err && !removes) {
		free->delegate = *delegate;
		/* Pairs with hook_enter(). */
		smp_store_release(&free->word, HOOK_ON);
		count_hook(reg, free, 1);
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

	/* Pairs with kvmm_registry_delegate(): our writes are visible. */
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
