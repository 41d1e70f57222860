"""Durable storage. `base` declares what a store does; `memory` and `sqlite` are the stores."""
