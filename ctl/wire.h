/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of events as bytes; their format is in Documentation/events.rst. */
#ifndef CTL_WIRE_H
#define CTL_WIRE_H

#include <kvmm/ext/control.h>

#include "msgpack.h"

int wire_copy(struct kvmm_wire *to, const struct kvmm_wire *from);
/* @tokens: of blocks, by event; NULL: none are known of any, NULL in it: of that one. */
void wire_write(const struct kvmm_wire *wire, double seconds, const struct kvmm_event *events,
		u32 nr, const u32 *const *tokens, struct pack *pack);
u64 wire_big_endian(const u8 byte[8]);

#endif /* CTL_WIRE_H */
