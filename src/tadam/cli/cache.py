"""`tadam cache ...`: the embeddings that were kept of photos."""

from dataclasses import asdict

from tadam.cli.options import Json
from tadam.cli.typer_app import App
from tadam.reports.terminal import out, print_json

cache_app = App(help="Show or clear what was kept of photos, so that the next fit is quick.")


@cache_app.command("info")
def cache_info(as_json: Json = False) -> None:
    """Show how many photos' embeddings are kept, and where."""
    from tadam.classify.embedding_cache import EmbeddingCache

    info = EmbeddingCache().info()
    if as_json:
        print_json({**asdict(info), "path": str(info.path)})
        return
    out.print(
        f"{info.path}: {info.images:,} embeddings with small pictures, {info.bytes / 2**20:.1f} MB "
        f"of at most {info.limit / 2**20:.0f} MB",
        soft_wrap=True,
    )


@cache_app.command("clear")
def cache_clear() -> None:
    """Remove them all."""
    from tadam.classify.embedding_cache import EmbeddingCache

    before = EmbeddingCache().clear()
    out.print(f"removed {before.images:,} embeddings, {before.bytes / 2**20:.1f} MB")
