// The source of a front: everything is asked of the server behind the private socket, over one connection that is opened
// again when it breaks. What only reads is asked again; what changes something is not, and says so.
import { errorBody, type ErrorBody } from '../../errors.ts';
import type { Origin } from '../../operation.ts';
import { checkInput } from '../../runtime/input-limits.ts';
import { BrokenError, Connection } from './connection.ts';
import type { Method, Welcome } from './frames.ts';
import { instructions } from './instructions.ts';
import { jobTemplates } from './templates.ts';
import {
  errorAnswer,
  type Answer,
  type Catalog,
  type JsonObject,
  type Page,
  type ResourceCard,
  type ResourceContent,
  type ResourceTemplateCard,
  type Source,
  type SourceCall,
  type TaskState,
  type ToolCard,
} from './source.ts';

export interface RemoteSourceOptions {
  /** The path of the private socket of a running server; starts one if there is none, or throws why it cannot. */
  connect(): Promise<string>;
  version: string;
  toolsets: readonly string[];
  dialects: readonly string[];
  origin: Origin;
  /** The list of tools is another than before (a server of another version answers now). */
  onToolsChanged?(): void;
  onWelcome?(welcome: Welcome): void;
  /** There is no server to talk to, or it refused what was asked of it. */
  onRefused?(reason: ErrorBody): void;
}

const triesMax = 3;

export class RemoteSource implements Source {
  private readonly options: RemoteSourceOptions;
  private connection: Promise<Connection> | undefined;
  private opened: Connection | undefined;
  private listed: string | undefined;
  private ended = false;

  constructor(options: RemoteSourceOptions) {
    this.options = options;
  }

  /** Opens the connection ahead of the first call; a failure is told to whoever calls. */
  warm(): void {
    this.open().catch((error: unknown) => this.options.onRefused?.(errorBody(error)));
  }

  close(): void {
    this.ended = true;
    this.connection?.then((connection) => connection.close()).catch(() => {});
  }

  /** The open connection, if there is one now. */
  connected(): Connection | undefined {
    return this.opened;
  }

  async catalog(): Promise<Catalog> {
    try {
      const { welcome } = await this.open();
      return { ...welcome, unlisted: [startCard] };
    } catch (error) {
      const unreachable = errorBody(error);
      this.listed = 'none';
      const said = `${unreachable.message}\n\n${instructions}`;
      return { tools: [startCard], instructions: said, unreachable };
    }
  }

  async call(name: string, args: JsonObject, call: SourceCall): Promise<Answer> {
    try {
      checkInput(args);
      if (name === startCard.name) return await this.start();
      const { welcome } = await this.open();
      const card = welcome.tools.find((tool) => tool.name === name);
      return await this.ask<Answer>('call', [name, args], call, card ? isRepeatable(card) : true);
    } catch (error) {
      return errorAnswer(errorBody(error));
    }
  }

  async task(id: string, call: SourceCall): Promise<TaskState | undefined> {
    return (await this.ask<TaskState | null>('task', [id], call)) ?? undefined;
  }

  async settledTask(id: string, call: SourceCall): Promise<TaskState | undefined> {
    return (await this.ask<TaskState | null>('settledTask', [id], call)) ?? undefined;
  }

  async cancelTask(id: string, call: SourceCall): Promise<TaskState | undefined> {
    return (await this.ask<TaskState | null>('cancelTask', [id], call)) ?? undefined;
  }

  tasks(cursor: string | undefined, call: SourceCall): Promise<Page<TaskState>> {
    return this.ask('tasks', [cursor], call);
  }

  resources(cursor: string | undefined, call: SourceCall): Promise<Page<ResourceCard>> {
    return this.ask('resources', [cursor], call);
  }

  resourceTemplates(): ResourceTemplateCard[] {
    return jobTemplates;
  }

  async read(uri: string, call: SourceCall): Promise<ResourceContent[] | undefined> {
    return (await this.ask<ResourceContent[] | null>('read', [uri], call)) ?? undefined;
  }

  complete(
    template: string,
    argument: string,
    prefix: string,
    call: SourceCall,
  ): Promise<string[]> {
    return this.ask('complete', [template, argument, prefix], call);
  }

  /** Lives through a restart of the server; what changed meanwhile is told by one call more. */
  async watch(uri: string, changed: () => void, signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !this.ended) {
      try {
        await this.askOnce('watch', [uri], { signal, progress: changed });
        return;
      } catch (error) {
        if (!(error instanceof BrokenError)) return;
        changed();
      }
    }
  }

  private async ask<T>(
    method: Method,
    params: unknown[],
    call: SourceCall,
    repeatable = true,
  ): Promise<T> {
    for (let tried = 1; ; tried++) {
      try {
        return await this.askOnce<T>(method, params, call);
      } catch (error) {
        if (!(error instanceof BrokenError)) throw error;
        if (call.signal.aborted || this.ended || tried >= triesMax) throw error;
        if (!repeatable && error.sent) throw error;
      }
    }
  }

  private async askOnce<T>(method: Method, params: unknown[], call: SourceCall): Promise<T> {
    const connection = await this.open();
    return (await connection.ask(method, params, call)) as T;
  }

  /** The one open connection; concurrent callers share its opening. */
  private open(): Promise<Connection> {
    if (!this.connection) {
      const opening = this.openNew();
      this.connection = opening;
      opening.catch(() => (this.connection = undefined));
    }
    return this.connection;
  }

  /** A server may end between being found and being asked: that is tried again before anybody hears of it. */
  private async openNew(): Promise<Connection> {
    for (let tried = 1; ; tried++) {
      try {
        const connection = await this.greet(await Connection.open(await this.options.connect()));
        this.opened = connection;
        connection.onClose = () => {
          this.connection = undefined;
          this.opened = undefined;
        };
        this.noteTools(connection.welcome);
        return connection;
      } catch (error) {
        if (!(error instanceof BrokenError) || tried >= triesMax) throw error;
      }
    }
  }

  private async greet(connection: Connection): Promise<Connection> {
    const { version, toolsets, dialects, origin } = this.options;
    const hello = { version, toolsets, dialects, origin };
    const { signal } = new AbortController();
    try {
      connection.welcome = (await connection.ask('hello', [hello], { signal })) as Welcome;
      return connection;
    } catch (error) {
      connection.close();
      throw error;
    }
  }

  private noteTools(welcome: Welcome): void {
    const tools = JSON.stringify(welcome.tools);
    const changed = this.listed !== undefined && this.listed !== tools;
    this.listed = tools;
    if (changed) this.options.onToolsChanged?.();
    this.options.onWelcome?.(welcome);
  }

  private async start(): Promise<Answer> {
    const { welcome } = await this.open();
    const names = welcome.tools.map((tool) => tool.name).join(', ');
    return { text: `The Errand server runs now. Its tools: ${names}.` };
  }
}

/** Stands in for all tools while no server can be started, so that the reason reaches whoever asks. */
const startCard: ToolCard = {
  name: 'start_errand',
  title: 'Start the Errand server',
  description:
    'Tries again to start the Errand server, which could not be started, and says why if it still cannot. Use it after the ' +
    'cause was removed; the real tools (run_command, get_job …) are listed once it runs. Changes nothing else.',
  inputSchema: { type: 'object', properties: {} },
  annotations: {
    readOnlyHint: false,
    destructiveHint: false,
    idempotentHint: true,
    openWorldHint: false,
  },
};

const isRepeatable = (card: ToolCard): boolean =>
  card.annotations.readOnlyHint || card.annotations.idempotentHint;
