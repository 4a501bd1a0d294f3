// SPDX-License-Identifier: Apache-2.0
/*
 * The registry of prefixes with hashes that have 16 values: names alone keep nodes apart. Linked
 * with the model in place of the library's own.
 */
#define KV_MAP_4_BIT_HASH

#include "registry/radix.c"
#include "registry/radix_attach.c"
#include "registry/radix_check.c"
#include "registry/radix_find.c"
#include "registry/radix_hook.c"
#include "registry/radix_slab.c"
#include "registry/radix_table.c"
#include "registry/radix_tree.c"
#include "registry/radix_walk.c"
#include "registry/radix_write.c"
