// What a dialect is: another system's names and shapes over our operations. Tables plus pure translators; state only
// through operations. One system's HTTP routes and MCP tools live together in one folder.
import type { z } from 'zod';
import type { Caller, CallContext, Operations } from './operation.ts';

export interface Dialect {
  name: string;
  tools?: DialectTool[];
  /** Server instructions for MCP clients that use this dialect. */
  instructions?: string;
  routes?: DialectRoute[];
  errors?: DialectErrors;
}

/**
 * The form of every error below a path: what its routes throw, and what goes wrong before one is reached (a wrong key, a
 * body too large, a rate, an unknown path). Headers that say when to come again are added for it.
 */
export interface DialectErrors {
  /** `/v2`: that path and all below it. */
  prefix: string;
  answer(error: unknown, path: string): DialectResponse;
}

/** A tool under its foreign name. It answers exactly what that system's tool answers. */
export interface DialectTool {
  name: string;
  title: string;
  description: string;
  effect: 'read' | 'write' | 'destroy';
  idempotent?: boolean;
  openWorld?: boolean;
  input: z.ZodType;
  output?: z.ZodType;
  run(input: unknown, call: DialectCall): Promise<DialectAnswer>;
  /** How that system's tool says that the input is wrong; without it the error is told in our form. */
  refused?(error: unknown): DialectAnswer;
}

export interface DialectAnswer {
  structured?: unknown;
  /** Defaults to the JSON of `structured`. */
  text?: string;
  content?: { type: 'image'; data: string; mimeType: string }[];
  isError?: boolean;
}

/** How a dialect reaches the rest: operations by name, in the caller's name. */
export interface DialectCall {
  operations: Pick<Operations, 'call' | 'stream' | 'find'>;
  context: CallContext;
}

export interface DialectRoute {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** `/v2/{endpointId}/run`; a last segment `{rest*}` takes what remains. */
  path: string;
  /** `none`: answers without a key (what it may tell is up to it); `key`: only with a valid one. */
  auth: 'none' | 'key';
  bodyBytesMax?: number;
  /** It may hold the request (a long poll): when the server stops, its signal aborts at once and it answers what it has. */
  waits?: boolean;
  handle(request: DialectRequest, call: DialectCall): Promise<DialectResponse>;
  /** The same path as a WebSocket: each item is one JSON message, and the end closes it. The key may be its sub-protocol. */
  watch?(request: DialectRequest, call: DialectCall): AsyncIterable<unknown>;
}

export interface DialectRequest {
  method: string;
  path: string;
  params: Record<string, string>;
  query: URLSearchParams;
  headers: Record<string, string | string[] | undefined>;
  /** The raw body; `json()` parses it and fails with a clear invalidInput. */
  body: Buffer;
  json(): unknown;
  caller: Caller | undefined;
  remoteAddress: string;
  /** Base URL as the client sees it, for links in answers. */
  baseUrl: string;
  /** Absent: nothing limits how often this caller may call. */
  rate?: CallRate;
}

/** How often the caller may call, and how often at once now. */
export interface CallRate {
  perSecond: number;
  burst: number;
  left: number;
}

export interface DialectResponse {
  status: number;
  headers?: Record<string, string>;
  /** An object is sent as JSON; a string or Buffer as it is. */
  body?: unknown;
  /** Instead of a body: chunks as they come. */
  stream?: AsyncIterable<string | Uint8Array>;
}
