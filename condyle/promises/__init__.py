"""What the compiler promises, checked on the backend at hand: the same bits, right derivatives, and how fast."""
