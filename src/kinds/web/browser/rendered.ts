// What a crawl or a reader asks of the browser for one page, and what it gets.
import type { PageAction } from './actions.ts';

export interface Rendered {
  html: string;
  url: string;
  /** Path of the picture, if one was wanted. */
  screenshot?: string;
  ms: number;
  /** Actions that could not be done. */
  failed?: string;
}

export interface RenderWish {
  screenshot: boolean;
  actions?: readonly PageAction[];
  headers?: Record<string, string>;
  signal?: AbortSignal;
}
