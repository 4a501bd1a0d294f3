// SPDX-License-Identifier: Apache-2.0
/* Names of results. */
#include "internal.h"

static const char *name_of(kcu_result error)
{
	if (!error)
		return "CUDA_SUCCESS";
#define NAME(name, value, class, err)			\
	if (error == (value))				\
		return "CUDA_ERROR_" #name;
	KCU_ERRORS(NAME)
#undef NAME
	return NULL;
}

static kcu_result tell(kcu_result error, const char **text)
{
	if (!text)
		return KCU_E_INVALID_VALUE;
	*text = name_of(error);
	return *text ? KCU_E_SUCCESS : KCU_E_INVALID_VALUE;
}

kcu_result cuGetErrorName(kcu_result error, const char **name)
{
	return SW_RUN(cuGetErrorName, SW_ANYTIME, tell(error, name));
}

kcu_result cuGetErrorString(kcu_result error, const char **text)
{
	return SW_RUN(cuGetErrorString, SW_ANYTIME, tell(error, text));
}
