/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One GPU behind one table of driver calls, and the rules that every call to it obeys.
 *
 * 1. No call is made in a forked child (-ECHILD) or after the device was lost (-EIO): not even
 *    calls that free. kv_gpu_call() sees to both.
 * 2. The first fatal result is latched; it says where the loss was observed, not where it began.
 * 3. A context is the caller's or the primary one, never created, reset or synchronised here.
 *    It is current between kv_gpu_enter() and kv_gpu_leave(), and each thread gets back the
 *    context that it came with.
 * 4. Work goes to streams of our own or to a caller's stream that kv_gpu_check_stream() passed:
 *    never to the default streams, never to one that is capturing.
 * 5. Nothing happens in destructors or at exit: by then the driver may be gone.
 * 6. Work may fail without loss of the device. The driver tells that once, to the call that comes
 *    next, which may have nothing to do with it. So a failed call, any, of any thread, puts all
 *    work on the device in doubt that was not seen to end before: kv_gpu_doubts().
 */
#ifndef KV_CUDA_INTERNAL_H
#define KV_CUDA_INTERNAL_H

#include <kv/kcu.h>
#include <kv/sys.h>

/* Every call of the table has a number. */
#define KCU_CALL_NUMBER(field, name, type, version)	KCU_CALL_##field,
enum kcu_call { KCU_ALL(KCU_CALL_NUMBER) };
#undef KCU_CALL_NUMBER

const char *kcu_call_name(enum kcu_call call);		/* as exported: "cuMemAlloc_v2" */

#define KV_GPU_NAME	64
#define KV_GPU_PCI_ID	16
#define KV_GPU_TOLD	256
#define KV_GPU_DOUBTS	64

struct kv_gpu {
	/* Fixed at creation. */
	const struct kcu *cu;		/* borrowed from the creator */
	kcu_context ctx;
	bool ctx_is_primary;		/* then a reference on it is ours */
	kcu_device dev;
	int ordinal;
	u32 features;			/* enum kcu_feature: driver and device both can */
	kcu_stream compact;		/* ours: moves in the background */
	kcu_stream transfer;		/* ours: to and from the host */

	u64 total_bytes;
	u64 granule_bytes;		/* of VMM, minimum; 0 without VMM */
	u64 good_granule_bytes;		/* as the driver recommends; 0 without VMM */
	int nr_sms;
	int cc_major, cc_minor;
	int numa_node;			/* of the host memory next to it; -1: unknown */
	bool rdma_with_vmm;
	kcu_uuid uuid;
	char name[KV_GPU_NAME];
	char pci_id[KV_GPU_PCI_ID];	/* "0000:0a:00.0", lower case */

	/* The latch. */
	u32 latching;			/* atomic: 1: a thread found it lost first, writes ... */
	kcu_result fatal;		/* ... the code; READ_ONCE(), KCU_E_SUCCESS: alive */

	/* Which (call, result) has had its line in the log. */
	u32 told[KV_GPU_TOLD];		/* atomic */
};

/**
 * kv_gpu_create() - a device of a loaded driver
 * @cu: borrowed until kv_gpu_destroy()
 * @ordinal: 0 to cu->nr_devices - 1
 * @ctx: the caller's context on that device, borrowed; NULL: the device's primary context
 * @gpu: the new device
 *
 * Context: may sleep. Any capture of another thread goes on undisturbed.
 * Return: 0; -ENODEV no such device, or it is not available; -EINVAL @ctx is of another device;
 * -ENOMEM; -ECHILD; else the errno of the driver's answer, and nothing is left behind.
 */
int kv_gpu_create(const struct kcu *cu, int ordinal, kcu_context ctx, struct kv_gpu **gpu);

/* Takes NULL. All that was made with the device has been given back, all its work is done. */
void kv_gpu_destroy(struct kv_gpu *gpu);

/* The result that the device was lost with; KCU_E_SUCCESS: it was not. */
static inline kcu_result kv_gpu_fatal(const struct kv_gpu *gpu)
{
	return READ_ONCE(gpu->fatal);
}

/* May the driver be called? 0, -ECHILD, -EIO. */
static inline int kv_gpu_ready(const struct kv_gpu *gpu)
{
	if (unlikely(kv_forked()))
		return -ECHILD;
	return unlikely(kv_gpu_fatal(gpu)) ? -EIO : 0;
}

/*
 * How many calls have failed on this device, by any user of it in the process. Work is good if its
 * end was seen, and the number is the same afterwards as it was before the work was queued. Calls
 * for virtual memory do not count: they are not of a context and are not told of its work. Nor does
 * want of memory of a call that asks for some.
 */
u64 kv_gpu_doubts(const struct kv_gpu *gpu);

/*
 * A call that is told of a failure counts it before it is over, and work is believed only when each
 * call is over that was under way when its end was seen. Those that may sleep until work is done
 * are not waited for: they allocate, free and load. So the end of work is asked, not slept, for.
 */
static __always_inline bool kv_gpu_call_sleeps(enum kcu_call call)
{
	switch (call) {
	case KCU_CALL_ctx_get_current:
	case KCU_CALL_ctx_push_current:
	case KCU_CALL_ctx_pop_current:
	case KCU_CALL_thread_exchange_capture_mode:
	case KCU_CALL_memcpy_async:
	case KCU_CALL_memcpy_dtod_async:
	case KCU_CALL_memcpy_htod_async:
	case KCU_CALL_memcpy_dtoh_async:
	case KCU_CALL_memcpy_batch_async_v12:
	case KCU_CALL_memcpy_batch_async_v13:
	case KCU_CALL_memset_d8_async:
	case KCU_CALL_launch_kernel:
	case KCU_CALL_stream_query:
	case KCU_CALL_stream_wait_event:
	case KCU_CALL_stream_is_capturing:
	case KCU_CALL_event_query:
	case KCU_CALL_event_record:
		return false;
	default:
		return true;
	}
}

u32 *kv_gpu_enter_call(const struct kv_gpu *gpu);

static __always_inline void kv_gpu_leave_call(u32 *nr)
{
	/* Pairs with kv_gpu_settle_calls(): the call's failure is counted. */
	kv_fetch_sub_release(nr, 1);
}

/* Calls that are under way and do not sleep are over on return. Any lock may be held. */
void kv_gpu_settle_calls(const struct kv_gpu *gpu);

/* Classify, latch, log: the errno of a result that is not success. */
int __kv_gpu_failed(struct kv_gpu *gpu, enum kcu_call call, kcu_result result);

/* Past the latch: the errno of its result. */
#define kv_gpu_call_anyway(gpu, field, ...)						\
	({										\
		u32 *__nr = kv_gpu_call_sleeps(KCU_CALL_##field) ?			\
			    NULL : kv_gpu_enter_call(gpu);				\
		kcu_result __result = (gpu)->cu->field(__VA_ARGS__);			\
		int __errno = unlikely(__result) ?					\
			      __kv_gpu_failed(gpu, KCU_CALL_##field, __result) : 0;	\
		if (__nr)								\
			kv_gpu_leave_call(__nr);					\
		__errno;								\
	})

/**
 * kv_gpu_call() - call the driver: kv_gpu_call(gpu, stream_query, stream)
 *
 * The arguments are evaluated only if the call is made.
 * Return: 0; -ECHILD, -EIO (device lost, now or before); -EOPNOTSUPP the call is of a group that
 * this driver lacks, or the device will not do it; -EAGAIN not ready; -EBUSY a capture is in the
 * way; -ENOMEM; -EALREADY it was so before, do not undo it; the rest as in KCU_ERRORS.
 */
#define kv_gpu_call(gpu, field, ...)							\
	({										\
		struct kv_gpu *__gpu = (gpu);						\
		int __err = kv_gpu_ready(__gpu);					\
		if (!__err && !__gpu->cu->field)					\
			__err = -EOPNOTSUPP;						\
		if (!__err)								\
			__err = kv_gpu_call_anyway(__gpu, field, __VA_ARGS__);		\
		__err;									\
	})

/* State that a thread brought along. Filled by enter, used up by leave. */
struct kv_gpu_scope {
	bool pushed;			/* another context was current */
	bool relaxed;			/* another capture mode was in force ... */
	kcu_capture_mode mode;		/* ... this one */
};

/*
 * Make the device's context current for this thread; leave undoes exactly that, on a lost device
 * too. 0 or what kv_gpu_call() returns, and then there is nothing to leave. Scopes nest.
 */
int kv_gpu_enter(struct kv_gpu *gpu, struct kv_gpu_scope *scope);

/* The same for calls that allocate, free or register: they would end captures of this thread. */
int kv_gpu_enter_relaxed(struct kv_gpu *gpu, struct kv_gpu_scope *scope);

void kv_gpu_leave(struct kv_gpu *gpu, struct kv_gpu_scope *scope);

/* May work be put on a caller's stream? 0; -EINVAL a default stream; -EBUSY it is capturing. */
int kv_gpu_check_stream(struct kv_gpu *gpu, kcu_stream stream);

#endif /* KV_CUDA_INTERNAL_H */
