"""The compiler: traced arithmetic becomes machine code. It knows no robots."""
