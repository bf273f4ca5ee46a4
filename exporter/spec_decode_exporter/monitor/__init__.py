"""Live state: the fleet, its targets and engines, and what the exporter remembers about them."""
