"""Text from strangers: it shows on a terminal and in a spreadsheet, and does nothing there."""

import csv
import io
import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from tadam.reports.terminal import SafeConsole
from tadam.system.untrusted_text import printable, printable_lines, spreadsheet_cell

anything = st.text(st.characters(), max_size=30)


def test_control_characters_are_shown_as_escapes() -> None:
    assert printable("a\x1b[31mred\x07\x9b2J\x7f") == "a\\x1b[31mred\\x07\\x9b2J\\x7f"
    assert printable("one\ntwo\r\tthree\0") == "one\\ntwo\\r\\tthree\\x00"
    assert printable("safe\u202egpj.exe") == "safe\\u202egpj.exe"
    assert printable(b"caf\xe9".decode("utf-8", "surrogateescape")) == "caf\\xe9"
    assert printable("Blüte 花 🌸 [red] :dog:") == "Blüte 花 🌸 [red] :dog:"
    assert printable_lines("one\ntwo\x1b") == "one\ntwo\\x1b"


@given(anything)
def test_nothing_that_acts_is_left(text: str) -> None:
    for letter in printable(text):
        assert unicodedata.category(letter) not in ("Cc", "Cs", "Zl", "Zp")
    printable(text).encode()  # can be written


@given(anything)
def test_no_text_reaches_a_terminal_raw(text: str) -> None:
    stream = io.StringIO()
    console = SafeConsole(file=stream, force_terminal=False, markup=False, emoji=False, width=400)
    table = Table("class")
    table.add_row(text)
    console.print(f"name: {text}", soft_wrap=True)
    console.print(table)
    shown = stream.getvalue()
    assert not {letter for letter in shown if unicodedata.category(letter) == "Cc"} - {"\n"}


def test_a_cell_that_a_spreadsheet_would_run_gets_an_apostrophe() -> None:
    for text in ("=1+1.png", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1", "\n=1"):
        assert spreadsheet_cell(text) == "'" + text
    for value in ("a=1", "photos/=1.png", "", 7, -1, 0.5, None, "p(=1)"):
        assert spreadsheet_cell(value) == value


@given(st.lists(anything, min_size=1, max_size=4))
def test_a_csv_reader_gets_the_text_back(texts: list[str]) -> None:
    stream = io.StringIO(newline="")
    csv.writer(stream).writerow([spreadsheet_cell(text) for text in texts])
    stream.seek(0)
    (row,) = csv.reader(stream)
    assert [cell.removeprefix("'") for cell in row] == [text.removeprefix("'") for text in texts]
