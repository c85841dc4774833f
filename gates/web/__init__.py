"""The review queue and the cards on which people decide."""
