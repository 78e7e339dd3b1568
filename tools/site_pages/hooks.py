"""What MkDocs calls while it builds the site: fills generated pages in, mends links out of docs.

A page whose first line is `<!-- include: FILE -->` becomes that file of the repository, and links
to that file lead to the page. A line `<!-- generated: NAME -->`, and the line below it, give way to
what `SECTIONS[NAME]` makes of the program.
"""

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
for place in (ROOT / "src", ROOT / "tools"):
    sys.path.insert(0, str(place))

from site_pages.benchmark_tables import benchmark_tables  # noqa: E402
from site_pages.command_reference import command_reference  # noqa: E402
from site_pages.http_reference import http_reference  # noqa: E402
from site_pages.python_reference import python_reference  # noqa: E402
from site_pages.settings_reference import settings_reference  # noqa: E402

SECTIONS = {
    "benchmarks": benchmark_tables,
    "commands": command_reference,
    "http": http_reference,
    "python": python_reference,
    "settings": settings_reference,
}
_INCLUDE = re.compile(r"<!-- include: (\S+) -->\n")
_GENERATED = re.compile(r"^<!-- generated: (\w+) -->\n.*$", re.MULTILINE)
_FENCED = re.compile(r"^(```.*?^```)$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[(?P<words>[^]]*)\]\((?!\w+:|#)(?P<path>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")


def included_files(docs: Path) -> dict[str, str]:
    """File of the repository -> the page that shows it, both as paths below the root."""
    found = {}
    for page in sorted(docs.rglob("*.md")):
        match = _INCLUDE.match(page.read_text(encoding="utf-8"))
        if match:
            found[match[1]] = page.relative_to(ROOT).as_posix()
    return found


def page_text(text: str, page: str, included: dict[str, str]) -> str:
    """The Markdown that the site shows.

    Args:
        text: What the file has.
        page: Its path below the root, such as `docs/index.md`.
        included: What `included_files` found.
    """
    match = _INCLUDE.match(text)
    source = match[1] if match else page
    if match:
        text = (ROOT / source).read_text(encoding="utf-8")
    text = _GENERATED.sub(lambda found: SECTIONS[found[1]](), text)

    pieces = _FENCED.split(text)
    pieces[::2] = [_mended(piece, source, page, included) for piece in pieces[::2]]
    return "".join(pieces)


def _mended(text: str, source: str, page: str, included: dict[str, str]) -> str:
    """Prose whose links are right on the site; of a link to a folder only the words stay."""

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found["path"]))
        if (ROOT / target).is_dir():
            return found["words"]
        place = posixpath.relpath(included.get(target, target), posixpath.dirname(page))
        return f"[{found['words']}]({place}{found['anchor'] or ''})"

    return _LINK.sub(link, text)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """MkDocs's event: the text of a page, before it is rendered."""
    included = included_files(Path(config.docs_dir))
    return page_text(markdown.lstrip("\n"), f"docs/{page.file.src_uri}", included)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """MkDocs's event: a finished page, made good for screen readers.

    Material gives its search no name, and Markdown makes the empty corner of a table a heading.
    """
    output = output.replace('role="dialog"', 'role="dialog" aria-label="Search"')
    return re.sub(r"<th([^>]*)></th>", r"<td\1></td>", output)


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """MkDocs's event: a finished page that has no Markdown, which is 404.html."""
    return on_post_page(output_content, None, config)
