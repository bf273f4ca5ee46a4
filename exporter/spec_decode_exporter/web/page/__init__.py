"""Page at ``/``: one renderer, the state of the page in its address.

The HTML is complete without JavaScript. The script requests the same HTML each second and updates the
document.
"""
