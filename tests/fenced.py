"""Blocks of code in Markdown, each with the language that its fence names."""


def fenced(text: str) -> list[tuple[str, str]]:
    """(language, content) of each block between fences; a block without a language has ''."""
    found: list[tuple[str, str]] = []
    language: str | None = None
    lines: list[str] = []
    for line in text.splitlines():
        if not line.startswith("```"):
            lines.append(line)
        elif language is None:
            language, lines = line[3:].strip(), []
        else:
            found.append((language, "".join(f"{one}\n" for one in lines)))
            language = None
    return found


def blocks(text: str, language: str = "") -> list[str]:
    """The blocks of one language, shell commands unless told."""
    return [content for name, content in fenced(text) if name == language]
