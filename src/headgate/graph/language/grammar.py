"""Reading a text with one of the grammars; whatever is wrong becomes a problem with line, column and caret."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken, VisitError
from lark.tree import Meta
from lark.visitors import Transformer_NonRecursive

from headgate.graph.language.diagnostics import NOWHERE, Diagnostics, Source, Span, nearest

MAX_CHARACTERS = 1024 * 1024
MAX_NESTING = 32
"""Nothing a person writes nests deeper; tree walks are recursive, and Lance reads about 50 parentheses in a filter."""

_BRACKETS = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*(?:[^*]|\*+[^*/])*\*+/|[(\[{]|[)\]}]|\bnot\b|\w+|[^\s\w]')
_STRAY_BACKSLASH = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)")
_JSON_ESCAPE = re.compile(r'\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt])')
_READABLE = {
    "NAME": "a name",
    "STRING": "a text in double quotes",
    "INT": "a whole number",
    "FLOAT": "a number",
    "VAR": "a variable such as $a",
    "AT_NAME": "an annotation such as @key",
    "TYPE_NAME": "a type",
    "LBRACE": "{",
    "RBRACE": "}",
    "LPAR": "(",
    "RPAR": ")",
    "LSQB": "[",
    "RSQB": "]",
    "COLON": ":",
    "COMMA": ",",
    "DOT": ".",
    "DOTS": "..",
    "OPTIONAL": "?",
    "COMPARE": "a comparison such as = or <",
    "__ANON_0": "->",
    "$END": "the end",
}


class _BadToken(Exception):
    """A token that the grammar accepts and that means nothing."""

    def __init__(self, token: Token, message: str, fix: str) -> None:
        super().__init__(message)
        self.problem = (span_of(token), message, fix)


def load_grammar(package: str) -> Lark:
    """The LALR parser of a package's `grammar.lark` with the shared terminals; building it takes some milliseconds."""
    shared = files("headgate.graph.language").joinpath("tokens.lark").read_text(encoding="utf-8")
    own = files(package).joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(f"{own}\n{shared}", parser="lalr", propagate_positions=True)


def parse_text(
    parser: Lark, build: Transformer_NonRecursive[Token, Any], source: Source, diagnostics: Diagnostics
) -> Any:
    """What `build` makes of the parse tree of a text, or `InvalidInput`."""
    _refuse_excess(source, diagnostics)
    try:
        return build.transform(parser.parse(source.text))
    except UnexpectedEOF:
        diagnostics.add(_end(source), "the text ends too early", "close what is open")
    except UnexpectedCharacters as error:
        diagnostics.add(*_wrong_character(source, error))
    except UnexpectedToken as error:
        diagnostics.add(*_wrong_token(source, parser, error))
    except VisitError as error:
        if not isinstance(error.orig_exc, _BadToken):
            raise
        diagnostics.add(*error.orig_exc.problem)
    diagnostics.raise_if_any()
    raise AssertionError("unreachable: a failed parse has added a problem")


def span_of(at: Token | Meta) -> Span:
    """The place of a token or a rule; a rule over several lines is its first line."""
    if isinstance(at, Token):
        return Span(at.line or 1, at.column or 1, max(1, len(at)))
    if getattr(at, "empty", True):
        return Span()
    width = at.end_column - at.column if at.end_line == at.line else 1
    return Span(at.line, at.column, max(1, width))


def literal_of(token: Token) -> str | int | float:
    """What a STRING, FLOAT or INT token stands for."""
    if token.type == "STRING":
        return _unquote(token)
    if token.type == "INT":
        return int(token)
    number = float(token)
    if not math.isfinite(number):
        raise _BadToken(token, "no 64-bit number is this large", "write a smaller one")
    return number


def _unquote(token: Token) -> str:
    """The text of a STRING token; escapes are those of JSON, and a backslash before anything else stays."""
    text = str(json.loads(_STRAY_BACKSLASH.sub(_doubled_if_stray, token), strict=False))
    if not _is_text(text):
        raise _BadToken(token, "this text holds half of a surrogate pair", "write both halves, or the character")
    return text


def _doubled_if_stray(escape: re.Match[str]) -> str:
    return escape.group() if _JSON_ESCAPE.fullmatch(escape.group()) else f"\\{escape.group()}"


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def quote(text: str) -> str:
    """A STRING token for a text."""
    return json.dumps(text, ensure_ascii=True)


def _refuse_excess(source: Source, diagnostics: Diagnostics) -> None:
    if len(source.text) > MAX_CHARACTERS:
        diagnostics.add(Span(), f"the text has more than {MAX_CHARACTERS:,} characters", "split it")
        diagnostics.raise_if_any()
    if not _is_text(source.text):
        diagnostics.add(NOWHERE, "the text holds half of a surrogate pair", "save it as UTF-8")
        diagnostics.raise_if_any()
    depth = negations = 0
    for found in _BRACKETS.finditer(source.text):
        word = found.group()
        if word in ("(", "[", "{"):
            depth += 1
        elif word in (")", "]", "}"):
            depth -= 1
        negations = negations + 1 if word == "not" else negations if word in "({[" else 0
        if depth > MAX_NESTING or negations > MAX_NESTING:
            diagnostics.add(_position(source, found.start()), f"nested more than {MAX_NESTING} deep", "flatten it")
            diagnostics.raise_if_any()


def _position(source: Source, offset: int) -> Span:
    line = source.text.count("\n", 0, offset) + 1
    return Span(line, offset - source.text.rfind("\n", 0, offset))


def _end(source: Source) -> Span:
    stripped = source.text.rstrip()
    return _position(source, max(0, len(stripped) - 1)) if stripped else Span()


def _wrong_character(source: Source, error: UnexpectedCharacters) -> tuple[Span, str, str]:
    span = Span(error.line, error.column)
    offset = error.pos_in_stream
    rest = source.text[offset:]
    if rest.startswith('"'):
        return span, "this text is not closed", 'end it with " on the same line'
    if rest.startswith("/*"):
        return span, "this comment is not closed", "end it with */"
    word = re.match(r"\w+", rest)
    if word:
        span = Span(error.line, error.column, len(word.group()))
        return span, f"unexpected {word.group()!r}", _expected(word.group(), error.allowed or ())
    return span, f"unexpected {rest[:1]!r}", _expected("", error.allowed or ())


def _wrong_token(source: Source, parser: Lark, error: UnexpectedToken) -> tuple[Span, str, str]:
    token = error.token
    if token.type == "$END":
        return _end(source), "the text ends too early", _expected("", error.expected, parser)
    return span_of(token), f"unexpected {str(token)!r}", _expected(str(token), error.expected, parser)


def _expected(found: str, terminals: Iterable[str], parser: Lark | None = None) -> str:
    """What could stand here instead: the nearest keyword if there is one, else all of it."""
    words = sorted({_readable(name, parser) for name in terminals})
    keywords = [word for word in words if word.isidentifier()]
    if found and keywords and (near := nearest(found, keywords)).startswith("did you mean"):
        return near
    if not words:
        return ""
    shown = words if len(words) <= 8 else [*words[:8], "…"]
    return f"expected {', '.join(shown)}"


def _readable(terminal: str, parser: Lark | None) -> str:
    if terminal in _READABLE:
        return _READABLE[terminal]
    if parser is not None:
        for known in parser.terminals:
            if known.name == terminal and known.pattern.type == "str":
                return str(known.pattern.value)
    return terminal.lower()
