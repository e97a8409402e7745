"""What a link costs: as given, as measured, and as emulated on the wall clock."""
