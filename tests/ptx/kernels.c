// SPDX-License-Identifier: Apache-2.0
/* The kernels, compiled for the host, and what they touch. */
#include "cuda/kernel/move.c"

#include "cuda/kernel/touch.c"
