"""Cards of gates inside of other pages."""
