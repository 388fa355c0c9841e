"""The generator of the outlines of the Diplomacy map, from a drawing by longitude and latitude."""
