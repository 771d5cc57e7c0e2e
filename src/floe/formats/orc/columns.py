"""The columns of an ORC file, told by its types and their attributes (spec: Appendix A, ORC)."""

from __future__ import annotations

from collections.abc import Sequence

from floe.errors import CorruptFile, UnsupportedFeature
from floe.formats.orc.tail import OrcNode
from floe.spec.codecs.orc_types import ID, STRUCT_TYPE, OrcType, stored_type
from floe.spec.schemas.file_fields import FileField
from floe.spec.types import BINARY, PrimitiveType, Type

__all__ = ["file_columns", "type_of"]

_NESTED = {"struct": "struct", "array": "list", "map": "map"}
_NAMES = {"array": ("element",), "map": ("key", "value")}


def file_columns(nodes: Sequence[OrcNode]) -> tuple[FileField, ...]:
    """The columns of a file, by its checked types.

    >>> root, number = OrcNode(0, "struct", ("n",), (1,)), OrcNode(1, "int", attributes={"iceberg.id": "7"})
    >>> file_columns([root, number])
    (FileField(name='n', kind='int', stored=INT, id=7, children=()),)
    """
    root = nodes[0]
    return tuple(_column(nodes, name, child) for name, child in zip(root.names, root.children, strict=True))


def _column(nodes: Sequence[OrcNode], name: str, number: int) -> FileField:
    node = nodes[number]
    field_id = _id(node, name)
    if node.kind in _NESTED and (node.attributes or {}).get(STRUCT_TYPE) != "VARIANT":
        names = node.names if node.kind == "struct" else _NAMES[node.kind]
        children = tuple(_column(nodes, own, child) for own, child in zip(names, node.children, strict=True))
        return FileField(name, _NESTED[node.kind], None, field_id, children)
    stored = type_of(node)
    return FileField(name, stored.kind, stored, field_id)


def type_of(node: OrcNode) -> Type:
    """The type of a column without children; one that tables have not is named as it is, and cannot be read.

    >>> type_of(OrcNode(1, "union"))
    UNION
    """
    try:
        stored = stored_type(OrcType(node.kind, node.attributes or {}, node.precision, node.scale))
    except UnsupportedFeature:
        return PrimitiveType(node.kind)
    return BINARY if stored.kind in ("geometry", "geography") else stored  # of what system, the table says


def _id(node: OrcNode, name: str) -> int | None:
    text = (node.attributes or {}).get(ID)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) < 2**31):
        raise CorruptFile(f"a field id must be a number, found {text[:20]!r}", column=name)
    return int(text)
