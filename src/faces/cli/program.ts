// What the command line needs of the rest of the program, given to it by main.ts: faces know operations, not the app.
import type { Readable, Writable } from 'node:stream';
import type { Clock } from '../../runtime/clock.ts';
import type { Log } from '../../runtime/log.ts';
import type { Finding } from '../../runtime/machine.ts';

export interface Program {
  version: string;
  /** Absolute path of bin/errand.js, for configs and for starting a server. */
  binPath: string;
  /** As Node names it: linux, darwin, win32 … */
  platform: string;
  clock: Clock;
  log: Log;
  env: Record<string, string | undefined>;
  stdin: Readable & { isTTY?: boolean };
  stdout: Writable & { isTTY?: boolean; columns?: number; rows?: number };
  stderr: Writable & { isTTY?: boolean };
  /** Where the home and its socket are. Reads no settings that could be wrong. */
  place(wish: { home?: string }): Place;
  /** Whether a process has this home open. */
  isServed(home: string): Promise<boolean>;
  /** The home where nobody names another one. */
  usualHome(): string;
  /** Starts a server in this process; resolves when it answers. */
  serve(wish: ServeWish): Promise<RunningServer>;
  runFront(wish: FrontWish): Promise<void>;
  /** Offline work on a home nobody serves, or on a database address. */
  restore(home: string, file: string): Promise<{ files: number; bytes: number } | undefined>;
  /** Brings a PostgreSQL store up to date; answers what was applied. */
  migrate(address: string | undefined): Promise<string[]>;
  /** Verifies a store without changing it. */
  checkStore(wish: { home?: string; store?: string }): Promise<StoreReport>;
  /** Moves everything from one store to an empty one. */
  copyStore(from: string, to: string): Promise<StoreCopy>;
  /** The settings of a home with the source of each value; secrets are masked. */
  settings(home: string): Promise<SettingsReport>;
  /** Looks at Node, home, disk and the rest; one line each. */
  examine(home: string): Promise<Finding[]>;
}

export interface Place {
  home: string;
  socketPath: string;
  /** Set when the server of this home recorded where it listens. */
  recorded?: { socketPath: string; pid: number };
}

export interface ServeWish {
  home?: string;
  port?: number;
  host?: string;
  store?: string;
  /** Started by a front: private socket only, ends when idle. */
  auto?: boolean;
  labels?: string[];
}

export interface RunningServer {
  /** How callers on this machine reach it. */
  url: string | undefined;
  /** What it listens on, where that is more than the URL says. */
  listensOn?: string | undefined;
  key: string;
  keyFile: string;
  home: string;
  /** Drains and stops. */
  stop(): Promise<void>;
  /** Resolves when it ended by itself (idle, asked to). */
  ended: Promise<void>;
}

export interface StoreReport {
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

export interface StoreCopy {
  tables: { name: string; rows: number }[];
  waiting: number;
  held: number;
}

export interface FrontWish {
  connect(): Promise<string>;
  toolsets: readonly string[];
  dialects: readonly string[];
}
