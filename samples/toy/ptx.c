// SPDX-License-Identifier: Apache-2.0
/* The committed PTX text, with a NUL behind it; samples/Makefile tells the assembler where it is. */
#include "kernels.h"

__asm__(".pushsection .rodata\n"
	".globl toy_ptx\n"
	".hidden toy_ptx\n"
	".type toy_ptx, @object\n"
	"toy_ptx:\n"
	".incbin \"kernels.sm70.ptx\"\n"
	".byte 0\n"
	".size toy_ptx, . - toy_ptx\n"
	".popsection\n");
