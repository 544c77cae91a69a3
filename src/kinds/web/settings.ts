// Settings of the web kind (section `web` in config.json): limits, request rates, engines and budgets.
import { z } from 'zod';
import { labelList } from '../../contracts/jobs.ts';
import { searchSettings } from './search/settings.ts';

const mebibyte = 1024 * 1024;

export const webSettings = z
  .strictObject({
    userAgent: z
      .string()
      .default('Errand/0.1 (+https://www.npmjs.com/package/errand)')
      .describe('Sent with every request. The first word is the robots.txt token'),
    maxJobs: z.number().int().min(1).default(50).describe('Concurrent web jobs on this node'),
    labels: labelList
      .default([])
      .describe('Cluster only: default node labels for web jobs, e.g. browser'),
    concurrency: z
      .number()
      .int()
      .min(1)
      .max(200)
      .default(20)
      .describe('Concurrent requests per crawl'),
    hostConcurrency: z
      .number()
      .int()
      .min(1)
      .max(100)
      .default(2)
      .describe('Concurrent requests per external host'),
    delayMs: z
      .number()
      .int()
      .min(0)
      .default(1000)
      .describe('Delay between requests to the same external host'),
    maxCrawlDelayMs: z
      .number()
      .int()
      .min(0)
      .default(60_000)
      .describe('Longer Crawl-delay values are reduced to this, with a warning'),
    maxBodyBytes: z
      .number()
      .int()
      .min(1024)
      .default(20 * mebibyte)
      .describe('Maximum uncompressed response size'),
    maxRedirects: z.number().int().min(0).default(10).describe('Maximum redirects per page'),
    maxTries: z
      .number()
      .int()
      .min(1)
      .default(4)
      .describe('Attempts per page on temporary failures'),
    backoffMs: z
      .number()
      .int()
      .min(1)
      .default(1000)
      .describe('Delay after the first failure; doubles with each further one'),
    maxRetryAfterMs: z
      .number()
      .int()
      .min(0)
      .default(600_000)
      .describe('A page with a longer Retry-After fails'),
    breakerFailures: z
      .number()
      .int()
      .min(1)
      .default(8)
      .describe('Consecutive failures before a host is paused'),
    breakerRestMs: z.number().int().min(1).default(30_000).describe('Length of a host pause'),
    maxBreakerRests: z
      .number()
      .int()
      .min(1)
      .default(3)
      .describe('Pauses before the remaining pages of a host fail'),
    maxQueued: z.number().int().min(100).default(5_000_000).describe('Maximum URLs per crawl'),
    browser: z
      .strictObject({
        path: z
          .string()
          .optional()
          .describe('Path of Chrome, Chromium or Edge. Found automatically if unset'),
        cdpUrl: z.string().optional().describe('CDP URL of a running browser to use'),
        maxPages: z.number().int().min(1).default(4).describe('Concurrent pages'),
        idleMs: z
          .number()
          .int()
          .min(0)
          .default(30_000)
          .describe('The browser closes after this time without work'),
        sandbox: z
          .boolean()
          .default(true)
          .describe('Turn off only in containers that do not support it'),
        args: z.array(z.string()).default([]).describe('Additional command line switches'),
      })
      .prefault({}),
    search: searchSettings,
    model: z
      .strictObject({
        url: z.string().describe('OpenAI-compatible, e.g. http://localhost:11434/v1'),
        name: z.string().describe('Model name'),
        keyName: z
          .string()
          .default('ERRAND_MODEL_KEY')
          .describe('Name of the secret with the API key'),
        timeoutMs: z.number().int().min(1000).default(60_000).describe('Time limit per response'),
      })
      .optional(),
    budget: z
      .strictObject({
        creditsPerDay: z.number().int().min(0).optional(),
        creditsPerMonth: z.number().int().min(0).optional(),
      })
      .prefault({})
      .describe('Limits per owner. Work that exceeds them is rejected before it starts'),
  })
  .prefault({});

export type WebSettings = z.infer<typeof webSettings>;
