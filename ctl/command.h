/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of the control socket: one table, of which each ctl/cmd_*.c contributes a set.
 *
 * A command writes its answer as text, and returns 0 or why not. It runs in the thread that polls,
 * with control->lock held: so the pool stays, and nothing else does anything with it here. It may
 * not wait: one command begins long work and another asks for it. A command that only shows
 * something takes no lock that an allocation takes.
 *
 * Unless its help says otherwise the answer is a table: fields with tabs between them, a line a
 * row, the first line '#' and the names of the columns. A name that ends with ":s" says that the
 * column is text even where it looks like a number. Cells without a value are "-".
 */
#ifndef CTL_COMMAND_H
#define CTL_COMMAND_H

#include <kv/feed.h>
#include <kvmm/ext/control.h>

#include "text.h"

#define KV_CONTROL_ARGS		32u	/* most words behind a command */
#define KV_NR_COMMAND_SETS	9u

/*
 * Changes something. With KVMM_CONTROL_READ_ONLY it is refused.
 */
#define KV_COMMAND_STEERS	(1u << 0)
/* The first argument names a pool: call->pool. "-", or no arguments at all: the only one. */
#define KV_COMMAND_POOL		(1u << 1)

/* A pool that clients see. */
struct kv_control_pool {
	struct kv_control_pool	*next;		/* control->lock */
	struct kvmm_pool	*pool;		/* borrowed; fixed */
	char			name[KVMM_CONTROL_NAME];	/* fixed */
	/* State of each command set for the pool; control->lock. NULL at first; see pool_exit. */
	void			*state[KV_NR_COMMAND_SETS];
};

/**
 * struct kv_control_call - a command that is being carried out
 * @control: where; its lock is held
 * @command: which
 * @entry, @pool: with KV_COMMAND_POOL; @entry also of control_views() with a name
 * @state: of @entry, that of the command's set
 * @nr_args, @arg: words behind the command, and behind the pool
 * @text: the answer
 * @has_said: kv_call_error() was here
 */
struct kv_control_call {
	struct kvmm_control *control;
	const struct kv_command *command;
	struct kv_control_pool *entry;
	struct kvmm_pool *pool;
	void **state;
	u32 nr_args;
	const char *arg[KV_CONTROL_ARGS];
	struct kv_text *text;
	bool has_said;
};

/**
 * struct kv_command - one of them; constant
 * @name: a word
 * @args: as it is shown to people, the pool included
 * @help: a sentence
 * @flags: KV_COMMAND_*
 * @min_args, @max_args: without the pool
 * @fn: carries it out: 0 or -errno
 */
struct kv_command {
	const char *name;
	const char *args;
	const char *help;
	u32 flags;
	u32 min_args;
	u32 max_args;
	int (*fn)(struct kv_control_call *call);
};

/**
 * struct kv_command_set - the contribution of a ctl/cmd_*.c
 * @commands: ends with one without a name
 * @pool_exit: the pool is removed: free *@state, which is not NULL; may be NULL
 * @other_exit: the pool @gone is removed, and *@state, which is another pool's, may not know it any
 *	more; may be NULL
 * @tick: go on with work, without waiting; *@state is not NULL. Milliseconds after which
 *	to come again, at most; may be NULL
 */
struct kv_command_set {
	const struct kv_command *commands;
	void (*pool_exit)(struct kv_control_pool *entry, void **state);
	void (*other_exit)(const struct kv_control_pool *gone, void **state);
	u32 (*tick)(struct kv_control_pool *entry, void **state);
};

extern const struct kv_command_set kv_commands_base;
extern const struct kv_command_set kv_commands_events;
extern const struct kv_command_set kv_commands_metrics;
extern const struct kv_command_set kv_commands_views;
extern const struct kv_command_set kv_commands_show;
extern const struct kv_command_set kv_commands_set;
extern const struct kv_command_set kv_commands_compact;
extern const struct kv_command_set kv_commands_migrate;
extern const struct kv_command_set kv_commands_prefetch;

/*
 * All of them, in commands.c. A socket is given the table when it is opened and goes by that: what
 * carries out commands does not know them.
 */
extern const struct kv_command_set *const kv_command_sets[KV_NR_COMMAND_SETS];

/*
 * Carry out one line, which is cut into words: 0, and @text is the answer, or -errno, and @text
 * says why. control->lock held.
 */
int kv_command_run(struct kvmm_control *control, char *line, struct kv_text *text);

/* The answer is this sentence instead; returns @err. */
int kv_call_error(struct kv_control_call *call, int err, const char *format, ...) __printf(3, 4);

/* Argument @i as a number from @from to @to: 0, or -EINVAL, and that was said. */
int kv_call_number(struct kv_control_call *call, u32 i, u64 from, u64 to, u64 *number);

/* For commands that show all pools if none is named: how to walk them. */
struct kv_control_pool *kv_control_pools(const struct kvmm_control *control);
/* By name, or NULL. */
struct kv_control_pool *kv_control_find(const struct kvmm_control *control, const char *name);

#endif /* CTL_COMMAND_H */
