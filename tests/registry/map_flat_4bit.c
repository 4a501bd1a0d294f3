// SPDX-License-Identifier: Apache-2.0
/* The flat map again, with hashes that have 16 values: names alone keep blocks apart. */
#define KV_MAP_4_BIT_HASH
#define MAP	kv_map_flat
#define SUITE	map_flat_4bit

#include "registry/flat_find.c"
#include "registry/flat.c"

#include "map_suite.h"
