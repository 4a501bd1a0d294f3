// SPDX-License-Identifier: Apache-2.0
/*
 * How a line becomes a call of one of the commands in control->sets.
 *
 * The line comes from outside. It is cut at blanks, there is no quoting, and all that is not
 * printable was refused before.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <kvmm/types.h>

#include "control.h"

#define MESSAGE	256u

/* ---- for commands ---- */

int kv_call_error(struct kv_control_call *call, int err, const char *format, ...)
{
	char message[MESSAGE];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	kv_text_exit(call->text);
	kv_text_puts(call->text, message);
	call->has_said = true;
	return err;
}

/* Decimal digits, or -EINVAL. */
static int read_number(const char *word, u64 *number)
{
	u64 value = 0;

	if (!*word)
		return -EINVAL;
	for (; *word; word++) {
		u32 digit = (u8)*word - '0';

		if (digit > 9 || value > (UINT64_MAX - digit) / 10)
			return -EINVAL;
		value = value * 10 + digit;
	}
	*number = value;
	return 0;
}

int kv_call_number(struct kv_control_call *call, u32 i, u64 from, u64 to, u64 *number)
{
	u64 value;

	if (read_number(call->arg[i], &value) || value < from || value > to)
		return kv_call_error(call, -EINVAL, "'%.64s' is no number from %llu to %llu",
				     call->arg[i], (unsigned long long)from,
				     (unsigned long long)to);
	*number = value;
	return 0;
}

/* ---- from a line to a call ---- */

/* Cut @line at blanks: how many words, or -E2BIG. */
static int cut(char *line, const char **word, u32 max)
{
	u32 nr = 0;

	for (;;) {
		line += strspn(line, " \t");
		if (!*line)
			return nr;
		if (nr == max)
			return -E2BIG;
		word[nr++] = line;
		line += strcspn(line, " \t");
		if (*line)
			*line++ = '\0';
	}
}

/* The pool that the first argument names is no argument any more. */
static int take_pool(struct kv_control_call *call, u32 set)
{
	const char *name = call->nr_args ? call->arg[0] : "-";
	struct kv_control_pool *first = kv_control_pools(call->control);

	if (strcmp(name, "-"))
		call->entry = kv_control_find(call->control, name);
	else if (first && first->next)
		return kv_call_error(call, -EINVAL, "which pool? there are several");
	else
		call->entry = first;
	if (!call->entry)
		return kv_call_error(call, -ENOENT, "there is no pool '%.64s'", name);
	call->pool = call->entry->pool;
	call->state = &call->entry->state[set];
	if (call->nr_args) {
		call->nr_args--;
		memmove(call->arg, call->arg + 1, call->nr_args * sizeof(call->arg[0]));
	}
	return 0;
}

static int carry_out(struct kv_control_call *call, const char *name)
{
	const struct kv_command *command = NULL;
	bool steers;
	u32 set;
	int err = 0;

	for (set = 0; set < KV_NR_COMMAND_SETS; set++) {
		command = call->control->sets[set]->commands;
		while (command->name && strcmp(command->name, name))
			command++;
		if (command->name)
			break;
	}
	if (set == KV_NR_COMMAND_SETS)
		return kv_call_error(call, -ENOENT, "there is no command '%.64s'; try help", name);
	call->command = command;
	steers = command->flags & KV_COMMAND_STEERS;
	if (steers && call->control->attr.flags & KVMM_CONTROL_READ_ONLY)
		err = kv_call_error(call, -EROFS, "this socket is for looking only");
	else if (command->flags & KV_COMMAND_POOL)
		err = take_pool(call, set);
	if (!err && (call->nr_args < command->min_args || call->nr_args > command->max_args))
		err = kv_call_error(call, -EINVAL, "usage: %s %s", command->name, command->args);
	/* A command that steers looks anew, and its effect is shown at once. */
	if (!err && steers)
		control_forget_views(call->control);
	if (!err)
		err = command->fn(call);
	if (steers)
		control_forget_views(call->control);
	return err;
}

int kv_command_run(struct kvmm_control *control, char *line, struct kv_text *text)
{
	const char *word[KV_CONTROL_ARGS + 1];
	struct kv_control_call call = { .control = control, .text = text };
	int nr = cut(line, word, ARRAY_SIZE(word)), err;

	if (nr <= 0) {
		err = kv_call_error(&call, nr ? nr : -EINVAL, nr ? "too many words" : "no command");
	} else {
		call.nr_args = nr - 1;
		memcpy(call.arg, word + 1, call.nr_args * sizeof(word[0]));
		err = carry_out(&call, word[0]);
	}
	if (!err && text->err)
		err = kv_call_error(&call, text->err, text->err == -EFBIG ?
				    "the answer is too long for this socket" : "no memory");
	if (err == -EUCLEAN && call.entry && !call.has_said)
		kv_call_error(&call, err, "the pool '%s' contradicts itself and is closed",
			      call.entry->name);
	if (err && !call.has_said)
		kv_call_error(&call, err, "%s", kvmm_strerror(err));
	return err;
}
