"""Tools for tests: conformance suites for storages, catalogs and file formats, and fault injection.

- `storage`: the conformance tests of a storage
- `catalogs`: the conformance tests of a catalog, with `catalog_namespaces` and `catalog_helpers`
- `formats`: the conformance tests of a format model, with `format_reads` and `format_writes`;
  `format_bench` has the sample data, and the fixture that the tests need
- `faults`: storages and catalogs that fail at the n-th call
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe.exports import lazy_exports

if TYPE_CHECKING:
    from floe.testing.catalogs import CatalogConformance as CatalogConformance
    from floe.testing.faults import (
        Call as Call,
        Fault as Fault,
        FaultyCatalog as FaultyCatalog,
        FaultyStorage as FaultyStorage,
        SimulatedCrash as SimulatedCrash,
    )
    from floe.testing.format_bench import FormatBench as FormatBench
    from floe.testing.formats import FormatConformance as FormatConformance, feature_table as feature_table
    from floe.testing.storage import StorageConformance as StorageConformance

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "floe.testing.catalogs": "CatalogConformance",
        "floe.testing.format_bench": "FormatBench",
        "floe.testing.formats": "FormatConformance feature_table",
        "floe.testing.storage": "StorageConformance",
        "floe.testing.faults": "Call Fault FaultyCatalog FaultyStorage SimulatedCrash",
    },
)
