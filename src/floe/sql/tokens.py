"""The tokens of a filter's text, cut by sqlglot's Spark dialect, and a place among them that a parser moves forward."""

from __future__ import annotations

import re
from typing import NoReturn

from sqlglot import Token, TokenError, TokenType
from sqlglot.dialects.spark import Spark

from floe.errors import InvalidExpression


class SqlTokens:
    """A text as tokens, with a place that moves forward, and errors that point into the text.

    >>> tokens = SqlTokens("a > 1")
    >>> tokens.word(), tokens.sees(TokenType.GT, 1)
    ('a', True)
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._cut()
        ends = [None] * 3  # for looking ahead
        self.kinds = [*(token.token_type for token in self.tokens), *ends]
        self.words = [*map(_word, self.tokens), *("" for _ in ends)]
        self.at = 0

    def _cut(self) -> list[Token]:
        # A word such as SHOW at the very start would make the tokenizer take all of the text for a command.
        try:
            tokens = Spark().tokenize("(" + self.text)[1:]
        except TokenError as error:
            why = str(error.__cause__)
            if (place := re.search(r" from \d+:(\d+)$", why)) is not None:
                missing = why.startswith("Missing")
                self.fail("this quotation is never closed" if missing else _ONLY_HEX, int(place[1]) - 1)
            comment = self.text.rfind("/*")
            marks = max(map(self.text.rfind, "'\"`"))
            self.fail("a comment or quotation is never closed", max(comment if comment >= 0 else marks, 0))
        if not tokens:
            raise InvalidExpression("the filter is empty", hint="leave it out to have all rows")
        return tokens

    def token(self, ahead: int = 0) -> Token | None:
        """The token at the place, or so many after it; None at the end."""
        place = self.at + ahead
        return self.tokens[place] if place < len(self.tokens) else None

    def position(self, token: Token | None) -> int:
        """Where a token begins in the text."""
        return len(self.text) if token is None else token.start - 1

    def raw(self, token: Token) -> str:
        """The token as it is written, with its quotes."""
        return self.text[token.start - 1 : token.end]

    def word(self, ahead: int = 0) -> str:
        """The token in lower case if it is a word without quotes, else an empty string."""
        return self.words[self.at + ahead]

    def sees(self, kind: TokenType, ahead: int = 0) -> bool:
        """Whether a token of that kind stands there."""
        return self.kinds[self.at + ahead] == kind

    def take(self, kind: TokenType) -> bool:
        """Step over a token of that kind, if it is next."""
        if self.kinds[self.at] == kind:
            self.at += 1
            return True
        return False

    def take_word(self, word: str) -> bool:
        """Step over a word without quotes, if it is next."""
        if self.words[self.at] == word:
            self.at += 1
            return True
        return False

    def need(self, kind: TokenType, sign: str) -> None:
        """Step over a token of that kind, which must be next."""
        if not self.take(kind):
            self.fail_at_token(f"expected {sign}, found {self.shown()}")

    def read_number(self) -> str:
        """A number as it is written, without the suffix of its type; the next token must begin one."""
        token = self.tokens[self.at]
        start = token.start - 1
        if token.token_type == TokenType.DOT:  # .5
            self.at += 1
            if not self.sees(TokenType.NUMBER) or self.tokens[self.at].start != token.end + 1:
                self.fail(f"expected a value, found `{self.raw(token)}`", start)
            token = self.tokens[self.at]
        self.at += 1
        if self.sees(TokenType.DCOLON) and self.tokens[self.at].start == token.start:
            self.at += 2  # sqlglot's way to say that the number has a suffix, such as 5L
        return self.text[start : token.end]

    def read_string(self) -> str:
        """One or more quotations; a doubled quotation mark stands for itself, as in Spark 4."""
        token = self.tokens[self.at]
        self.at += 1
        out = [token.text]
        while (following := self.token()) is not None and following.token_type == TokenType.STRING:
            mark = self.raw(following)[0]
            if following.start == token.end + 1 and self.raw(token)[-1] == mark:
                out.append(mark)
            out.append(following.text)
            token = following
            self.at += 1
        return "".join(out)

    def shown(self) -> str:
        """The next token, for error messages."""
        token = self.token()
        return "the end" if token is None else f"`{self.raw(token)[:40]}`"

    def fail(self, message: str, position: int, hint: str | None = None) -> NoReturn:
        """Raise an error that points at a position in the text."""
        raise InvalidExpression(message, text=self.text, position=position, hint=hint)

    def fail_at_token(self, message: str, hint: str | None = None) -> NoReturn:
        """Raise an error that points at the next token."""
        self.fail(message, self.position(self.token()), hint)


_ONLY_HEX = "X'…' takes hexadecimal digits"
_WORD = re.compile(r"\w+")
_NOT_WORDS = {TokenType.STRING, TokenType.RAW_STRING, TokenType.HEX_STRING, TokenType.NUMBER, TokenType.IDENTIFIER}


def _word(token: Token) -> str:
    text = token.text
    return text.lower() if token.token_type not in _NOT_WORDS and _WORD.fullmatch(text) else ""
