// Settings of the web kind (section `web` of config.json): limits, manners, engines, budgets.
import { z } from 'zod';
import { labelList } from '../../jobs/labels.ts';
import { searchSettings } from './search/settings.ts';

const mebibyte = 1024 * 1024;

export const webSettings = z
  .strictObject({
    userAgent: z
      .string()
      .default('Errand/0.1 (+https://www.npmjs.com/package/errand)')
      .describe('Sent with every request; the first word is the robots.txt token'),
    jobsMax: z.number().int().min(1).default(50).describe('Web jobs at once on this node'),
    labels: labelList
      .default([])
      .describe('In a cluster: labels of the nodes for web jobs that name none, e.g. browser'),
    concurrency: z
      .number()
      .int()
      .min(1)
      .max(200)
      .default(20)
      .describe('Requests at once per crawl'),
    hostConcurrency: z
      .number()
      .int()
      .min(1)
      .max(100)
      .default(2)
      .describe('Requests at once to one foreign host'),
    delayMs: z
      .number()
      .int()
      .min(0)
      .default(1000)
      .describe('Pause between requests to one foreign host'),
    crawlDelayMsMax: z
      .number()
      .int()
      .min(0)
      .default(60_000)
      .describe('A longer Crawl-delay is clamped to this, and said'),
    bodyBytesMax: z
      .number()
      .int()
      .min(1024)
      .default(20 * mebibyte)
      .describe('Longer bodies (unpacked) are given up'),
    redirectsMax: z.number().int().min(0).default(10).describe('Redirects of one page'),
    triesMax: z
      .number()
      .int()
      .min(1)
      .default(4)
      .describe('Requests per page when the site fails for a while'),
    backoffMs: z
      .number()
      .int()
      .min(1)
      .default(1000)
      .describe('First pause after a failure, then doubled'),
    retryAfterMsMax: z
      .number()
      .int()
      .min(0)
      .default(600_000)
      .describe('A longer Retry-After ends the page'),
    breakerFailures: z
      .number()
      .int()
      .min(1)
      .default(8)
      .describe('Failures in a row after which a host rests'),
    breakerRestMs: z.number().int().min(1).default(30_000).describe('How long it rests'),
    breakerRestsMax: z
      .number()
      .int()
      .min(1)
      .default(3)
      .describe('Rests before its pages are given up'),
    queuedMax: z
      .number()
      .int()
      .min(100)
      .default(5_000_000)
      .describe('Addresses one crawl may know'),
    browser: z
      .strictObject({
        path: z
          .string()
          .optional()
          .describe('Program of Chrome, Chromium or Edge; found by itself if absent'),
        cdpUrl: z.string().optional().describe('A browser that runs already'),
        pagesMax: z.number().int().min(1).default(4).describe('Pages at once'),
        idleMs: z
          .number()
          .int()
          .min(0)
          .default(30_000)
          .describe('It ends after so long without work'),
        sandbox: z.boolean().default(true).describe('Off only in containers that cannot'),
        args: z.array(z.string()).default([]).describe('Further command line switches'),
      })
      .prefault({}),
    search: searchSettings,
    model: z
      .strictObject({
        url: z.string().describe('OpenAI-compatible, e.g. http://localhost:11434/v1'),
        name: z.string().describe('Model to ask for'),
        keyName: z.string().default('ERRAND_MODEL_KEY').describe('Name of the secret with its key'),
        timeoutMs: z.number().int().min(1000).default(60_000).describe('Time of one answer'),
      })
      .optional(),
    budget: z
      .strictObject({
        creditsPerDay: z.number().int().min(0).optional(),
        creditsPerMonth: z.number().int().min(0).optional(),
      })
      .prefault({})
      .describe('Per owner; work is refused before it starts'),
  })
  .prefault({});

export type WebSettings = z.infer<typeof webSettings>;
