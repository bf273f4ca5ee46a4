"""The page at ``/``: what a person sees who opens the exporter's port.

There is one renderer, and it is here: the HTML is whole without a script. The script asks for the same HTML
again once a second and moves what is on the screen to it. All state of the page is in its address.
"""
