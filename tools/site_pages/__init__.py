"""Pages of the site that are made when it is built: mkdocs.yml names `hooks.py`."""
