// The lines of `newel rpc`. Written by scripts/rpc_doc.py from src/newel/terminal/rpc/protocol.py: change the types there, then
// run it. Newel omits optional fields of events and messages that have their default.
export {};
