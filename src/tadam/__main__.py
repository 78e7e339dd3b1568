"""`python -m tadam` is `tadam`; torchrun needs the module form."""

from tadam.cli.app import main

main()
