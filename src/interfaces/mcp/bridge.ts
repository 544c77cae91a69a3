// `errand mcp`: the stdio bridge that a client launches. It stores no jobs and knows no kinds: it speaks MCP on stdin and
// stdout and forwards everything to the server of its home. It exits when stdin ends; jobs keep running.
import type { Readable, Writable } from 'node:stream';
import type { Server } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import type { Origin } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Log } from '../../runtime/log.ts';
import { Channel, channelInstructions } from './channel.ts';
import { instructions } from './instructions.ts';
import { FastPath } from './fast-path.ts';
import { ListenSubscriptions } from './listen.ts';
import { OpenCalls } from './open-calls.ts';
import { RemoteSource } from './remote.ts';
import { createServer } from './server.ts';
import { StdioTransport } from './stdio-transport.ts';
import { observeTransport } from './transport-observer.ts';
import { FinishedTasks } from './tasks.ts';

interface BridgeOptions {
  /** Returns the private socket of a running server. Starts a server if none runs; throws an AppError if that fails. */
  connect(): Promise<string>;
  toolsets: readonly string[];
  dialects: readonly string[];
  /** Announces a channel, over which the client receives the end of jobs. */
  channel?: boolean;
  /** The client's folder and environment: jobs run there, with its PATH. */
  origin: Origin;
  stdin: Readable;
  stdout: Writable;
  version: string;
  clock: Clock;
  log: Log;
}

/** `initialize` waits at most this long for a starting server: some clients give up after ten seconds. */
const maxServerWaitMs = 5000;
/** Larger than any message of ours. */
const maxMessageBytes = 32_000_000;
/**
 * Calls sent just before stdin ended are still completed: the bridge waits while a response arrives at least every `quietMs`,
 * and at most `timeoutMs` in total.
 */
const drainLimits = { quietMs: 1500, timeoutMs: 10_000 };
/** The same while the server is still starting. */
const startingDrainLimits = { quietMs: 10_000, timeoutMs: 10_000 };

/** Resolves when stdin has ended and everything is closed. */
export async function runBridge(options: BridgeOptions): Promise<void> {
  const { clock, log, version } = options;
  let current: Server | undefined;
  const source = new RemoteSource({
    ...options,
    onToolsChanged: () => void current?.sendToolListChanged().catch(() => {}),
    onConnectFailed: ({ message, hint }) => log.error(message, hint ? { hint } : {}),
    onWelcome: (welcome) => {
      if (welcome.version !== version)
        log.warn('bridge and server versions differ', {
          bridge: version,
          server: welcome.version,
        });
    },
  });
  source.connectEarly();
  const finished = new FinishedTasks(clock);
  const { stdin, stdout } = options;
  const open = new OpenCalls(clock);
  // A channel has to see every call.
  const connected = () => (options.channel ? undefined : source.connected());
  const fastPath = new FastPath({ stdin, stdout, connected, open });
  const transport = new StdioTransport(fastPath.forwarded, stdout, maxMessageBytes);
  const channel = options.channel
    ? new Channel({
        source,
        clock,
        send: (message) => void transport.send(message as never).catch(() => {}),
      })
    : undefined;
  const subscriptions = new ListenSubscriptions({
    source,
    clock,
    updated: (update) => void current?.sendResourceUpdated(update).catch(() => {}),
    respond: (message) => void transport.send(message as never).catch(() => {}),
  });
  const ended = new Promise<void>((resolve) => {
    stdin.once('end', resolve);
    stdin.once('close', resolve);
  });
  const stdoutFailed = new Promise<void>((resolve) => stdout.once('error', () => resolve()));
  const handle = serveStdio(
    async ({ era }) => {
      const server = createServer({
        source,
        era,
        version,
        clock,
        finished,
        subscriptions: true,
        listChanges: true,
        channel,
        instructions: await serverInstructions(source, options),
      });
      current = server;
      return server;
    },
    {
      transport: observeTransport(transport, [subscriptions, open], subscriptions),
      onerror: (error) => log.debug('stdio', { error }),
    },
  );
  await Promise.race([
    ended.then(() => open.drain(source.connected() ? drainLimits : startingDrainLimits)),
    stdoutFailed,
  ]);
  channel?.close();
  subscriptions.close();
  source.close();
  await handle.close();
}

async function serverInstructions(
  source: RemoteSource,
  { clock, channel }: BridgeOptions,
): Promise<string> {
  const done = new AbortController();
  const fallback = clock.sleep(maxServerWaitMs, done.signal).then(() => instructions);
  const fromServer = source.catalog().then((catalog) => catalog.instructions);
  const text = await Promise.race([fromServer, fallback]).finally(() => done.abort());
  return channel ? `${text}\n\n${channelInstructions}` : text;
}
