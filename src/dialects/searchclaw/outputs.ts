// Output schemas of the tools, by tool name. They list only the fields that a client acts on, because every client loads them.
// Fields are optional where a slow call returns its job instead of its result.
import { z } from 'zod';
import { byName } from '../../runtime/by-name.ts';

const text = z.string().optional();
const list = z.array(z.unknown()).optional();
/** `status` is `processing` while the job runs. */
const later = { job_id: text, status: text };
const anything = z.unknown().optional();

const rows = z.looseObject({ ...later, results: list });

export const outputs: Readonly<Record<string, z.ZodType>> = byName({
  search: rows,
  news: rows,
  images: rows,
  search_ai: z.looseObject({ ...later, context: text, sources: list }),
  suggest: z.looseObject({ suggestions: z.array(z.string()) }),
  extract: z.looseObject({ ...later, data: anything, missing: anything }),
  markdown: z.looseObject({ ...later, markdown: text, next_offset: z.number().optional() }),
  screenshot: z.looseObject({ ...later, path: text }),
  crawl: z.looseObject({ job_id: z.string(), status: z.string() }),
  job_status: z.looseObject({
    job_id: z.string(),
    status: z.enum(['queued', 'processing', 'completed', 'partial', 'failed']),
    data: anything,
    next_cursor: anything,
    error: anything,
  }),
  map: z.looseObject({ ...later, urls: list }),
  agent: z.looseObject({ ...later, data: anything, sources: list }),
  usage: z.looseObject({ credits_used: z.number(), credit_table: anything }),
});
