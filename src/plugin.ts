// The plugin contract of a kind: settings, error codes, migrations and a factory. app.ts registers one plugin per kind.
import type { z } from 'zod';
import type { Access } from './access/keys.ts';
import type { ErrorKind } from './errors.ts';
import type { Contract, InputOf, OutputOf, Operation } from './operation.ts';
import type { Clock } from './runtime/clock.ts';
import type { Egress } from './runtime/egress/index.ts';
import type { Log } from './runtime/log.ts';
import type { Finding, Machine } from './runtime/machine.ts';
import type { Service } from './runtime/service.ts';
import type {
  JsonColumns,
  Migration,
  Problem,
  SearchIndex,
  Store,
  StoreReader,
} from './store/store.ts';
import type { EventFeed } from './jobs/events.ts';
import type { Jobs } from './jobs/jobs.ts';
import type { Kind } from './jobs/kind.ts';
import type { JobWaiter } from './jobs/wait.ts';
import type { Webhooks } from './webhooks/webhooks.ts';

export interface KindPlugin<S = unknown> {
  /** Name of the kind, and of its section in config.json. */
  name: string;
  /** Name of its folder in the home, if it differs from the kind's name. */
  folder?: string;
  /** Schema of the kind's section in config.json. Defaults apply if the section is missing. */
  settings?: z.ZodType<S>;
  errors?: Record<string, ErrorKind>;
  migrations?: readonly Migration[];
  /** Tables of its migrations that exist only for search. */
  searchIndexes?: readonly SearchIndex[];
  /** For `errand store check`: columns that contain JSON, and a check of derived values. */
  jsonColumns?: JsonColumns;
  check?(reader: StoreReader): Promise<Problem[]>;
  /** Job kinds without dispatch entries (`Kind.dispatched` is false). */
  undispatched?: readonly string[];
  /** For `errand doctor`: what this machine lacks to run its jobs. Changes nothing. */
  examine?(settings: S, machine: Machine): Finding[];
  create(deps: KindDeps<S>): KindParts | Promise<KindParts>;
}

export const folderName = ({ name, folder = name }: Pick<KindPlugin, 'name' | 'folder'>): string =>
  folder;

export interface KindParts {
  kind: Kind;
  operations: readonly Operation[];
  /** Started after the runner, stopped before it. */
  services?: readonly Service[];
  /** Whether work is pending although no job is queued or running (minimum workers, remote work). */
  busy?(): Promise<boolean>;
}

export interface KindDeps<S = unknown> {
  jobs: Jobs;
  feed: EventFeed;
  waiting: JobWaiter;
  store: Store;
  access: Access;
  webhooks: Webhooks;
  /** The only way to make network requests. */
  egress: Egress;
  clock: Clock;
  log: Log;
  settings: S;
  /** The id of this server, stable across restarts. */
  node: string;
  /** Folder of this kind in the home, created with mode 0700. */
  folder: string;
  home: string;
  /** A secret from the environment or the home's env file (mode 0600). Never stored or shown. */
  secret(name: string): string | undefined;
  /** A secret from the env file only, for names that callers choose: they must not read the server's environment. */
  homeSecret(name: string): string | undefined;
  /** The base URL of this server for local processes. Opens a loopback port if none is open, preferably `port`. */
  openBaseUrl(port?: number): Promise<string>;
  /** Calls an operation as the server itself. In a cluster the call goes to the node that has the job's files. */
  call<C extends Contract>(
    contract: C,
    input: InputOf<C>,
    signal?: AbortSignal,
  ): Promise<OutputOf<C>>;
  /** Signs text with HMAC and the secret of the home, for webhooks and links without a stored secret. */
  sign(purpose: string, text: string): string;
}

export function definePlugin<S>(plugin: KindPlugin<S>): KindPlugin {
  return plugin;
}
