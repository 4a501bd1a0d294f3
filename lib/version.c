// SPDX-License-Identifier: Apache-2.0
/*
 * Which library this is, and its errors in words.
 */
#include <kvmm/types.h>

#include <kv/types.h>

const char *kvmm_version(void)
{
	return VERSION;
}

static const struct {
	int err;
	const char *text;
} errors[] = {
	{ -EINVAL,		"invalid argument" },
	{ -ENOSPC,		"not enough free blocks" },
	{ -ENOMEM,		"out of host memory" },
	{ -ESTALE,		"stale handle: what it named is gone" },
	{ -EBUSY,		"in use" },
	{ -ENOENT,		"no such thing" },
	{ -EUCLEAN,		"metadata is inconsistent" },
	{ -EIO,			"input or output failed" },
	{ -EAGAIN,		"would have to wait, try again" },
	{ -EOPNOTSUPP,		"not supported here" },
	{ -EEXIST,		"exists already" },
	{ -EOVERFLOW,		"number too large" },
	{ -EOWNERDEAD,		"not usable in a child process after fork" },
	{ -ECHILD,		"not usable in a child process after fork" },
	{ -ENODEV,		"no such device, or no driver for it" },
	{ -ENXIO,		"no such device address" },
	{ -EALREADY,		"done already" },
	{ -EBADMSG,		"damaged: not what was written" },
	{ -ENOBUFS,		"buffer too small" },
	{ -ECANCELED,		"taken back" },
	{ -EROFS,		"nothing can be written any more" },
	{ -EPERM,		"not permitted" },
	{ -EPROTONOSUPPORT,	"of a version that is not supported" },
	{ -ETIMEDOUT,		"took too long" },
	{ -EADDRINUSE,		"somebody listens there already" },
	{ -ECONNREFUSED,	"nobody listens there" },
	{ -ECONNRESET,		"the other side has gone" },
	{ -EPIPE,		"the other side does not listen any more" },
	{ -EACCES,		"no access" },
	{ -EMFILE,		"too many open files" },
	{ -ENAMETOOLONG,	"name too long" },
	{ -E2BIG,		"too many, or too much" },
	{ -ELOOP,		"a link, where none may be" },
	{ -ENOTDIR,		"no folder" },
	{ -EDQUOT,		"more than the limit allows" },
	{ -ERANGE,		"out of range" },
	{ -EINPROGRESS,		"under way: ask again" },
	{ -ENODATA,		"not complete yet" },
	{ -EPROTO,		"against the protocol" },
	{ -ENOMSG,		"not announced before" },
	{ -EILSEQ,		"not what was announced" },
	{ -EMEDIUMTYPE,		"not made alike" },
	{ -EFBIG,		"too large" },
	{ -EXDEV,		"belongs to another pool" },
	{ -EUSERS,		"as many as there may be" },
	{ -ESRCH,		"no such process or thread" },
	{ -ESHUTDOWN,		"being closed" },
	{ -EREMOTE,		"the other process has it" },
};

/* Our own words: strerror() is neither thread safe nor specific. */
const char *kvmm_strerror(int err)
{
	for (u32 i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i].err == err)
			return errors[i].text;
	return err >= 0 ? "success" : "unknown error";
}
