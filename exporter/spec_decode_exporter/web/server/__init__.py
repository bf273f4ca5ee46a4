"""HTTP server: sockets, connections, and the limits of both."""
