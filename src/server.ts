// A running server: the home lock, the app, and its interfaces on the private socket and (unless it was auto-started) on TCP.
import { flushCompileCache } from 'node:module';
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { ownerCaller } from './access/keys.ts';
import { createApp, dialects, kinds, type App } from './app.ts';
import { clusterPath } from './cluster/router.ts';
import { configSchema, loadConfig, type Config } from './config.ts';
import { upgradeConfigFile } from './config-upgrade.ts';
import { environment, homePlace, socketFolders, socketRecord } from './config-place.ts';
import { OperationsRoute } from './interfaces/cli/operations-route.ts';
import type { RunningServer, ServeOptions } from './interfaces/cli/program.ts';
import { createDashboard } from './interfaces/dashboard/index.ts';
import { createHttpInterface, type HttpInterface } from './interfaces/http/index.ts';
import { removeStaleSockets } from './interfaces/http/stale-sockets.ts';
import { createMcpInterface, type McpInterface } from './interfaces/mcp/index.ts';
import { openHome, type Home } from './home.ts';
import { folderName } from './plugin.ts';
import { serveMetrics } from './metrics.ts';
import { isLimited } from './operation.ts';
import { saveOutput } from './output-copy.ts';
import { systemClock, type Clock } from './runtime/clock.ts';
import { IdleMemory } from './runtime/idle-memory.ts';
import { createLog, type Log } from './runtime/log.ts';
import { Loop } from './runtime/service.ts';
import { createRotatingFile } from './runtime/rotating-file.ts';
import { serverOperations } from './server-operations.ts';
import { version } from './version.ts';

const watchMs = 1000;
/** The client that started a server needs this long to connect to it, even on a busy machine. */
const firstClientMs = 30_000;
/** A dashboard counts as open for this long after its last request. Hidden tabs send one every two minutes. */
const dashboardOpenMs = 5 * 60_000;
/** After this long without a request, nobody expects the port of an earlier server. */
const reopenMs = 24 * 3_600_000;
const kindFolders = kinds.map(folderName);

/** Releases `home` when the server stops or cannot start. */
export async function startServer(
  options: ServeOptions,
  home = takeHome(options),
): Promise<RunningServer> {
  try {
    return await createServer(options, home).start();
  } catch (error) {
    home.release();
    throw error;
  }
}

function takeHome({ home }: ServeOptions): Home {
  return openHome(homePlace(home, environment()).home);
}

function createServer(options: ServeOptions, home: Home): Server {
  const upgraded = upgradeConfigFile(home.path, () => configSchema(kinds));
  const config = loadConfig({
    home: home.path,
    ...(options.port === undefined ? {} : { port: options.port }),
    ...(options.host === undefined ? {} : { host: options.host }),
    ...(options.store === undefined ? {} : { store: options.store }),
    ...(options.labels === undefined ? {} : { labels: options.labels }),
    sections: kinds,
  });
  const clock = systemClock;
  const auto = options.auto === true;
  const log = auto
    ? createLog(config.logLevel, createRotatingFile(join(home.path, 'server.log')))
    : createLog(config.logLevel);
  for (const file of home.repaired)
    log.warn(`${file} was readable by other users; changed its mode to 0600`, { file });
  if (upgraded) log.info('renamed settings in config.json; the original is config.json.old');
  return new Server({ config, home, clock, log, auto });
}

/** Host names of this server: its listening address and its address for other nodes. */
function ownHosts({ server: { host }, cluster: { nodeUrl } }: Config): string[] {
  const listening = host.includes(':') ? `[${host}]` : host;
  return nodeUrl === undefined ? [listening] : [listening, new URL(nodeUrl).hostname];
}

/** Records the socket path in the home, where clients find it whatever their environment is. Written atomically. */
function recordSocket(home: string, socketPath: string, url = ''): void {
  const file = socketRecord(home);
  writeFileSync(`${file}.new`, `${socketPath}\n${process.pid}\n${url}\n`, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

class Server {
  private readonly config: Config;
  private readonly home: Home;
  private readonly clock: Clock;
  private readonly log: Log;
  private readonly auto: boolean;
  private app: App | undefined;
  private http: HttpInterface | undefined;
  private mcp: McpInterface | undefined;
  private url: string | undefined;
  private opening: Promise<void> | undefined;
  private listensOn: string | undefined;
  private stopping: Promise<void> | undefined;
  /** In the future right after a start: whatever `idleExitMs` is, the server waits for its first client. */
  private idleSince: number | undefined;
  private end = () => {};
  private readonly ended = new Promise<void>((resolve) => (this.end = resolve));
  private readonly watchLoop: Loop;
  private readonly memory = new IdleMemory();

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
        describe: () => this.describe(),
        idle: () => app.idle(),
        // After the response: stopping waits for running calls, and this call is one of them.
        stop: () => void setImmediate(() => void this.stop()),
        backup: (path) => app.store.backup(path),
        saveOutput: async (path) => saveOutput(home.path, path, kindFolders),
      }),
    );
    this.mount(app);
    const pidFile = join(home.path, 'server.pid');
    // Written before the socket opens, so that a client that got a response can read it.
    writeFileSync(pidFile, `${process.pid}\n`, { mode: 0o600 });
    try {
      mkdirSync(dirname(config.socketPath), { recursive: true, mode: 0o700 });
      await this.http!.listenSocket(config.socketPath);
      recordSocket(home.path, config.socketPath);
      if (!this.auto) {
        await this.listen(config.server.port, config.server.host);
        recordSocket(home.path, config.socketPath, config.server.publicUrl ?? this.url);
      } else await this.reopenPort(app);
      await app.start();
    } catch (error) {
      await this.http!.stop();
      await app.stop();
      for (const file of [pidFile, socketRecord(home.path)]) rmSync(file, { force: true });
      throw error;
    }
    this.idleSince = clock.now() + firstClientMs;
    await this.watchLoop.start();
    void this.cleanUp();
    // Written now because a killed server would not write it. It makes the next start faster.
    flushCompileCache();
    // In the foreground the greeting shows the same facts.
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

  private async describe() {
    const { config, home } = this;
    const { bavail, blocks, bsize } = await statfs(home.path);
    const { maxAgeMs, maxCount, maxBytes } = config.retention;
    const named =
      homePlace(undefined, environment()).home === home.path ? [] : ['--home', home.path];
    return {
      version,
      home: home.path,
      ...(this.url === undefined ? {} : { url: this.url }),
      bridge: [
        process.execPath,
        join(import.meta.dirname, '..', 'bin', 'errand.js'),
        'mcp',
        ...named,
      ],
      bridges: this.mcp!.sessions.count(),
      disk: {
        freeBytes: bavail * bsize,
        totalBytes: blocks * bsize,
        databaseBytes: await this.app!.store.size(),
      },
      retention: { maxAgeMs, maxCount, maxBytes },
    };
  }

  /** Removes the sockets of killed servers in the background. */
  private async cleanUp(): Promise<void> {
    const folders = [dirname(this.config.socketPath), ...socketFolders(environment())];
    const removed = await removeStaleSockets(folders);
    if (removed > 0) this.log.info('removed stale sockets', { removed });
  }

  private mount(app: App): void {
    const { clock, log, config } = this;
    const owner = ownerCaller(true);
    const http = createHttpInterface({
      operations: app.operations,
      dialects,
      authenticate: (key) => app.cluster.router?.authenticate(key) ?? app.access.authenticate(key),
      sessions: app.sessions,
      cookieTag: app.cookieTag,
      owner,
      version,
      limits: config.http,
      allowedHosts: [...config.server.allowedHosts, ...ownHosts(config)],
      ...(config.server.publicUrl === undefined ? {} : { publicUrl: config.server.publicUrl }),
      health: () => ({ auto: this.auto }),
      clock,
      log,
    });
    const mcp = createMcpInterface({
      operations: app.operations,
      dialects,
      owner,
      version,
      baseUrl: () => config.server.publicUrl?.replace(/\/$/, '') ?? this.url,
      maxBodyBytes: config.http.maxBodyBytes,
      clock,
      log,
    });
    const bridge = new OperationsRoute(app.operations, version);
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
      caller?.admin && !isLimited(caller) ? serveMetrics(app, response) : false,
    );
    http.mount('/mcp', (request, response, { caller, becomeStream }) => {
      if (request.headers['mcp-method'] === 'subscriptions/listen') becomeStream();
      return mcp.http.handle(request, response, caller);
    });
    const dashboard = createDashboard();
    http.mount('/', (request, response, mounted) => dashboard.handle(request, response, mounted), {
      auth: 'none',
      isAsset: (path) => path.startsWith('/assets/'),
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

  /** Endpoint workers need HTTP. An auto-started server opens a loopback port for them. */
  private async openBaseUrl(port = 0): Promise<string> {
    if (!this.url) await (this.opening ??= this.listenLoopback(port));
    return this.url!;
  }

  /** A browser may still show the dashboard of an earlier server of this home: it expects the same port. */
  private async reopenPort({ sessions }: App): Promise<void> {
    const port = await sessions.lastPort(this.clock.now() - reopenMs);
    if (port !== undefined) await this.openBaseUrl(port);
  }

  /** Uses any free port if the given one is taken. */
  private async listenLoopback(port: number): Promise<void> {
    try {
      await this.listen(port, '127.0.0.1');
    } catch (error) {
      if (port === 0) throw error;
      await this.listen(0, '127.0.0.1');
    }
  }

  private async watch(): Promise<void> {
    this.memory.sample(this.clock.now());
    if (this.home.isThere()) return this.auto ? this.checkIdle() : undefined;
    this.log.error(`the home ${this.home.path} no longer exists; stopping`);
    void this.stop();
  }

  /** An auto-started server stops when no client is connected, no dashboard is open and no work is pending. */
  private async checkIdle(): Promise<void> {
    const now = this.clock.now();
    const { usedAt } = this.app!.sessions;
    const isOpen = usedAt !== undefined && this.app!.clock.now() - usedAt < dashboardOpenMs;
    const idle = !isOpen && this.http!.connections() === 0 && (await this.app!.idle());
    if (!idle) this.idleSince = undefined;
    else this.idleSince ??= now;
    if (this.idleSince !== undefined && now - this.idleSince >= this.config.server.idleExitMs) {
      this.log.info('idle; stopping');
      void this.stop();
    }
  }

  private stop(): Promise<void> {
    this.stopping ??= this.close();
    return this.stopping;
  }

  private async close(): Promise<void> {
    const watching = this.watchLoop.stop();
    // Removed first, so that clients wait for the next server instead of reporting this one as unreachable.
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
