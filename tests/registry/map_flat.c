// SPDX-License-Identifier: Apache-2.0
/* The flat map does what every map must do. */
#define MAP	kv_map_flat
#define SUITE	map_flat

#include "map_suite.h"
