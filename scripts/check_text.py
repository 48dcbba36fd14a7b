"""Check the text of the repository: its words, the layers and the size of the package, its pages. Every fault is printed.

python scripts/check_text.py
"""

import sys

from check_layers import check_layers
from check_pages import check_pages
from check_size import check_size
from check_words import check_words

if __name__ == "__main__":
    faults = [*check_words(), *check_layers(), *check_size(), *check_pages()]
    print("\n".join(faults) if faults else "text: no fault")
    sys.exit(1 if faults else 0)
