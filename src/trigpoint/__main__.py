import sys

from trigpoint.cli import main

sys.exit(main())
