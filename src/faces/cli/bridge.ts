// The server's side of the command line: the operation list as JSON, and one way to call any of them by name.
// Mounted behind the HTTP face's own checks, so it serves the private socket and callers with a key alike.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import {
  AppError,
  errorBody,
  errorKind,
  errorTable,
  type ErrorBody,
  type ErrorKind,
} from '../../errors.ts';
import { itemLine, type CallContext, type Operation, type Operations } from '../../operation.ts';
import { drained, readBody } from '../../runtime/wire.ts';

export interface Catalog {
  version: string;
  operations: CatalogEntry[];
  /** What the codes mean that errors and ended jobs have, those of kinds among them; an older server does not say. */
  errors?: Record<string, ErrorKind>;
}

export type CatalogEntry = Pick<
  Operation,
  'name' | 'title' | 'description' | 'effect' | 'toolsets' | 'cli'
> & {
  input: Record<string, unknown>;
  streams: boolean;
};

const bodyBytesMax = 32 * 1024 * 1024;

export class Bridge {
  private readonly operations: Operations;
  private readonly version: string;
  private catalog: string | undefined;

  constructor(operations: Operations, version: string) {
    this.operations = operations;
    this.version = version;
  }

  /** `path`: what follows the mount, `/` or `/get_job`. */
  async handle(
    request: IncomingMessage,
    response: ServerResponse,
    mounted: { context: CallContext; path: string; search: string; becomeStream(): void },
  ): Promise<void> {
    try {
      if (request.method === 'GET' && mounted.path === '/') return this.list(response);
      if (request.method !== 'POST')
        throw new AppError('notFound', 'POST an operation by its name.');
      const name = mounted.path.slice(1);
      const input = await readJson(request);
      if (mounted.search.includes('follow')) {
        mounted.becomeStream();
        await this.follow(response, { name, input, context: mounted.context });
      } else await this.call(response, { name, input, context: mounted.context });
    } catch (error) {
      fail(response, error);
    }
  }

  private list(response: ServerResponse): void {
    this.catalog ??= JSON.stringify({
      version: this.version,
      errors: Object.fromEntries(errorTable()),
      operations: this.operations.list().map((operation) => ({
        name: operation.name,
        title: operation.title,
        description: operation.description,
        effect: operation.effect,
        ...(operation.toolsets ? { toolsets: operation.toolsets } : {}),
        cli: operation.cli,
        streams: operation.stream !== undefined,
        input: z.toJSONSchema(operation.input, { io: 'input', unrepresentable: 'any' }),
      })),
    } satisfies Catalog);
    response.writeHead(200, { 'content-type': 'application/json' }).end(this.catalog);
  }

  private async call(response: ServerResponse, call: Call): Promise<void> {
    const output = await this.operations.call(call.name, call.input, call.context);
    const text = this.operations.get(call.name).text?.(output);
    const body = JSON.stringify({ output, ...(text === undefined ? {} : { text }) });
    response.writeHead(200, { 'content-type': 'application/json' }).end(body);
  }

  /** One JSON line per item; an error after the first one is a last line of its own. */
  private async follow(response: ServerResponse, call: Call): Promise<void> {
    const items = this.operations.stream(call.name, call.input, call.context);
    let open = false;
    try {
      for await (const item of items) {
        if (!open) response.writeHead(200, { 'content-type': 'application/x-ndjson' });
        open = true;
        response.write(itemLine(item));
        if (!(await drained(response)) || call.context.signal.aborted) break;
      }
      if (!open) response.writeHead(200, { 'content-type': 'application/x-ndjson' });
      response.end();
    } catch (error) {
      if (!open) throw error;
      response.end(`${JSON.stringify(errorAnswer(error))}\n`);
    }
  }
}

interface Call {
  name: string;
  input: unknown;
  context: CallContext;
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  const body = await readBody(request, { bytesMax: bodyBytesMax });
  try {
    return body.length === 0 ? {} : JSON.parse(body.toString('utf8'));
  } catch (error) {
    throw new AppError('invalidInput', 'The body is not JSON.', { cause: error });
  }
}

function fail(response: ServerResponse, error: unknown): void {
  if (response.headersSent) return void response.end();
  const answer = errorAnswer(error);
  response
    .writeHead(answer.errorKind.http, { 'content-type': 'application/json' })
    .end(JSON.stringify(answer));
}

/** With what the code means: the command line knows no kinds, and their codes have exit codes, too. */
function errorAnswer(error: unknown): { error: ErrorBody; errorKind: ErrorKind } {
  const body = errorBody(error);
  return { error: body, errorKind: errorKind(body.code) };
}
