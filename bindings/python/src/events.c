// SPDX-License-Identifier: Apache-2.0
/* kvmm.Events: what a pool has cached, and what it has lost. */
#include "python.h"

#include <kvmm/event.h>

struct events {
	PyObject_HEAD
	struct kvpy_pool *pool;
	struct kvmm_events *events;
};

static PyObject *events_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	static char *known[] = { "pool", "ring", NULL };
	struct kvmm_events_attr attr = KVMM_EVENTS_ATTR_INIT;
	struct kvpy_pool *pool;
	struct events *self;
	int err;

	self = kvpy_begin(type, args, named, "O&|O&:Events", known, kvpy_to_pool, &pool, kvpy_to_u32,
			  &attr.ring);
	if (!self)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	err = kvmm_events_open(pool->pool, &attr, &self->events);
	Py_END_ALLOW_THREADS
	return kvpy_made(self, "kvmm_events_open", err);
}

static void events_finalize(struct events *self)
{
	struct kvmm_events *events = self->events;
	struct kvpy_pool *pool = self->pool;

	self->events = NULL;
	self->pool = NULL;
	Py_BEGIN_ALLOW_THREADS
	kvmm_events_close(events);
	Py_END_ALLOW_THREADS
	kvpy_unuse(pool);
}

static PyObject *one(const struct kvmm_event *event)
{
	static const char *const kinds[] = { "stored", "removed", "cleared" };
	static const char *const media[] = { "device", "host", "disk", "external" };
	int has_parent = event->flags & KVMM_EVENT_HAS_PARENT;

	if (event->kind >= KVPY_NR(kinds))
		return Py_BuildValue("{s:s,s:K}", "kind", "other", "seq",
				     (unsigned long long)event->seq);
	return Py_BuildValue("{s:s,s:s,s:K,s:y#,s:y#,s:I,s:I,s:i,s:I,s:I}", "kind", kinds[event->kind],
			     "medium", media[event->medium & 3], "seq",
			     (unsigned long long)event->seq, "key", (const char *)event->key.byte,
			     (Py_ssize_t)KVMM_KEY_BYTES, "parent",
			     has_parent ? (const char *)event->parent.byte : NULL,	/* None */
			     (Py_ssize_t)KVMM_KEY_BYTES, "position", event->position, "tokens",
			     event->tokens, "block", (int)event->block, "tenant",
			     event->domain.tenant, "group", (unsigned int)event->domain.group);
}

static PyObject *events_read(struct events *self, PyObject *args)
{
	struct kvmm_event buf[256];
	unsigned int max = KVPY_NR(buf);
	uint64_t lost = 0;
	PyObject *list;
	int nr;

	if (!PyArg_ParseTuple(args, "|O&:read", kvpy_to_u32, &max))
		return NULL;
	if (!self->events)
		return PyErr_Format(PyExc_ValueError, "the reader is closed");
	nr = kvmm_events_read(self->events, buf, max < KVPY_NR(buf) ? max : KVPY_NR(buf), &lost);
	if (nr < 0)
		return kvpy_raise("kvmm_events_read", nr);
	list = PyList_New(nr);
	for (int i = 0; list && i < nr; i++) {
		PyObject *event = one(&buf[i]);

		if (!event || PyList_SetItem(list, i, event))
			Py_CLEAR(list);
	}
	return list ? Py_BuildValue("NK", list, (unsigned long long)lost) : NULL;
}

static PyMethodDef events_methods[] = {
	KVPY_METHOD(events, read, METH_VARARGS, "read(max=256) -> tuple[list[dict], int]\n\n"
		    "The next events, at most 256, and how many are missing right before them."),
	KVPY_CLOSE(""),
};

KVPY_USER(events, Events, "Events(pool, ring=65536)\n\nA reader of what the pool stores and removes, "
	  "from now on.");
