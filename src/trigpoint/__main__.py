import sys

from trigpoint.app.cli import main

sys.exit(main())
