"""Those who leave their slots to others: which scenarios draw them, and I23."""
