"""Tools of MCP servers, offered like any other."""
