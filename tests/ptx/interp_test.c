// SPDX-License-Identifier: Apache-2.0
/*
 * The interpreter on its own: instructions against the manual's examples and corner cases, and the
 * mistakes that it must not let pass.
 */
#include "tests/support/test.h"
#include "ptx.h"

#define HEADER	".version 6.0\n.target sm_70\n.address_size 64\n"
#define ENTRY	HEADER ".visible .entry k(.param .align 8 .b8 k_param_0[32])\n{\n" \
		".reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n" \
		"ld.param.u64 %rd0, [k_param_0];\n" \
		"ld.param.u64 %rd1, [k_param_0+8]; ld.param.u64 %rd2, [k_param_0+16];\n" \
		"ld.param.u32 %r1, [k_param_0+8]; ld.param.u32 %r2, [k_param_0+16];\n"

static u64 out[4] __attribute__((aligned(32)));
static char error[PTX_ERROR];

/* Runs @body as one thread with two values; true if it came to its end. */
static bool run(const char *body, u64 a, u64 b)
{
	const u64 args[4] = { (uintptr_t)out, a, b, 0 };
	const struct ptx_region region = { (uintptr_t)out, sizeof(out), true };
	const struct ptx_launch launch = { 1, 1, false, args, &region, 1, 1000 };
	struct ptx_module *mod;
	char text[2000];
	bool ok;

	snprintf(text, sizeof(text), "%s%s\nret;\n}\n", ENTRY, body);
	mod = ptx_parse(text);
	memcpy(error, mod->error, sizeof(error));
	ok = !mod->error[0] && ptx_run(&mod->entry[0], &launch, error);
	ptx_free(mod);
	return ok;
}

/* The 64 bits that @insn leaves in %rd3, or the 32 bits in %r3. */
static u64 result(const char *insn, u64 a, u64 b)
{
	char body[300];
	bool wide = strstr(insn, "%rd3");

	snprintf(body, sizeof(body), "%s\nst.global.%s [%%rd0], %s;", insn,
		 wide ? "u64" : "u32", wide ? "%rd3" : "%r3");
	memset(out, 0, sizeof(out));
	cr_expect(run(body, a, b), "%s: %s", insn, error);
	return out[0];
}

Test(interpreter, computes_as_the_manual_says)
{
	static const struct {
		const char *insn;
		u64 a, b, want;
	} table[] = {
		{ "add.s32 %r3, %r1, %r2;", 0xffffffff, 2, 1 },
		{ "sub.s32 %r3, %r1, %r2;", 1, 2, 0xffffffff },
		{ "add.s64 %rd3, %rd1, -1;", 0, 0, UINT64_MAX },
		{ "mul.lo.s32 %r3, %r1, %r2;", 0x10001, 0x10001, 0x20001 },
		{ "mul.hi.u32 %r3, %r1, %r2;", 0xffffffff, 0xffffffff, 0xfffffffe },
		{ "mul.hi.s32 %r3, %r1, %r2;", 0xffffffff, 5, 0xffffffff },
		{ "mul.wide.u32 %rd3, %r1, %r2;", 0xffffffff, 2, 0x1fffffffe },
		{ "mul.wide.s32 %rd3, %r1, %r2;", 0xffffffff, 2, -2ull },
		{ "mul.hi.u64 %rd3, %rd1, %rd2;", UINT64_MAX, UINT64_MAX, -2ull },
		{ "mad.lo.s32 %r3, %r1, %r2, 7;", 3, 4, 19 },
		{ "mad.wide.u32 %rd3, %r1, %r2, %rd1;", 0x80000000, 2, 0x180000000 },
		{ "div.u32 %r3, %r1, %r2;", 0xfffffff0, 16, 0x0fffffff },
		{ "div.s32 %r3, %r1, %r2;", -7u, 2, -3u },
		{ "rem.s32 %r3, %r1, %r2;", -7u, 2, -1u },
		{ "div.s32 %r3, %r1, %r2;", 0x80000000, -1u, 0x80000000 },
		{ "rem.u64 %rd3, %rd1, %rd2;", 100, 7, 2 },
		{ "min.u32 %r3, %r1, %r2;", 0xffffffff, 1, 1 },
		{ "min.s32 %r3, %r1, %r2;", 0xffffffff, 1, 0xffffffff },
		{ "max.s32 %r3, %r1, %r2;", 0xffffffff, 1, 1 },
		{ "neg.s32 %r3, %r1;", 1, 0, 0xffffffff },
		{ "not.b64 %rd3, %rd1;", 0, 0, UINT64_MAX },
		{ "xor.b64 %rd3, %rd1, %rd2;", 6, 3, 5 },
		{ "and.b32 %r3, %r1, %r2;", 6, 3, 2 },
		{ "shl.b32 %r3, %r1, %r2;", 1, 31, 0x80000000 },
		{ "shl.b32 %r3, %r1, %r2;", 1, 32, 0 },
		{ "shl.b64 %rd3, %rd1, %r2;", 1, 32, 1ull << 32 },
		{ "shr.u32 %r3, %r1, %r2;", 0x80000000, 40, 0 },
		{ "shr.s32 %r3, %r1, %r2;", 0x80000000, 40, 0xffffffff },
		{ "shr.u64 %rd3, %rd1, %r2;", UINT64_MAX, 60, 15 },
		{ "bfe.u64 %rd3, %rd1, 4, 8;", 0xabcd, 0, 0xbc },
		{ "bfe.u32 %r3, %r1, 28, 8;", 0xf0000000, 0, 0xf },
		{ "bfe.u64 %rd3, %rd1, 70, 8;", UINT64_MAX, 0, 0 },
		{ "cvt.u64.u32 %rd3, %r1;", 0xffffffff, 0, 0xffffffff },
		{ "cvt.s64.s32 %rd3, %r1;", 0xffffffff, 0, UINT64_MAX },
		{ "cvt.u32.u64 %r3, %rd1;", 0x1234567890, 0, 0x34567890 },
		{ "setp.lt.s32 %p1, %r1, %r2; selp.b32 %r3, 5, 6, %p1;", -1u, 1, 5 },
		{ "setp.lt.u32 %p1, %r1, %r2; selp.b32 %r3, 5, 6, %p1;", -1u, 1, 6 },
		{ "setp.ge.u64 %p1, %rd1, %rd2; selp.b64 %rd3, 5, 6, %p1;", 7, 7, 5 },
		{ "mov.u32 %r3, 1; setp.eq.s32 %p1, %r1, 0; @!%p1 mov.u32 %r3, 2;", 1, 0, 2 },
		{ "mov.u32 %r3, %nctaid.x;", 0, 0, 1 },
		{ "mov.b64 %rd4, k_param_0; ld.param.u64 %rd3, [%rd4+8];", 77, 0, 77 },
		{ "ld.param.v2.u32 {%r3, %r4}, [k_param_0+8];", 0x500000004, 0, 4 },
		{ "mov.u32 %r3, 0; L: add.s32 %r3, %r3, 1; setp.ne.s32 %p1, %r3, %r1;\n"
		  "@%p1 bra L;", 9, 0, 9 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(table); i++)
		cr_expect_eq(result(table[i].insn, table[i].a, table[i].b), table[i].want,
			     "%s", table[i].insn);
}

Test(interpreter, reads_and_writes_parts_of_memory)
{
	memset(out, 0, sizeof(out));
	cr_expect(run("st.global.cs.v2.u64 [%rd0+16], {%rd1, %rd2};\n"
		      "st.global.u8 [%rd0+1], %r1;\n"
		      "ld.global.cs.u8 %r3, [%rd0+17]; st.global.u32 [%rd0+4], %r3;\n"
		      "red.global.add.u64 [%rd0+24], 5;", 0x1122, 100));
	cr_expect_eq(out[0], 0x1100002200);
	cr_expect_eq(out[2], 0x1122);
	cr_expect_eq(out[3], 105);
}

Test(interpreter, lets_no_mistake_pass)
{
	static const struct {
		const char *body;
		const char *why;
	} table[] = {
		{ "add.s32 %r3, %r4, 1;", "never written" },
		{ "@%p0 bra L; L:", "never written" },
		{ "ld.global.u32 %r3, [%rd0+2];", "unaligned" },
		{ "ld.global.v2.u64 {%rd3, %rd4}, [%rd0+8];", "unaligned" },
		{ "ld.global.u32 %r3, [%rd0+32];", "not its memory" },
		{ "st.global.u64 [%rd0+-8], %rd1;", "not its memory" },
		{ "ld.param.u64 %rd3, [k_param_0+32];", "at parameter" },
		{ "mov.b64 %rd3, k_param_0; ld.global.u32 %r3, [%rd3];", "not its memory" },
		{ "div.u32 %r3, %r1, 0;", "by zero" },
		{ "L: bra L;", "does not end" },
		{ "add.s32 %r3, %rd1, 1;", "do not fit" },
		{ "add.s64 %rd3, %r1, 1;", "do not fit" },
		{ "shl.b64 %rd3, %rd1, %rd2;", "do not fit" },
		{ "setp.eq.s32 %r3, %r1, 1;", "do not fit" },
		{ "ld.global.v2.u64 %rd3, [%rd0];", "do not fit" },
		{ "ld.global.u64 %r3, [%rd0];", "do not fit" },
		{ "ld.global.u32 %r3, [%r1];", "do not fit" },
		{ "mul.s32 %r3, %r1, %r2;", "lacks a word" },
		{ "add %r3, %r1, %r2;", "lacks a word" },
		{ "setp.u32 %p1, %r1, %r2;", "lacks a word" },
		{ "ld.u32 %r3, [%rd0];", "lacks a word" },
		{ "add.lo.s32 %r3, %r1, %r2;", "unknown word" },
		{ "ld.shared.u32 %r3, [%rd0];", "unknown word" },
		{ "bar.sync 0;", "unknown instruction" },
		{ "bra M;", "no such label" },
		{ "L: L: ret;", "label twice" },
		{ "mov.u32 %r9, 1;", "no such register" },
		{ "mov.u32 %r3, 1", "expected" },
		{ "mov.u32 %r3;", "expected" },
	};

	for (u32 i = 0; i < ARRAY_SIZE(table); i++) {
		cr_expect_not(run(table[i].body, 1, 1), "%s", table[i].body);
		cr_expect(strstr(error, table[i].why), "%s: %s", table[i].body, error);
	}
}
