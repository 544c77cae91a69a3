// Serves `/internal/operations` for the command line: lists the operations and calls them by name. The HTTP interface
// authenticates requests first, so the route works on the private socket and with a key.
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
import { parseJson, utf8Text } from '../../runtime/json.ts';
import { waitForDrain, readBody } from '../../runtime/wire.ts';
import { describeUnits } from './amounts.ts';
import { allowPrivateHeader } from './allow-private.ts';

export interface Catalog {
  version: string;
  operations: CatalogEntry[];
  /** Meaning of every error code, including those of kinds. Older servers do not send it. */
  errors?: Record<string, ErrorKind>;
}

export type CatalogEntry = Pick<
  Operation,
  'name' | 'title' | 'description' | 'effect' | 'toolsets'
> & {
  /** An operation with several commands has one entry per command. */
  cli?: CliShape | undefined;
  input: Record<string, unknown>;
  streams: boolean;
  /** Whether it starts a job whose result can be requested later. */
  startsJob?: boolean;
};

/** The result of a call: output for scripts, text for models, and text for people. */
export interface CallResponse<O = Record<string, unknown>> {
  /** The operation that returned the output. */
  name: string;
  output: O;
  text?: string;
  shown?: string;
  isShort?: true;
  /** Set when the command line reports this result as an error. */
  failure?: { code: string; message: string; hint?: string };
  /** The job that was started. */
  jobId?: string;
}

const maxBodyBytes = 32 * 1024 * 1024;

export class OperationsRoute {
  private readonly operations: Operations;
  private readonly version: string;
  private catalog: Catalog | undefined;

  constructor(operations: Operations, version: string) {
    this.operations = operations;
    this.version = version;
  }

  /** `path` is relative to the mount point: `/` or `/get_job`. */
  async handle(
    request: IncomingMessage,
    response: ServerResponse,
    mounted: { context: CallContext; path: string; search: string; becomeStream(): void },
  ): Promise<void> {
    try {
      if (request.method === 'GET' && mounted.path === '/')
        return this.list(response, mounted.search);
      if (request.method !== 'POST')
        throw new AppError('notFound', 'Send POST /internal/operations/<name>.');
      const name = mounted.path.slice(1);
      const input = await readJson(request);
      const context = withPermission(request, mounted.context);
      if (mounted.search.includes('follow')) {
        mounted.becomeStream();
        await this.follow(response, { name, input, context });
      } else {
        const jobId = new URLSearchParams(mounted.search).get('job');
        if (jobId === null) await this.call(response, { name, input, context });
        else await this.sendJobResult(response, jobId, context);
      }
    } catch (error) {
      fail(response, error);
    }
  }

  private list(response: ServerResponse, search: string): void {
    this.catalog ??= {
      version: this.version,
      errors: Object.fromEntries(errorTable()),
      operations: this.operations.list().flatMap(toCatalogEntries),
    };
    const word = new URLSearchParams(search).get('command');
    const operations = this.catalog.operations.map((entry) =>
      word === null || entry.cli?.words[0] === word ? entry : toNameOnly(entry),
    );
    const body = JSON.stringify({ ...this.catalog, operations });
    response.writeHead(200, { 'content-type': 'application/json' }).end(body);
  }

  private async call(response: ServerResponse, call: Call): Promise<void> {
    const output = await this.operations.call(call.name, call.input, call.context);
    sendResponse(response, this.operations.get(call.name), output);
  }

  private async sendJobResult(
    response: ServerResponse,
    jobId: string,
    context: CallContext,
  ): Promise<void> {
    const { name, output } = await this.operations.later(jobId, context);
    sendResponse(response, this.operations.get(name), output);
  }

  /** Writes one JSON line per item. An error after the first item is the last line. */
  private async follow(response: ServerResponse, call: Call): Promise<void> {
    const items = this.operations.stream(call.name, call.input, call.context);
    let open = false;
    try {
      for await (const item of items) {
        if (!open) response.writeHead(200, { 'content-type': 'application/x-ndjson' });
        open = true;
        response.write(itemLine(item));
        if (!(await waitForDrain(response)) || call.context.signal.aborted) break;
      }
      if (!open) response.writeHead(200, { 'content-type': 'application/x-ndjson' });
      response.end();
    } catch (error) {
      if (!open) throw error;
      response.end(`${JSON.stringify(errorResponse(error))}\n`);
    }
  }
}

/** Only the owner on the private socket may set this header. Calls of agents use other routes and never carry it. */
function withPermission({ headers }: IncomingMessage, context: CallContext): CallContext {
  const { caller } = context;
  if (headers[allowPrivateHeader] !== '1') return context;
  if (caller?.local && caller.admin) return { ...context, allowPrivate: true };
  throw new AppError(
    'forbidden',
    'Only the owner can allow private addresses, on the machine of the server.',
    {
      hint: 'Remove --allow-private, or add the address to `egress.allow` in config.json on the server.',
    },
  );
}

/** Keeps what is needed to replace operation names in hints with commands. */
function toNameOnly({ name, title, cli, effect, streams }: CatalogEntry): CatalogEntry {
  const shape = cli && { cli: { words: cli.words, ...(cli.custom ? { custom: true } : {}) } };
  return { name, title, description: '', effect, streams, input: {}, ...shape };
}

/** Creates one entry per command; fields that the command presets are not part of its input. */
function toCatalogEntries(operation: Operation): CatalogEntry[] {
  const { name, title, description, effect, toolsets, outputFor, stream } = operation;
  const input = z.toJSONSchema(operation.input, { io: 'input', unrepresentable: 'any' });
  const entry = {
    name,
    title,
    description,
    effect,
    ...(toolsets ? { toolsets } : {}),
    streams: stream !== undefined,
    ...(operation.startsJob && outputFor ? { startsJob: true } : {}),
  };
  const shapes = commandsOf(operation);
  if (shapes.length === 0) return [{ ...entry, input }];
  return shapes.map((cli) => {
    const openFields = withoutPreset(input, cli.preset ?? {});
    return { ...entry, cli, input: { ...describeUnits(openFields, cli.units) } };
  });
}

function withoutPreset(
  schema: { properties?: Record<string, unknown>; required?: string[] },
  preset: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const { properties = {}, required = [] } = schema;
  const isOpen = (field: string) => !Object.hasOwn(preset, field);
  const openFields = Object.entries(properties).filter(([field]) => isOpen(field));
  return {
    ...schema,
    properties: Object.fromEntries(openFields),
    required: required.filter(isOpen),
  };
}

function sendResponse(response: ServerResponse, operation: Operation, output: unknown): void {
  const shapes = commandsOf(operation);
  const body: CallResponse<unknown> = { name: operation.name, output };
  const text = operation.text?.(output);
  const shown = shapes.find((shape) => shape.text)?.text?.(output);
  const jobId = operation.startsJob?.(output);
  if (text !== undefined) body.text = text;
  if (shown !== undefined) body.shown = shown;
  if (jobId !== undefined) body.jobId = jobId;
  const failure = shapes.find((shape) => shape.failure)?.failure?.(output);
  if (failure !== undefined) body.failure = failure;
  if (shapes.some((shape) => shape.isShort?.(output))) body.isShort = true;
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

interface Call {
  name: string;
  input: unknown;
  context: CallContext;
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  const body = await readBody(request, { maxBytes: maxBodyBytes });
  try {
    return body.length === 0 ? {} : parseJson(utf8Text(body));
  } catch (error) {
    if (error instanceof AppError) throw error;
    throw new AppError('invalidInput', 'The request body is not valid JSON.', { cause: error });
  }
}

function fail(response: ServerResponse, error: unknown): void {
  if (response.headersSent) return void response.end();
  const sendResponse = errorResponse(error);
  response
    .writeHead(sendResponse.errorKind.http, { 'content-type': 'application/json' })
    .end(JSON.stringify(sendResponse));
}

/** Includes the error kind: the command line does not load kinds and cannot know their exit codes. */
function errorResponse(error: unknown): { error: ErrorBody; errorKind: ErrorKind } {
  const body = errorBody(error);
  return { error: body, errorKind: errorKind(body.code) };
}
