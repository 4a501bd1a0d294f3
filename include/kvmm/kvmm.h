/* SPDX-License-Identifier: Apache-2.0 */
/* All of kvmm: include this one. */
#ifndef KVMM_KVMM_H
#define KVMM_KVMM_H

#include <kvmm/cache.h>
#include <kvmm/compact.h>
#include <kvmm/event.h>
#include <kvmm/ext/admission.h>
#include <kvmm/ext/control.h>
#include <kvmm/ext/device.h>
#include <kvmm/ext/disk.h>
#include <kvmm/ext/evict.h>
#include <kvmm/ext/group.h>
#include <kvmm/ext/ids.h>
#include <kvmm/ext/inspect.h>
#include <kvmm/ext/lease.h>
#include <kvmm/ext/migrate.h>
#include <kvmm/ext/moves.h>
#include <kvmm/ext/name.h>
#include <kvmm/ext/registry.h>
#include <kvmm/ext/seq.h>
#include <kvmm/ext/slab.h>
#include <kvmm/key.h>
#include <kvmm/pool.h>
#include <kvmm/step.h>
#include <kvmm/tier.h>
#include <kvmm/types.h>

#endif /* KVMM_KVMM_H */
