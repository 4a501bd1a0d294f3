// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>

#include <kv/zone.h>

#include "buddy/internal.h"
#include "tests/support/zone_picture.h"

/* Who was drawn where; '.' for nobody. One test looks at one zone. */
static char owner[ZONE_PICTURE_MAX + 1];

/* The picture without brackets; its length is the zone's. */
static u32 read_picture(const char *picture)
{
	u32 nr = 0;

	for (; *picture; picture++) {
		if (*picture == '[' || *picture == ']')
			continue;
		cr_assert_lt(nr, ZONE_PICTURE_MAX);
		owner[nr++] = *picture;
	}
	owner[nr] = '\0';
	return nr;
}

/* Rounding engines take whole blocks only, so a picture for them shows whole blocks. */
static void claim_letters(struct kv_zone *zone, u32 nr)
{
	for (u32 lo = 0, hi; lo < nr; lo = hi) {
		for (hi = lo + 1; hi < nr && owner[hi] == owner[lo];)
			hi++;
		if (owner[lo] != '.')
			cr_assert_eq(kv_zone_alloc_at(zone, lo, hi - lo), 0);
	}
}

struct kv_zone *zone_from_pageblocks(const char *engine, const char *picture,
				     u32 pageblock_order)
{
	struct kv_zone_attr attr = { .engine = engine };
	struct kv_zone *zone;

	attr.nr_blocks = read_picture(picture);
	attr.pageblock_order = pageblock_order;
	cr_assert_eq(kv_zone_create(&attr, &zone), 0);
	claim_letters(zone, attr.nr_blocks);
	return zone;
}

struct kv_zone *zone_from(const char *engine, const char *picture)
{
	return zone_from_pageblocks(engine, picture, 0);
}

/* The free piece at @from, as the engine counts pieces. */
static struct kvmm_extent next_piece(const struct kv_zone *zone, u32 from)
{
	if (!strncmp(zone->ops->name, "buddy", 5))
		return kv_buddy_next_block(zone->engine, from);
	return zone->ops->next_free(zone->engine, from);
}

const char *zone_str(struct kv_zone *zone)
{
	static char str[3 * ZONE_PICTURE_MAX + 1];
	char *to = str;

	for (u32 at = 0; at < zone->nr_blocks;) {
		struct kvmm_extent piece = next_piece(zone, at);

		if (!piece.nr || piece.start != at) {
			*to++ = owner[at] == '.' ? '#' : owner[at];
			at++;
			continue;
		}
		if (piece.nr > 1)
			*to++ = '[';
		for (u32 i = 0; i < piece.nr; i++, at++) {
			*to++ = '.';
			owner[at] = '.';
		}
		if (piece.nr > 1)
			*to++ = ']';
	}
	*to = '\0';
	return str;
}

void zone_check(struct kv_zone *zone)
{
	cr_assert_eq(kv_zone_check(zone), 0);
}

struct zone_image zone_image(const struct kv_zone *zone)
{
	size_t engine_bytes = zone->ops->metadata_bytes(zone->nr_blocks);
	struct zone_image image = { engine_bytes + nr_pageblocks(zone), NULL };

	image.data = malloc(image.bytes);
	cr_assert_not_null(image.data);
	memcpy(image.data, zone->engine, engine_bytes);
	memcpy(image.data + engine_bytes, zone->block_class, nr_pageblocks(zone));
	return image;
}

bool zone_is_unchanged(const struct kv_zone *zone, struct zone_image image)
{
	struct zone_image now = zone_image(zone);
	bool same = now.bytes == image.bytes && !memcmp(now.data, image.data, now.bytes);

	free(now.data);
	free(image.data);
	return same;
}
