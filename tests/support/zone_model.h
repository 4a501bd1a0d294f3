/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A zone as a plain bitmap, to compare the engines with.
 *
 * It answers from the definitions and by looking at everything, and shares no code with the
 * engines. Free buddies always merge, so even a buddy's free blocks follow from the bitmap; only
 * what the classic buddy takes back needs more, the order held at each head.
 */
#ifndef ZONE_MODEL_H
#define ZONE_MODEL_H

#include <kv/types.h>
#include <kv/zone.h>

/* What an engine promises. */
enum zone_kind {
	ZONE_BEST,		/* exactly best fit, or first fit if asked: "zone", "best" */
	ZONE_FIRST,		/* exactly first fit, whatever is asked */
	ZONE_ANY_FIT,		/* some run that fits, if there is one: "lists" */
	ZONE_TRIM,		/* "buddy-trim" */
	ZONE_BUDDY,		/* "buddy" */
};

enum zone_kind zone_kind(const char *engine);

struct zone_model {
	enum zone_kind	kind;
	u32		nr;
	u8		*held;		/* ZONE_BUDDY: order + 1 at heads */
	u64		*free;		/* bit set: block is free */
};

void zone_model_init(struct zone_model *model, enum zone_kind kind, u32 nr);
void zone_model_exit(struct zone_model *model);

bool zone_model_is_free(const struct zone_model *model, u32 block);

/* Are all / none of [start, start + nr) free? */
bool zone_model_all_free(const struct zone_model *model, u32 start, u32 nr);
bool zone_model_none_free(const struct zone_model *model, u32 start, u32 nr);

/* First maximal free run that ends after @from, or .nr = 0. */
struct kvmm_extent zone_model_next(const struct zone_model *model, u32 from);

/*
 * Where a request of that kind must go, or KV_NONE; align and hi must not be 0. For ZONE_ANY_FIT
 * only whether it is KV_NONE binds the engine.
 */
u32 zone_model_place(const struct zone_model *model, const struct kv_zone_req *req);

/* Does a run that begins at @start serve the request? */
bool zone_model_serves(const struct zone_model *model, const struct kv_zone_req *req, u32 start);

/* What a successful call does: @nr as asked for. */
void zone_model_take(struct zone_model *model, u32 start, u32 nr);
void zone_model_give(struct zone_model *model, u32 start, u32 nr);

/* What the calls must return. */
int zone_model_can_take_at(const struct zone_model *model, u32 start, u32 nr);
int zone_model_can_give(const struct zone_model *model, u32 start, u32 nr);

struct zone_model_counts {
	u32 nr_free;
	u32 nr_pieces;		/* runs, or buddy blocks */
	u32 largest;
	u32 nr_usable;		/* pieces that can hold @nr */
	u32 usable;		/* blocks in them */
};

struct zone_model_counts zone_model_count(const struct zone_model *model, u32 nr);

/* The @k longest pieces, longest first; how many there are. */
unsigned int zone_model_longest(const struct zone_model *model, u32 *len, unsigned int k);

/* The free map as the zone tells it, against the model's; also all counts, and kv_zone_check(). */
bool zone_model_agrees(const struct zone_model *model, struct kv_zone *zone);

#endif /* ZONE_MODEL_H */
