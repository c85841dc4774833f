"""The library is used from its folder, without being installed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
