/* SPDX-License-Identifier: Apache-2.0 */
/* All of kvmm: include this one. */
#ifndef KVMM_KVMM_H
#define KVMM_KVMM_H

#include <kvmm/alloc.h>
#include <kvmm/background.h>
#include <kvmm/cache.h>
#include <kvmm/compact.h>
#include <kvmm/config.h>
#include <kvmm/control.h>
#include <kvmm/device.h>
#include <kvmm/digest.h>
#include <kvmm/disk.h>
#include <kvmm/elastic.h>
#include <kvmm/event.h>
#include <kvmm/evict.h>
#include <kvmm/gang.h>
#include <kvmm/group.h>
#include <kvmm/grow.h>
#include <kvmm/hold.h>
#include <kvmm/key.h>
#include <kvmm/latency.h>
#include <kvmm/map.h>
#include <kvmm/metrics.h>
#include <kvmm/migrate.h>
#include <kvmm/owner.h>
#include <kvmm/pin.h>
#include <kvmm/pool.h>
#include <kvmm/publisher.h>
#include <kvmm/registry.h>
#include <kvmm/residency.h>
#include <kvmm/seq.h>
#include <kvmm/slab.h>
#include <kvmm/step.h>
#include <kvmm/tenant.h>
#include <kvmm/tier.h>
#include <kvmm/tokens.h>
#include <kvmm/types.h>
#include <kvmm/verify.h>
#include <kvmm/zone.h>

#endif /* KVMM_KVMM_H */
