"""Tables in Markdown, whatever their cells contain."""

from collections.abc import Iterable, Sequence


def cell(text: object) -> str:
    """One line that ends no cell early."""
    return " ".join(str(text).split()).replace("|", "\\|")


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a line for each row."""
    lines = [[*head], ["---"] * len(head), *([cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
