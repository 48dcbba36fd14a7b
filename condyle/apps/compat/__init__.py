"""How other programs plug Condyle in: the interfaces of systems it replaces."""
