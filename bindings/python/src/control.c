// SPDX-License-Identifier: Apache-2.0
/* kvmm.Control: the socket by which tools look at a process; it has a thread of kvmm's own, which
 * never calls Python. */
#include "python.h"

struct control {
	PyObject_HEAD
	struct kvmm_control *control;
	PyObject *pools;		/* a list: they stay as long as they are shown */
};

static PyObject *control_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	static char *known[] = { "name", "dir", "read_only", NULL };
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;
	int read_only = 0, err;
	struct control *self;

	if (!PyArg_ParseTupleAndKeywords(args, named, "|zzp:Control", known, &attr.name, &attr.dir,
					 &read_only))
		return NULL;
	attr.flags = KVMM_CONTROL_THREAD | (read_only ? KVMM_CONTROL_READ_ONLY : 0);
	self = kvpy_make(type);
	if (!self)
		return NULL;
	self->pools = PyList_New(0);
	err = self->pools ? kvmm_control_open(&attr, &self->control) : -ENOMEM;
	return err ? kvpy_fail(self, "kvmm_control_open", err) : (PyObject *)self;
}

static void control_finalize(struct control *self)
{
	struct kvmm_control *control = self->control;
	PyObject *pools = self->pools;

	self->control = NULL;
	self->pools = NULL;
	Py_BEGIN_ALLOW_THREADS
	kvmm_control_close(control);
	Py_END_ALLOW_THREADS
	for (Py_ssize_t i = 0; pools && i < PyList_Size(pools); i++)
		((struct kvpy_pool *)PyList_GetItem(pools, i))->nr_users--;
	Py_XDECREF(pools);
}

/* The list itself is the collector's, and does not end before the finalizer has run. */
static int control_traverse(struct control *self, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE((PyObject *)self));
	Py_VISIT(self->pools);
	return 0;
}

static PyObject *control_add(struct control *self, PyObject *args)
{
	const char *name = NULL;
	struct kvpy_pool *pool;
	int err;

	if (!PyArg_ParseTuple(args, "O&|z:add", kvpy_to_pool, &pool, &name) || !kvpy_pool_of(pool))
		return NULL;
	if (!self->control)
		return PyErr_Format(PyExc_ValueError, "the socket is closed");
	err = kvmm_control_add_pool(self->control, name, pool->pool);	/* short: with the lock */
	if (err)
		return kvpy_raise("kvmm_control_add_pool", err);
	if (PyList_Append(self->pools, (PyObject *)pool)) {
		kvmm_control_remove_pool(self->control, pool->pool);
		return NULL;
	}
	pool->nr_users++;
	Py_RETURN_NONE;
}

static PyObject *control_path(struct control *self, void *closure)
{
	const char *path = self->control ? kvmm_control_path(self->control) : NULL;

	if (path)
		return PyUnicode_DecodeFSDefault(path);
	Py_RETURN_NONE;
}

static PyMethodDef control_methods[] = {
	KVPY_METHOD(control, add, METH_VARARGS, "add(pool, name=None)\n\nShows a pool to tools."),
	KVPY_CLOSE(""),
};

static PyGetSetDef control_getset[] = {
	{ "path", (getter)control_path, NULL, "where it listens", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

KVPY_TYPE(control, Control, sizeof(struct control), KVPY_GC,
	  "Control(name=None, dir=None, read_only=False)\n\nA socket by which kvmm-stat, kvmm-top and "
	  "python -m kvmm look at pools of this process.", KVPY_FINAL(control),
	  { Py_tp_traverse, control_traverse }, { Py_tp_getset, control_getset });
