# SPDX-License-Identifier: Apache-2.0
"""A plug-in for pytest: native connectors of LMCache's tests are kvmm's. For selftest only."""
from __future__ import annotations

import tempfile
from typing import Any

from .lmcache import KvmmConnector


class Connector(KvmmConnector):
    """With a store of its own, which goes with it."""

    def __init__(self) -> None:
        self._room = tempfile.TemporaryDirectory()
        super().__init__(self._room.name + "/store", 64 << 20)

    def close(self) -> None:
        super().close()
        self._room.cleanup()


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for item in items:
        if hasattr(item.module, "MockNativeConnector"):
            item.module.MockNativeConnector = Connector
