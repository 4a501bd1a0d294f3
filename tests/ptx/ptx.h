/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small interpreter of PTX text, written from the instruction set's manual and not from what it
 * runs: kernels without barriers, calls, floats or local memory, thread after thread.
 *
 * It is stricter than a GPU, since it looks for mistakes: unknown words, registers of the wrong
 * width, reads of registers that were never written, accesses that are unaligned or outside what
 * the caller says is memory, divisions by zero and endless loops are all errors.
 */
#ifndef PTX_H
#define PTX_H

#include <kv/types.h>

#define PTX_NAME	64
#define PTX_ERROR	160

enum ptx_op {
	PTX_ADD, PTX_SUB, PTX_MUL, PTX_MAD, PTX_DIV, PTX_REM, PTX_MIN, PTX_MAX, PTX_NEG,
	PTX_AND, PTX_OR, PTX_XOR, PTX_NOT, PTX_SHL, PTX_SHR, PTX_BFE, PTX_SETP, PTX_SELP,
	PTX_MOV, PTX_CVT, PTX_LD, PTX_ST, PTX_RED, PTX_BRA, PTX_RET,
};

enum ptx_cmp { PTX_NO_CMP, PTX_EQ, PTX_NE, PTX_LT, PTX_LE, PTX_GT, PTX_GE };
enum ptx_half { PTX_NO_HALF, PTX_LO, PTX_HI, PTX_WIDE };
enum ptx_space { PTX_NO_SPACE, PTX_PARAM, PTX_GLOBAL };
enum ptx_kind { PTX_REG, PTX_IMM, PTX_SREG, PTX_SYMBOL, PTX_LABEL, PTX_MEM, PTX_VECTOR };
enum ptx_sreg { PTX_TID, PTX_NTID, PTX_CTAID, PTX_NCTAID, PTX_ZERO, PTX_ONE };

struct ptx_type {
	char sort;		/* 'b', 'u', 's', or 'p' for a predicate */
	u8 bits;
};

/* PTX_MEM: a register's value or, if reg[0] is KV_NONE, the parameter; plus value. */
struct ptx_operand {
	enum ptx_kind kind;
	u32 nr;			/* PTX_VECTOR: registers */
	u32 reg[4];
	u64 value;
};

struct ptx_insn {
	enum ptx_op op;
	enum ptx_cmp cmp;
	enum ptx_half half;
	enum ptx_space space;
	u8 nr_vec;		/* 1, 2 or 4 */
	u8 nr_types;
	u8 nr_args;
	bool guard_not;
	u32 guard;		/* register, or KV_NONE */
	struct ptx_type type[2];
	struct ptx_operand arg[4];
	u32 line;
};

struct ptx_regs {
	char prefix[8];
	u32 bits;		/* 1: predicates */
	u32 nr;
	u32 first;		/* in the numbering of all registers */
};

struct ptx_entry {
	char name[PTX_NAME];
	char param[PTX_NAME];
	u32 nr_params;
	u32 param_bytes;	/* of the last */
	u32 param_align;
	struct ptx_regs regs[8];
	u32 nr_classes;
	u32 nr_regs;
	struct ptx_insn *insn;
	u32 nr_insns;
};

struct ptx_module {
	char version[8];
	char target[16];
	struct ptx_entry entry[16];
	u32 nr_entries;
	char error[PTX_ERROR];	/* "" if the text is good */
};

/* Never NULL; look at ->error. */
struct ptx_module *ptx_parse(const char *text);
void ptx_free(struct ptx_module *mod);
const struct ptx_entry *ptx_find(const struct ptx_module *mod, const char *name);

/* Where a kernel may read, and perhaps write. */
struct ptx_region {
	u64 addr;
	u64 bytes;
	bool writable;
};

struct ptx_launch {
	u32 nr_groups;
	u32 nr_threads;
	bool backwards;		/* last thread of the last group first */
	const void *args;	/* param_bytes of the entry */
	const struct ptx_region *region;
	u32 nr_regions;
	u64 max_steps;		/* of one thread */
};

/* True if all threads came to their end; else @error says what happened, and where. */
bool ptx_run(const struct ptx_entry *entry, const struct ptx_launch *launch,
	     char error[PTX_ERROR]);

#endif /* PTX_H */
