// SPDX-License-Identifier: Apache-2.0
/* Runs the instructions of one kernel, one thread at a time; see ptx.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx.h"

/* Addresses of parameters: nothing that a global access could reach. */
#define PARAM_BASE	0x7b00000000000000ull

struct thread {
	const struct ptx_entry *entry;
	const struct ptx_launch *launch;
	u32 sreg[6];		/* by enum ptx_sreg */
	u64 *value;
	bool *written;
	u32 pc;
	char *error;
};

__printf(2, 3)
static void fault(struct thread *t, const char *fmt, ...)
{
	char what[80];
	va_list args;

	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	if (!t->error[0])
		snprintf(t->error, PTX_ERROR, "line %u, group %u, thread %u: %s",
			 t->entry->insn[t->pc].line, t->sreg[PTX_CTAID], t->sreg[PTX_TID],
			 what);
}

/* The low @bits of @value, and the same with their sign. */
static u64 low(u64 value, u32 bits)
{
	return bits == 64 ? value : value & ((1ull << bits) - 1);
}

static s64 sign(u64 value, u32 bits)
{
	u64 top = 1ull << (bits - 1);

	return (s64)((low(value, bits) ^ top) - top);
}

static u64 get_reg(struct thread *t, u32 nr)
{
	if (!t->written[nr])
		fault(t, "register was never written");
	return t->value[nr];
}

/* Registers hold values cut to their width; callers cut what an instruction gives. */
static void set_reg(struct thread *t, u32 nr, u64 value)
{
	t->value[nr] = value;
	t->written[nr] = true;
}

static u64 get(struct thread *t, const struct ptx_operand *arg)
{
	switch (arg->kind) {
	case PTX_REG:
		return get_reg(t, arg->reg[0]);
	case PTX_SREG:
		return t->sreg[arg->value];
	case PTX_SYMBOL:
		return PARAM_BASE;
	default:
		return arg->value;
	}
}

/* ------------------------------------------------------------------------- */
/* Arithmetic, in the widths and signs that the type says. */

static u64 multiply(const struct ptx_insn *insn, u64 a, u64 b)
{
	u32 bits = insn->type[0].bits;
	unsigned __int128 product;

	if (insn->type[0].sort == 's')
		product = (__int128)sign(a, bits) * sign(b, bits);
	else
		product = (unsigned __int128)low(a, bits) * low(b, bits);
	return insn->half == PTX_HI ? product >> bits : product;
}

static u64 divide(struct thread *t, const struct ptx_insn *insn, u64 a, u64 b)
{
	u32 bits = insn->type[0].bits;
	bool rem = insn->op == PTX_REM;

	if (!low(b, bits)) {
		fault(t, "division by zero");
		return 0;
	}
	if (insn->type[0].sort != 's')
		return rem ? low(a, bits) % low(b, bits) : low(a, bits) / low(b, bits);
	if (sign(b, bits) == -1)	/* the one quotient that overflows here */
		return rem ? 0 : -a;
	return rem ? sign(a, bits) % sign(b, bits) : sign(a, bits) / sign(b, bits);
}

/* -1, 0, 1 */
static int order(const struct ptx_insn *insn, u64 a, u64 b)
{
	u32 bits = insn->type[0].bits;

	if (low(a, bits) == low(b, bits))
		return 0;
	if (insn->type[0].sort == 's')
		return sign(a, bits) < sign(b, bits) ? -1 : 1;
	return low(a, bits) < low(b, bits) ? -1 : 1;
}

static bool compare(const struct ptx_insn *insn, u64 a, u64 b)
{
	int diff = order(insn, a, b);

	switch (insn->cmp) {
	case PTX_EQ:
		return diff == 0;
	case PTX_NE:
		return diff != 0;
	case PTX_LT:
		return diff < 0;
	case PTX_LE:
		return diff <= 0;
	case PTX_GT:
		return diff > 0;
	default:
		return diff >= 0;
	}
}

/* Shifts by the width or more give zeros, or copies of the sign. */
static u64 shift(const struct ptx_insn *insn, u64 a, u64 by)
{
	u32 bits = insn->type[0].bits;
	bool is_signed = insn->type[0].sort == 's';

	by = low(by, 32);
	if (insn->op == PTX_SHL)
		return by >= bits ? 0 : a << by;
	if (is_signed)
		return sign(a, bits) >> min(by, (u64)bits - 1);
	return by >= bits ? 0 : low(a, bits) >> by;
}

/* A field of @len bits from bit @pos on; without sign, as what sticks out is zero. */
static u64 extract(struct thread *t, const struct ptx_insn *insn, u64 a, u64 pos, u64 len)
{
	u32 bits = insn->type[0].bits;

	if (insn->type[0].sort == 's')
		fault(t, "bfe with sign is not implemented");
	pos = low(pos, 8);
	len = low(len, 8);
	if (pos >= bits)
		return 0;
	a = low(a, bits) >> pos;
	return len >= 64 ? a : low(a, len ? len : 1) & (len ? ~0ull : 0);
}

static u64 convert(const struct ptx_insn *insn, u64 a)
{
	const struct ptx_type *from = &insn->type[1];

	return from->sort == 's' ? (u64)sign(a, from->bits) : low(a, from->bits);
}

static u64 compute(struct thread *t, const struct ptx_insn *insn, u64 a, u64 b, u64 c)
{
	switch (insn->op) {
	case PTX_ADD:
		return a + b;
	case PTX_SUB:
		return a - b;
	case PTX_MUL:
		return multiply(insn, a, b);
	case PTX_MAD:
		return multiply(insn, a, b) + c;
	case PTX_DIV:
	case PTX_REM:
		return divide(t, insn, a, b);
	case PTX_MIN:
		return order(insn, a, b) < 0 ? a : b;
	case PTX_MAX:
		return order(insn, a, b) > 0 ? a : b;
	case PTX_NEG:
		return -a;
	case PTX_AND:
		return a & b;
	case PTX_OR:
		return a | b;
	case PTX_XOR:
		return a ^ b;
	case PTX_NOT:
		return ~a;
	case PTX_SHL:
	case PTX_SHR:
		return shift(insn, a, b);
	case PTX_BFE:
		return extract(t, insn, a, b, c);
	case PTX_SETP:
		return compare(insn, a, b);
	case PTX_SELP:
		return c ? a : b;
	case PTX_CVT:
		return convert(insn, a);
	default:
		return a;
	}
}

static u32 result_bits(const struct ptx_insn *insn)
{
	if (insn->op == PTX_SETP)
		return 1;
	return insn->half == PTX_WIDE ? 2 * insn->type[0].bits : insn->type[0].bits;
}

static void arithmetic(struct thread *t, const struct ptx_insn *insn)
{
	u64 src[3] = { 0 };

	for (u32 n = 1; n < insn->nr_args; n++)
		src[n - 1] = get(t, &insn->arg[n]);
	set_reg(t, insn->arg[0].reg[0],
		low(compute(t, insn, src[0], src[1], src[2]), result_bits(insn)));
}

/* ------------------------------------------------------------------------- */
/* Memory */

static u8 *global(struct thread *t, u64 addr, u32 bytes, bool write)
{
	const struct ptx_launch *launch = t->launch;

	for (u32 i = 0; i < launch->nr_regions; i++) {
		const struct ptx_region *region = &launch->region[i];

		if (addr - region->addr < region->bytes &&
		    region->bytes - (addr - region->addr) >= bytes &&
		    (region->writable || !write))
			return (u8 *)(uintptr_t)addr;
	}
	fault(t, "%s of %u bytes at %#llx, which is not its memory", write ? "write" : "read",
	      bytes, (unsigned long long)addr);
	return NULL;
}

static const u8 *parameter(struct thread *t, u64 addr, u32 bytes)
{
	u64 at = addr - PARAM_BASE;

	if (at < t->entry->param_bytes && t->entry->param_bytes - at >= bytes)
		return (const u8 *)t->launch->args + at;
	fault(t, "read of %u bytes at parameter %#llx", bytes, (unsigned long long)at);
	return NULL;
}

static u64 address(struct thread *t, const struct ptx_operand *arg, u32 bytes)
{
	u64 base = arg->reg[0] == KV_NONE ? PARAM_BASE : get_reg(t, arg->reg[0]);
	u64 addr = base + arg->value;

	if (addr % bytes)
		fault(t, "%u bytes at %#llx: unaligned", bytes, (unsigned long long)addr);
	return addr;
}

static u32 data_reg(const struct ptx_operand *arg, u32 n)
{
	return arg->reg[arg->kind == PTX_VECTOR ? n : 0];
}

static void load(struct thread *t, const struct ptx_insn *insn)
{
	u32 bytes = insn->type[0].bits / 8;
	u64 addr = address(t, &insn->arg[1], bytes * insn->nr_vec);
	const u8 *mem = insn->space == PTX_PARAM ?
		parameter(t, addr, bytes * insn->nr_vec) :
		global(t, addr, bytes * insn->nr_vec, false);

	for (u32 n = 0; mem && n < insn->nr_vec; n++) {
		u64 value = 0;

		memcpy(&value, mem + n * bytes, bytes);
		if (insn->type[0].sort == 's')
			value = sign(value, 8 * bytes);
		set_reg(t, data_reg(&insn->arg[0], n), value);
	}
}

static void store(struct thread *t, const struct ptx_insn *insn)
{
	const struct ptx_operand *arg = &insn->arg[1];
	u32 bytes = insn->type[0].bits / 8;
	u64 addr = address(t, &insn->arg[0], bytes * insn->nr_vec);
	u8 *mem = global(t, addr, bytes * insn->nr_vec, true);

	for (u32 n = 0; mem && n < insn->nr_vec; n++) {
		u64 value = arg->kind == PTX_IMM ? arg->value : get_reg(t, data_reg(arg, n));

		memcpy(mem + n * bytes, &value, bytes);
	}
}

static void reduce(struct thread *t, const struct ptx_insn *insn)
{
	u32 bytes = insn->type[0].bits / 8;
	u8 *mem = global(t, address(t, &insn->arg[0], bytes), bytes, true);
	u64 value = 0;

	if (!mem)
		return;
	memcpy(&value, mem, bytes);
	value += get(t, &insn->arg[1]);
	memcpy(mem, &value, bytes);
}

/* ------------------------------------------------------------------------- */

static bool guard_holds(struct thread *t, const struct ptx_insn *insn)
{
	return insn->guard == KV_NONE || get_reg(t, insn->guard) != insn->guard_not;
}

/* False at the end of the thread. */
static bool step(struct thread *t)
{
	const struct ptx_insn *insn = &t->entry->insn[t->pc];
	u32 next = t->pc + 1;

	if (guard_holds(t, insn)) {
		if (insn->op == PTX_RET)
			return false;
		if (insn->op == PTX_BRA)
			next = insn->arg[0].value;
		else if (insn->op == PTX_LD)
			load(t, insn);
		else if (insn->op == PTX_ST)
			store(t, insn);
		else if (insn->op == PTX_RED)
			reduce(t, insn);
		else
			arithmetic(t, insn);
	}
	if (next >= t->entry->nr_insns)
		fault(t, "ran off the end");
	if (!t->error[0])
		t->pc = next;
	return !t->error[0];
}

static void run_thread(struct thread *t)
{
	u64 left = t->launch->max_steps;

	t->pc = 0;
	memset(t->written, 0, t->entry->nr_regs);
	while (step(t))
		if (!left--)
			fault(t, "does not end");
}

bool ptx_run(const struct ptx_entry *entry, const struct ptx_launch *launch,
	     char error[PTX_ERROR])
{
	u64 nr = (u64)launch->nr_groups * launch->nr_threads;
	struct thread t = {
		.entry	= entry,
		.launch	= launch,
		.sreg	= { [PTX_NTID] = launch->nr_threads, [PTX_NCTAID] = launch->nr_groups,
			    [PTX_ONE] = 1 },
		.value	= calloc(entry->nr_regs + 1, sizeof(u64)),
		.written = calloc(entry->nr_regs + 1, 1),
		.error	= error,
	};

	error[0] = 0;
	for (u64 i = 0; i < nr && !error[0]; i++) {
		u64 n = launch->backwards ? nr - 1 - i : i;

		t.sreg[PTX_TID] = n % launch->nr_threads;
		t.sreg[PTX_CTAID] = n / launch->nr_threads;
		run_thread(&t);
	}
	free(t.value);
	free(t.written);
	return !error[0];
}
