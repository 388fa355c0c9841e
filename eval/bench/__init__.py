"""`sparring bench`: what this machine does, in a minute."""
