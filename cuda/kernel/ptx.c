// SPDX-License-Identifier: Apache-2.0
/*
 * The committed PTX text, as it is; the NUL at its end is what cuModuleLoadDataEx() looks for.
 * The assembler finds the file by -I, see cuda/Makefile, which also knows that this depends on it.
 */
#include "launch.h"

__asm__(".pushsection .rodata\n"
	".globl kv_kernel_ptx\n"
	".hidden kv_kernel_ptx\n"
	".type kv_kernel_ptx, @object\n"
	"kv_kernel_ptx:\n"
	".incbin \"move.sm70.ptx\"\n"
	".byte 0\n"
	".size kv_kernel_ptx, . - kv_kernel_ptx\n"
	".popsection\n");
