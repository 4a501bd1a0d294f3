// SPDX-License-Identifier: Apache-2.0
/*
 * kcu-conformance: does a CUDA driver do what this library relies on?
 *
 * Talks to a driver through the library's own table and nothing else, so it says of any
 * libcuda.so.1 whether the table fits, and of the software driver whether it is like a GPU's.
 * Checks that may lose the device or end the process run in a process of their own: this program
 * again.
 */
#include <argp.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define CHECK_SECONDS	60u

extern char **environ;

static const struct check *const groups[] = {
	checks_start, checks_context, checks_memory, checks_host, checks_copy, checks_stream,
	checks_event, checks_kernel, checks_capture, checks_vmm, checks_share, checks_batch,
	checks_peer, checks_memops, checks_fatal, checks_suite,
};

static struct options {
	const char *driver;		/* NULL: as the library chooses */
	const char *json;
	const char *only;		/* prefix of names */
	const char *child;		/* the one check to run in this process */
	const char *differences;
	const char *without;		/* a call that is to do nothing and report success */
	bool stop;			/* at the first failure */
	bool list;
	bool list_calls;
} opt;

static struct {
	unsigned int nr[3];		/* by enum outcome */
	FILE *json;
	const char *comma;
} result = { .comma = "" };

static char check_name[96];		/* for the alarm */

/* ---- the command line ---- */

enum {
	KEY_JSON = 'j', KEY_ONLY = 'o', KEY_LIST = 'l', KEY_CHILD = 256, KEY_DIFFERENCES,
	KEY_WITHOUT, KEY_STOP, KEY_LIST_CALLS,
};

static const struct argp_option argp_options[] = {
	{ "json", KEY_JSON, "FILE", 0, "Also write the results there", 0 },
	{ "only", KEY_ONLY, "PREFIX", 0, "Checks whose names begin with that", 0 },
	{ "list", KEY_LIST, NULL, 0, "Names of all checks", 0 },
	{ "differences", KEY_DIFFERENCES, "FILE", 0, "Known differences, instead of those built in",
	  0 },
	{ "list-calls", KEY_LIST_CALLS, NULL, 0, "Names of all calls that the checks make", 0 },
	{ "stop", KEY_STOP, NULL, 0, "Stop at the first failure", 0 },
	{ "without", KEY_WITHOUT, "CALL", 0,
	  "To test the suite: this call does nothing and says that it did", 0 },
	{ "child", KEY_CHILD, "NAME", OPTION_HIDDEN, NULL, 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case KEY_JSON:
		opt.json = arg;
		return 0;
	case KEY_ONLY:
		opt.only = arg;
		return 0;
	case KEY_LIST:
		opt.list = true;
		return 0;
	case KEY_CHILD:
		opt.child = arg;
		return 0;
	case KEY_DIFFERENCES:
		opt.differences = arg;
		return 0;
	case KEY_LIST_CALLS:
		opt.list_calls = true;
		return 0;
	case KEY_WITHOUT:
		opt.without = arg;
		return 0;
	case KEY_STOP:
		opt.stop = true;
		return 0;
	case ARGP_KEY_ARG:
		if (opt.driver)
			argp_usage(state);
		opt.driver = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- a process for one check ---- */

static void print_verdict(const struct verdict *v)
{
	printf("%d %d %d %d %s\n", v->outcome, v->answered, v->answer, v->expected, v->text);
	fflush(stdout);
}

static bool read_verdict(FILE *from, struct verdict *v)
{
	int outcome, answered;
	char line[512];

	while (fgets(line, sizeof(line), from)) {
		int at = 0;

		if (sscanf(line, "%d %d %d %d %n", &outcome, &answered, &v->answer, &v->expected,
			   &at) != 4 || !at)
			continue;
		v->outcome = outcome;
		v->answered = answered;
		snprintf(v->text, sizeof(v->text), "%.*s", (int)strcspn(line + at, "\n"),
			 line + at);
		return true;
	}
	return false;
}

static void no_verdict(struct verdict *v, int status)
{
	v->outcome = CHECK_FAILED;
	if (WIFSIGNALED(status))
		snprintf(v->text, sizeof(v->text), "its process died of signal %d",
			 WTERMSIG(status));
	else
		snprintf(v->text, sizeof(v->text), "its process ended without a word");
}

static pid_t spawn_child(const struct check *check, int out)
{
	const char *argv[9] = { "kcu-conformance", "--child", check->name };
	posix_spawn_file_actions_t actions;
	u32 nr = 3;
	pid_t pid;
	int err;

	if (opt.differences) {
		argv[nr++] = "--differences";
		argv[nr++] = opt.differences;
	}
	if (opt.without) {
		argv[nr++] = "--without";
		argv[nr++] = opt.without;
	}
	if (opt.driver)
		argv[nr++] = opt.driver;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	err = posix_spawn(&pid, "/proc/self/exe", &actions, NULL, (char **)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return err ? -err : pid;
}

static void run_isolated(const struct check *check, struct verdict *v)
{
	int status = 0, ends[2];
	FILE *from;
	pid_t pid;

	*v = (struct verdict){ .outcome = CHECK_FAILED };
	if (pipe(ends)) {
		snprintf(v->text, sizeof(v->text), "no pipe: %s", strerror(errno));
		return;
	}
	pid = spawn_child(check, ends[1]);
	close(ends[1]);
	from = fdopen(ends[0], "r");
	if (pid < 0 || !from)
		snprintf(v->text, sizeof(v->text), "no process: %s", strerror(pid < 0 ? -pid : errno));
	else if (!read_verdict(from, v) && waitpid(pid, &status, 0) == pid)
		no_verdict(v, status);
	else
		waitpid(pid, &status, 0);
	if (from)
		fclose(from);
}

/* ---- showing it ---- */

static void json_text(FILE *to, const char *text)
{
	fputc('"', to);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', to);
		if ((unsigned char)*text >= ' ')
			fputc(*text, to);
	}
	fputc('"', to);
}

static void write_json(const struct check *check, const struct verdict *v)
{
	static const char *const words[] = { "ok", "failed", "skipped" };

	if (!result.json)
		return;
	fprintf(result.json, "%s\n  {\"name\": \"%s\", \"result\": \"%s\"", result.comma,
		check->name, words[v->outcome]);
	if (v->answered)
		fprintf(result.json, ", \"answer\": %d, \"expected\": %d, \"answer_name\": \"%s\"",
			v->answer, v->expected, kcu_error_name(v->answer));
	if (*v->text) {
		fprintf(result.json, ", \"text\": ");
		json_text(result.json, v->text);
	}
	fprintf(result.json, "}");
	result.comma = ",";
}

static void show(const struct check *check, const struct verdict *v)
{
	static const char *const words[] = { "ok     ", "FAIL   ", "skipped" };
	kcu_result code;

	printf("%s %s", words[v->outcome], check->name);
	if (*v->text)
		printf(": %s", v->text);
	else if (v->answered && !differences_find(check->name, &code))
		printf(": %s (%d), a known difference", kcu_error_name(v->answer), v->answer);
	else if (v->answered)
		printf(": %s (%d)", kcu_error_name(v->answer), v->answer);
	putchar('\n');
	fflush(stdout);
	write_json(check, v);
	result.nr[v->outcome]++;
}

/* ---- the driver ---- */

static const char *driver_path(void)
{
	const char *path = opt.driver ? opt.driver : getenv("KVMM_CUDA_DRIVER");

	return path && *path ? path : "libcuda.so.1";
}

/*
 * The one that the table was loaded from, once more. Told apart by a symbol: a GPU's driver has no
 * controls.
 */
static void open_library(void)
{
	driver_library = dlopen(driver_path(), RTLD_NOW | RTLD_NOLOAD);
	driver_is_soft = driver_library && dlsym(driver_library, "kvmm_swcuda_control");
}

static int enter_device(void)
{
	kcu_result code = cu->device_get(&device, 0);

	if (!code)
		code = cu->primary_ctx_retain(&context, device);
	if (!code)
		code = cu->ctx_push_current(context);
	if (code)
		fprintf(stderr, "kcu-conformance: no context on device 0: %s (%d)\n",
			kcu_error_name(code), code);
	return kcu_errno(code);
}

static kcu_result do_nothing(void)
{
	return KCU_E_SUCCESS;
}

#define CALL_ENTRY(field, name, type, version)	{ #name, offsetof(struct kcu, field) },

static const struct {
	const char *name;
	size_t offset;
} calls[] = { KCU_ALL(CALL_ENTRY) };

/* Whoever calls it passes arguments that nobody looks at: callers remove them themselves. */
static int break_call(struct kcu *table)
{
	kcu_result (*fn)(void) = do_nothing;

	for (u32 i = 0; opt.without && i < ARRAY_SIZE(calls); i++) {
		if (strcmp(calls[i].name, opt.without))
			continue;
		memcpy((char *)table + calls[i].offset, &fn, sizeof(fn));
		return 0;
	}
	if (opt.without)
		fprintf(stderr, "kcu-conformance: no call %s\n", opt.without);
	return opt.without ? -ENOENT : 0;
}

static int open_driver(void)
{
	static struct kcu table;
	int err = kcu_load(&table, driver_path());

	if (err) {
		fprintf(stderr, "kcu-conformance: %s: no driver to be had: %s\n", driver_path(),
			strerror(-err));
		return err;
	}
	cu = &table;
	open_library();
	err = break_call(&table);
	if (err)
		return err;
	err = differences_read(opt.differences);
	if (err) {
		fprintf(stderr, "kcu-conformance: %s: %s\n", opt.differences, strerror(-err));
		return err;
	}
	return enter_device();
}

#define FEATURE_NAME(group)	if (cu->features & KCU_F_##group) printf(" " #group);

static void print_head(void)
{
	char name[128] = "";

	cu->device_get_name(name, sizeof(name), device);
	printf("driver %s, version %d.%d, %d device(s), the first: %s\n", driver_path(),
	       cu->driver_version / 1000, cu->driver_version % 1000 / 10, cu->nr_devices, name);
	printf("groups:");
	KCU_OPTIONAL_GROUPS(FEATURE_NAME)
	putchar('\n');
	fflush(stdout);
}

static int begin_json(void)
{
	char name[128] = "";

	if (!opt.json)
		return 0;
	result.json = fopen(opt.json, "w");
	if (!result.json) {
		fprintf(stderr, "kcu-conformance: %s: %s\n", opt.json, strerror(errno));
		return -errno;
	}
	cu->device_get_name(name, sizeof(name), device);
	fprintf(result.json, "{\"driver\": \"%s\", \"driver_version\": %d, \"features\": %u, "
		"\"device\": ", driver_is_soft ? "swcuda" : "cuda", cu->driver_version,
		cu->features);
	json_text(result.json, name);
	fprintf(result.json, ", \"checks\": [");
	return 0;
}

static int end_json(void)
{
	if (!result.json)
		return 0;
	fprintf(result.json, "\n], \"passed\": %u, \"failed\": %u, \"skipped\": %u}\n",
		result.nr[CHECK_OK], result.nr[CHECK_FAILED], result.nr[CHECK_SKIPPED]);
	if (!fclose(result.json))
		return 0;
	fprintf(stderr, "kcu-conformance: %s: %s\n", opt.json, strerror(errno));
	return -EIO;
}

/* ---- running ---- */

/* A driver that hangs must not take the machine with it: say where, and go. */
static void too_long(int signal)
{
	static const char text[] = "FAIL    no end: ";

	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0 ||
	    write(STDOUT_FILENO, check_name, strlen(check_name)) < 0 ||
	    write(STDOUT_FILENO, "\n", 1) < 0)
		_exit(2);
	_exit(1);
}

static void run_check(const struct check *check, struct verdict *verdict, bool here)
{
	snprintf(check_name, sizeof(check_name), "%s", check->name);
	alarm(CHECK_SECONDS);
	if (here)
		check_run(check, verdict);
	else
		run_isolated(check, verdict);
	alarm(0);
}

static int run_child(const struct check *check)
{
	struct verdict verdict;

	run_check(check, &verdict, true);
	print_verdict(&verdict);
	/* The device may be lost: no destructors. */
	_exit(0);
}

static void run_group(const struct check *check)
{
	struct verdict verdict;

	for (; check->name; check++) {
		if (opt.only && strncmp(check->name, opt.only, strlen(opt.only)))
			continue;
		run_check(check, &verdict, !(check->flags & CHECK_ISOLATED));
		show(check, &verdict);
		if (opt.stop && verdict.outcome == CHECK_FAILED)
			return;
	}
}

static const struct check *find_check(const char *name)
{
	for (u32 i = 0; i < ARRAY_SIZE(groups); i++)
		for (const struct check *check = groups[i]; check->name; check++)
			if (!strcmp(check->name, name))
				return check;
	return NULL;
}

static int run_all(void)
{
	int err = begin_json();

	if (err)
		return 1;
	print_head();
	for (u32 i = 0; i < ARRAY_SIZE(groups) && !(opt.stop && result.nr[CHECK_FAILED]); i++)
		run_group(groups[i]);
	err = end_json();
	printf("%u passed, %u failed, %u skipped\n", result.nr[CHECK_OK], result.nr[CHECK_FAILED],
	       result.nr[CHECK_SKIPPED]);
	return err || result.nr[CHECK_FAILED];
}

static int list_checks(void)
{
	for (u32 i = 0; i < ARRAY_SIZE(groups); i++)
		for (const struct check *check = groups[i]; check->name; check++)
			puts(check->name);
	return 0;
}

static int list_calls(void)
{
	for (u32 i = 0; i < ARRAY_SIZE(calls); i++)
		puts(calls[i].name);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		argp_options, parse, "[DRIVER]",
		"Check a CUDA driver by its effects.\v"
		"DRIVER is a library; without it, the one that KVMM_CUDA_DRIVER names, else "
		"libcuda.so.1.\n\n"
		"Exit code: 0 good; 1 a check failed; 2 bad usage; 3 no driver or no device.",
		NULL, NULL, NULL,
	};
	const struct check *check;

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &opt);
	if (opt.list)
		return list_checks();
	if (opt.list_calls)
		return list_calls();
	if (open_driver())
		return 3;
	signal(SIGALRM, too_long);
	check = opt.child ? find_check(opt.child) : NULL;
	return check ? run_child(check) : run_all();
}
