// SPDX-License-Identifier: Apache-2.0
/* The map over liburcu's hash table again, with hashes that have 16 values. */
#define KV_MAP_4_BIT_HASH
#define MAP	kv_map_lfht
#define SUITE	map_lfht_4bit

/* Names of its own, and others than the tests have. */
#define name_of	lfht_name_of
#define find	lfht_find
#include "research/registry/lfht.c"
#undef name_of
#undef find

#include "tests/registry/map_suite.h"
