"""What the tests of the documentation import beside the package."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "_bench"))
sys.path.insert(0, str(Path(__file__).parent))
