// The task that a relay receives when it starts.
export interface RelayTask {
  endpointId: string;
  workerId: string;
  /** Key of the worker. It never reaches the network, because the relay uses the private socket. */
  key: string;
  home: string;
  /** Where results are stored while the server is away. */
  folder: string;
  /** The log of the worker and the relay. */
  log: string;
  command: string[];
  cwd: string;
  /** Environment of the worker. Its URLs contain a placeholder for the relay's port. */
  env: Record<string, string>;
  stopMs: number;
  /** The worker is stopped if the server is away for this long. */
  outageMs: number;
  maxOutboxBytes: number;
  /** The worker runs in this container. */
  container?: Container | undefined;
}

export interface Container {
  /** The program of the container engine. */
  engine: string;
  name: string;
}

/** Placeholder for the port (and the secret path) of a relay that has not started yet. */
export const relayPortPlaceholder = '{relay}';
