/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that are linked with research/: a disk below a host tier that has no memory. */
#ifndef RESEARCH_SIM_DISK_H
#define RESEARCH_SIM_DISK_H

#include <kvmm/tier.h>

/**
 * struct kvmm_tier_sim_attr - a disk that is only simulated
 * @size: sizeof(struct kvmm_tier_sim_attr); set by KVMM_TIER_SIM_ATTR_INIT
 * @capacity_blocks: 1 to KVMM_MAX_BLOCKS
 * @write, @read: links: the bytes of one direction one after the other, latencies side by side
 */
struct kvmm_tier_sim_attr {
	size_t size;
	uint32_t capacity_blocks;
	uint32_t reserved;
	struct kvmm_tier_link write;
	struct kvmm_tier_link read;
};

#define KVMM_TIER_SIM_ATTR_INIT { sizeof(struct kvmm_tier_sim_attr), 0, 0, { 0, 0 }, { 0, 0 } }

/**
 * kvmm_tier_simulate_disk() - the same for a host tier of ids only: a disk without content
 * @sim: borrowed during the call
 * @attr: as in struct kvmm_tier_attr
 *
 * Its reads and writes take the time of its links, by the tier's clock. When full it forgets the
 * block written longest ago; of those read meanwhile it keeps one for three that go. It belongs to
 * the tier and goes with it.
 *
 * Return: 0; -EBUSY it has one, or pools; -EOPNOTSUPP the tier has memory; -EINVAL, -ENOMEM, -ECHILD.
 */
KVMM_API int kvmm_tier_simulate_disk(struct kvmm_tier *tier, const struct kvmm_tier_sim_attr *sim,
				     const struct kvmm_tier_disk_attr *attr);

#endif /* RESEARCH_SIM_DISK_H */
