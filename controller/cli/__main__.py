"""``python -m controller.cli`` is ``trimtab``."""

from controller.cli.main import main

main()
