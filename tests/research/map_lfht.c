// SPDX-License-Identifier: Apache-2.0
/* The map over liburcu's hash table does what every map must do. */
#define MAP	kv_map_lfht
#define SUITE	map_lfht

#include "research/research.h"
#include "tests/registry/map_suite.h"
