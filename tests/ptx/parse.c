// SPDX-License-Identifier: Apache-2.0
/* PTX text to instructions; see ptx.h. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx.h"

#define MAX_LABELS	512
#define MAX_INSNS	4096

struct label {
	char name[PTX_NAME];
	u32 at;			/* instruction, or KV_NONE if only used so far */
};

struct parser {
	const char *at;
	u32 line;
	char token[PTX_NAME];	/* "" at the end */
	struct ptx_module *mod;
	struct ptx_entry *entry;
	struct label label[MAX_LABELS];
	u32 nr_labels;
};

static const struct op {
	const char *name;
	enum ptx_op op;
	u8 nr_args;
	u8 nr_types;
} ops[] = {
	{ "add", PTX_ADD, 3, 1 }, { "sub", PTX_SUB, 3, 1 }, { "mul", PTX_MUL, 3, 1 },
	{ "mad", PTX_MAD, 4, 1 }, { "div", PTX_DIV, 3, 1 }, { "rem", PTX_REM, 3, 1 },
	{ "min", PTX_MIN, 3, 1 }, { "max", PTX_MAX, 3, 1 }, { "neg", PTX_NEG, 2, 1 },
	{ "and", PTX_AND, 3, 1 }, { "or", PTX_OR, 3, 1 }, { "xor", PTX_XOR, 3, 1 },
	{ "not", PTX_NOT, 2, 1 }, { "shl", PTX_SHL, 3, 1 }, { "shr", PTX_SHR, 3, 1 },
	{ "bfe", PTX_BFE, 4, 1 }, { "setp", PTX_SETP, 3, 1 }, { "selp", PTX_SELP, 4, 1 },
	{ "mov", PTX_MOV, 2, 1 }, { "cvt", PTX_CVT, 2, 2 }, { "ld", PTX_LD, 2, 1 },
	{ "st", PTX_ST, 2, 1 }, { "red", PTX_RED, 2, 1 }, { "bra", PTX_BRA, 1, 0 },
	{ "ret", PTX_RET, 0, 0 },
};

static void fail(struct parser *p, const char *what)
{
	if (!p->mod->error[0])
		snprintf(p->mod->error, PTX_ERROR, "line %u: %s near \"%s\"", p->line, what,
			 p->token);
	p->token[0] = 0;
	p->at = "";
}

/* ------------------------------------------------------------------------- */
/* Tokens: words, which have dots in them, and single characters. */

static void skip_blanks(struct parser *p)
{
	for (;; p->at++) {
		if (p->at[0] == '/' && p->at[1] == '/')
			p->at += strcspn(p->at, "\n");
		if (*p->at == '\n')
			p->line++;
		else if (!isspace((unsigned char)*p->at))
			return;
	}
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("_$%.", c));
}

static void next(struct parser *p)
{
	size_t n = 0;

	skip_blanks(p);
	while (is_word(p->at[n]))
		n++;
	if (!n && *p->at)
		n = 1;
	if (n >= PTX_NAME) {
		fail(p, "word too long");
		return;
	}
	memcpy(p->token, p->at, n);
	p->token[n] = 0;
	p->at += n;
}

static bool is(const struct parser *p, const char *token)
{
	return !strcmp(p->token, token);
}

static bool accept(struct parser *p, const char *token)
{
	if (!is(p, token))
		return false;
	next(p);
	return true;
}

static void expect(struct parser *p, const char *token)
{
	if (!accept(p, token))
		fail(p, "something else expected");
}

/* Takes a word. */
static void word(struct parser *p, char name[PTX_NAME])
{
	if (!is_word(p->token[0]))
		fail(p, "no name");
	memcpy(name, p->token, PTX_NAME);
	next(p);
}

static u64 number(struct parser *p)
{
	bool negative = accept(p, "-");
	char *end;
	u64 value = strtoull(p->token, &end, 0);

	/* U marks constants without a sign. */
	if (end == p->token || (*end && strcmp(end, "U")))
		fail(p, "no number");
	next(p);
	return negative ? -value : value;
}

/* ------------------------------------------------------------------------- */
/* Operands */

static u32 find_reg(const struct ptx_entry *entry, const char *name)
{
	for (u32 i = 0; i < entry->nr_classes; i++) {
		const struct ptx_regs *regs = &entry->regs[i];
		size_t n = strlen(regs->prefix);
		char *end;
		unsigned long nr;

		if (strncmp(name, regs->prefix, n) || !isdigit((unsigned char)name[n]))
			continue;
		nr = strtoul(name + n, &end, 10);
		if (!*end && nr < regs->nr)
			return regs->first + nr;
	}
	return KV_NONE;
}

static u32 reg(struct parser *p)
{
	u32 nr = find_reg(p->entry, p->token);

	if (nr == KV_NONE)
		fail(p, "no such register");
	next(p);
	return nr;
}

static bool find_sreg(const char *name, u64 *sreg)
{
	static const struct {
		const char *name;
		enum ptx_sreg sreg;
	} table[] = {
		{ "%tid.x", PTX_TID }, { "%ntid.x", PTX_NTID },
		{ "%ctaid.x", PTX_CTAID }, { "%nctaid.x", PTX_NCTAID },
		{ "%tid.y", PTX_ZERO }, { "%tid.z", PTX_ZERO },
		{ "%ntid.y", PTX_ONE }, { "%ntid.z", PTX_ONE },
	};

	for (u32 i = 0; i < ARRAY_SIZE(table); i++)
		if (!strcmp(name, table[i].name)) {
			*sreg = table[i].sreg;
			return true;
		}
	return false;
}

static u64 find_label(struct parser *p, const char *name)
{
	for (u32 i = 0; i < p->nr_labels; i++)
		if (!strcmp(p->label[i].name, name))
			return i;
	if (p->nr_labels == MAX_LABELS) {
		fail(p, "too many labels");
		return 0;
	}
	memcpy(p->label[p->nr_labels].name, name, PTX_NAME);
	p->label[p->nr_labels].at = KV_NONE;
	return p->nr_labels++;
}

static void memory(struct parser *p, struct ptx_operand *arg)
{
	arg->kind = PTX_MEM;
	if (!strcmp(p->token, p->entry->param)) {
		arg->reg[0] = KV_NONE;
		next(p);
	} else {
		arg->reg[0] = reg(p);
	}
	if (accept(p, "+"))
		arg->value = number(p);
	expect(p, "]");
}

static void vector(struct parser *p, struct ptx_operand *arg)
{
	arg->kind = PTX_VECTOR;
	do {
		if (arg->nr == ARRAY_SIZE(arg->reg))
			fail(p, "vector too long");
		else
			arg->reg[arg->nr++] = reg(p);
	} while (accept(p, ","));
	expect(p, "}");
}

static void operand(struct parser *p, struct ptx_operand *arg)
{
	memset(arg, 0, sizeof(*arg));
	if (accept(p, "[")) {
		memory(p, arg);
	} else if (accept(p, "{")) {
		vector(p, arg);
	} else if (isdigit((unsigned char)p->token[0]) || is(p, "-")) {
		arg->kind = PTX_IMM;
		arg->value = number(p);
	} else if (find_sreg(p->token, &arg->value)) {
		arg->kind = PTX_SREG;
		next(p);
	} else if (p->token[0] == '%') {
		arg->kind = PTX_REG;
		arg->reg[0] = reg(p);
	} else if (!strcmp(p->token, p->entry->param)) {
		arg->kind = PTX_SYMBOL;
		next(p);
	} else {
		char name[PTX_NAME];

		word(p, name);
		arg->kind = PTX_LABEL;
		arg->value = find_label(p, name);
	}
}

/* ------------------------------------------------------------------------- */
/* Words of an instruction: ld.global.cs.v2.u64 */

static bool type_of(const char *name, struct ptx_type *type)
{
	int bits = atoi(name + 1);

	if (!strcmp(name, "pred")) {
		*type = (struct ptx_type) { 'p', 1 };
		return true;
	}
	if (!name[0] || !strchr("bus", name[0]) ||
	    (bits != 8 && bits != 16 && bits != 32 && bits != 64))
		return false;
	*type = (struct ptx_type) { name[0], bits };
	return true;
}

static bool cmp_of(const char *name, enum ptx_cmp *cmp)
{
	static const char *const names[] = { "", "eq", "ne", "lt", "le", "gt", "ge" };

	for (u32 i = 1; i < ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i])) {
			*cmp = i;
			return true;
		}
	return false;
}

static bool half_of(const char *name, enum ptx_half *half)
{
	static const char *const names[] = { "", "lo", "hi", "wide" };

	for (u32 i = 1; i < ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i])) {
			*half = i;
			return true;
		}
	return false;
}

/* Words that say where and how memory is accessed, or nothing that matters here. */
static bool access_of(struct ptx_insn *insn, const char *name)
{
	bool accesses = insn->op == PTX_LD || insn->op == PTX_ST || insn->op == PTX_RED;

	if (insn->op == PTX_BRA)
		return !strcmp(name, "uni");
	if (accesses && !insn->space && !strcmp(name, "global"))
		insn->space = PTX_GLOBAL;
	else if (insn->op == PTX_LD && !insn->space && !strcmp(name, "param"))
		insn->space = PTX_PARAM;
	else if (insn->op == PTX_RED)
		return !strcmp(name, "add");
	else if (accesses && (!strcmp(name, "v2") || !strcmp(name, "v4")))
		insn->nr_vec = name[1] - '0';
	else
		return accesses && insn->space == PTX_GLOBAL && !strcmp(name, "cs");
	return true;
}

static bool modifier(struct ptx_insn *insn, const char *name, u32 nr_types)
{
	if (insn->nr_types < nr_types && type_of(name, &insn->type[insn->nr_types])) {
		insn->nr_types++;
		return true;
	}
	if (insn->op == PTX_SETP && !insn->cmp && cmp_of(name, &insn->cmp))
		return true;
	if ((insn->op == PTX_MUL || insn->op == PTX_MAD) && !insn->half &&
	    half_of(name, &insn->half))
		return true;
	return access_of(insn, name);
}

static const struct op *find_op(const char *name)
{
	for (u32 i = 0; i < ARRAY_SIZE(ops); i++)
		if (!strcmp(name, ops[i].name))
			return &ops[i];
	return NULL;
}

/* The instruction's words are complete. */
static bool words_fit(const struct ptx_insn *insn, const struct op *op)
{
	return insn->nr_types == op->nr_types &&
	       (insn->op == PTX_SETP) == (insn->cmp != PTX_NO_CMP) &&
	       (insn->op == PTX_MUL || insn->op == PTX_MAD) == (insn->half != PTX_NO_HALF) &&
	       (op->op == PTX_LD || op->op == PTX_ST || op->op == PTX_RED) ==
			(insn->space != PTX_NO_SPACE);
}

static const struct op *opcode(struct parser *p, struct ptx_insn *insn)
{
	char name[PTX_NAME], *rest = name, *part;
	const struct op *op;

	memcpy(name, p->token, PTX_NAME);
	part = strsep(&rest, ".");
	op = find_op(part);
	if (!op) {
		fail(p, "unknown instruction");
		return NULL;
	}
	insn->op = op->op;
	insn->nr_vec = 1;
	while ((part = strsep(&rest, ".")))
		if (!modifier(insn, part, op->nr_types))
			fail(p, "unknown word in instruction");
	if (!words_fit(insn, op))
		fail(p, "instruction lacks a word");
	next(p);
	return op;
}

/* ------------------------------------------------------------------------- */
/* Widths */

static u32 reg_bits(const struct ptx_entry *entry, u32 nr)
{
	for (u32 i = 0; i < entry->nr_classes; i++)
		if (nr - entry->regs[i].first < entry->regs[i].nr)
			return entry->regs[i].bits;
	return 0;
}

/* What operand @n must be: bits, or 0 for what is no plain value. */
static u32 bits_wanted(const struct ptx_insn *insn, u32 n)
{
	u32 bits = insn->nr_types ? insn->type[0].bits : 0;

	switch (insn->op) {
	case PTX_MUL:
		return n == 0 && insn->half == PTX_WIDE ? 2 * bits : bits;
	case PTX_MAD:
		return (n == 0 || n == 3) && insn->half == PTX_WIDE ? 2 * bits : bits;
	case PTX_SHL:
	case PTX_SHR:
		return n == 2 ? 32 : bits;
	case PTX_BFE:
		return n >= 2 ? 32 : bits;
	case PTX_SETP:
		return n == 0 ? 1 : bits;
	case PTX_SELP:
		return n == 3 ? 1 : bits;
	case PTX_CVT:
		return insn->type[n].bits;
	case PTX_LD:
	case PTX_ST:
	case PTX_RED:
	case PTX_BRA:
		return 0;
	default:
		return bits;
	}
}

static bool is_value(const struct ptx_entry *entry, const struct ptx_insn *insn, u32 n)
{
	const struct ptx_operand *arg = &insn->arg[n];
	u32 bits = bits_wanted(insn, n);

	switch (arg->kind) {
	case PTX_REG:
		return reg_bits(entry, arg->reg[0]) == bits;
	case PTX_IMM:
		return n > 0;
	case PTX_SREG:
		return insn->op == PTX_MOV && n == 1 && bits == 32;
	case PTX_SYMBOL:
		return insn->op == PTX_MOV && n == 1 && bits == 64;
	default:
		return false;
	}
}

/* What goes to or comes from memory may be in wider registers. */
static bool is_data(const struct ptx_entry *entry, const struct ptx_insn *insn,
		    const struct ptx_operand *arg)
{
	u32 nr = arg->kind == PTX_VECTOR ? arg->nr : 1;

	if (arg->kind == PTX_IMM)
		return insn->op != PTX_LD && insn->nr_vec == 1;
	if ((arg->kind != PTX_REG && arg->kind != PTX_VECTOR) || nr != insn->nr_vec)
		return false;
	for (u32 i = 0; i < nr; i++)
		if (reg_bits(entry, arg->reg[i]) < max(insn->type[0].bits, 16))
			return false;
	return true;
}

static bool is_address(const struct ptx_entry *entry, const struct ptx_insn *insn,
		       const struct ptx_operand *arg)
{
	if (arg->kind != PTX_MEM)
		return false;
	if (arg->reg[0] == KV_NONE)
		return insn->space == PTX_PARAM;
	return reg_bits(entry, arg->reg[0]) == 64;
}

static bool args_fit(const struct ptx_entry *entry, const struct ptx_insn *insn)
{
	if (insn->op == PTX_BRA)
		return insn->arg[0].kind == PTX_LABEL;
	if (insn->op == PTX_LD)
		return is_data(entry, insn, &insn->arg[0]) &&
		       is_address(entry, insn, &insn->arg[1]);
	if (insn->op == PTX_ST || insn->op == PTX_RED)
		return is_address(entry, insn, &insn->arg[0]) &&
		       is_data(entry, insn, &insn->arg[1]);
	for (u32 n = 0; n < insn->nr_args; n++)
		if (!is_value(entry, insn, n))
			return false;
	return true;
}

/* ------------------------------------------------------------------------- */
/* Bodies */

static void declare_regs(struct parser *p)
{
	struct ptx_entry *entry = p->entry;
	struct ptx_regs *regs = &entry->regs[entry->nr_classes];
	struct ptx_type type;

	if (entry->nr_classes == ARRAY_SIZE(entry->regs) || !type_of(p->token + 1, &type)) {
		fail(p, "bad declaration");
		return;
	}
	next(p);
	snprintf(regs->prefix, sizeof(regs->prefix), "%.7s", p->token);
	next(p);
	expect(p, "<");
	regs->bits = type.bits;
	regs->nr = number(p);
	regs->first = entry->nr_regs;
	entry->nr_regs += regs->nr;
	entry->nr_classes++;
	expect(p, ">");
	expect(p, ";");
}

static void guard(struct parser *p, struct ptx_insn *insn)
{
	insn->guard_not = accept(p, "!");
	insn->guard = reg(p);
	if (insn->guard != KV_NONE && reg_bits(p->entry, insn->guard) != 1)
		fail(p, "guard is no predicate");
}

static void instruction(struct parser *p)
{
	struct ptx_insn *insn = &p->entry->insn[p->entry->nr_insns];
	const struct op *op;

	if (p->entry->nr_insns == MAX_INSNS) {
		fail(p, "too many instructions");
		return;
	}
	insn->line = p->line;
	insn->guard = KV_NONE;
	if (accept(p, "@"))
		guard(p, insn);
	op = opcode(p, insn);
	if (!op)
		return;
	for (; insn->nr_args < op->nr_args; insn->nr_args++) {
		if (insn->nr_args)
			expect(p, ",");
		operand(p, &insn->arg[insn->nr_args]);
	}
	if (!args_fit(p->entry, insn))
		fail(p, "operands do not fit");
	expect(p, ";");
	p->entry->nr_insns++;
}

/* A word with a colon behind it. */
static bool label(struct parser *p)
{
	struct label *label;

	if (*p->at != ':')
		return false;
	label = &p->label[find_label(p, p->token)];
	if (label->at != KV_NONE)
		fail(p, "label twice");
	label->at = p->entry->nr_insns;
	next(p);
	expect(p, ":");
	return true;
}

static void resolve_labels(struct parser *p)
{
	for (u32 i = 0; i < p->entry->nr_insns; i++) {
		struct ptx_insn *insn = &p->entry->insn[i];

		if (insn->op != PTX_BRA || insn->arg[0].kind != PTX_LABEL)
			continue;
		insn->arg[0].value = p->label[insn->arg[0].value].at;
		if (insn->arg[0].value == KV_NONE)
			fail(p, "no such label");
	}
}

static void body(struct parser *p)
{
	p->nr_labels = 0;
	p->entry->insn = calloc(MAX_INSNS, sizeof(*p->entry->insn));
	while (p->token[0] && !is(p, "}")) {
		if (accept(p, ".reg"))
			declare_regs(p);
		else if (!label(p))
			instruction(p);
	}
	expect(p, "}");
	resolve_labels(p);
}

/* .param .align 8 .b8 name[bytes] */
static void param(struct parser *p)
{
	expect(p, ".param");
	expect(p, ".align");
	p->entry->param_align = number(p);
	expect(p, ".b8");
	word(p, p->entry->param);
	expect(p, "[");
	p->entry->param_bytes = number(p);
	expect(p, "]");
	p->entry->nr_params++;
}

static void entry(struct parser *p)
{
	struct ptx_module *mod = p->mod;

	if (mod->nr_entries == ARRAY_SIZE(mod->entry)) {
		fail(p, "too many kernels");
		return;
	}
	p->entry = &mod->entry[mod->nr_entries++];
	word(p, p->entry->name);
	expect(p, "(");
	do
		param(p);
	while (accept(p, ","));
	expect(p, ")");
	expect(p, "{");
	body(p);
}

static void top(struct parser *p)
{
	if (accept(p, ".version")) {
		snprintf(p->mod->version, sizeof(p->mod->version), "%.7s", p->token);
		next(p);
	} else if (accept(p, ".target")) {
		snprintf(p->mod->target, sizeof(p->mod->target), "%.15s", p->token);
		next(p);
	} else if (accept(p, ".address_size")) {
		if (number(p) != 64)
			fail(p, "addresses have 64 bits");
	} else {
		expect(p, ".visible");
		expect(p, ".entry");
		entry(p);
	}
}

struct ptx_module *ptx_parse(const char *text)
{
	struct parser *p = calloc(1, sizeof(*p));
	struct ptx_module *mod = calloc(1, sizeof(*mod));

	p->at = text;
	p->line = 1;
	p->mod = mod;
	next(p);
	while (p->token[0])
		top(p);
	free(p);
	return mod;
}

void ptx_free(struct ptx_module *mod)
{
	for (u32 i = 0; i < mod->nr_entries; i++)
		free(mod->entry[i].insn);
	free(mod);
}

const struct ptx_entry *ptx_find(const struct ptx_module *mod, const char *name)
{
	for (u32 i = 0; i < mod->nr_entries; i++)
		if (!strcmp(mod->entry[i].name, name))
			return &mod->entry[i];
	return NULL;
}
