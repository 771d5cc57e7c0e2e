"""Python objects that the JVM takes for its own: each implements whole Java interfaces.

A Java proxy forwards every call to Python, also those of methods that have a default in Java, so a class that stands
for an interface (`floe.spark.bridge.interfaces`) has all of its methods. What a method raises becomes the Java
exception that fits (`floe.spark.bridge.exceptions`).

Functions of Java's, which Python calls stand for.

What a method says that nobody has given.
"""

from __future__ import annotations

import functools
import itertools
import re
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from floe.spark.bridge.exceptions import to_java

if TYPE_CHECKING:
    from floe.spark.bridge.jvm import Jvm

_numbers = itertools.count(1)
_proxies: weakref.WeakValueDictionary[int, Proxy] = weakref.WeakValueDictionary()
_NUMBER = re.compile(r" #(\d+)$")


class Proxy:
    """An object that the JVM can call.

    A subclass that sets `interface` stands for that Java interface; one that older versions of Spark do not have says
    `since`, and is left out there. The names of its methods are Java's. Two proxies are equal to the JVM if they have
    equal keys, for its caches and for finding parts of a plan that are the same.
    """

    interface: ClassVar[str]
    since: ClassVar[tuple[int, int]] = (4, 0)
    Java: type

    def __init__(self, jvm: Jvm) -> None:
        self.jvm = jvm
        self.Java = _interfaces(jvm.version, type(self))
        self._number = next(_numbers)
        _proxies[self._number] = self

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        interfaces = [base for base in cls.__mro__ if "interface" in vars(base)]
        names = {name for base in interfaces for name in vars(base) if not name.startswith("_")}
        for name, value in list(vars(cls).items()):
            if name in names and callable(value):
                setattr(cls, name, _answering(value))

    def title(self) -> str:
        """What the object is, for people who read plans."""
        return type(self).__name__

    def key(self) -> Any:
        """What makes this object equal to others."""
        return self._number

    def hashCode(self) -> int:
        """Equal objects have equal ones."""
        return hash(self.key()) & 0x7FFFFFFF

    def equals(self, other: Any) -> bool:
        """Whether the JVM may take one for the other."""
        found = other if isinstance(other, Proxy) else proxy_of(other)
        return found is self or (type(found) is type(self) and found.key() == self.key())

    def toString(self) -> str:
        """A text that finds the object again."""
        return f"{self.title()} #{self._number}"


_known: dict[tuple[tuple[int, int], type[Proxy]], type] = {}


def _interfaces(version: tuple[int, int], kind: type[Proxy]) -> type:
    """What py4j looks at: the names of the interfaces that this version of Spark has."""
    if (version, kind) in _known:
        return _known[version, kind]
    known = [vars(base) for base in kind.__mro__ if "interface" in vars(base)]
    names = [found["interface"] for found in known if found.get("since", Proxy.since) <= version]
    return _known.setdefault((version, kind), type("Java", (), {"implements": names}))


def proxy_of(found: Any) -> Any:
    """The Python object behind a proxy that came back from the JVM; None for anything else."""
    match = None if found is None else _NUMBER.search(str(found.toString()))
    return None if match is None else _proxies.get(int(match[1]))


def _answering(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def answer(self: Proxy, *arguments: Any) -> Any:
        try:
            return method(self, *arguments)
        except Exception as error:
            raise to_java(self.jvm, error) from None

    return answer


# What a method says that nobody has given.

CONNECTOR = "org.apache.spark.sql.connector."
"""The package of Spark's interfaces for connectors."""


def missing(proxy: Proxy, method: str) -> Any:
    """Raise, for an object that was not made for such calls."""
    raise NotImplementedError(f"{type(proxy).__name__} does not support {method}")


# Functions of Java's, which Python calls stand for.


class Function(Proxy):
    """Something for something."""

    interface = "java.util.function.Function"

    def apply(self, given: Any) -> Any:
        """What the function gives."""
        return missing(self, "apply")

    def andThen(self, other: Any) -> Any:
        """Spark does not ask for it."""
        return missing(self, "andThen")

    def compose(self, other: Any) -> Any:
        """Spark does not ask for it."""
        return missing(self, "compose")


class BiFunction(Proxy):
    """Something for two things."""

    interface = "java.util.function.BiFunction"

    def apply(self, first: Any, second: Any) -> Any:
        """What the function gives."""
        return missing(self, "apply")

    def andThen(self, other: Any) -> Any:
        """Spark does not ask for it."""
        return missing(self, "andThen")


class Consumer(Proxy):
    """Something is done, and nothing given."""

    interface = "java.util.function.Consumer"

    def accept(self, given: Any) -> None:
        """Do it."""
        missing(self, "accept")

    def andThen(self, other: Any) -> Any:
        """Spark does not ask for it."""
        return missing(self, "andThen")
