"""What the compiler promises, checked on the machine at hand: the same bits, right derivatives, and how fast."""
