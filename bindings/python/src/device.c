// SPDX-License-Identifier: Apache-2.0
/* kvmm.Device: what a device is and has, and the stream of it that an engine works on. */
#include "python.h"

#include <structmember.h>

struct device {
	PyObject_HEAD
	struct kvmm_device_info info;	/* as of when it was opened */
	unsigned long long stream;
};

static int look(const char *name, struct kvmm_device_info *info)
{
	int err;

	memset(info, 0, sizeof(*info));
	info->size = sizeof(*info);
	Py_BEGIN_ALLOW_THREADS
	err = kvmm_device_get_info(name, info);
	Py_END_ALLOW_THREADS
	if (err)
		kvpy_raise_why("kvmm_device_get_info", err, info->why);
	return err;
}

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	static char *known[] = { "name", "stream", NULL };
	const char *name = "host";
	uint64_t stream = 0;
	struct device *self;

	if (!PyArg_ParseTupleAndKeywords(args, named, "|sO&:Device", known, &name, kvpy_to_u64,
					 &stream))
		return NULL;
	self = kvpy_make(type);
	if (self && look(name, &self->info))
		Py_CLEAR(self);
	if (self)
		self->stream = stream;
	return (PyObject *)self;
}

const char *kvpy_device_name(PyObject *object)
{
	return PyObject_TypeCheck(object, kvpy_device_type) ? ((struct device *)object)->info.device : NULL;
}

int kvpy_to_stream(PyObject *object, void *stream)
{
	if (!PyObject_TypeCheck(object, kvpy_device_type))
		return kvpy_to_u64(object, stream);
	*(uint64_t *)stream = ((struct device *)object)->stream;
	return 1;
}

static PyObject *device_free_bytes(struct device *self, void *closure)
{
	struct kvmm_device_info now;

	return look(self->info.device, &now) ? NULL : PyLong_FromUnsignedLongLong(now.free_bytes);
}

static PyObject *device_str(struct device *self)
{
	return PyUnicode_FromString(self->info.device);
}

#define INFO(name, type, doc)	{ #name, type, offsetof(struct device, info.name), READONLY, doc }

static PyMemberDef device_members[] = {
	{ "name", T_STRING_INPLACE, offsetof(struct device, info.device), READONLY, "with its number" },
	INFO(driver, T_STRING_INPLACE, "host, soft or cuda"),
	INFO(card, T_STRING_INPLACE, "as the driver calls it"),
	INFO(pci_id, T_STRING_INPLACE, "empty on the host"),
	INFO(total_bytes, T_ULONGLONG, "memory"),
	INFO(granule_bytes, T_ULONGLONG, "least unit of memory that grows and shrinks; 0: none does"),
	INFO(numa_node, T_INT, "of the host memory next to it; -1: unknown"),
	INFO(features, T_UINT, "KVMM_DEVICE_* of <kvmm/ext/device.h>"),
	{ "stream", T_ULONGLONG, offsetof(struct device, stream), READONLY, "the engine's, as it was given" },
	{ NULL, 0, 0, 0, NULL },
};

static PyGetSetDef device_getset[] = {
	{ "free_bytes", (getter)device_free_bytes, NULL, "memory that is free now; 0: unknown", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyMethodDef device_methods[] = { { NULL, NULL, 0, NULL } };

KVPY_TYPE(device, Device, sizeof(struct device), Py_TPFLAGS_DEFAULT,
	  "Device(name='host', stream=0)\n\nA device by name: 'host', 'cuda:0', 'soft:0', and a stream of "
	  "the engine's on it, for Pool(device=) and Step(stream=). Raises DeviceError: why says what is "
	  "missing.", { Py_tp_members, device_members }, { Py_tp_getset, device_getset },
	  { Py_tp_str, device_str });
