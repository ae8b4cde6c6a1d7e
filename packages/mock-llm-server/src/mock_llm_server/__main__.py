"""``python -m mock_llm_server``."""

import sys

from mock_llm_server.cli import main

sys.exit(main())
