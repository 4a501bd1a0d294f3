# SPDX-License-Identifier: Apache-2.0
"""The package kvmm: one extension with the library inside, for CPython 3.10 and later.

KVMM_LIB names a libkvmm.a that was built before; without it make builds one.
"""
import os
import re
import subprocess

from setuptools import Extension, setup

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.environ.get("KVMM_TREE") or os.path.dirname(os.path.dirname(HERE))
SOURCES = ("module", "errors", "args", "buffer", "layout", "pool", "range", "seq", "tier", "events", "vllm", "control", "device",
           "compat")


def version():
    with open(os.path.join(TREE, "Makefile"), encoding="utf-8") as file:
        return re.search(r"^VERSION\s*:= (\S+)$", file.read(), re.M).group(1)


def library():
    given = os.environ.get("KVMM_LIB")
    if given:
        return given
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    subprocess.run(["make", "-C", TREE, "O=build/python", f"-j{os.cpu_count()}", "libkvmm.a"],
                   check=True, env=env)
    return os.path.join(TREE, "build/python/libkvmm.a")


def wheel_command():
    try:
        from setuptools.command.bdist_wheel import bdist_wheel
    except ImportError:
        from wheel.bdist_wheel import bdist_wheel

    class Wheel(bdist_wheel):
        """Tagged for the oldest glibc that the extension asks for: see wheelcheck."""

        def get_tag(self):
            python, abi, platform = super().get_tag()
            return python, abi, platform.replace("linux_", "manylinux_2_28_", 1)
    return Wheel


os.chdir(HERE)
setup(
    name="kvmm",
    version=version(),
    description="The memory manager of the KV cache of LLM engines",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=["kvmm", "kvmm.vllm"],
    package_dir={"": "lib"},
    entry_points={"vllm.general_plugins": ["kvmm = kvmm.vllm:register"],
                  "sglang.srt.plugins": ["kvmm = kvmm.sglang_radix:register"]},
    package_data={"kvmm": ["py.typed", "*.pyi"]},
    ext_modules=[Extension(
        "kvmm._kvmm", [f"src/{name}.c" for name in SOURCES], include_dirs=[f"{TREE}/include", "src"],
        extra_objects=[library()], define_macros=[("Py_LIMITED_API", "0x030a0000")],
        extra_compile_args=["-std=gnu11", "-fvisibility=hidden", "-Wall", "-Wno-unused-parameter",
                            "-O2", "-fno-strict-aliasing", "-g0", "-Wno-cast-function-type"],
        extra_link_args=[f"-Wl,--version-script={HERE}/src/exports.map", "-Wl,-z,nodelete",
                         "-lpthread", "-ldl", "-lm"],
        py_limited_api=True)],
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
    cmdclass={"bdist_wheel": wheel_command()},
)
