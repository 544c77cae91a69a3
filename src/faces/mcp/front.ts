// `errand mcp`: the stdio front that a client launches. It holds no jobs and knows no kind; it speaks MCP on stdin and stdout
// and asks the server of its home for everything. It ends with its stdin; jobs go on.
import type { Readable, Writable } from 'node:stream';
import type { Server } from '@modelcontextprotocol/server';
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import type { Origin } from '../../operation.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Log } from '../../runtime/log.ts';
import { instructions } from './instructions.ts';
import { Lane } from './lane.ts';
import { ListenWatch } from './listen.ts';
import { OpenCalls } from './open-calls.ts';
import { RemoteSource } from './remote.ts';
import { createServer } from './server.ts';
import { tapped } from './tap.ts';
import { FinishedTasks } from './tasks.ts';

export interface FrontOptions {
  /** The private socket of a running server; starts one if there is none, or throws an AppError that says why not. */
  connect(): Promise<string>;
  toolsets: readonly string[];
  dialects: readonly string[];
  /** Where the client stands: jobs run there, with its PATH. */
  origin: Origin;
  stdin: Readable;
  stdout: Writable;
  version: string;
  clock: Clock;
  log: Log;
}

/** A client is told of the server's start, not made to wait for it: some give up after ten seconds. */
const helloWaitMs = 5000;
/** Larger than any answer or question of ours. */
const messageBytesMax = 32_000_000;
/** What was asked before stdin ended is still answered if it takes no longer. */
const farewellMsMax = 10_000;

/** Resolves when stdin has ended and everything is closed. */
export async function runFront(options: FrontOptions): Promise<void> {
  const { clock, log, version } = options;
  let current: Server | undefined;
  const source = new RemoteSource({
    ...options,
    onToolsChanged: () => void current?.sendToolListChanged().catch(() => {}),
    onRefused: ({ message, hint }) => log.error(message, hint ? { hint } : {}),
    onWelcome: (welcome) => {
      if (welcome.version !== version)
        log.warn('front and server differ in version', { front: version, server: welcome.version });
    },
  });
  source.warm();
  const finished = new FinishedTasks(clock);
  const { stdin, stdout } = options;
  const open = new OpenCalls(clock);
  const lane = new Lane({ stdin, stdout, connected: () => source.connected(), open });
  const transport = new StdioServerTransport(lane.rest, stdout, {
    maxBufferSize: messageBytesMax,
  });
  const watch = new ListenWatch({
    source,
    clock,
    updated: (news) => void current?.sendResourceUpdated(news).catch(() => {}),
    answer: (message) => void transport.send(message as never).catch(() => {}),
  });
  const ended = new Promise<void>((resolve) => {
    stdin.once('end', resolve);
    stdin.once('close', resolve);
  });
  const deaf = new Promise<void>((resolve) => stdout.once('error', () => resolve()));
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
        instructions: await instructionsOf(source, clock),
      });
      current = server;
      return server;
    },
    {
      transport: tapped(transport, [watch, open], watch),
      onerror: (error) => log.debug('stdio', { error }),
    },
  );
  await Promise.race([ended.then(() => open.settled(farewellMsMax)), deaf]);
  watch.close();
  source.close();
  await handle.close();
}

async function instructionsOf(source: RemoteSource, clock: Clock): Promise<string> {
  const enough = new AbortController();
  const late = clock.sleep(helloWaitMs, enough.signal).then(() => instructions);
  const said = source.catalog().then((catalog) => catalog.instructions);
  return Promise.race([said, late]).finally(() => enough.abort());
}
