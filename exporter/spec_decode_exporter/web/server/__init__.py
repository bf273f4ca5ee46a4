"""HTTP server: sockets, connections, and limits of both."""
