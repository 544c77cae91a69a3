// The abort reason of a call whose client closed its connection. Other reasons (the server stops, a key ends) are not the
// client's decision and must not cancel its work.
export class ClientDisconnected extends Error {
  constructor() {
    super('The client closed its connection.');
  }
}

/** Calls `then` once when the client of this call disconnects, even if it already did. */
export function onDisconnect(signal: AbortSignal, then: () => void): void {
  const check = () => {
    if (signal.reason instanceof ClientDisconnected) then();
  };
  if (signal.aborted) check();
  else signal.addEventListener('abort', check, { once: true });
}
