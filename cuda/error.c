// SPDX-License-Identifier: Apache-2.0
/*
 * Names and meanings of the driver's results.
 *
 * The driver can name its codes itself, but not when it matters most: the toolkit's stub of it
 * fails at that too, and a driver that could not be loaded has nothing to ask.
 */
#include <kv/kcu.h>

#include "internal.h"

const char *kcu_error_name(kcu_result result)
{
	if (result == KCU_E_SUCCESS)
		return "CUDA_SUCCESS";
	switch (result) {
#define NAME(name, value, class, err)	case value: return "CUDA_ERROR_" #name;
	KCU_ERRORS(NAME)
	}
	return "unknown CUDA error";
}

/* A result of a newer driver that we do not know can well be the loss of the context. */
enum kcu_class kcu_class_of(kcu_result result)
{
	switch (result) {
#define CLASS(name, value, class, err)	case value: return KCU_##class;
	KCU_ERRORS(CLASS)
	}
	return KCU_FATAL;
}

int kcu_errno(kcu_result result)
{
	switch (result) {
#define ERRNO(name, value, class, err)	case value: return err;
	KCU_ERRORS(ERRNO)
	}
	return -EIO;
}

const char *kcu_call_name(enum kcu_call call)
{
	static const char *const names[] = {
#define EXPORT(field, name, type, version)	[KCU_CALL_##field] = #name,
		KCU_ALL(EXPORT)
	};

	return names[call];
}
