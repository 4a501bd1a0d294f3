// SPDX-License-Identifier: Apache-2.0
#include "job.h"
int remote_init(struct kvmm_migrate *job, const struct kvmm_migrate_attr *attr)
{
	return -EINVAL;
}
