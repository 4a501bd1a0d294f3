// SPDX-License-Identifier: Apache-2.0
/* The fault plan: which call fails how. */
#include "internal.h"

/* A query that is told of work which failed with NOT_READY would say that the work goes on. */
bool sw_fault_is_good(const struct sw_fault *fault)
{
	return !fault->async || fault->code != KCU_E_NOT_READY;
}

static bool strikes(const struct sw_fault *fault, enum sw_call call)
{
	u64 nr = fault->call < 0 ? sw.nr_calls : sw.calls[call];

	if (fault->call >= 0 && fault->call != call)
		return false;
	if (fault->per_mille)
		return sw_below(1000) < fault->per_mille;
	return fault->persistent ? nr >= fault->nth : nr == fault->nth;
}

static kcu_result planned(enum sw_call call, bool async)
{
	for (u32 i = 0; i < sw.opt.nr_faults; i++) {
		const struct sw_fault *fault = &sw.opt.fault[i];

		if (fault->async == async && strikes(fault, call))
			return fault->code;
	}
	return KCU_E_SUCCESS;
}

kcu_result sw_fault_now(enum sw_call call)
{
	sw.calls[call]++;
	sw.nr_calls++;
	return planned(call, false);
}

kcu_result sw_fault_async(enum sw_call call)
{
	return planned(call, true);
}
