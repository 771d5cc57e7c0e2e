"""SQL text as tokens of sqlglot's Spark dialect, with a cursor for parsers and errors that point into the text."""

from __future__ import annotations

import re
from typing import NoReturn

from sqlglot import Token, TokenError, TokenType
from sqlglot.dialects.spark import Spark

from floe.errors import InvalidExpression


class SqlTokens:
    """The tokens of a text, and a cursor that parsers move forward.

    >>> tokens = SqlTokens("a > 1")
    >>> tokens.word(), tokens.sees(TokenType.GT, 1)
    ('a', True)
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._tokenize()
        ends = [None] * 3  # parsers look ahead up to three tokens
        self.kinds = [*(token.token_type for token in self.tokens), *ends]
        self.words = [*map(_word, self.tokens), *("" for _ in ends)]
        self.cursor = 0

    def _tokenize(self) -> list[Token]:
        # the parenthesis, because sqlglot takes a whole text that begins with a word such as SHOW for a command
        try:
            tokens = Spark().tokenize("(" + self.text)[1:]
        except TokenError as error:
            reason = str(error.__cause__)
            if (match := re.search(r" from \d+:(\d+)$", reason)) is not None:
                missing = reason.startswith("Missing")
                self.fail("this quotation is never closed" if missing else _ONLY_HEX, int(match[1]) - 1)
            comment = self.text.rfind("/*")
            quote = max(map(self.text.rfind, "'\"`"))
            self.fail("a comment or quotation is never closed", max(comment if comment >= 0 else quote, 0))
        if not tokens:
            raise InvalidExpression("the filter is empty", hint="leave it out to read all rows")
        return tokens

    def token(self, ahead: int = 0) -> Token | None:
        """The next token, or the one that many tokens after it; None at the end."""
        index = self.cursor + ahead
        return self.tokens[index] if index < len(self.tokens) else None

    def position(self, token: Token | None) -> int:
        """The position in the text at which a token begins; for None the end."""
        return len(self.text) if token is None else token.start - 1

    def raw(self, token: Token) -> str:
        """The token as it is written, with its quotes."""
        return self.text[token.start - 1 : token.end]

    def word(self, ahead: int = 0) -> str:
        """The next token, or one after it, in lower case if it is a word without quotes; else an empty string."""
        return self.words[self.cursor + ahead]

    def sees(self, kind: TokenType, ahead: int = 0) -> bool:
        """Whether the next token, or one after it, is of a kind."""
        return self.kinds[self.cursor + ahead] == kind

    def take(self, kind: TokenType) -> bool:
        """Consume the next token if it is of a kind; returns whether it is."""
        if self.kinds[self.cursor] == kind:
            self.cursor += 1
            return True
        return False

    def take_word(self, word: str) -> bool:
        """Consume the next token if it is a word without quotes; returns whether it is."""
        if self.words[self.cursor] == word:
            self.cursor += 1
            return True
        return False

    def need(self, kind: TokenType, sign: str) -> None:
        """Consume a token of a kind, or raise if the next one is another."""
        if not self.take(kind):
            self.fail_at_token(f"expected {sign}, found {self.describe_next()}")

    def read_number(self) -> str:
        """Consume a number, with which the next token must begin; returns its text."""
        token = self.tokens[self.cursor]
        start = token.start - 1
        if token.token_type == TokenType.DOT:  # .5
            self.cursor += 1
            if not self.sees(TokenType.NUMBER) or self.tokens[self.cursor].start != token.end + 1:
                self.fail(f"expected a value, found `{self.raw(token)}`", start)
            token = self.tokens[self.cursor]
        self.cursor += 1
        if self.sees(TokenType.DCOLON) and self.tokens[self.cursor].start == token.start:
            self.cursor += 2  # sqlglot adds two tokens for the suffix of a number such as 5L
        return self.text[start : token.end]

    def read_parameters(self) -> list[int]:
        """Consume the parameters of a type, numbers in parentheses; returns none if there is no parenthesis."""
        parameters: list[int] = []
        if self.take(TokenType.L_PAREN):
            while not parameters or self.take(TokenType.COMMA):
                if not self.sees(TokenType.NUMBER) or not self.tokens[self.cursor].text.isdecimal():
                    self.fail_at_token(f"expected a number, found {self.describe_next()}")
                parameters.append(int(self.tokens[self.cursor].text[:9]))
                self.cursor += 1
            self.need(TokenType.R_PAREN, "`)`")
        return parameters

    def read_string(self) -> str:
        """Consume adjacent string literals; returns their joined text. A doubled quote is one, as in Spark 4."""
        token = self.tokens[self.cursor]
        self.cursor += 1
        pieces = [token.text]
        while (following := self.token()) is not None and following.token_type == TokenType.STRING:
            quote = self.raw(following)[0]
            if following.start == token.end + 1 and self.raw(token)[-1] == quote:
                pieces.append(quote)
            pieces.append(following.text)
            token = following
            self.cursor += 1
        return "".join(pieces)

    def describe_next(self) -> str:
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
