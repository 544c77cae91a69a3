// A running server: the home's lock, the app, its faces on the private socket and (unless a front started it) on TCP.
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ownerCaller } from './access/access.ts';
import { createApp, dialects, kinds, type App } from './app.ts';
import { clusterPath } from './cluster/router.ts';
import { loadConfig, type Config } from './config.ts';
import { environment, socketFolders, socketRecord } from './config-place.ts';
import { Bridge } from './faces/cli/bridge.ts';
import type { RunningServer, ServeWish } from './faces/cli/program.ts';
import { createHttpFace, type HttpFace } from './faces/http/index.ts';
import { removeStaleSockets } from './faces/http/stale-sockets.ts';
import { createMcpFace, type McpFace } from './faces/mcp/index.ts';
import { openHome, type Home } from './home.ts';
import { answerMetrics } from './metrics.ts';
import { isLimited } from './operation.ts';
import { saveOutput } from './output-copy.ts';
import { systemClock, type Clock } from './runtime/clock.ts';
import { createLog, type Log } from './runtime/log.ts';
import { Loop } from './runtime/service.ts';
import { createRotatingFile } from './runtime/rotate.ts';
import { serverOperations } from './server-operations.ts';
import { version } from './version.ts';

const watchMs = 1000;
const kindFolders = kinds.map(({ name }) => name);

export async function startServer(wish: ServeWish): Promise<RunningServer> {
  const config = loadConfig({
    ...(wish.home === undefined ? {} : { home: wish.home }),
    ...(wish.port === undefined ? {} : { port: wish.port }),
    ...(wish.host === undefined ? {} : { host: wish.host }),
    ...(wish.store === undefined ? {} : { store: wish.store }),
    ...(wish.labels === undefined ? {} : { labels: wish.labels }),
    sections: kinds,
  });
  const clock = systemClock;
  const home = openHome(config.home);
  const auto = wish.auto === true;
  const log = auto
    ? createLog(config.logLevel, createRotatingFile(join(home.path, 'server.log')))
    : createLog(config.logLevel);
  for (const file of home.repaired)
    log.warn(`${file} was open to other users; its mode is 0600 now`, { file });
  try {
    return await new Server({ config, home, clock, log, auto }).start();
  } catch (error) {
    home.release();
    throw error;
  }
}

/** The names that this server gives itself: where it listens, and where other nodes call it. */
function ownHosts({ server: { host }, cluster: { nodeUrl } }: Config): string[] {
  const listening = host.includes(':') ? `[${host}]` : host;
  return nodeUrl === undefined ? [listening] : [listening, new URL(nodeUrl).hostname];
}

/** For clients, whose environment may lead them elsewhere. In place only when it is complete. */
function recordSocket(home: string, socketPath: string): void {
  const file = socketRecord(home);
  writeFileSync(`${file}.new`, `${socketPath}\n${process.pid}\n`, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

class Server {
  private readonly config: Config;
  private readonly home: Home;
  private readonly clock: Clock;
  private readonly log: Log;
  private readonly auto: boolean;
  private app: App | undefined;
  private http: HttpFace | undefined;
  private mcp: McpFace | undefined;
  private url: string | undefined;
  private opening: Promise<void> | undefined;
  private listensOn: string | undefined;
  private stopping: Promise<void> | undefined;
  private idleSince: number | undefined;
  private end = () => {};
  private readonly ended = new Promise<void>((resolve) => (this.end = resolve));
  private readonly watchLoop: Loop;

  constructor(parts: { config: Config; home: Home; clock: Clock; log: Log; auto: boolean }) {
    this.config = parts.config;
    this.home = parts.home;
    this.clock = parts.clock;
    this.log = parts.log;
    this.auto = parts.auto;
    const { clock, log } = parts;
    this.watchLoop = new Loop({
      name: 'watch',
      everyMs: watchMs,
      clock,
      log,
      run: () => this.watch(),
    });
  }

  async start(): Promise<RunningServer> {
    const { config, home, clock, log } = this;
    const app = await createApp({
      config,
      home,
      clock,
      log,
      baseUrl: () => this.url,
      openBaseUrl: (port) => this.openBaseUrl(port),
    });
    this.app = app;
    app.operations.add(
      serverOperations({
        idle: () => app.idle(),
        // After the answer: a stop waits for the calls under way, and asking for it is one.
        stop: () => void setImmediate(() => void this.stop()),
        backup: (path) => app.store.backup(path),
        saveOutput: async (path) => saveOutput(home.path, path, kindFolders),
      }),
    );
    this.mount(app);
    const pidFile = join(home.path, 'server.pid');
    // Before anybody can ask: whoever was answered may look who answered.
    writeFileSync(pidFile, `${process.pid}\n`, { mode: 0o600 });
    try {
      mkdirSync(dirname(config.socketPath), { recursive: true, mode: 0o700 });
      await this.http!.listenSocket(config.socketPath);
      recordSocket(home.path, config.socketPath);
      if (!this.auto) await this.listen(config.server.port, config.server.host);
      await app.start();
    } catch (error) {
      await this.http!.stop();
      await app.stop();
      for (const file of [pidFile, socketRecord(home.path)]) rmSync(file, { force: true });
      throw error;
    }
    await this.watchLoop.start();
    void this.cleanUp();
    // In the foreground the greeting says it already.
    const facts = { home: home.path, url: this.url, socket: config.socketPath, pid: process.pid };
    log[this.auto ? 'info' : 'debug']('serving', facts);
    return {
      url: this.url,
      listensOn: this.listensOn,
      key: app.ownerKey,
      keyFile: app.ownerKeyFile,
      home: home.path,
      stop: () => this.stop(),
      ended: this.ended,
    };
  }

  /** Sockets of servers that were killed; nobody waits for it. */
  private async cleanUp(): Promise<void> {
    const folders = [dirname(this.config.socketPath), ...socketFolders(environment())];
    const removed = await removeStaleSockets(folders);
    if (removed > 0) this.log.info('removed sockets of servers that are gone', { removed });
  }

  private mount(app: App): void {
    const { clock, log, config } = this;
    const owner = ownerCaller(true);
    const http = createHttpFace({
      operations: app.operations,
      dialects,
      authenticate: async (key) =>
        app.cluster.router?.authenticate(key) ?? app.access.authenticate(key),
      owner,
      version,
      limits: config.http,
      allowedHosts: [...config.server.allowedHosts, ...ownHosts(config)],
      ...(config.server.publicUrl === undefined ? {} : { publicUrl: config.server.publicUrl }),
      health: () => ({ auto: this.auto }),
      clock,
      log,
    });
    const mcp = createMcpFace({
      operations: app.operations,
      dialects,
      owner,
      version,
      bodyBytesMax: config.http.bodyBytesMax,
      clock,
      log,
    });
    const bridge = new Bridge(app.operations, version);
    http.mount('/internal/operations', (request, response, mounted) =>
      bridge.handle(request, response, mounted),
    );
    const { router } = app.cluster;
    if (router) {
      http.mount(clusterPath, (request, response, { context: { signal }, becomeStream }) =>
        router.handle(request, response, { signal, becomeStream }),
      );
    }
    http.mount('/metrics', (_request, response, { caller }) =>
      caller?.admin && !isLimited(caller) ? answerMetrics(app, response) : false,
    );
    http.mount('/mcp', (request, response, { caller, becomeStream }) => {
      if (request.headers['mcp-method'] === 'subscriptions/listen') becomeStream();
      return mcp.http.handle(request, response, caller);
    });
    http.onUpgrade((request, socket, head) => mcp.sessions.upgrade(request, socket, head));
    this.http = http;
    this.mcp = mcp;
  }

  private async listen(port: number, host: string): Promise<void> {
    const address = await this.http!.listenTcp({ port, host });
    this.url = address.url;
    if (!address.url.includes(address.host)) this.listensOn = address.host;
  }

  /** Workers of endpoints speak HTTP: a server that has only its socket opens a port on loopback for them. */
  private async openBaseUrl(port = 0): Promise<string> {
    if (!this.url) await (this.opening ??= this.listenLoopback(port));
    return this.url!;
  }

  /** The port may be somebody else's by now: then any other. */
  private async listenLoopback(port: number): Promise<void> {
    try {
      await this.listen(port, '127.0.0.1');
    } catch (error) {
      if (port === 0) throw error;
      await this.listen(0, '127.0.0.1');
    }
  }

  private async watch(): Promise<void> {
    if (this.home.isThere()) return this.auto ? this.checkIdle() : undefined;
    this.log.error(`the home ${this.home.path} is gone: ending`);
    void this.stop();
  }

  /** A server that a front started ends when nobody is connected and nothing is due, ever. */
  private async checkIdle(): Promise<void> {
    const now = this.clock.now();
    const idle = this.http!.connections() === 0 && (await this.app!.idle());
    if (!idle) this.idleSince = undefined;
    else this.idleSince ??= now;
    if (this.idleSince !== undefined && now - this.idleSince >= this.config.server.idleExitMs) {
      this.log.info('nothing to do and nobody here: ending');
      void this.stop();
    }
  }

  private stop(): Promise<void> {
    this.stopping ??= this.close();
    return this.stopping;
  }

  private async close(): Promise<void> {
    const watching = this.watchLoop.stop();
    // First, so that clients wait for the next server instead of calling this one unreachable.
    rmSync(socketRecord(this.home.path), { force: true });
    this.mcp!.sessions.close();
    await this.mcp!.http.close();
    await this.http!.stop();
    await this.app!.stop();
    rmSync(join(this.home.path, 'server.pid'), { force: true });
    this.end();
    await watching;
  }
}
