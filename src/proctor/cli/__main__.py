"""`python -m proctor.cli`."""

from proctor.cli.main import main

main()
