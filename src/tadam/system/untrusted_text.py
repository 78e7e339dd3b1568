"""Shows text from files and file names on a terminal or in a table without letting it act there."""

import re

#: Control characters, and those that reorder, break or hide what is around them.
_ACTIVE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
#: First characters that make a spreadsheet take a cell for a formula, full-width ones included.
_FORMULA = re.compile(r"[\t\r\n]|\s*[=+\-@＝＋－＠]")


def printable(text: object) -> str:
    """The text with control characters as escapes: ESC becomes `\\x1b`, a line break `\\n`."""
    return _ACTIVE.sub(_escaped, str(text))


def printable_lines(text: str) -> str:
    """The same, but line breaks stay: for text of our own that quotes others'."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # how Python keeps a byte of a file name that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if match[0] in "\t\n\r":
        return {"\t": "\\t", "\n": "\\n", "\r": "\\r"}[match[0]]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def spreadsheet_cell(value: object) -> object:
    """The value as a CSV cell: text that a spreadsheet would run as a formula gets a `'` in front.

    Numbers stay as they are: -1 is a number, not a formula.
    """
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
