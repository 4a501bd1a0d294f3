/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam to devices: memory that the host may not touch, and copies that finish later.
 *
 * Declared here, below all users, implemented in cuda/, chosen in init/. Three rules hold for
 * every implementation: a completion has a status, and a failed one leaves its destination
 * unreadable; no copy starts before the fence it was told to wait for; nothing here creates or
 * resets a device context.
 */
#ifndef KV_DEV_H
#define KV_DEV_H

#include <kv/types.h>
#include <kvmm/ext/device.h>
#include <kvmm/pool.h>

struct kv_dev;

/* Blocks [src, src + nr) to [dst, dst + nr). */
struct kv_move {
	u32 src;
	u32 dst;
	u32 nr;
};

/* The planes of one pool; borrowed. */
struct kv_planes {
	const struct kvmm_plane *plane;
	u32 nr;
};

/*
 * Completion of submitted work. 0 = nothing to wait for. A fence has a status: what its work
 * was to write must not be read unless that is 0.
 */
struct kv_fence {
	u64 id;
};

enum kv_copy_dir {
	KV_COPY_LOCAL,			/* within the device */
	KV_COPY_TO_DEVICE,		/* from host memory */
	KV_COPY_TO_HOST,
	KV_COPY_TO_PEER,		/* to memory of kv_copy.peer */
	KV_NR_COPY_DIRS,
};

/* How bytes are moved. AUTO: the way that is expected to be fastest. */
enum kv_copy_path {
	KV_PATH_AUTO,
	KV_PATH_KERNEL,			/* one launch for many pieces */
	KV_PATH_BATCH,			/* one call for many pieces */
	KV_PATH_SINGLE,			/* one call a piece */
	KV_NR_PATHS,
};

/* Why a path was not taken that was wanted. */
enum kv_fallback {
	KV_FALL_NO_KERNEL,		/* the driver would not compile or load it */
	KV_FALL_NO_BATCH,		/* the driver has no such call */
	KV_FALL_SHAPE,			/* planes that the path cannot serve */
	KV_FALL_UNMAPPED,		/* host memory that the device cannot address */
	KV_FALL_NO_MEMORY,		/* none for the list of moves */
	KV_FALL_REFUSED,		/* the driver refused the call */
	KV_NR_FALLBACKS,
};

#define KV_COPY_BACKGROUND	(1u << 0)	/* slowly, beside the engine's own work */
#define KV_COPY_MAPPED		(1u << 1)	/* all host memory is from host_alloc, and mapped */

/**
 * struct kv_copy - blocks from one set of planes to another; borrowed during the call
 * @src: planes to read
 * @dst: planes to write, as many, with pieces of the same lengths. The same array as @src for moves
 *	inside a pool; otherwise the memory of the two is disjoint
 * @moves: done as if one after the other
 * @nr: length of @moves
 * @dir: enum kv_copy_dir
 * @flags: KV_COPY_*
 * @peer: the device of @dst for KV_COPY_TO_PEER, of the same ops
 * @after: nothing is read or written before it is complete
 * @sums: NULL, or memory of host_alloc for a checksum of each block, in the order of @moves, of
 *	what was read: there when the fence is. Not for KV_COPY_LOCAL. -EOPNOTSUPP: it takes less
 *	time to copy first and to sum then, or cannot be done otherwise
 */
struct kv_copy {
	struct kv_planes src;
	struct kv_planes dst;
	const struct kv_move *moves;
	u32 nr;
	u32 dir;
	u32 flags;
	struct kv_dev *peer;
	struct kv_fence after;
	u64 *sums;
};

/**
 * struct kv_host_mem - host memory for copies
 * @ptr: where it is
 * @bytes: how much
 * @is_pinned: copies to and from it need no staging, and run beside the host
 * @is_mapped: pinned, and the device can address it as the host does: KV_COPY_MAPPED
 * @nr_chunks: opaque
 */
struct kv_host_mem {
	void *ptr;
	u64 bytes;
	bool is_pinned;
	bool is_mapped;
	u32 nr_chunks;
};

/**
 * struct kv_area_attr - device memory that grows and shrinks at fixed addresses
 * @max_bytes: addresses to set aside
 * @handle_bytes: the unit of growing and shrinking, a power of two; 0 = the device's choice
 * @is_shared: its memory is to be exported
 */
struct kv_area_attr {
	u64 max_bytes;
	u64 handle_bytes;
	bool is_shared;
};

/**
 * struct kv_area_info - its present state
 * @addr: where it begins; fixed
 * @max_bytes: as asked for, in whole units; fixed
 * @unit_bytes: all offsets and lengths are multiples of it; fixed
 * @present_bytes: there is memory behind
 * @stuck_bytes: neither usable nor given back, because the driver failed half-way
 * @is_shared: area_export will work; fixed
 */
struct kv_area_info {
	u64 addr;
	u64 max_bytes;
	u64 unit_bytes;
	u64 present_bytes;
	u64 stuck_bytes;
	bool is_shared;
};

struct kv_area;

/**
 * struct kv_dev_stat - counts since the device was opened
 * @path: by enum kv_copy_path: submissions, driver calls, pieces
 * @fallback: by enum kv_fallback
 * @nr_copies: calls of copy_blocks that did not fail
 * @nr_failed: fences that ended with -EIO
 * @nr_stalls: submissions that had to wait for room
 * @mib_per_s: by kv_copy_dir and kv_copy_path, as measured at the start; 0 = not measured
 * @call_ns: the same for the time that one call, or one piece of a batch, costs
 * @groups: of a kernel at full speed
 */
struct kv_dev_stat {
	struct kv_path_stat {
		u64 nr;
		u64 nr_calls;
		u64 nr_pieces;
	} path[KV_NR_PATHS];
	u64 fallback[KV_NR_FALLBACKS];
	u64 nr_copies;
	u64 nr_failed;
	u64 nr_stalls;
	u32 mib_per_s[KV_NR_COPY_DIRS][KV_NR_PATHS];
	u32 call_ns[KV_NR_COPY_DIRS][KV_NR_PATHS];
	u32 groups;
};

/* Checksums that a device can be at on its own. */
#define KV_SUM_MOST	4096u

enum kv_knob {
	KV_KNOB_PATH,			/* enum kv_copy_path */
	KV_KNOB_GROUPS,			/* of a kernel at full speed; 0 = as measured */
	KV_KNOB_BACKGROUND_GROUPS,	/* of a kernel of KV_COPY_BACKGROUND; 0 = 16 */
	KV_NR_KNOBS,
};

/**
 * struct kv_dev_ops - the calls that kvmm needs of a device
 *
 * Calls may come from any thread. A call that returns an error has done nothing, unless it says
 * otherwise. After -EIO from a lost device everything is -EIO; in a forked child, -ECHILD.
 *
 * @name: "host", "soft", "cuda"
 * @open: the device of that number: 0, -ENODEV, -ENOMEM, -EIO
 * @close: takes NULL; waits for submitted work
 *
 * @alloc: @bytes of device memory at *@addr, content undefined: 0, -ENOMEM, -EINVAL
 * @free: give it back; nothing submitted may still use it
 * @host_alloc: host memory for copies, on @node (-1: next to the device), zeroed. Pinned if the
 *	system lets us: see @mem. 0, -ENOMEM, -EINVAL
 * @host_free: give it back; nothing submitted may still use it
 *
 * @copy_blocks: submit moves inside planes or between any. 0 and *@fence, or an error and nothing
 *	done: -EINVAL a bad fence, or what is no memory; -EOPNOTSUPP a direction that is not to be
 *	had; -EIO also if .after has failed
 * @sum_blocks: checksums of @nr blocks from @first on, see kernel.h; complete on return, @after
 *	has been waited for: 0, -EIO
 *
 * @sum_start: checksums of the blocks @runs[i].dst to .dst + .nr, KV_SUM_MOST in all, after @after;
 *	.src is not looked at. 0 and *@fence; -EBUSY those before were not fetched; -EOPNOTSUPP the
 *	device cannot do it on its own; -EINVAL; -EIO. May be NULL, with @sum_fetch
 * @sum_fetch: when that is complete: @nr of them, in order. Or NULL and 0: not wanted. 0, -EIO
 *
 * @signal: *@fence := all that @stream, one of the caller's, has been given so far: 0; -EBUSY it is
 *	capturing; -EINVAL a default stream
 * @stall: what @stream is given from now on starts after @fence: 0; as signal; -EIO it has failed
 * @join: *@fence := all of @fences: 0; -EIO one has failed
 * @poll: status of @fence: 0; -EAGAIN it is not complete; -EIO; -EINVAL no device gave that one out
 * @wait: until @fence is complete: its status, 0 or -EIO
 *
 * @sees_end: may a fence that failed be of work that still runs? 0: no, all has come to its end;
 *	-EAGAIN: it cannot be seen now; -EIO: never again, the device is lost. No wait. NULL: 0
 *
 * @write: host memory to device memory, complete on return: 0, -EIO
 * @read: device memory to host memory, complete on return: 0, -EIO
 * @fill: @bytes of device memory := @byte, complete on return: 0, -EIO
 *
 * @area_create: 0; -EINVAL; -ENOMEM no addresses; -EOPNOTSUPP the device has none: all calls for
 *	areas but this one and @area_import may be NULL then
 * @area_destroy: takes NULL; nothing submitted may still use it
 * @area_info: the area's state
 * @area_grow: memory behind [@offset, @offset + @bytes), content undefined; what is there already
 *	stays: 0, -ENOMEM, -EINVAL; -EUCLEAN part of it is stuck
 * @area_shrink: no memory behind it any more. The caller sees to it that nothing on the device can
 *	touch it, now or later. 0; -EINVAL; -EBUSY part of it was exported; -EIO the driver failed
 *	half-way: the part that is gone is gone, see area_info
 * @area_export: the unit at @offset as a file descriptor. It cannot be shrunk from then on. 0;
 *	-EOPNOTSUPP; -EINVAL; -ENXIO no memory there
 * @area_import: an area of one unit, which is what @fd, exported by any process of this host,
 *	stands for: @bytes of memory of any device of the driver. It stays the caller's. 0;
 *	-EOPNOTSUPP this device cannot; -EINVAL it is none of that size; -ENOMEM; -EIO
 *
 * @tune: 0; -EINVAL
 * @stat: a snapshot
 * @info: properties, into zeroed memory; size, device and driver are the caller's: 0, -EIO
 */
struct kv_dev_ops {
	const char *name;
	int (*open)(unsigned int number, struct kv_dev **dev);
	void (*close)(struct kv_dev *dev);

	int (*alloc)(struct kv_dev *dev, u64 bytes, u64 *addr);
	void (*free)(struct kv_dev *dev, u64 addr, u64 bytes);
	int (*host_alloc)(struct kv_dev *dev, u64 bytes, int node, struct kv_host_mem *mem);
	void (*host_free)(struct kv_dev *dev, struct kv_host_mem *mem);

	int (*copy_blocks)(struct kv_dev *dev, const struct kv_copy *copy, struct kv_fence *fence);
	int (*sum_blocks)(struct kv_dev *dev, const struct kv_planes *planes, u32 first, u32 nr,
			  struct kv_fence after, u64 *sums);

	int (*sum_start)(struct kv_dev *dev, const struct kv_planes *planes,
			 const struct kv_move *runs, u32 nr, struct kv_fence after,
			 struct kv_fence *fence);
	int (*sum_fetch)(struct kv_dev *dev, u64 *sums, u32 nr);

	int (*signal)(struct kv_dev *dev, void *stream, struct kv_fence *fence);
	int (*stall)(struct kv_dev *dev, void *stream, struct kv_fence fence);
	int (*join)(struct kv_dev *dev, const struct kv_fence *fences, u32 nr,
		    struct kv_fence *fence);
	int (*poll)(struct kv_dev *dev, struct kv_fence fence);
	int (*wait)(struct kv_dev *dev, struct kv_fence fence);
	int (*sees_end)(struct kv_dev *dev);

	int (*write)(struct kv_dev *dev, u64 addr, const void *buf, u64 bytes);
	int (*read)(struct kv_dev *dev, u64 addr, void *buf, u64 bytes);
	int (*fill)(struct kv_dev *dev, u64 addr, u8 byte, u64 bytes);

	int (*area_create)(struct kv_dev *dev, const struct kv_area_attr *attr,
			   struct kv_area **area);
	void (*area_destroy)(struct kv_area *area);
	void (*area_info)(struct kv_area *area, struct kv_area_info *info);
	int (*area_grow)(struct kv_area *area, u64 offset, u64 bytes);
	int (*area_shrink)(struct kv_area *area, u64 offset, u64 bytes);
	int (*area_export)(struct kv_area *area, u64 offset, int *fd);
	int (*area_import)(struct kv_dev *dev, int fd, u64 bytes, struct kv_area **area);

	int (*tune)(struct kv_dev *dev, enum kv_knob knob, u64 value);
	void (*stat)(struct kv_dev *dev, struct kv_dev_stat *stat);
	int (*info)(struct kv_dev *dev, struct kvmm_device_info *info);
};

#endif /* KV_DEV_H */
