// How a kind joins: its settings, error codes, migrations, and what it is made of. app.ts has one line per kind.
import type { z } from 'zod';
import type { Access } from '../access/access.ts';
import type { ErrorKind } from '../errors.ts';
import type { Operation } from '../operation.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Egress } from '../runtime/egress/index.ts';
import type { Log } from '../runtime/log.ts';
import type { Finding, Machine } from '../runtime/machine.ts';
import type { Service } from '../runtime/service.ts';
import type {
  JsonColumns,
  Migration,
  Problem,
  SearchIndex,
  Store,
  StoreReader,
} from '../store/store.ts';
import type { EventFeed } from './events.ts';
import type { Jobs } from './jobs.ts';
import type { Kind } from './kind.ts';
import type { Waiting } from './wait.ts';
import type { Webhooks } from './webhooks.ts';

export interface KindPlugin<S = unknown> {
  name: string;
  /** The kind's section of config.json; its defaults apply when there is none. */
  settings?: z.ZodType<S>;
  errors?: Record<string, ErrorKind>;
  migrations?: readonly Migration[];
  /** Tables of its migrations that only serve searching. */
  searchIndexes?: readonly SearchIndex[];
  /** For `errand store check`: columns that hold JSON, and numbers that are recomputed from rows. */
  jsonColumns?: JsonColumns;
  check?(reader: StoreReader): Promise<Problem[]>;
  /** For `errand doctor`: what of this machine its jobs lack. Looks only. */
  examine?(settings: S, machine: Machine): Finding[];
  create(needs: KindNeeds<S>): KindParts | Promise<KindParts>;
}

export interface KindParts {
  kind: Kind;
  operations: readonly Operation[];
  /** Started after the runner, stopped before it. */
  services?: readonly Service[];
  /** Something of this kind is due without a job being queued or running (min workers, pending remote work). */
  busy?(): Promise<boolean>;
}

export interface KindNeeds<S = unknown> {
  jobs: Jobs;
  feed: EventFeed;
  waiting: Waiting;
  store: Store;
  access: Access;
  webhooks: Webhooks;
  /** The one way out to the network. */
  egress: Egress;
  clock: Clock;
  log: Log;
  settings: S;
  /** This server. The same after a restart. */
  node: string;
  /** Folder of this kind in the home, made with 0700. */
  folder: string;
  home: string;
  /** A named secret from the environment or the home's 0600 env file. Never stored or shown. */
  secret(name: string): string | undefined;
  /** The same from the env file alone, for names that come from a caller: what the server was started with is not theirs. */
  homeSecret(name: string): string | undefined;
  /** Where this server's HTTP is reached by things on this machine; opens a port on loopback when there is none yet: this one, where it is free. */
  openBaseUrl(port?: number): Promise<string>;
  /** Calls an operation as the server itself; in a cluster where the job's files are. */
  call<O>(name: string, input: unknown, signal?: AbortSignal): Promise<O>;
  /** Signs things that need no stored secret (webhooks, links): HMAC with the home's own secret. */
  sign(purpose: string, text: string): string;
}

export function definePlugin<S>(plugin: KindPlugin<S>): KindPlugin {
  return plugin;
}
