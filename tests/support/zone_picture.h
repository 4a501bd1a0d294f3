/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zones as pictures.
 *
 * Letter: allocated; a stretch of equal letters is one allocation. Dot: a free block. [..] with
 * dots inside: one free piece of several blocks, which is a run, or with the buddy engines a
 * buddy block. '#': allocated after the picture was made. zone_from() reads the same pictures
 * that zone_str() draws; brackets are optional there.
 */
#ifndef ZONE_PICTURE_H
#define ZONE_PICTURE_H

#include <kv/zone.h>

#include "tests/support/test.h"

#define ZONE_PICTURE_MAX	256u

/* A zone of this engine in this state; pageblocks of 2^@pageblock_order blocks, 0 = default. */
struct kv_zone *zone_from_pageblocks(const char *engine, const char *picture,
				     u32 pageblock_order);
struct kv_zone *zone_from(const char *engine, const char *picture);

/* The picture of what zone_from() made last, as it is now. Valid until the next call. */
const char *zone_str(struct kv_zone *zone);

/* kv_zone_check() must agree; recounts every list and counter. */
void zone_check(struct kv_zone *zone);

/* Everything that the zone knows, to be compared with memcmp() after a call that must fail. */
struct zone_image {
	size_t bytes;
	char *data;
};

struct zone_image zone_image(const struct kv_zone *zone);

/* Compares and frees the image. */
bool zone_is_unchanged(const struct kv_zone *zone, struct zone_image image);

#endif /* ZONE_PICTURE_H */
