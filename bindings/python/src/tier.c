// SPDX-License-Identifier: Apache-2.0
/* kvmm.Tier: host memory below pools, and a store on disk behind it; kvmm.Disk: the store alone. */
#include "python.h"

struct tier {
	PyObject_HEAD
	struct kvmm_tier *tier;
	struct kvmm_disk *disk;
};

static int make(struct tier *self, const char *path, unsigned long long disk_bytes,
		const struct kvmm_tier_attr *given)
{
	struct kvmm_disk_attr disk = KVMM_DISK_ATTR_INIT;
	struct kvmm_tier_attr attr = *given;
	const char *call = "kvmm_disk_open";
	int err = 0;

	disk.path = path;
	disk.max_bytes = disk_bytes;
	Py_BEGIN_ALLOW_THREADS
	if (path)
		err = kvmm_disk_open(&disk, &self->disk);
	if (!err) {
		call = "kvmm_tier_host_create";
		attr.disk = self->disk;
		err = kvmm_tier_host_create(&attr, &self->tier);
	}
	Py_END_ALLOW_THREADS
	if (err)
		kvpy_raise(call, err);
	return err;
}

static PyObject *tier_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	static char *known[] = { "capacity_bytes", "block_bytes", "device", "policy", "disk_path",
				 "disk_bytes", "remote_address", "remote_model", "remote_user",
				 "remote_password", "remote_deadline_ns", "remote_ttl_s", NULL };
	struct kvmm_tier_remote_attr remote = KVMM_TIER_REMOTE_ATTR_INIT;
	struct kvmm_tier_attr attr = KVMM_TIER_ATTR_INIT;
	uint64_t disk_bytes = 0;
	PyObject *path = NULL;
	struct tier *self;

	if (!PyArg_ParseTupleAndKeywords(args, named, "O&O&|zzO&O&zzzzO&O&:Tier", known, kvpy_to_u64,
					 &attr.capacity_bytes, kvpy_to_u64, &attr.block_bytes,
					 &attr.device, &attr.policy,
					 kvpy_to_path, &path, kvpy_to_u64, &disk_bytes,
					 &remote.address, &remote.model, &remote.user,
					 &remote.password, kvpy_to_u64, &remote.deadline_ns,
					 kvpy_to_u32, &remote.ttl_s))
		return NULL;
	attr.remote = remote.address ? &remote : NULL;
	self = kvpy_make(type);
	if (self && make(self, path ? PyBytes_AsString(path) : NULL, disk_bytes, &attr))
		Py_CLEAR(self);
	Py_XDECREF(path);
	return (PyObject *)self;
}

/* Pools keep a reference on this object, so none is above it any more. */
static void tier_finalize(struct tier *self)
{
	Py_BEGIN_ALLOW_THREADS
	kvmm_tier_destroy(self->tier);
	kvmm_disk_close(self->disk);
	Py_END_ALLOW_THREADS
}

struct kvmm_tier *kvpy_tier_of(PyObject *tier)
{
	if (!PyObject_TypeCheck(tier, kvpy_tier_type))
		return (void *)PyErr_Format(PyExc_TypeError, "expected a Tier");
	return ((struct tier *)tier)->tier;
}

static PyObject *tier_tick(struct tier *self, PyObject *none)
{
	int more;

	Py_BEGIN_ALLOW_THREADS
	more = kvmm_tier_tick(self->tier);
	Py_END_ALLOW_THREADS
	return more < 0 ? kvpy_raise("kvmm_tier_tick", more) : PyBool_FromLong(more);
}

static PyObject *sync_or(struct kvmm_disk *disk)
{
	int err;

	Py_BEGIN_ALLOW_THREADS
	err = disk ? kvmm_disk_sync(disk) : 0;
	Py_END_ALLOW_THREADS
	return kvpy_none_or("kvmm_disk_sync", err);
}

static PyObject *tier_sync(struct tier *self, PyObject *none)
{
	return sync_or(self->disk);
}

#define STAT(name)	KVPY_FIELD(struct kvmm_disk_stat, name)

static PyObject *stat_of(struct kvmm_disk *disk)
{
	static const struct kvpy_field fields[] = {
		STAT(nr_records), STAT(record_bytes), STAT(nr_put), STAT(nr_got), STAT(nr_missed),
		STAT(nr_found), STAT(nr_damaged), STAT(nr_write_errors),
	};
	struct kvmm_disk_stat stat = { .size = sizeof(stat) };
	int err = disk ? kvmm_disk_get_stat(disk, &stat) : -EOPNOTSUPP;

	return err ? kvpy_raise("kvmm_disk_get_stat", err) : kvpy_dict(&stat, fields, KVPY_NR(fields));
}

static PyObject *tier_disk_stat(struct tier *self, PyObject *none)
{
	return stat_of(self->disk);
}

#define REMOTE(name)	{ #name, offsetof(struct kvmm_tier_stat, remote_##name),	\
			  sizeof(((struct kvmm_tier_stat *)0)->remote_##name) }

static PyObject *tier_remote_stat(struct tier *self, PyObject *none)
{
	static const struct kvpy_field fields[] = {
		REMOTE(stored), REMOTE(got), REMOTE(missed), REMOTE(wrong), REMOTE(failed),
		REMOTE(dropped), REMOTE(late), REMOTE(deleted), REMOTE(fences), REMOTE(given_up),
		REMOTE(deleting), REMOTE(away),
	};
	struct kvmm_tier_stat stat;
	int err = kvmm_tier_get_stat(self->tier, &stat, sizeof(stat));

	return err ? kvpy_raise("kvmm_tier_get_stat", err) : kvpy_dict(&stat, fields, KVPY_NR(fields));
}

static PyMethodDef tier_methods[] = {
	KVPY_METHOD(tier, tick, METH_NOARGS, "tick() -> bool\n\nDoes what is due in the background: disk "
		    "writes, the next portion of memory. True: there may be more."),
	KVPY_METHOD(tier, sync, METH_NOARGS, "sync()\n\nRecords written so far survive a loss of power."),
	KVPY_METHOD(tier, disk_stat, METH_NOARGS, "disk_stat() -> dict[str, int]"),
	KVPY_METHOD(tier, remote_stat, METH_NOARGS, "remote_stat() -> dict[str, int]\n\nOf the server "
		    "below: all 0 where there is none."),
	{ NULL, NULL, 0, NULL },
};

KVPY_TYPE(tier, Tier, sizeof(struct tier), Py_TPFLAGS_DEFAULT,
	  "Tier(capacity_bytes, block_bytes, device=None, policy=None, disk_path=None, disk_bytes=0, "
	  "remote_address=None, remote_model=None, remote_user=None, remote_password=None, "
	  "remote_deadline_ns=0, remote_ttl_s=0)\n\n"
	  "Host memory below pools; with disk_path a store behind it that survives the process; with "
	  "remote_address, as \"10.0.0.7:6379\", a server for keys and values behind both.",
	  KVPY_FINAL(tier));

/* ---- the store alone: records of bytes by name ---- */

struct disk {
	PyObject_HEAD
	struct kvmm_disk *disk;
	uint32_t nr_users;		/* calls without the lock */
	uint8_t layout[16];
};

static PyObject *disk_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	static char *known[] = { "path", "max_bytes", "layout", "reset", NULL };
	struct kvmm_disk_attr attr = KVMM_DISK_ATTR_INIT;
	PyObject *path = NULL;
	const char *layout = NULL;
	Py_ssize_t len = 0;
	int reset = 0, err;
	struct disk *self;

	if (!PyArg_ParseTupleAndKeywords(args, named, "O&O&|y#p:Disk", known, kvpy_to_path, &path,
					 kvpy_to_u64, &attr.max_bytes, &layout, &len, &reset))
		return NULL;
	self = len <= (Py_ssize_t)sizeof(self->layout) ? kvpy_make(type) :
	       (void *)PyErr_Format(PyExc_ValueError, "a layout has at most 16 bytes");
	if (!self) {
		Py_XDECREF(path);
		return NULL;
	}
	attr.path = path ? PyBytes_AsString(path) : NULL;
	if (len)
		memcpy(self->layout, layout, (size_t)len);
	attr.flags |= reset ? KVMM_DISK_RESET : 0;
	Py_BEGIN_ALLOW_THREADS
	err = kvmm_disk_open(&attr, &self->disk);
	Py_END_ALLOW_THREADS
	Py_XDECREF(path);
	return err ? kvpy_fail(self, "kvmm_disk_open", err) : (PyObject *)self;
}

static void disk_finalize(struct disk *self)
{
	struct kvmm_disk *disk = self->disk;

	self->disk = NULL;
	Py_BEGIN_ALLOW_THREADS
	kvmm_disk_close(disk);
	Py_END_ALLOW_THREADS
}

static PyObject *disk_close(struct disk *self, PyObject *none)
{
	if (!self->nr_users)
		return kvpy_close((PyObject *)self, NULL);
	return PyErr_Format(PyExc_RuntimeError, "%u calls use the store", self->nr_users);
}

static int name_of(struct disk *self, PyObject *object, struct kvmm_disk_name *name)
{
	struct kvpy_array key;

	if (!self->disk)
		return KVPY_REFUSE(PyExc_ValueError, "the store is closed");
	if (kvpy_bytes(object, 0, &key))
		return -1;
	memset(name, 0, sizeof(*name));
	memcpy(name->layout, self->layout, sizeof(name->layout));
	if (key.nr < KVMM_DISK_MIN_KEY || key.nr > KVMM_DISK_MAX_KEY) {
		PyErr_Format(PyExc_ValueError, "a key has %u to %u bytes, not %zd", KVMM_DISK_MIN_KEY,
			     KVMM_DISK_MAX_KEY, key.nr);
		kvpy_end(&key);
		return -1;
	}
	name->key_bytes = (uint16_t)key.nr;
	memcpy(name->key, key.data, (size_t)key.nr);
	kvpy_end(&key);
	return 0;
}

static PyObject *disk_put(struct disk *self, PyObject *args)
{
	struct kvmm_disk_put_args put = { 0 };
	PyObject *key, *data;
	struct kvpy_array bytes;
	int32_t status = 0;
	int done;

	if (!PyArg_ParseTuple(args, "OO:put", &key, &data) || name_of(self, key, &put.name) ||
	    kvpy_bytes(data, 0, &bytes))
		return NULL;
	put.data = bytes.data;
	put.bytes = (uint32_t)bytes.nr;
	KVPY_UNLOCK(self)
	done = (uint64_t)bytes.nr > UINT32_MAX ? -EINVAL :
	       kvmm_disk_put(self->disk, &put, 1, 0, &status);
	KVPY_LOCK(self)
	kvpy_end(&bytes);
	if (done >= 0 && status && status != -EEXIST)
		done = status;
	if (done < 0)
		return kvpy_raise("kvmm_disk_put", done);
	return PyBool_FromLong(!status);
}

/* get_into(key, out) -> bytes read, or -1 where there is no record. */
static PyObject *disk_get_into(struct disk *self, PyObject *args)
{
	struct kvmm_disk_get_args get = { 0 };
	PyObject *key, *out;
	struct kvpy_array bytes;
	int32_t status = 0;
	int done;

	if (!PyArg_ParseTuple(args, "OO:get_into", &key, &out) || name_of(self, key, &get.name) ||
	    kvpy_bytes(out, 1, &bytes))
		return NULL;
	get.data = bytes.data;
	get.room = bytes.nr > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes.nr;
	KVPY_UNLOCK(self)
	done = kvmm_disk_get(self->disk, &get, 1, &status);
	KVPY_LOCK(self)
	kvpy_end(&bytes);
	if (done >= 0 && (status == -ENOENT || status == -EAGAIN))
		return PyLong_FromLong(-1);
	if (done >= 0 && status < 0)
		done = status;
	return done < 0 ? kvpy_raise("kvmm_disk_get", done) : PyLong_FromLong(status);
}

/* Room for nothing: a record that can be read says that it is longer, and is not read. */
static PyObject *disk_exists(struct disk *self, PyObject *key)
{
	struct kvmm_disk_get_args get = { .data = &get };
	int32_t status = 0;
	int done;

	if (name_of(self, key, &get.name))
		return NULL;
	done = kvmm_disk_get(self->disk, &get, 1, &status);
	return done < 0 ? kvpy_raise("kvmm_disk_get", done) : PyBool_FromLong(status == -ENOBUFS);
}

static PyObject *disk_delete(struct disk *self, PyObject *key)
{
	struct kvmm_disk_delete_args gone;
	int done;

	if (name_of(self, key, &gone.name))
		return NULL;
	KVPY_UNLOCK(self)
	done = kvmm_disk_delete(self->disk, &gone, 1);
	KVPY_LOCK(self)
	return done < 0 ? kvpy_raise("kvmm_disk_delete", done) : PyBool_FromLong(done);
}

/* Both are refused in a closed store. */
static PyObject *disk_sync(struct disk *self, PyObject *none)
{
	PyObject *done;

	if (!self->disk)
		return kvpy_raise("kvmm_disk_sync", -EINVAL);
	self->nr_users++;
	done = sync_or(self->disk);
	self->nr_users--;
	return done;
}

static PyObject *disk_stat(struct disk *self, PyObject *none)
{
	return self->disk ? stat_of(self->disk) : kvpy_raise("kvmm_disk_get_stat", -EINVAL);
}

static PyMethodDef disk_methods[] = {
	KVPY_METHOD(disk, put, METH_VARARGS, "put(key, data) -> bool\n\nWrites a record and waits; "
		    "False: one of that name is there. key: 8 to 64 bytes."),
	KVPY_METHOD(disk, get_into, METH_VARARGS, "get_into(key, out) -> int\n\nReads a record into a "
		    "writable buffer, verified; returns its bytes, -1 if there is none."),
	KVPY_METHOD(disk, exists, METH_O, "exists(key) -> bool\n\nCan a record of that name be read? "
		    "Answered from memory."),
	KVPY_METHOD(disk, delete, METH_O, "delete(key) -> bool\n\nForgets a record for good, and waits: "
		    "it is not there after an opening or a loss of power either. False: it was not there."),
	KVPY_METHOD(disk, sync, METH_NOARGS, "sync()\n\nRecords written so far survive a loss of power."),
	KVPY_METHOD(disk, stat, METH_NOARGS, "stat() -> dict[str, int]\n\nRecords, bytes and counts."),
	KVPY_METHOD(disk, close, METH_NOARGS, "close()"), KVPY_END,
};

KVPY_TYPE(disk, Disk, sizeof(struct disk), Py_TPFLAGS_DEFAULT,
	  "Disk(path, max_bytes, layout=b'', reset=False)\n\nA store of records on a disk, bounded, "
	  "checked, that survives the process.", KVPY_FINAL(disk));
