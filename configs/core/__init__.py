"""What every room needs: errors a person can act on, files, locks, devices, status lines."""
