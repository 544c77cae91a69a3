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
import {
  commandsOf,
  itemLine,
  type CallContext,
  type CliShape,
  type Operation,
  type Operations,
} from '../../operation.ts';
import { parseJson } from '../../runtime/json.ts';
import { drained, readBody } from '../../runtime/wire.ts';
import { inUnits } from './amounts.ts';
import { allowPrivateHeader } from './permission.ts';

export interface Catalog {
  version: string;
  operations: CatalogEntry[];
  /** What the codes mean that errors and ended jobs have, those of kinds among them; an older server does not say. */
  errors?: Record<string, ErrorKind>;
}

export type CatalogEntry = Pick<
  Operation,
  'name' | 'title' | 'description' | 'effect' | 'toolsets'
> & {
  /** An operation with several commands has an entry for each. */
  cli?: CliShape | undefined;
  input: Record<string, unknown>;
  streams: boolean;
  /** It starts a job, and what came of that can be asked for later. */
  startsJob?: boolean;
};

/** What a call answers: for scripts, for models, for people. */
export interface Answered<O = Record<string, unknown>> {
  /** The operation whose answer it is. */
  name: string;
  output: O;
  text?: string;
  shown?: string;
  isShort?: true;
  /** For a person this answer is an error. */
  failure?: { code: string; message: string; hint?: string };
  /** The job that goes on with it. */
  jobId?: string;
}

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
      const context = withPermission(request, mounted.context);
      if (mounted.search.includes('follow')) {
        mounted.becomeStream();
        await this.follow(response, { name, input, context });
      } else {
        const jobId = new URLSearchParams(mounted.search).get('job');
        if (jobId === null) await this.call(response, { name, input, context });
        else await this.later(response, jobId, context);
      }
    } catch (error) {
      fail(response, error);
    }
  }

  private list(response: ServerResponse): void {
    this.catalog ??= JSON.stringify({
      version: this.version,
      errors: Object.fromEntries(errorTable()),
      operations: this.operations.list().flatMap(entriesOf),
    } satisfies Catalog);
    response.writeHead(200, { 'content-type': 'application/json' }).end(this.catalog);
  }

  private async call(response: ServerResponse, call: Call): Promise<void> {
    const output = await this.operations.call(call.name, call.input, call.context);
    answer(response, this.operations.get(call.name), output);
  }

  private async later(
    response: ServerResponse,
    jobId: string,
    context: CallContext,
  ): Promise<void> {
    const { name, output } = await this.operations.later(jobId, context);
    answer(response, this.operations.get(name), output);
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

/** Only the owner at the private socket may say it; an agent's calls come another way and never carry it. */
function withPermission({ headers }: IncomingMessage, context: CallContext): CallContext {
  const { caller } = context;
  if (headers[allowPrivateHeader] !== '1') return context;
  if (caller?.local && caller.admin) return { ...context, allowPrivate: true };
  throw new AppError('forbidden', 'Only the owner on the machine of the server may allow this.', {
    hint: 'Leave out --allow-private, or add the address to egress.allow in config.json of the server.',
  });
}

/** One for each of its commands, with the input that is left to say. */
function entriesOf(operation: Operation): CatalogEntry[] {
  const { name, title, description, effect, toolsets, answerFor, stream } = operation;
  const input = z.toJSONSchema(operation.input, { io: 'input', unrepresentable: 'any' });
  const entry = {
    name,
    title,
    description,
    effect,
    ...(toolsets ? { toolsets } : {}),
    streams: stream !== undefined,
    ...(operation.startsJob && answerFor ? { startsJob: true } : {}),
  };
  const shapes = commandsOf(operation);
  if (shapes.length === 0) return [{ ...entry, input }];
  return shapes.map((cli) => {
    const left = withoutPreset(input, cli.preset ?? {});
    return { ...entry, cli, input: { ...inUnits(left, cli.units) } };
  });
}

function withoutPreset(
  schema: { properties?: Record<string, unknown>; required?: string[] },
  preset: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const { properties = {}, required = [] } = schema;
  const isLeft = (field: string) => !Object.hasOwn(preset, field);
  const left = Object.entries(properties).filter(([field]) => isLeft(field));
  return { ...schema, properties: Object.fromEntries(left), required: required.filter(isLeft) };
}

function answer(response: ServerResponse, operation: Operation, output: unknown): void {
  const shapes = commandsOf(operation);
  const told: Answered<unknown> = { name: operation.name, output };
  const text = operation.text?.(output);
  const shown = shapes.find((shape) => shape.text)?.text?.(output);
  const jobId = operation.startsJob?.(output);
  if (text !== undefined) told.text = text;
  if (shown !== undefined) told.shown = shown;
  if (jobId !== undefined) told.jobId = jobId;
  const failure = shapes.find((shape) => shape.failure)?.failure?.(output);
  if (failure !== undefined) told.failure = failure;
  if (shapes.some((shape) => shape.isShort?.(output))) told.isShort = true;
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(told));
}

interface Call {
  name: string;
  input: unknown;
  context: CallContext;
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  const body = await readBody(request, { bytesMax: bodyBytesMax });
  try {
    return body.length === 0 ? {} : parseJson(body.toString('utf8'));
  } catch (error) {
    if (error instanceof AppError) throw error;
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
