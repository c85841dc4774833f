"""How far a run is: measured after every call and step."""
