"""How values are written on pages."""
