/* SPDX-License-Identifier: Apache-2.0 */
/* Reservations and handles that end with the check; shared by vmm.c and share.c. */
#ifndef CONFORMANCE_VMM_H
#define CONFORMANCE_VMM_H

#include "check.h"

kcu_mem_prop device_prop(u32 handle_types);
size_t granule(void);					/* minimum; skips without VMM */

kcu_deviceptr reserved(size_t bytes);			/* nothing may be left mapped at the end */
kcu_mem_handle handle(size_t bytes, u32 handle_types);	/* released at the end */
void mapped(kcu_deviceptr addr, kcu_mem_handle mem, size_t bytes);	/* unmapped at the end */
kcu_result allow(kcu_deviceptr addr, size_t bytes, u32 access);

#endif /* CONFORMANCE_VMM_H */
