// Connection pools, separate per trust level: a connection opened for a trusted destination never serves a guarded one.
import { Agent, type buildConnector, Client, type Dispatcher, Pool } from 'undici';
import type { Connector } from './connector.ts';
import type { Trust } from './policy.ts';
import { type Peer, Transfer } from './transfer.ts';

export interface PoolLimits {
  /** Open connections per origin. Further requests wait. */
  maxConnectionsPerOrigin: number;
  connectTimeoutMs: number;
  keepAliveMs: number;
  maxHeaderBytes: number;
}

export class Pools {
  private readonly keepAlive: Record<Trust, Agent>;
  /** Each request uses its own connection, which ends with it. */
  private readonly fresh: Record<Trust, Agent>;

  constructor(connector: Connector, limits: PoolLimits) {
    const agents = (pipelining: number) => ({
      trusted: createAgent(connector, limits, { trust: 'trusted', pipelining }),
      guarded: createAgent(connector, limits, { trust: 'guarded', pipelining }),
    });
    this.keepAlive = agents(1);
    this.fresh = agents(0);
  }

  dispatch(
    route: { trust: Trust; fresh: boolean },
    options: Dispatcher.DispatchOptions,
    transfer: Transfer,
  ): void {
    (route.fresh ? this.fresh : this.keepAlive)[route.trust].dispatch(options, transfer);
  }

  async close(): Promise<void> {
    const all = [...Object.values(this.keepAlive), ...Object.values(this.fresh)];
    await Promise.all(all.map((agent) => agent.destroy()));
  }
}

type Connect = buildConnector.connector;

/** Lets a transfer know which connection it runs on. */
class PeerClient extends Client {
  private readonly peer: Peer;

  constructor(origin: URL, options: Client.Options, connect: (peer: Peer) => Connect) {
    const peer: Peer = { address: '', used: 0 };
    super(origin, { ...options, connect: connect(peer) });
    this.peer = peer;
  }

  override dispatch(
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
  ): boolean {
    if (handler instanceof Transfer) handler.peer = this.peer;
    return super.dispatch(options, handler);
  }
}

function createAgent(
  connector: Connector,
  limits: PoolLimits,
  { trust, pipelining }: { trust: Trust; pipelining: number },
): Agent {
  const connect =
    (peer: Peer): Connect =>
    ({ hostname, port, protocol }, done) => {
      const tls = protocol === 'https:';
      const to = {
        host: hostname.replace(/^\[|\]$/g, ''),
        port: Number(port) || (tls ? 443 : 80),
        tls,
        trust,
        timeoutMs: limits.connectTimeoutMs,
      };
      connector.open(to, (error, socket) => {
        if (!socket) return done(error ?? new Error('no connection'), null);
        peer.address = socket.remoteAddress ?? '';
        peer.used = 0;
        done(null, socket);
      });
    };
  const clientFactory = (origin: URL, options: object) => new PeerClient(origin, options, connect);
  return new Agent({
    factory: (origin, options) =>
      new Pool(origin, { ...(options as Pool.Options), factory: clientFactory }),
    connections: limits.maxConnectionsPerOrigin,
    pipelining,
    allowH2: false,
    keepAliveTimeout: limits.keepAliveMs,
    maxHeaderSize: limits.maxHeaderBytes,
  });
}
