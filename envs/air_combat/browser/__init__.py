"""Fly air combat in the browser on the local server: the kernels play the match, the page draws and steers."""
