"""Check the text of the repository: its words, the layers of the package, its pages. Every fault is printed, with file and line.

python scripts/check_text.py
"""

import sys

from check_layers import check_layers
from check_pages import check_pages
from check_words import check_words

if __name__ == "__main__":
    faults = [*check_words(), *check_layers(), *check_pages()]
    print("\n".join(faults) if faults else "text: no fault")
    sys.exit(1 if faults else 0)
