"""Checks of single settings; every error names the key."""

from tadam.errors import UserError, excerpt


def require(ok: bool, key: str, rule: str, value: object) -> None:
    """Raises a `UserError` that names the key unless `ok`."""
    if not ok:
        raise UserError(f"{key} must be {rule}, got {excerpt(repr(value))}")


def require_choice(key: str, value: str, choices: tuple[str, ...]) -> None:
    """Raises a `UserError` unless the value is one of the choices."""
    require(value in choices, key, "one of " + ", ".join(choices), value)
