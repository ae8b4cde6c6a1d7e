"""The text in the body of a page: its charset, and whether it is text at all."""

from __future__ import annotations

import codecs
import re
from typing import Final, Literal

Kind = Literal["html", "text", "other"]

_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXT: Final = re.compile(
    r"text/[\w.+-]+|application/(?:[\w.-]+\+)?(?:json|xml|yaml|toml|javascript|ecmascript|x-(?:javascript|sh|yaml|ndjson|tex|sql)|graphql|sql|ld\+json|ndjson)"
)
_UNKNOWN: Final = frozenset({"", "application/octet-stream", "binary/octet-stream"})
"""Types that say nothing: the content decides."""

_BEGINNING: Final = 1024
"""Bytes in which a page names its charset."""

_CHARSET: Final = re.compile(
    rb"""(?i)<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]{1,40})|<\?xml[^>]{0,100}?encoding\s*=\s*["']([\w.:-]{1,40})"""
)

_OF_THE_WEB: Final = re.compile(
    r"utf-?8|utf-?16(?:-?[lb]e)?|(?:us-)?ascii|latin-?1|iso-?8859-?\d{1,2}|(?:windows|cp)-?125\d|koi8-[ru]|gbk|gb2312|gb18030|"
    r"big5(?:-hkscs)?|euc-(?:jp|kr)|shift[_-]jis|iso-2022-jp|macintosh|x-mac-cyrillic|ibm866|tis-620|windows-874",
    re.IGNORECASE,
)
"""Charsets of pages. Python knows more, which expand or execute what they decode."""

_AS_WINDOWS: Final = re.compile(r"(?:us-)?ascii|latin-?1|iso-?8859-?1", re.IGNORECASE)
"""What pages call what is really Windows' charset, as browsers know."""

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def kind_of(content_type: str, body: bytes) -> Kind:
    """Of a body: by its type, or where that says nothing by its beginning."""
    mime = mime_of(content_type)
    if mime in _HTML:
        return "html"
    if mime in _UNKNOWN:
        head = body[:_BEGINNING]
        if re.match(rb"(?i)\s*(?:<!doctype html|<html)", head):
            return "html"
        return "other" if b"\0" in head and not head.startswith(tuple(mark for mark, _ in _MARKS)) else "text"
    return "text" if _TEXT.fullmatch(mime) else "other"


def mime_of(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def decode(body: bytes, content_type: str) -> str:
    """The text, by the mark at its beginning, the charset of its type, or the one that it names; else UTF-8 or Windows' charset."""
    for mark, charset in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(charset, "replace")
    named = re.search(r"""charset\s*=\s*["']?([\w.:-]{1,40})""", content_type, re.IGNORECASE)
    within = _CHARSET.search(body[:_BEGINNING])
    names = [named[1]] if named else []
    names += [(within[1] or within[2]).decode("ascii", "replace")] if within else []
    for name in names:
        if _OF_THE_WEB.fullmatch(name):
            try:
                return body.decode("cp1252" if _AS_WINDOWS.fullmatch(name) else _codec(name), "replace")
            except LookupError:
                continue
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        # The last character may be cut.
        is_utf8 = error.start > len(body) - 4 or b"\xc3" in body[:_BEGINNING]
        return body.decode("utf-8" if is_utf8 else "cp1252", "replace")


def _codec(name: str) -> str:
    return {"windows-874": "cp874", "x-mac-cyrillic": "mac-cyrillic", "macintosh": "mac-roman"}.get(
        name.lower(), name
    )
