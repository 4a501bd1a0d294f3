// SPDX-License-Identifier: Apache-2.0
/* The kernels, compiled for the host. */
#include "cuda/kernel/move.c"
