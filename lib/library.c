// SPDX-License-Identifier: Apache-2.0
/* Libraries that are opened at run time, where they are there. */
#include <kv/log.h>
#include <kv/sys.h>

int kv_find_calls(const char *what, const char *library, const char *const *name, u32 nr,
		  void **call)
{
	const struct kv_sys_ops *sys = kv_sys();
	const char *why = "?";
	void *handle = sys->open_library(sys->ctx, library, &why);

	if (!handle)
		return kv_refuse(-EOPNOTSUPP, "%s: %s", what, why);
	for (u32 i = 0; i < nr; i++) {
		call[i] = sys->find_symbol(sys->ctx, handle, name[i]);
		if (!call[i])
			return kv_refuse(-EOPNOTSUPP, "%s: %s has no %s", what, library, name[i]);
	}
	return 0;
}
