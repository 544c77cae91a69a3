// The source of a bridge: forwards every request to the server over one private-socket connection and reconnects when the
// connection is lost. Read-only requests are repeated. Requests with side effects are not: they fail with an explanation.
import { errorBody, type ErrorBody } from '../../errors.ts';
import type { Origin } from '../../operation.ts';
import { checkInput } from '../../runtime/input-limits.ts';
import { ConnectionLostError, Connection } from './connection.ts';
import type { Method, Welcome } from './bridge-protocol.ts';
import { instructions } from './instructions.ts';
import { jobTemplates } from './templates.ts';
import {
  errorResult,
  type ToolResult,
  type Catalog,
  type JsonObject,
  type Page,
  type ResourceDefinition,
  type ResourceContent,
  type ResourceTemplate,
  type Source,
  type SourceCall,
  type TaskState,
  type ToolDefinition,
} from './source.ts';

interface RemoteSourceOptions {
  /** Returns the private socket path of a running server. Starts a server if none runs; throws the reason if that fails. */
  connect(): Promise<string>;
  version: string;
  toolsets: readonly string[];
  dialects: readonly string[];
  origin: Origin;
  /** Called when the tool list changed, because a server with another version responds now. */
  onToolsChanged?(): void;
  onWelcome?(welcome: Welcome): void;
  /** Called when no server is reachable, or when it rejected the selection of toolsets and dialects. */
  onConnectFailed?(reason: ErrorBody): void;
}

const maxTries = 3;

export class RemoteSource implements Source {
  private readonly options: RemoteSourceOptions;
  private connection: Promise<Connection> | undefined;
  private opened: Connection | undefined;
  private listed: string | undefined;
  private ended = false;

  constructor(options: RemoteSourceOptions) {
    this.options = options;
  }

  /** Opens the connection before the first call. Calls report a failure themselves. */
  connectEarly(): void {
    this.open().catch((error: unknown) => this.options.onConnectFailed?.(errorBody(error)));
  }

  close(): void {
    this.ended = true;
    this.connection?.then((connection) => connection.close()).catch(() => {});
  }

  /** The open connection, if any. */
  connected(): Connection | undefined {
    return this.opened;
  }

  async catalog(): Promise<Catalog> {
    try {
      const { welcome } = await this.open();
      return { ...welcome, unlisted: [startTool] };
    } catch (error) {
      const unreachable = errorBody(error);
      this.listed = 'none';
      const text = `${unreachable.message}\n\n${instructions}`;
      return { tools: [startTool], instructions: text, unreachable };
    }
  }

  async call(name: string, args: JsonObject, call: SourceCall): Promise<ToolResult> {
    try {
      checkInput(args);
      if (name === startTool.name) return await this.start();
      const { welcome } = await this.open();
      const definition = welcome.tools.find((tool) => tool.name === name);
      return await this.request<ToolResult>(
        'call',
        [name, args],
        call,
        definition ? isRepeatable(definition) : true,
      );
    } catch (error) {
      return errorResult(errorBody(error));
    }
  }

  async task(id: string, call: SourceCall): Promise<TaskState | undefined> {
    return (await this.request<TaskState | null>('task', [id], call)) ?? undefined;
  }

  async settledTask(id: string, call: SourceCall): Promise<TaskState | undefined> {
    return (await this.request<TaskState | null>('settledTask', [id], call)) ?? undefined;
  }

  async cancelTask(id: string, call: SourceCall): Promise<TaskState | undefined> {
    return (await this.request<TaskState | null>('cancelTask', [id], call)) ?? undefined;
  }

  tasks(cursor: string | undefined, call: SourceCall): Promise<Page<TaskState>> {
    return this.request('tasks', [cursor], call);
  }

  resources(cursor: string | undefined, call: SourceCall): Promise<Page<ResourceDefinition>> {
    return this.request('resources', [cursor], call);
  }

  resourceTemplates(): ResourceTemplate[] {
    return jobTemplates;
  }

  async read(uri: string, call: SourceCall): Promise<ResourceContent[] | undefined> {
    return (await this.request<ResourceContent[] | null>('read', [uri], call)) ?? undefined;
  }

  complete(
    template: string,
    argument: string,
    prefix: string,
    call: SourceCall,
  ): Promise<string[]> {
    return this.request('complete', [template, argument, prefix], call);
  }

  /** Survives server restarts. One extra call of `changed` covers changes made in between. */
  async watch(uri: string, changed: () => void, signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !this.ended) {
      try {
        await this.requestOnce('watch', [uri], { signal, progress: changed });
        return;
      } catch (error) {
        if (!(error instanceof ConnectionLostError)) return;
        changed();
      }
    }
  }

  private async request<T>(
    method: Method,
    params: unknown[],
    call: SourceCall,
    repeatable = true,
  ): Promise<T> {
    for (let tried = 1; ; tried++) {
      try {
        return await this.requestOnce<T>(method, params, call);
      } catch (error) {
        if (!(error instanceof ConnectionLostError)) throw error;
        if (call.signal.aborted || this.ended || tried >= maxTries) throw error;
        if (!repeatable && error.sent) throw error;
      }
    }
  }

  private async requestOnce<T>(method: Method, params: unknown[], call: SourceCall): Promise<T> {
    const connection = await this.open();
    return (await connection.request(method, params, call)) as T;
  }

  /** Returns the open connection; concurrent callers share one attempt to open it. */
  private open(): Promise<Connection> {
    if (!this.connection) {
      const opening = this.openNew();
      this.connection = opening;
      opening.catch(() => (this.connection = undefined));
    }
    return this.connection;
  }

  /** A server may stop between being found and being called, so opening is retried before the error is reported. */
  private async openNew(): Promise<Connection> {
    for (let tried = 1; ; tried++) {
      try {
        const connection = await this.sendHello(
          await Connection.open(await this.options.connect()),
        );
        this.opened = connection;
        connection.onClose = () => {
          this.connection = undefined;
          this.opened = undefined;
        };
        this.recordTools(connection.welcome);
        return connection;
      } catch (error) {
        if (!(error instanceof ConnectionLostError) || tried >= maxTries) throw error;
      }
    }
  }

  private async sendHello(connection: Connection): Promise<Connection> {
    const { version, toolsets, dialects, origin } = this.options;
    const hello = { version, toolsets, dialects, origin };
    const { signal } = new AbortController();
    try {
      connection.welcome = (await connection.request('hello', [hello], { signal })) as Welcome;
      return connection;
    } catch (error) {
      connection.close();
      throw error;
    }
  }

  private recordTools(welcome: Welcome): void {
    const tools = JSON.stringify(welcome.tools);
    const changed = this.listed !== undefined && this.listed !== tools;
    this.listed = tools;
    if (changed) this.options.onToolsChanged?.();
    this.options.onWelcome?.(welcome);
  }

  private async start(): Promise<ToolResult> {
    const { welcome } = await this.open();
    const names = welcome.tools.map((tool) => tool.name).join(', ');
    return { text: `The Errand server is running. Its tools: ${names}.` };
  }
}

/** Listed instead of all other tools while no server can be started, so that clients can read the reason. */
const startTool: ToolDefinition = {
  name: 'start_errand',
  title: 'Start the Errand server',
  description:
    'Retries starting the Errand server after it failed to start, and returns the reason if it fails again. Call it after ' +
    'fixing the cause. The real tools (run_command, get_job …) are listed once the server runs. Changes nothing else.',
  inputSchema: { type: 'object', properties: {} },
  annotations: {
    readOnlyHint: false,
    destructiveHint: false,
    idempotentHint: true,
    openWorldHint: false,
  },
};

const isRepeatable = (definition: ToolDefinition): boolean =>
  definition.annotations.readOnlyHint || definition.annotations.idempotentHint === true;
