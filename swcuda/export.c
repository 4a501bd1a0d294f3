// SPDX-License-Identifier: Apache-2.0
/*
 * Which calls can be found: all that are listed, less those that are newer than the driver claims to
 * be, and those that missing= and hidden= take away.
 *
 * dlsym() looks into the table of dynamic symbols, so that is where they are taken away: a symbol
 * without a value is not found. It has to happen before anybody looks, in the constructor.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include "internal.h"

struct export {
	const char *base;		/* as cuGetProcAddress() knows it */
	void *fn;
};

#define BASE(field, name, type, version)	[SW_##name] = { #type, (void *)name },
static const struct export exports[SW_NR_CALLS] = {
	SW_ALL(BASE)
};

/* "KCU_FN(cuMemAlloc, 3020)" */
static bool is_base(u32 call, const char *name)
{
	const char *base = strchr(exports[call].base, '(');
	size_t len = strlen(name);

	return !strncmp(base + 1, name, len) && base[1 + len] == ',';
}

static bool is_absent(u32 call)
{
	return sw.opt.missing[call] || sw_call_version(call) > sw.opt.driver;
}

static kcu_result get_proc(const char *name, void **fn, int version, kcu_proc_status *status)
{
	int best = -1;

	if (!name || !fn || version > sw.opt.driver)
		return KCU_E_INVALID_VALUE;
	*fn = NULL;
	for (u32 i = 0; i < SW_NR_CALLS; i++) {
		if (!is_base(i, name) || is_absent(i))
			continue;
		if (sw_call_version(i) <= version && sw_call_version(i) > best) {
			best = sw_call_version(i);
			*fn = exports[i].fn;
		}
	}
	if (status)
		*status = *fn ? KCU_PROC_OK : KCU_PROC_NOT_FOUND;
	return *fn ? KCU_E_SUCCESS : KCU_E_NOT_FOUND;
}

kcu_result cuGetProcAddress_v2(const char *base, void **fn, int version, u64 flags,
			       kcu_proc_status *status)
{
	return SW_RUN(cuGetProcAddress_v2, SW_ANYTIME, get_proc(base, fn, version, status));
}

kcu_result cuGetProcAddress(const char *base, void **fn, int version, u64 flags)
{
	return SW_RUN(cuGetProcAddress, SW_ANYTIME, get_proc(base, fn, version, NULL));
}

/* ---- Taking symbols away ---- */

static void hide(void *fn)
{
	ElfW(Sym) *symbol = NULL;
	Dl_info info;
	u64 page, bytes;

	if (!dladdr1(fn, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
		return;
	page = (u64)symbol & ~(SW_PAGE - 1);
	bytes = (u64)(symbol + 1) - page;
	if (mprotect((void *)page, bytes, PROT_READ | PROT_WRITE))
		return;
	symbol->st_value = 0;
	symbol->st_shndx = SHN_UNDEF;
	mprotect((void *)page, bytes, PROT_READ);
}

void sw_hide_missing(void)
{
	for (u32 i = 0; i < SW_NR_CALLS; i++)
		if (is_absent(i) || sw.opt.hidden[i])
			hide(exports[i].fn);
}
