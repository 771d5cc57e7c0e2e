"""The promises of `Catalog` as tests: whoever writes a catalog can run them on it.

Subclass it in a test module and give one pytest fixture, `catalog`: an empty one that belongs to this test alone. What
a catalog cannot do by its `capabilities` is expected to be refused.

```python
class TestMine(CatalogConformance):
    @pytest.fixture
    def catalog(self, tmp_path):
        return MyCatalog(tmp_path)
```
"""

from __future__ import annotations

from floe.testing._catalog_dropping import DroppingPromises
from floe.testing._catalog_namespaces import NamespacePromises
from floe.testing._catalog_several import CrowdPromises
from floe.testing._catalog_tables import TablePromises
from floe.testing._catalog_views import ViewPromises

__all__ = ["CatalogConformance"]


class CatalogConformance(NamespacePromises, TablePromises, DroppingPromises, ViewPromises, CrowdPromises):
    """All promises of the protocol, as test methods for pytest; see the module."""
