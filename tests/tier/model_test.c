// SPDX-License-Identifier: Apache-2.0
/* KVMM_TIER_MODEL_OPS=1000000 is the long run; KVMM_TIER_MODEL_SEED a certain one. */
#include <criterion/criterion.h>

#include "tests/tier/model.h"

Test(tier_model, on_plain_memory_contents_are_right_and_nothing_stays_held)
{
	model_run(&(struct model_mode){ .device = "host" }, 12000);
}

Test(tier_model, with_ids_only_nothing_stays_held)
{
	model_run(&(struct model_mode){ .device = "host", .is_ids_only = true }, 12000);
}
