#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A call of each exported function, for child_test.c: one row a function, from its prototype.

An argument is made from its type: an object of the fixture, a structure by its KVMM_..._INIT, its size
where that goes along, anything else that points somewhere a scratch buffer, a handle {0, 1}, a number 1. A function that is asked about
an object which was made before the fork has to answer -ECHILD. What differs is in the tables below: a new
function needs no line here, unless its type or its answer is a new one, and then the build stops.
"""
import re
import sys

# Types that the fixture has one of, and how to get at it.
OBJECTS = """pool zone registry slab_cache tier disk control publisher events gang groups tables seq
migrate migrate_server migrate_auto""".split()
# Such objects never change, or are the child's business: they work there as ever.
HARMLESS = {"key_ctx", "disk_view"}

# Fields of structures without which a call is refused before anything else, or that name an object.
FIELDS = {
    "kvmm_prefix": ".keys = s.keys, .nr = 1",
    "kvmm_alloc_ctl": ".nr = 1",
    "kvmm_range_attr": ".nr = 1",
    "kvmm_seq_attr": ".keys = f.key_ctx, .prompt = s.numbers, .nr_prompt = 8",
    "kvmm_metrics_attr": ".pools = &f.pool, .nr_pools = 1",
    "kvmm_gang_attr": ".pools = &f.pool, .nr_pools = 1, .wants = s.wants, .nr = 1",
    "kvmm_groups_attr": ".group = &f.group, .nr = 1",
    "kvmm_migrate_attr": ".src = f.pool, .dst = f.other, .what = KVMM_MIGRATE_RANGE",
    "kvmm_migrate_serve_attr": '.pool = f.pool, .path = "/nowhere/at/all"',
    "kvmm_migrate_auto_attr": ".src = f.pool, .dst = f.other, .low = 1, .high = 2",
}
# Calls whose objects come in a structure.
ASK_IN_STRUCT = """kvmm_metrics_text kvmm_gang_reserve kvmm_groups_create
kvmm_migrate_start kvmm_migrate_serve kvmm_migrate_auto_start""".split()
# Calls about nothing that the parent had, or that answer otherwise, and why.
ANSWERS = {}
# Arguments by function and name.
ARGS = {}


def prototypes(paths):
    for path in paths:
        text = re.sub(r"/\*.*?\*/", " ", open(path).read(), flags=re.S)
        text = re.sub(r"^\s*#.*(\\\n.*)*$", "", text, flags=re.M)
        for match in re.finditer(r"KVMM_API\s+([^;{]*?)\b(kvmm_\w+)\s*\(([^;]*)\)[^;()]*;", text):
            yield match.group(2), " ".join(match.group(1).split()), " ".join(match.group(3).split())


def inits(paths):
    return {m for path in paths for m in re.findall(r"#define (KVMM_\w+_INIT)\b", open(path).read())}


def sized(paths):
    text = "".join(open(path).read() for path in paths)
    return set(re.findall(r"struct (kvmm_\w+) \{\s*size_t size;", text))


def split(params):
    return [] if params in ("", "void") else [p.strip() for p in params.split(",")]


def argument(call, param, known):
    if (call, param.split()[-1].lstrip("*")) in ARGS:
        return ARGS[call, param.split()[-1].lstrip("*")]
    match = re.match(r"(?:const )?struct (kvmm_\w+) \*\w+$", param)
    if match:
        name = match.group(1)
        if name[5:] in OBJECTS or name[5:] in HARMLESS:
            return f"f.{name[5:]}"
        init = [i for i in (f"{name.upper()}_INIT", f"{name.upper()}_INIT".replace("_ATTR_INIT", "_INIT"))
                if i in known["inits"]]
        if init:
            sets = "".join(f" a{field};" for field in FIELDS.get(name, "").split(", ") if field)
            return f"({{ struct {name} a = {init[0]};{sets} own(&a, sizeof(a)); }})"
        if name in known["sized"] or name in FIELDS:
            size = f".size = sizeof(struct {name})" if name in known["sized"] else ""
            fields = ", ".join(filter(None, [size, FIELDS.get(name)]))
            return f"own(&(struct {name}){{ {fields} }}, sizeof(struct {name}))"
    if "[" in param or "*" in param:
        if re.match(r"const char \*\w+$", param):
            return "s.text"
        if re.search(r"_(fn|dtor) \*\w+$", param):
            return f"({param.rsplit('*', 1)[0]}*)do_nothing"
        return "(void *)scratch()"
    kind = param.rsplit(" ", 1)[0]
    if re.match(r"kvmm_\w+_t$", kind):
        return f"HANDLE({kind})"
    if kind.startswith("enum ") or re.match(r"(u?int\d*_t|(unsigned )?int|double)$", kind):
        return "1"
    if kind == "size_t":
        return "sizeof(s.space)"
    sys.exit(f"{call}: no argument is known for '{param}'")


def size_of(params):
    """Of the structure that is filled in, or read: not an object."""
    names = [m.group(1) for p in params for m in [re.search(r"struct (kvmm_\w+) \*\w+$", p)] if m]
    names = [n for n in names if n[5:] not in OBJECTS and n[5:] not in HARMLESS]
    return f"sizeof(struct {names[-1]})" if names else "8"


def answer(call, result, params):
    asked = [m.group(1) for p in params for m in [re.match(r"(?:const )?struct kvmm_(\w+) \*\w+$", p)] if m]
    if call in ANSWERS:
        return ANSWERS[call]
    if result == "void" and any(a in HARMLESS for a in asked):
        return "ONCE"
    if not any(a in OBJECTS for a in asked) and call not in ASK_IN_STRUCT:
        return "ANY"
    if result in ("int", "int64_t"):
        return "REFUSED"
    return "NOTHING" if result == "void" else "NONE"


def main():
    known = {"inits": inits(sys.argv[1:]), "sized": sized(sys.argv[1:])}
    seen = set()
    for call, result, params in prototypes(sys.argv[1:]):
        if call in seen or call.startswith("kvmm_testing_") and call not in (
                "kvmm_testing_set_host", "kvmm_testing_get_state"):
            continue
        seen.add(call)
        params = split(params)
        args = ", ".join(size_of(params) if p == "size_t size" else argument(call, p, known)
                         for p in params)
        what = answer(call, result, params)
        cast = f"{call}({args})"
        if result == "void":
            cast = f"({cast}, 0)"
        elif "*" in result:
            cast = f"(intptr_t){cast}"
        print(f"ROW({call}, {what}, {cast})")


main()
