/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SLAB_CHECK_H
#define TESTS_SLAB_CHECK_H

#include <kvmm/ext/slab.h>

/* Recompute everything: 0; -EUCLEAN, and the cache refuses further calls. */
int kv_slab_cache_check(struct kvmm_slab_cache *cache);

#endif /* TESTS_SLAB_CHECK_H */
