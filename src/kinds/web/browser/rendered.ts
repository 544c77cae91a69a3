// Options and result of rendering one page.
import type { PageAction } from './page-action.ts';

export interface Rendered {
  html: string;
  url: string;
  /** Path of the screenshot, if requested. */
  screenshot?: string;
  ms: number;
  /** Description of failed actions. */
  failed?: string;
}

export interface RenderOptions {
  screenshot: boolean;
  actions?: readonly PageAction[];
  headers?: Record<string, string>;
  signal?: AbortSignal;
}
