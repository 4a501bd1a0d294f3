# SPDX-License-Identifier: Apache-2.0
"""Import single modules of an installed (or unpacked) vLLM without what they do not need here.

$VLLM names a folder with the package "vllm" in it; else it is looked for where Python looks. Packages
of vLLM are not run, and torch, configuration, logger and the like are stand-ins: hashes and events need
none of them.
"""
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import sys
import types

REAL = ("vllm.v1.core.kv_cache_utils", "vllm.utils.hashing", "vllm.utils.math_utils",
        "vllm.distributed.kv_events")


class Missing(Exception):
    """Says what is not there."""


class Nothing:
    """Is made of anything, and has methods of any name that do nothing."""

    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        return lambda *args, **kwargs: None


class StandIn(types.ModuleType):
    """Has every name, and each is a class of nothing."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Nothing,), {})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stand-ins for all of vLLM but REAL, and for what else is not installed."""

    def __init__(self, folder):
        self.folder = folder

    def find_spec(self, name, path=None, target=None):
        if name in REAL:
            file = os.path.join(self.folder, *name.split(".")) + ".py"
            return importlib.util.spec_from_file_location(name, file)
        if name.split(".")[0] in ("vllm", "torch", "zmq"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = StandIn(spec.name)
        if spec.name == "vllm.envs":
            module.VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES = True  # its default
        return module

    def exec_module(self, module):
        pass


def find():
    """The folder that the package lies in, and its version."""
    spec = None if os.environ.get("VLLM") else importlib.util.find_spec("vllm")
    folder = os.environ.get("VLLM") or (spec and spec.origin and
                                        os.path.dirname(os.path.dirname(spec.origin)))
    if not folder or not os.path.exists(os.path.join(folder, "vllm/v1/core/kv_cache_utils.py")):
        raise Missing("there is no vllm")
    versions = [m[1] for m in (re.fullmatch(r"vllm-(.+)\.dist-info", name)
                               for name in os.listdir(folder)) if m]
    return folder, versions[0] if versions else "unknown"


def load(*names):
    """Modules of REAL, and the version that they are of. Raises Missing."""
    folder, version = find()
    for package in ("cbor2", "msgspec"):
        if importlib.util.find_spec(package) is None:
            raise Missing("there is no " + package)
    sys.meta_path.insert(0, Finder(folder))
    importlib.import_module("vllm.envs")  # before one asks the package for it: a class of nothing
    return [importlib.import_module(name) for name in names], version
