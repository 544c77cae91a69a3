// Defines a dialect: another system's API on top of our operations. It consists of tables and pure translators and keeps no
// state. The HTTP routes and MCP tools of one system are in one folder.
import type { z } from 'zod';
import type { Caller, CallContext, Contract, InputOf, OutputOf, Operations } from './operation.ts';
import type { WebhookFormat } from './contracts/webhooks.ts';

export interface Dialect {
  name: string;
  tools?: DialectTool[];
  /** Server instructions for MCP clients that use this dialect. */
  instructions?: string;
  routes?: DialectRoute[];
  /** OpenAPI documentation per route, keyed by `METHOD /path`. */
  routeDocs?: Readonly<Record<string, RouteDoc>>;
  errors?: DialectErrors;
  /** Webhook bodies in the format of the other system. */
  webhooks?: readonly WebhookFormat[];
}

/**
 * Formats every error below a path: those its routes throw, and those that occur before a route is reached (a wrong key, a body
 * that is too large, a rate limit, an unknown path). `Retry-After` headers are added to it.
 */
interface DialectErrors {
  /** `/v2` covers this path and everything below it. */
  prefix: string;
  toResponse(error: unknown, path: string): DialectResponse;
}

/** An MCP tool with its foreign name. It returns exactly what the other system's tool returns. */
export interface DialectTool {
  name: string;
  title: string;
  description: string;
  effect: 'read' | 'write' | 'destroy';
  idempotent?: boolean;
  openWorld?: boolean;
  /** Scope that a key needs to see it: by default `read` for tools that only read, otherwise `run`. */
  scope?: 'read' | 'run';
  /** Clients that search for tools load it without a search. */
  alwaysLoad?: true;
  input: z.ZodType;
  output?: z.ZodType;
  /** The response has a cursor and observes `maxResponseBytes`, or must be complete. It is never shortened. */
  pages?: true;
  run(input: unknown, call: DialectCall): Promise<DialectResult>;
  /** Converts arguments the way the other system does before it validates them. */
  prepare?(args: unknown): unknown;
  /** Formats an input error the way the other system does. Without it, our own format is used. */
  refused?(error: unknown, issues: z.ZodError): DialectResult;
}

export interface DialectResult {
  structured?: unknown;
  /** Defaults to the JSON of `structured`. */
  text?: string;
  content?: { type: 'image'; data: string; mimeType: string }[];
  isError?: boolean;
}

/** The same call without a byte limit, for a dialect that collects everything first and shortens its response itself. */
export function unbudgeted({ context, ...call }: DialectCall): DialectCall {
  const { maxResponseBytes: _, ...whole } = context;
  return { ...call, context: whole };
}

/** Calls an operation for the caller of a dialect. */
export function callOperation<C extends Contract>(
  { operations, context }: DialectCall,
  contract: C,
  input: InputOf<C>,
): Promise<OutputOf<C>> {
  return operations.call(contract, input, context);
}

/** The same with the input of a foreign caller. The operation validates it, and its errors name the wrong fields. */
export function callUnchecked<C extends Contract>(
  { operations, context }: DialectCall,
  contract: C,
  input: object,
): Promise<OutputOf<C>> {
  return operations.call(contract, input as InputOf<C>, context);
}

/** Gives a dialect access to operations on behalf of the caller. */
export interface DialectCall {
  operations: Pick<Operations, 'call' | 'stream' | 'find'>;
  context: CallContext;
  /** Where this server's HTTP is, for links in the results of tools. Absent if it listens only on its private socket. */
  baseUrl?: string | undefined;
}

export interface DialectRoute {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** For example `/v2/{endpointId}/run`. A last segment `{rest*}` matches the remaining path. */
  path: string;
  /** `none`: no key is needed, and the route decides what to return. `key`: a valid key is required. */
  auth: 'none' | 'key';
  maxBodyBytes?: number;
  /** A long poll. When the server stops, its signal is aborted immediately and it responds with what it has. */
  waits?: boolean;
  handle(request: DialectRequest, call: DialectCall): Promise<DialectResponse>;
  /**
   * Serves the path as a WebSocket. Each item is sent as one JSON message. The return value is the close reason. The key may be
   * sent as a sub-protocol.
   */
  watch?(request: DialectRequest, call: DialectCall): AsyncGenerator<unknown, string | void>;
}

/** JSON Schema. */
type JsonSchema = Readonly<Record<string, unknown>>;

export interface RouteDoc {
  summary: string;
  /** Success status, 200 by default. 204 has no response schema. */
  status?: number;
  /** Schema of the request body. */
  body?: JsonSchema;
  query?: readonly string[];
  /** Schema of a successful response. */
  response?: JsonSchema;
  /** Called by workers and remotes, not by clients: listed in the internal OpenAPI document. */
  isInternal?: true;
}

export interface DialectRequest {
  method: string;
  path: string;
  params: Record<string, string>;
  query: URLSearchParams;
  headers: Record<string, string | string[] | undefined>;
  /** The raw body. `json()` parses it and throws `invalidInput` if it is not JSON. */
  body: Buffer;
  json(): unknown;
  caller: Caller | undefined;
  remoteAddress: string;
  /** Base URL as the client sees it, for links in responses. */
  baseUrl: string;
  /** The caller's rate limit. Undefined if there is none. */
  rate?: CallRate;
}

/** A token bucket: the rate, its size, and the calls that are left now. */
export interface CallRate {
  perSecond: number;
  burst: number;
  left: number;
}

export interface DialectResponse {
  status: number;
  headers?: Record<string, string>;
  /** An object is sent as JSON, a string or Buffer unchanged. */
  body?: unknown;
  /** Streams chunks instead of a body. */
  stream?: AsyncIterable<string | Uint8Array>;
}
