// SPDX-License-Identifier: Apache-2.0
/* Calls on a zone, each compared with the model. */
#include "tests/support/zone_steps.h"

#define MAX_SINGLES	64u

void zone_step_placed(struct zone_pair *pair, const struct kv_zone_req *req, u32 got)
{
	u32 want = zone_model_place(&pair->model, req);

	if (pair->model.kind == ZONE_ANY_FIT)
		zone_expect(pair, (got == KV_NONE) == (want == KV_NONE) &&
			    (got == KV_NONE || zone_model_serves(&pair->model, req, got)),
			    "%u blocks at %u", req->nr, got);
	else
		zone_expect(pair, got == want,
			    "nr %u align %u [%u, %u) fit %u topdown %u: at %u, not %u", req->nr,
			    req->align, req->lo, req->hi, req->fit, req->topdown, got, want);
	if (got != KV_NONE)
		zone_model_take(&pair->model, got, req->nr);
}

int zone_step_req(struct zone_pair *pair, const struct kv_zone_req *req)
{
	u32 got = KV_NONE;
	int err = kv_zone_alloc_req(pair->zone, req, &got);

	zone_expect(pair, err == (got == KV_NONE ? -ENOSPC : 0), "alloc_req is %d", err);
	zone_step_placed(pair, req, got);
	return err;
}

int zone_step_at(struct zone_pair *pair, u32 start, u32 nr)
{
	int want = zone_model_can_take_at(&pair->model, start, nr);
	int err = kv_zone_alloc_at(pair->zone, start, nr);

	zone_expect(pair, err == want, "claim %u+%u is %d, not %d", start, nr, err, want);
	if (!err)
		zone_model_take(&pair->model, start, nr);
	return err;
}

/* The longest pieces decide; what is taken is taken in that order, the last by the usual rule. */
int zone_step_runs(struct zone_pair *pair, u32 nr, unsigned int max_runs)
{
	u32 len[KVMM_MAX_RUNS], sum = 0, left = nr;
	struct kvmm_extent ext[KVMM_MAX_RUNS];
	unsigned int have = zone_model_longest(&pair->model, len, max_runs);
	int nr_ext = kv_zone_alloc_runs(pair->zone, nr, max_runs, ext);

	for (unsigned int i = 0; i < have; i++)
		sum += len[i];
	zone_expect(pair, sum < nr ? nr_ext == -ENOSPC : nr_ext > 0 && nr_ext <= (int)max_runs,
		    "%u in %u runs is %d", nr, max_runs, nr_ext);
	for (int i = 0; i < nr_ext; i++) {
		u32 longest = zone_model_count(&pair->model, 1).largest;
		struct kv_zone_req req = { .nr = min(left, longest), .align = 1,
					   .hi = pair->model.nr };

		zone_expect(pair, ext[i].nr == req.nr, "run of %u, not %u", ext[i].nr, req.nr);
		zone_step_placed(pair, &req, ext[i].start);
		left -= req.nr;
	}
	zone_expect(pair, nr_ext < 0 || !left, "%u in %u runs, %u missing", nr, max_runs, left);
	return min(nr_ext, 0);
}

int zone_step_many(struct zone_pair *pair, u32 nr)
{
	u32 nr_free = zone_model_count(&pair->model, 1).nr_free, ids[MAX_SINGLES];
	int err = kv_zone_alloc_many(pair->zone, nr, ids);

	zone_expect(pair, err == (nr_free < nr ? -ENOSPC : 0), "%u singles are %d", nr, err);
	for (u32 i = 0; !err && i < nr; i++) {
		zone_expect(pair, ids[i] < pair->model.nr &&
			    zone_model_is_free(&pair->model, ids[i]), "single %u", ids[i]);
		zone_model_take(&pair->model, ids[i], 1);
	}
	return err;
}

int zone_step_free(struct zone_pair *pair, u32 start, u32 nr)
{
	int want = zone_model_can_give(&pair->model, start, nr);
	int err = kv_zone_free(pair->zone, start, nr);

	zone_expect(pair, err == want, "free %u+%u is %d, not %d", start, nr, err, want);
	if (!err)
		zone_model_give(&pair->model, start, nr);
	return err;
}

int zone_step_free_many(struct zone_pair *pair, const u32 *ids, u32 nr)
{
	int err, want = 0;

	for (u32 i = 0; i < nr; i++) {
		want = want ? want : zone_model_can_give(&pair->model, ids[i], 1);
		for (u32 j = 0; j < i; j++)
			want = ids[i] == ids[j] ? -EINVAL : want;
	}
	err = kv_zone_free_many(pair->zone, ids, nr);
	zone_expect(pair, err == want, "free of %u singles is %d, not %d", nr, err, want);
	for (u32 i = 0; !err && i < nr; i++)
		zone_model_give(&pair->model, ids[i], 1);
	return err;
}

void zone_step_read(struct zone_pair *pair, u32 nr, u32 from)
{
	struct zone_model_counts c = zone_model_count(&pair->model, nr);
	u64 ppm = c.nr_free ? (c.nr_free - c.usable) * 1000000ull / c.nr_free : 1000000;
	struct kvmm_extent want = zone_model_next(&pair->model, from), got;

	zone_expect(pair, kv_zone_unusable(pair->zone, nr) == ppm, "unusable(%u)", nr);
	if (kv_zone_next_free(pair->zone, from, &got))
		got = (struct kvmm_extent){ pair->model.nr, 0 };
	zone_expect(pair, got.start == want.start && got.nr == want.nr, "next_free(%u)", from);
}
