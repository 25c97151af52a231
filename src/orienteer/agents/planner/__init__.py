"""Plans with the real engine: what refinements of refinements find is exact, only the reading is predicted."""
