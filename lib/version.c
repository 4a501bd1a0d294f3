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

/* Our own words: strerror() is neither thread safe nor specific. */
const char *kvmm_strerror(int err)
{
	switch (err) {
	case -EINVAL:
		return "invalid argument";
	case -ENOSPC:
		return "not enough free blocks";
	case -ENOMEM:
		return "out of host memory";
	case -ESTALE:
		return "stale handle: what it named is gone";
	case -EBUSY:
		return "in use";
	case -ENOENT:
		return "no such thing";
	case -EUCLEAN:
		return "metadata is inconsistent";
	case -EIO:
		return "input or output failed";
	case -EAGAIN:
		return "would have to wait, try again";
	case -EOPNOTSUPP:
		return "not supported here";
	case -EEXIST:
		return "exists already";
	case -EOVERFLOW:
		return "number too large";
	case -EOWNERDEAD:
	case -ECHILD:
		return "not usable in a child process after fork";
	case -ENODEV:
		return "no such device, or no driver for it";
	case -ENXIO:
		return "no such device address";
	case -EALREADY:
		return "done already";
	case -EBADMSG:
		return "damaged: not what was written";
	case -ENOBUFS:
		return "buffer too small";
	case -ECANCELED:
		return "taken back";
	case -EROFS:
		return "nothing can be written any more";
	case -EPERM:
		return "not permitted";
	case -EPROTONOSUPPORT:
		return "of a version that is not supported";
	case -ETIMEDOUT:
		return "took too long";
	}
	return err >= 0 ? "success" : "unknown error";
}
