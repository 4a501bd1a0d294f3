// SPDX-License-Identifier: Apache-2.0
/* Random calls on single blocks: private ones, and what is cached under names. */
#include "tests/pool/mix_model.h"

/* ---- private blocks ---- */

static struct held_block pull_mut(void)
{
	u32 at = mix_any(m.nr_muts);
	struct held_block held = m.mut[at];

	m.mut[at] = m.mut[--m.nr_muts];
	expect_content(place_of_mut(held.mut), held.word);
	return held;
}

void do_alloc(void)
{
	struct want want = { .nr = mix_any(3) ? 1 : mix_any(20), .tenant = mix_any(NR_TENANTS), .is_exact = true };
	struct bounds b = bounds_of(&want);
	kvmm_mut_t mut[20];
	int err;

	m.what = "alloc";
	err = kvmm_alloc_for(m.pool, want.nr, want.tenant, mut);
	expect_answer(&want, &b, err);
	if (!err)
		keep_muts(mut, want.nr, want.tenant, 0);
}

void do_alloc_ctl(void)
{
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	struct want want = { .nr = 1 + mix_any(16), .tenant = mix_any(NR_TENANTS), .prio = mix_any(3),
			     .flags = some_flags() };
	kvmm_mut_t mut[16];
	struct bounds b;
	int err;

	m.what = "alloc_ctl";
	ctl.nr = want.nr;
	ctl.prio = want.prio;
	ctl.tenant = want.tenant;
	ctl.flags = want.flags;
	want.is_exact = !(want.flags & (KVMM_ALLOC_CONTIG | KVMM_ALLOC_NOWAIT)) || want.nr == 1;
	want.promised = promised_to(&ctl.promise, want.nr);
	b = bounds_of(&want);
	err = kvmm_alloc_as(m.pool, &ctl, mut);
	expect_answer(&want, &b, err);
	if (err)
		return;
	was_promised(want.promised);
	keep_muts(mut, want.nr, want.tenant, want.flags);
}

void do_free(void)
{
	kvmm_mut_t mut[BATCH];
	u32 nr = mix_any(BATCH);

	m.what = "free";
	nr = nr < m.nr_muts ? nr : m.nr_muts;
	if (!nr)
		return;
	for (u32 i = 0; i < nr; i++)
		mut[i] = pull_mut().mut;
	must(!kvmm_free(m.pool, mut, nr));
	must(kvmm_free(m.pool, mut, 1) == -ESTALE);
}

/* ---- names ---- */

void do_register(void)
{
	kvmm_key_t key = { { 0 } };
	u32 number = mix_any(NR_KEYS);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1, .position = number % BATCH };
	struct held_block held;
	kvmm_ref_t ref;

	m.what = "register";
	if (!m.nr_muts)
		return;
	held = pull_mut();
	key = key_of(number);
	prefix.domain.tenant = held.tenant;
	fill(place_of_mut(held.mut), key_word(number, held.tenant));
	must(!kvmm_prefix_register(m.pool, &prefix, &held.mut, &ref));
	add_ref(ref, key_word(number, held.tenant), held.tenant);
}

void do_stage(void)
{
	kvmm_key_t key = { { 0 } };
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	struct held_block held;
	kvmm_staged_t staged;

	m.what = "stage";
	if (!m.nr_muts || m.nr_staged > 24)
		return;
	held = pull_mut();
	held.key = mix_any(NR_KEYS);
	held.word = key_word(held.key, held.tenant);
	key = key_of(held.key);
	prefix.domain.tenant = held.tenant;
	fill(place_of_mut(held.mut), held.word);
	must(!kvmm_stage(m.pool, &prefix, &held.mut, &staged));
	held.mut = (kvmm_mut_t){ staged.index, staged.gen };
	m.staged[m.nr_staged++] = held;
}

void do_staged(void)
{
	kvmm_staged_t staged;
	struct held_block held;
	kvmm_ref_t ref;
	struct kvmm_publish_args req = { .staged = &staged, .nr = 1, .refs = &ref,
					 .dup = mix_any(2) };

	m.what = "publish";
	if (!m.nr_staged)
		return;
	held = m.staged[--m.nr_staged];
	staged = (kvmm_staged_t){ held.mut.index, held.mut.gen };
	switch (mix_any(4)) {
	case 0:
		must(!kv_free_staged(m.pool, &staged, 1));
		break;
	case 1:
		must(!kvmm_unstage(m.pool, &staged, 1, &held.mut));
		must(m.nr_muts < MAX_BLOCKS);
		expect_content(place_of_mut(held.mut), held.word);
		m.mut[m.nr_muts++] = held;
		break;
	default:
		must(!kvmm_publish(m.pool, &req));
		add_ref(ref, held.word, held.tenant);
	}
}

void do_acquire(void)
{
	struct want want = { .tenant = mix_any(NR_TENANTS), .is_exact = true, .reserve = mix_any(4) ? 0 : mix_any(8) };
	u32 number[BATCH], nr, nr_hits;
	kvmm_key_t key[BATCH];
	kvmm_ref_t ref[BATCH];
	kvmm_mut_t mut[BATCH + 4];
	struct kvmm_acquire_args req = { .keys = key, .hits = ref, .fresh = mut, .reserve = want.reserve };
	struct kvmm_prefix prefix = { .keys = key };
	struct bounds b;
	int err;

	m.what = "acquire";
	nr = some_keys(number, key);
	prefix.nr = req.nr_keys = req.max_hits = nr;
	req.nr_blocks = nr + mix_any(4);
	req.domain.tenant = prefix.domain.tenant = want.tenant;
	nr_hits = kvmm_prefix_len(m.pool, &prefix);
	must(nr_hits <= nr);
	want.nr = req.nr_blocks - nr_hits;
	b = bounds_of(&want);
	b.sure = minus(b.sure, nr_hits);
	err = kvmm_acquire(m.pool, &req);
	if (err == -EDQUOT)	/* hits that nobody had are in use then */
		must(want.nr + nr_hits > b.sure_quota, "-EDQUOT");
	else
		expect_answer(&want, &b, err);
	if (err)
		return;
	must(req.nr_hits == nr_hits && req.nr_fresh == want.nr);
	for (u32 i = 0; i < nr_hits; i++)
		add_ref(ref[i], key_word(number[i], want.tenant), want.tenant);
	keep_muts(mut, req.nr_fresh, want.tenant, 0);
}

void do_match(void)
{
	struct kvmm_prefix prefix = { .domain.tenant = mix_any(NR_TENANTS) };
	u32 number[BATCH];
	kvmm_key_t key[BATCH];
	kvmm_ref_t ref[BATCH];
	int len, nr;

	m.what = "match";
	prefix.nr = some_keys(number, key);
	prefix.keys = key;
	len = kvmm_prefix_len(m.pool, &prefix);
	nr = kvmm_prefix_match(m.pool, &prefix, ref);
	must(nr == len, "%d, not %d", nr, len);
	for (int i = 0; i < nr; i++)
		add_ref(ref[i], key_word(number[i], prefix.domain.tenant), prefix.domain.tenant);
}

void do_put(void)
{
	u32 nr = mix_any(BATCH);

	m.what = "put";
	for (; nr && m.nr_refs; nr--) {
		u32 at = mix_any(m.nr_refs);
		struct held_ref held = m.ref[at];

		m.ref[at] = m.ref[--m.nr_refs];
		for (; held.pins; held.pins--) {
			must(!kvmm_unpin_many_as(m.pool, &held.ref, 1, held.pin_type));
			ref_put(held.ref);
		}
		expect_content(place_of_ref(held.ref), m.active[held.ref.index].word);
		ref_put(held.ref);
		must(!kvmm_put(m.pool, held.ref));
	}
}

void do_pin(void)
{
	struct held_ref *held;
	int err;

	m.what = "pin";
	if (!m.nr_refs)
		return;
	held = &m.ref[mix_any(m.nr_refs)];
	if (held->pins) {
		must(kvmm_unpin_many_as(m.pool, &held->ref, 1, KVMM_NR_PIN_TYPES) == -EINVAL);
		must(!kvmm_unpin_many_as(m.pool, &held->ref, 1, held->pin_type));
		held->pins--;
		ref_put(held->ref);
		return;
	}
	held->pin_type = mix_any(KVMM_NR_PIN_TYPES);
	err = kvmm_pin_many_as(m.pool, &held->ref, 1, held->pin_type);
	must(!err || (err == -EBUSY && nr_flying()), "%d", err);
	if (err)
		return;
	held->pins++;
	ref_get(held->ref, m.active[held->ref.index].word, m.active[held->ref.index].tenant);
}

void do_touch(void)
{
	u64 value = 1 + mix_any(90);
	struct held_ref *held;
	int err;

	m.what = "touch";
	if (!m.nr_refs)
		return;
	held = &m.ref[mix_any(m.nr_refs)];
	must(!kvmm_touch(m.pool, held->ref));
	err = kvmm_advise_many(m.pool, &held->ref, mix_any(KVMM_NR_ADVICES), &value, 1);
	must(!err || err == -EOPNOTSUPP, "%d", err);
	must(!kvmm_set_reset(m.pool, &held->ref, 1, !mix_any(8)));
	if (m.attr.evict && m.attr.evict->nr_classes) {
		err = kvmm_class_set(m.pool, &held->ref, 1, mix_any(KVMM_NR_PHASES));
		must(!err || err == -EPERM, "%d", err);
	}
}

/* A weak reference finds its very block, or nothing. */
void do_upgrade(void)
{
	kvmm_weak_t weak = m.weak[mix_any(32)];
	struct active *active = &m.active[weak.index];
	kvmm_ref_t ref;
	int nr;

	m.what = "upgrade";
	if (!weak.gen)
		return;
	nr = kvmm_upgrade(m.pool, weak, &ref);
	must(nr == 0 || nr == 1, "%d", nr);
	if (!nr)
		return;
	must(active->gen == weak.gen);
	add_ref(ref, active->word, active->tenant);
}
