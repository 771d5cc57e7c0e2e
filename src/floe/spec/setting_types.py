"""The types of settings: how a table property, a session setting or an option is declared, read and checked.

`floe.spec.properties` lists the properties of tables and views, `floe.spark.settings` the settings and options of
Spark. Each list is a `Settings`, and each entry of it a `Setting`, through which all of its readers go:

>>> properties = Settings("property")
>>> RETRIES = properties.add("write.conflict.retries", integer(minimum=0), 0, used_by="table")
>>> RETRIES.read({}), RETRIES.read({"write.conflict.retries": "3"})
(0, 3)
>>> RETRIES.read({"write.conflict.retries": "many"})
Traceback (most recent call last):
floe.errors.InvalidUpdate: the property write.conflict.retries must be a whole number of at least 0, found 'many' ...
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final, Generic, Literal, NoReturn, TypeVar, overload

from floe.errors import FloeError, IgnoredSetting, InvalidUpdate, UnsupportedFeature

State = Literal["supported", "ignored", "refused", "stored"]
"""What Floe does with a setting.

| state | meaning |
|---|---|
| supported | Floe does what the setting says |
| ignored | Floe does something else, and warns when it is set |
| refused | setting it is an error, because doing something else would be wrong |
| stored | it concerns other engines only; Floe stores it |
"""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_ANY: Final = "*"
_SIMILARITY: Final = 0.86


# The values of settings ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Values(Generic[T_co]):
    """The values that a setting may have.

    `accepts` checks a value that is being set. `parse` gives readers the value and raises `ValueError`; it may be more
    lenient than `accepts`, because other engines set properties too.
    """

    description: str
    parse: Callable[[str], T_co]
    accepts: Callable[[str], bool]


TEXT: Final = Values("text", str, lambda text: True)
BOOLEAN: Final = Values(
    "true or false",
    lambda text: text.lower() == "true",  # any other text is false, as in other engines
    lambda text: text.lower() in ("true", "false"),
)


def choice(*names: str) -> Values[str]:
    """One of some words, in any case.

    >>> (
    ...     choice("none", "hash").accepts("Hash"),
    ...     choice("none", "hash").parse(" Hash "),
    ...     choice("none", "hash").description,
    ... )
    (True, 'hash', 'one of none, hash')
    """

    def parse(text: str) -> str:
        name = text.strip().lower()
        if name not in names:
            raise ValueError(name)
        return name

    return Values(f"one of {', '.join(names)}", parse, lambda text: text.lower() in names)


def integer(minimum: int | None = None) -> Values[int]:
    """A whole number, with or without a minimum.

    >>> integer(1).accepts("0"), integer(1).description, integer().parse("-7")
    (False, 'a whole number of at least 1', -7)
    """

    def parse(text: str) -> int:
        if not _INTEGER.fullmatch(text) or (minimum is not None and int(text) < minimum):
            raise ValueError(text)
        return int(text)

    description = "a whole number" if minimum is None else f"a whole number of at least {minimum}"
    return Values(description, parse, _accepted_by(parse))


def _fraction(text: str) -> float:
    number = float(text)
    if not 0 < number < 1:
        raise ValueError(text)
    return number


def _accepted_by(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def accepts(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return accepts


FRACTION: Final = Values("a number between 0 and 1", _fraction, _accepted_by(_fraction))


# One setting --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Setting(Generic[T_co]):
    """One property, option or session setting; a name that ends with `*` stands for all names with that prefix."""

    name: str
    values: Values[Any]
    default: T_co
    state: State = "supported"
    note: str = ""
    """What Floe does instead, or why the setting is refused; for supported settings, a remark."""

    used_by: str = ""
    """The packages of Floe that read the setting."""

    no_effect: tuple[str, ...] = ()
    """Values of an ignored or refused setting that ask for what Floe does anyway."""

    subject: str = "property"
    error: type[FloeError] = InvalidUpdate
    """The error that a value raises which cannot be parsed."""

    def read(self, properties: Mapping[str, str]) -> T_co:
        """The value in some properties, or the default if it is not set; raises `error` for a value that is invalid."""
        text = properties.get(self.name)
        return self.default if text is None else self.parse(text)

    def parse(self, text: str) -> T_co:
        """The value of a text; raises `error` for a text that is invalid."""
        try:
            return self.values.parse(text)  # type: ignore[no-any-return]  # `values` is of type T_co without None
        except (ValueError, TypeError, AttributeError):  # the latter two: not a string
            self.reject(text)

    def reject(self, value: object) -> NoReturn:
        """Raise `error` for a value."""
        raise self.error(
            f"the {self.subject} {self.name} must be {self.values.description}, found {value!r:.80}",
            **self._context,
        )

    def refuse(self, value: str) -> NoReturn:
        """Raise for a setting that is refused."""
        raise UnsupportedFeature(f"the {self.subject} {self.name}={value:.80} is refused: {self.note}", **self._context)

    @property
    def _context(self) -> dict[str, str]:
        """The setting as context of an error: by `property`, `option` or `setting`."""
        return {self.subject.rpartition(" ")[2]: self.name}

    def __str__(self) -> str:
        return self.name

    def is_set(self, properties: Mapping[str, str]) -> bool:
        """Whether the properties have a value for the setting."""
        return self.name in properties


@dataclass(frozen=True, slots=True)
class SettingFamily(Setting[T_co]):
    """Settings that share a prefix and end with the name of a column, a property or a key."""

    @property
    def prefix(self) -> str:
        """The name without the `*` at its end."""
        return self.name.removesuffix(_ANY)

    def member(self, suffix: str) -> Setting[T_co]:
        """The setting of one column or key.

        >>> Settings("property").family("write.metadata.metrics.column.*", TEXT).member("id").name
        'write.metadata.metrics.column.id'
        """
        return Setting(
            self.prefix + suffix, self.values, self.default, self.state, self.note, self.used_by, self.no_effect,
            self.subject, self.error,
        )  # fmt: skip

    def suffixes(self, properties: Mapping[str, str]) -> list[str]:
        """The columns or keys for which the setting is made, in the order of the properties."""
        return [name.removeprefix(self.prefix) for name in properties if name.startswith(self.prefix)]

    def members(self, properties: Mapping[str, str]) -> dict[str, str]:
        """The texts of all settings of the family, by column or key."""
        return {suffix: properties[self.prefix + suffix] for suffix in self.suffixes(properties)}


# Lists of settings --------------------------------------------------------------------------------------------------


SettingT = TypeVar("SettingT", bound=Setting[Any])


class Settings(Mapping[str, Setting[Any]]):
    """A list of settings by name, in the order in which they were added."""

    def __init__(self, subject: str, error: type[FloeError] = InvalidUpdate, *, prefix: str = "") -> None:
        """`subject` names one of them in messages; `prefix` is put before each name."""
        self.subject, self._error, self._prefix = subject, error, prefix
        self._settings: dict[str, Setting[Any]] = {}
        self._families: list[Setting[Any]] = []

    # declaring

    @overload
    def add(
        self,
        name: str,
        values: Values[T],
        default: T,
        *,
        note: str = ...,
        used_by: str = ...,
        error: type[FloeError] | None = ...,
    ) -> Setting[T]: ...
    @overload
    def add(
        self,
        name: str,
        values: Values[T],
        default: None = ...,
        *,
        note: str = ...,
        used_by: str = ...,
        error: type[FloeError] | None = ...,
    ) -> Setting[T | None]: ...
    def add(
        self,
        name: str,
        values: Values[Any],
        default: Any = None,
        *,
        note: str = "",
        used_by: str = "",
        error: type[FloeError] | None = None,
    ) -> Setting[Any]:
        """Declare a setting that is supported."""
        return self._declare(Setting(name, values, default, "supported", note, used_by, error=error or self._error))

    def family(self, name: str, values: Values[T], *, note: str = "", used_by: str = "") -> SettingFamily[T | None]:
        """Declare settings that share a prefix; the name ends with `*`."""
        setting: SettingFamily[T | None] = SettingFamily(name, values, None, "supported", note, used_by)
        return self._declare(replace(setting, error=self._error))

    def ignore(self, name: str, values: Values[Any], note: str, *, no_effect: tuple[str, ...] = ()) -> None:
        """Declare a setting that Floe warns about; `note` says what it does instead."""
        self._declare(Setting(name, values, None, "ignored", note, no_effect=no_effect, error=self._error))

    def refuse(self, name: str, values: Values[Any], note: str, *, no_effect: tuple[str, ...] = ()) -> None:
        """Declare a setting that Floe refuses; `note` says why."""
        self._declare(Setting(name, values, None, "refused", note, no_effect=no_effect, error=self._error))

    def store(self, name: str, values: Values[Any], note: str) -> None:
        """Declare a setting that only concerns other engines."""
        self._declare(Setting(name, values, None, "stored", note, error=self._error))

    def _declare(self, setting: SettingT) -> SettingT:
        setting = replace(setting, name=self._prefix + setting.name, subject=self.subject)
        self._settings[setting.name] = setting
        if setting.name.endswith(_ANY):
            self._families.append(setting)
        return setting

    # looking up

    def __getitem__(self, name: str) -> Setting[Any]:
        return self._settings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def find(self, name: str) -> Setting[Any] | None:
        """The setting of a name, which may be one of a family; None if there is no such setting."""
        setting = self._settings.get(name)
        if setting is None:
            setting = next((family for family in self._families if name.startswith(family.name[:-1])), None)
        return setting

    def suggest(self, name: str) -> str | None:
        """The name that a misspelt name is most similar to; None if none is similar.

        >>> settings = Settings("property")
        >>> size = settings.add("write.target-file-size-bytes", integer(1))
        >>> settings.suggest("write.target-file-size")
        'write.target-file-size-bytes'
        """
        names = [name for name in self._settings if not name.endswith(_ANY)]
        similar = get_close_matches(name, names, n=1, cutoff=_SIMILARITY)
        return similar[0] if similar else None

    def check(self, name: str, value: object, *, warn: Callable[[str], None]) -> Setting[Any] | None:
        """Check a value that is being set; returns the setting, or None if there is no setting of that name.

        Raises `UnsupportedFeature` for a refused setting and its `error` for an invalid value; warns of an ignored one.
        """
        setting = self.find(name)
        if setting is None:
            return None
        setting = replace(setting, name=name, error=self._error)  # readers may raise another one
        if not isinstance(value, str) or not setting.values.accepts(value):
            setting.reject(value)
        if value.lower() not in setting.no_effect:
            if setting.state == "refused":
                setting.refuse(value)
            if setting.state == "ignored":
                warn(f"the {self.subject} {name}={value:.80} has no effect: {setting.note}")
        return setting


def warn_ignored(message: str) -> None:
    """Warn of a setting that Floe does not act on."""
    warnings.warn(message, IgnoredSetting, stacklevel=2)
