"""`python -m proctor.cli`."""

from proctor.cli.entry import main

main()
