/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of events as bytes; their format is in Documentation/events.rst. */
#ifndef CTL_WIRE_H
#define CTL_WIRE_H

#include <kvmm/ext/control.h>

#include "msgpack.h"

#define WIRE_TEXT	72u

/* Room for all that a struct kvmm_wire borrows. */
struct wire_text {
	struct kvmm_wire_group	group[KVMM_WIRE_MAX_GROUPS];
	char			kind[1 + KVMM_WIRE_MAX_GROUPS][WIRE_TEXT];
	char			ownership[KVMM_NR_MEDIA][WIRE_TEXT];
};

/* A copy that is sound, and borrows what @from does. 0; -EINVAL. */
int wire_copy(struct kvmm_wire *to, const struct kvmm_wire *from);
/* From now on it borrows of @text, as long as that is not moved. */
void wire_own(struct kvmm_wire *wire, struct wire_text *text);
/* @blocks: by event; NULL: nothing is known of any. */
void wire_write(const struct kvmm_wire *wire, double seconds, const struct kvmm_event *events,
		u32 nr, const struct kvmm_wire_block *blocks, struct pack *pack);
u64 wire_big_endian(const u8 byte[8]);

#endif /* CTL_WIRE_H */
