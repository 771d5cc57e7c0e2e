"""Python objects that implement Java interfaces.

A Java proxy forwards every call to Python, also those of methods that have a default in Java. So a class for an
interface (`floe.spark.bridge.interfaces`, and here Java's functions) has all of its methods. An error that a method
raises becomes a Java exception (`floe.spark.bridge.exceptions`).
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
    """The base of the Python objects whose methods the JVM can call.

    A subclass that sets `interface` implements that Java interface, with the names of its methods. An interface that
    only newer versions of Spark have sets `since`; older versions do not see it. Two proxies with equal keys are equal
    in the JVM: Spark compares objects in its caches and when it looks for equal parts of a plan.
    """

    interface: ClassVar[str]
    since: ClassVar[tuple[int, int]] = (4, 0)
    Java: type
    """The class in which py4j looks up the names of the interfaces; py4j determines its name."""

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
                setattr(cls, name, _converting_errors(value))

    def title(self) -> str:
        """The text that identifies the object in plans."""
        return type(self).__name__

    def key(self) -> Any:
        """The value that is compared with the keys of other proxies of the class; by default a unique number."""
        return self._number

    def hashCode(self) -> int:
        """The hash of the key: Java's collections require equal hashes of equal objects."""
        return hash(self.key()) & 0x7FFFFFFF

    def equals(self, other: Any) -> bool:
        """Whether another object is a proxy of the same class with an equal key."""
        proxy = other if isinstance(other, Proxy) else proxy_of(other)
        return proxy is self or (type(proxy) is type(self) and proxy.key() == self.key())

    def toString(self) -> str:
        """The title and the number of the object, by which `proxy_of` finds it again."""
        return f"{self.title()} #{self._number}"


_interfaces_of_classes: dict[tuple[tuple[int, int], type[Proxy]], type] = {}


def _interfaces(version: tuple[int, int], kind: type[Proxy]) -> type:
    """The class that names, for py4j, the interfaces of a proxy's class that a version of Spark has."""
    if (version, kind) in _interfaces_of_classes:
        return _interfaces_of_classes[version, kind]
    members = [vars(base) for base in kind.__mro__ if "interface" in vars(base)]
    names = [member["interface"] for member in members if member.get("since", Proxy.since) <= version]
    return _interfaces_of_classes.setdefault((version, kind), type("Java", (), {"implements": names}))


def proxy_of(java_object: Any) -> Any:
    """The Python object behind a Java proxy that the JVM returned; None for other Java objects."""
    match = None if java_object is None else _NUMBER.search(str(java_object.toString()))
    return None if match is None else _proxies.get(int(match[1]))


def _converting_errors(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that raises Java exceptions for the errors of another."""

    @functools.wraps(method)
    def answer(self: Proxy, *arguments: Any) -> Any:
        try:
            return method(self, *arguments)
        except Exception as error:
            raise to_java(self.jvm, error) from None

    return answer


CONNECTOR = "org.apache.spark.sql.connector."
"""The package of Spark's connector interfaces."""


def unsupported(proxy: Proxy, method: str) -> Any:
    """Raise for a method without a default that a class does not implement."""
    raise NotImplementedError(f"{type(proxy).__name__} does not support {method}")


# Functions of Java ----------------------------------------------------------------------------------------------------


class Function(Proxy):
    """A function of one argument that Java code calls."""

    interface = "java.util.function.Function"

    def apply(self, argument: Any) -> Any:
        """Call the function; returns its result to the JVM."""
        return unsupported(self, "apply")

    def andThen(self, other: Any) -> Any:
        """Unsupported: Spark does not call it."""
        return unsupported(self, "andThen")

    def compose(self, other: Any) -> Any:
        """Unsupported: Spark does not call it."""
        return unsupported(self, "compose")


class BiFunction(Proxy):
    """A function of two arguments that Java code calls."""

    interface = "java.util.function.BiFunction"

    def apply(self, first: Any, second: Any) -> Any:
        """Call the function; returns its result to the JVM."""
        return unsupported(self, "apply")

    def andThen(self, other: Any) -> Any:
        """Unsupported: Spark does not call it."""
        return unsupported(self, "andThen")


class Consumer(Proxy):
    """A function without a result that Java code calls."""

    interface = "java.util.function.Consumer"

    def accept(self, argument: Any) -> None:
        """Call the function for its effect."""
        unsupported(self, "accept")

    def andThen(self, other: Any) -> Any:
        """Unsupported: Spark does not call it."""
        return unsupported(self, "andThen")
