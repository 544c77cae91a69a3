// What the command line needs from the rest of the program. start.ts provides it: this folder does not import the app.
import type { Readable, Writable } from 'node:stream';
import type { Clock } from '../../runtime/clock.ts';
import type { Log } from '../../runtime/log.ts';
import type { Finding } from '../../runtime/machine.ts';

export interface Program {
  version: string;
  /** Absolute path of bin/errand.js, for configs and for starting a server. */
  binPath: string;
  /** process.platform: linux, darwin, win32 … */
  platform: string;
  clock: Clock;
  log: Log;
  env: Record<string, string | undefined>;
  /** The user's home folder, for the config files of other programs. */
  userHome: string;
  stdin: Readable & { isTTY?: boolean };
  stdout: Writable & { isTTY?: boolean; columns?: number; rows?: number };
  stderr: Writable & { isTTY?: boolean };
  /** Locates the home and its socket. Reads no settings, because those may be invalid. */
  place(options: { home?: string }): Place;
  /** Whether a process has this home open. */
  isServed(home: string): Promise<boolean>;
  /** The home that is used when no other one is named. */
  defaultHome(): string;
  /** Starts a server in this process; resolves when it accepts requests. */
  serve(options: ServeOptions): Promise<RunningServer>;
  runBridge(options: BridgeRequest): Promise<void>;
  /** Replaces the database of a home that no server has open. */
  restore(home: string, file: string): Promise<{ files: number; bytes: number } | undefined>;
  /** Applies pending migrations to a PostgreSQL store and returns their names. */
  migrate(address: string | undefined): Promise<string[]>;
  /** Verifies a store without changing it. */
  checkStore(options: { home?: string; store?: string }): Promise<StoreReport>;
  /** Moves everything from one store to an empty one. */
  copyStore(from: string, to: string): Promise<StoreCopy>;
  /** Returns the settings of a home with the source of each value. Secrets are masked. */
  settings(home: string): Promise<SettingsReport>;
  /** Runs the doctor checks; one finding per check. */
  examine(home: string): Promise<Finding[]>;
}

export interface Place {
  home: string;
  socketPath: string;
  /** Set when the server of this home has recorded where it listens. */
  recorded?: { socketPath: string; pid: number; url?: string };
}

export interface ServeOptions {
  home?: string;
  port?: number;
  host?: string;
  store?: string;
  /** Started by a client: listens on the private socket only and exits when idle. */
  auto?: boolean;
  labels?: string[];
}

export interface RunningServer {
  /** The URL for callers on this machine. */
  url: string | undefined;
  /** The listen address, if it differs from the URL. */
  listensOn?: string | undefined;
  key: string;
  keyFile: string;
  home: string;
  /** Stops gracefully. */
  stop(): Promise<void>;
  /** Resolves when the server ends without a signal: it was idle, or stop_server was called. */
  ended: Promise<void>;
}

interface StoreReport {
  ok: boolean;
  store: string;
  tables: number;
  rows: number;
  problems: { check: string; text: string }[];
  notes: string[];
}

export interface SettingsReport {
  home: string;
  /** Path of config.json. */
  file: string;
  exists: boolean;
  settings: { name: string; value: string; source: string }[];
}

interface StoreCopy {
  tables: { name: string; rows: number }[];
  waiting: number;
  held: number;
}

export interface BridgeRequest {
  connect(): Promise<string>;
  toolsets: readonly string[];
  dialects: readonly string[];
  /** Announces a channel, over which the client receives the end of jobs. */
  channel?: boolean;
}
