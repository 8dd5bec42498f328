import sys

from cairns.cli import main

sys.exit(main())
