// Schemas of browser actions: what a caller may do on a page, and what a crawl may do before it reads one.
import { z } from 'zod';

const selector = z
  .string()
  .min(1)
  .max(1000)
  .describe('CSS selector, text=…, or ref=e12 from a snapshot');
const ms = z.number().int().min(0).max(30_000);

const navigate = z.strictObject({ type: z.literal('navigate'), url: z.string().max(2000) });
/** Actions that change the page without output. Crawls can run them on each page. */
const acting = [
  z.strictObject({ type: z.literal('wait'), selector: selector.optional(), ms: ms.optional() }),
  z.strictObject({ type: z.literal('click'), selector }),
  z.strictObject({ type: z.literal('fill'), selector, value: z.string().max(20_000) }),
  z.strictObject({
    type: z.literal('type'),
    selector: selector.optional(),
    text: z.string().max(20_000),
  }),
  z.strictObject({ type: z.literal('select'), selector, value: z.string().max(1000) }),
  z.strictObject({
    type: z.literal('scroll'),
    direction: z.enum(['down', 'up']).default('down'),
    amount: z.number().int().min(1).max(100_000).optional().describe('Pixels; default one screen'),
  }),
  z.strictObject({ type: z.literal('press'), key: z.string().max(50) }),
] as const;
const evaluate = z.strictObject({ type: z.literal('evaluate'), script: z.string().max(20_000) });

export const browseAction = z.discriminatedUnion('type', [
  navigate,
  ...acting,
  z.strictObject({ type: z.literal('screenshot'), fullPage: z.boolean().default(false) }),
  z.strictObject({
    type: z.literal('extract'),
    selector: selector.optional(),
    format: z.enum(['markdown', 'html', 'text']).default('markdown'),
  }),
  evaluate,
  z.strictObject({ type: z.literal('snapshot') }),
]);
export const pageAction = z.discriminatedUnion('type', [...acting, evaluate]);
export type PageAction = z.infer<typeof pageAction>;
export type BrowseAction = z.infer<typeof browseAction>;
