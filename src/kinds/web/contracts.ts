// Contracts of the web operations that dialects call.
import { z } from 'zod';
import { defineContract, type Contract } from '../../contract.ts';
import { jobId, labelList, waitField } from '../../contracts/jobs.ts';
import { crawlOptions, webhook } from './crawl/options.ts';
import { actionInputs, type Action } from './jobs/inputs.ts';
import { bodyFields } from './store/pages.ts';
import { urlOutcomes } from './store/rows.ts';

const waitMs = waitField('Return the id of a job that runs longer').default(45_000);

const common = {
  name: z.string().max(200).optional().describe('Job name'),
  tags: z.array(z.string().max(100)).max(20).optional().describe('Tags to find the job by'),
  idempotencyKey: z.string().max(200).optional().describe('Calls with the same key start one job'),
  webhook: webhook
    .optional()
    .describe('Receives events by POST. The secret and headers are not stored with the job'),
  labels: labelList.optional().describe('Cluster only: labels of the node to run on'),
};

/** The result when the job has ended, otherwise how to follow it. */
export type JobResponse = { id: string; status: string; next?: string | undefined } & Record<
  string,
  unknown
>;
const jobResponse: z.ZodType<JobResponse> = z.looseObject({
  id: z.string(),
  status: z.string().describe('completed, or running: follow the job'),
  next: z.string().optional(),
});

/** The contract of an operation that runs one job and waits for it. */
function jobContract<const N extends string>(
  name: N,
  action: Action,
  more: z.ZodRawShape = { idempotencyKey: common.idempotencyKey },
): Contract<N, z.ZodObject, z.ZodType<JobResponse>> {
  const input = (actionInputs[action] as z.ZodObject).extend({ ...more, waitMs });
  return defineContract({ name, input, output: jobResponse });
}

export const readPage = jobContract('read_page', 'markdown');
export const mapSite = jobContract('map_site', 'map');
export const extractData = jobContract('extract_data', 'extract', common);
export const takeScreenshot = jobContract('take_screenshot', 'screenshot', common);
export const browsePage = jobContract('browse_page', 'browse');
export const webSearch = jobContract('web_search', 'search');
export const runPipeline = jobContract('run_pipeline', 'pipeline', common);
export const runAgent = jobContract('run_agent', 'agent', common);

export const crawlSite = defineContract({
  name: 'crawl_site',
  input: crawlOptions.extend(common),
  output: z.looseObject({ id: z.string(), status: z.string(), next: z.string() }),
});

export const maxJsonBytes = 1_000_000;
const bytesDefault = 20_000;
export const pageView = z.looseObject({
  n: z.number(),
  url: z.string(),
  outcome: z.enum(urlOutcomes),
});
export const offset = z
  .number()
  .int()
  .min(0)
  .optional()
  .describe('nextOffset of the previous response, to continue a long page');

export const readPages = defineContract({
  name: 'read_pages',
  input: z.strictObject({
    id: jobId.describe('Job id of the crawl'),
    fields: z
      .array(z.enum(bodyFields as [string, ...string[]]))
      .default([])
      .describe('Content to include with each page; default: only the list'),
    outcomes: z
      .array(z.enum(urlOutcomes))
      .optional()
      .describe('Only URLs with these outcomes; default: fetched, unchanged'),
    fates: z.array(z.enum(urlOutcomes)).optional().describe('Former name of `outcomes`'),
    change: z
      .enum(['new', 'same', 'changed', 'removed'])
      .optional()
      .describe('Only pages with this change, for a crawl with compareWith'),
    url: z.string().max(2000).optional().describe('Only the page with this URL'),
    offset,
    cursor: z
      .string()
      .max(40)
      .optional()
      .describe('nextCursor or laterCursor of an earlier response'),
    limit: z.number().int().min(1).max(500).default(50).describe('Pages per response'),
    maxBytes: z
      .number()
      .int()
      .min(500)
      .max(maxJsonBytes)
      .default(bytesDefault)
      .describe('Maximum bytes per response'),
  }),
  output: z.object({
    pages: z.array(pageView),
    nextCursor: z.string().optional().describe('Cursor of the next page; absent at the end'),
    laterCursor: z
      .string()
      .optional()
      .describe('While the crawl runs: cursor for pages that arrive later'),
    more: z.boolean().describe('More pages exist (nextCursor), or may arrive later (laterCursor)'),
    notice: z.string().optional(),
  }),
});

export const webUsage = defineContract({
  name: 'web_usage',
  input: z.strictObject({
    from: z.iso.date().optional().describe('Default: first day of this month'),
    to: z.iso.date().optional().describe('Default: today'),
    by: z.enum(['day', 'hour']).default('day').describe('hour: `day` contains the hour (UTC)'),
  }),
  output: z.object({
    period: z.string(),
    creditsUsed: z.number(),
    budgets: z.array(
      z.object({
        period: z.string(),
        limit: z.number(),
        used: z.number(),
        remaining: z.number(),
      }),
    ),
    rows: z.array(
      z.looseObject({
        day: z.string(),
        action: z.string(),
        credits: z.number(),
        calls: z.number(),
      }),
    ),
    creditTable: z.record(
      z.string(),
      z.object({ credits: z.number(), note: z.string().optional() }),
    ),
  }),
});

export const readPicture = defineContract({
  name: 'read_picture',
  input: z.strictObject({
    id: jobId,
    file: z.string().regex(/^\w{1,60}\.(jpg|png)$/, 'not a picture file name'),
  }),
  output: z.object({ mimeType: z.string(), data: z.string() }),
});
