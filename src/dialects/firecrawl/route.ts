// What a route of this dialect gets and returns.
import type { DialectCall, DialectRoute } from '../../dialect.ts';
import type { Fields } from './translate.ts';

export interface Asked {
  call: DialectCall;
  input: Fields;
  params: Record<string, string>;
  query: URLSearchParams;
  /** The idempotency key of the request header. */
  idempotencyKey?: string;
  /** Base URL of this API version as the client sees it. */
  base: string;
  /** A watcher gets every document, then the end. */
  toEnd?: boolean;
}
export type Api = (asked: Asked) => Promise<Fields>;
export type Watch = (asked: Asked) => AsyncGenerator<Fields, string | void>;
export type Route = [method: DialectRoute['method'], path: string, api: Api, watch?: Watch];
