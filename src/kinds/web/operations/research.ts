// Search, pipeline, agent, usage.
import { z } from 'zod';
import { AppError } from '../../../errors.ts';
import { defineOperation, type Operation } from '../../../operation.ts';
import type { ActionInput } from '../actions/inputs.ts';
import { parseUrl } from '../crawl/url.ts';
import type { Services } from '../services.ts';
import { creditNotes, creditTable, type Charge } from '../usage/credits.ts';
import { jobOperation } from './job-operation.ts';
import { checkSelectors } from './selectors.ts';
import { agentWords, pipelineWords, searchWords, usageText } from './terminal.ts';
import { webJobs } from './run.ts';

export function researchOperations(services: Services): Operation[] {
  return [webSearch(services), runPipeline(services), runAgent(services), webUsage(services)];
}

function webSearch(services: Services): Operation {
  return jobOperation(services, {
    action: 'search',
    name: 'web_search',
    title: 'Web search',
    description:
      'Searches the web, news or images, suggests queries, answers with passages of the best pages (type answer), or searches the pages crawled here (type crawled). ' +
      'Engines come from the settings; every row names its engine, and a missing general engine is said in `notice`. To read a result use read_page.',
    rareInput: ['offset', 'country', 'safesearch'],
    http: { method: 'POST', path: '/api/web/search' },
    cli: [
      { words: ['search'], summary: 'search the web', ...searchCommand, ...searchWords },
      {
        words: ['answer'],
        summary: 'passages of the best pages about a question',
        ...ofType('answer'),
      },
      { words: ['news'], summary: 'search the news', ...ofType('news', ['published', 'source']) },
      {
        words: ['images'],
        summary: 'search pictures',
        ...ofType('images', ['imageUrl', 'width', 'height', 'license']),
      },
      {
        words: ['suggest'],
        summary: 'what others look for with these words',
        ...ofType('suggest'),
      },
    ],
  });
}

const searchColumns = ['position', 'title', 'url', 'engine'];
const searchCommand = {
  args: ['query'],
  table: { rows: 'rows', columns: [...searchColumns, 'snippet'] },
};

const ofType = (type: ActionInput<'search'>['type'], more: string[] = []) => ({
  ...searchCommand,
  preset: { type },
  table: { rows: 'rows', columns: [...searchColumns, ...more] },
});

function runPipeline(services: Services): Operation {
  return jobOperation(services, {
    action: 'pipeline',
    name: 'run_pipeline',
    title: 'Run pipeline',
    description:
      'Searches for a query and fills your schema from each of the best pages, as one job: per page its data or its error, with the steps taken. For one known page use extract_data; for one merged answer run_agent.',
    rareInput: ['selectors'],
    http: { method: 'POST', path: '/api/web/pipelines' },
    cli: { words: ['pipeline'], args: ['query'], ...pipelineWords },
    named: true,
    check: async ({ selectors, schema }) => {
      await checkSelectors([], selectors);
      await services.reader.check(schema);
    },
  });
}

function runAgent(services: Services): Operation {
  return jobOperation(services, {
    action: 'agent',
    name: 'run_agent',
    title: 'Run agent',
    description:
      'Finds out something from several sources: searches, reads the best pages (or your `urls`), fills the schema from each and merges; every value has its sources, disagreements are listed as conflicts, and the passages that speak of the question are quoted by number. Bounded by maxCredits and maxSources. No model of its own: you draw the conclusions. Use it for questions that no single page answers; for one page use read_page, for a list of results web_search.',
    http: { method: 'POST', path: '/api/web/agents' },
    cli: { words: ['agent'], args: ['prompt'], ...agentWords },
    named: true,
    check: async ({ schema, urls = [], onlyUrls }) => {
      for (const url of urls) parseUrl(url);
      if (onlyUrls && urls.length === 0) {
        throw new AppError('invalidInput', 'There is nothing to read.', {
          hint: 'Give `urls`, or leave `onlyUrls` out so that they are searched for.',
        });
      }
      if (schema) await services.reader.check(schema);
    },
  });
}

function webUsage(services: Services): Operation {
  return defineOperation({
    name: 'web_usage',
    title: 'Web usage',
    description:
      'Shows what web jobs cost (the one credit table), what was spent by day and action, and what is left of the budgets. Credits are a local measure: nothing is billed. Use it before a large crawl_site, or when a job ended for want of credits; the cost of one job is in get_job.',
    effect: 'read',
    scope: 'read',
    reach: webJobs,
    toolsets: ['web'],
    input: z.strictObject({
      from: z.iso.date().optional().describe('Default: first day of this month'),
      to: z.iso.date().optional().describe('Default: today'),
      by: z.enum(['day', 'hour']).default('day').describe('hour: `day` of a row is its hour (UTC)'),
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
      rows: z.array(z.looseObject({ day: z.string(), action: z.string(), credits: z.number() })),
      creditTable: z.record(
        z.string(),
        z.object({ credits: z.number(), note: z.string().optional() }),
      ),
    }),
    http: { method: 'GET', path: '/api/web/usage' },
    cli: { words: ['usage'], text: (out) => usageText(out as never) },
    run: async (input, { caller }) => {
      const { usage } = services;
      const { owner } = caller!;
      const month = await usage.month(owner);
      const rows = await usage.rows(
        owner,
        input.from ?? `${month.period}-01`,
        input.to ?? usage.today(),
        input.by,
      );
      const table = Object.entries(creditTable).map(([name, credits]) => {
        const note = creditNotes[name as Charge];
        return [name, { credits, ...(note === undefined ? {} : { note }) }];
      });
      return {
        period: month.period,
        creditsUsed: month.credits,
        budgets: await usage.budgets(owner),
        rows: rows.map((row) => ({ ...row })),
        creditTable: Object.fromEntries(table) as Record<
          string,
          { credits: number; note?: string }
        >,
      };
    },
  });
}
