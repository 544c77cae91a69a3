// The operations web_search, run_pipeline, run_agent and web_usage.
import { AppError } from '../../../errors.ts';
import { defineOperation, type Operation } from '../../../operation.ts';
import type { ActionInput } from '../jobs/inputs.ts';
import { parseUrl } from '../url.ts';
import type { WebDeps } from '../deps.ts';
import { creditNotes, creditTable, type Charge } from '../billing/credits.ts';
import { jobOperation } from './job-operation.ts';
import { checkSelectors } from './selectors.ts';
import { agentText, pipelineText, searchText, usageText } from './terminal.ts';
import * as contracts from '../contracts.ts';
import { webJobs } from './run.ts';

export function researchOperations(services: WebDeps): Operation[] {
  return [webSearch(services), runPipeline(services), runAgent(services), webUsage(services)];
}

function webSearch(services: WebDeps): Operation {
  return jobOperation(services, {
    action: 'search',
    ...contracts.webSearch,
    title: 'Web search',
    description:
      'Searches the web, news or images, suggests queries, answers with passages of the best pages (type answer), or searches the pages crawled here (type crawled). ' +
      'Engines come from the settings. Every row names its engine, and `notice` reports a missing general engine. To read a result use read_page.',
    rareInput: ['offset', 'country', 'safesearch'],
    http: { method: 'POST', path: '/api/web/search' },
    cli: [
      { words: ['search'], summary: 'search the web', ...searchCommand, ...searchText },
      {
        words: ['answer'],
        summary: 'show passages of the best pages for a question',
        ...ofType('answer'),
      },
      { words: ['news'], summary: 'search the news', ...ofType('news', ['published', 'source']) },
      {
        words: ['images'],
        summary: 'search images',
        ...ofType('images', ['imageUrl', 'width', 'height', 'license']),
      },
      {
        words: ['suggest'],
        summary: 'suggest search queries',
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

function runPipeline(services: WebDeps): Operation {
  return jobOperation(services, {
    action: 'pipeline',
    ...contracts.runPipeline,
    title: 'Run pipeline',
    description:
      'Searches for a query and fills your schema from each of the best pages, as one job. Returns data or an error per page, and the steps. For one known page use extract_data; for one merged result use run_agent.',
    rareInput: ['selectors'],
    http: { method: 'POST', path: '/api/web/pipelines' },
    cli: { words: ['pipeline'], args: ['query'], ...pipelineText },
    check: async ({ selectors, schema }) => {
      await checkSelectors([], selectors);
      await services.reader.check(schema);
    },
  });
}

function runAgent(services: WebDeps): Operation {
  return jobOperation(services, {
    action: 'agent',
    ...contracts.runAgent,
    title: 'Run agent',
    description:
      'Researches a question in several sources: searches, reads the best pages (or your `urls`), fills the schema from each page and merges the data. Every value has its sources, disagreements are listed as conflicts, and relevant passages are quoted with their source numbers. Limited by maxCredits and maxSources. Uses no model: you draw the conclusions. Use it for questions that no single page answers; for one page use read_page, for a list of results use web_search.',
    http: { method: 'POST', path: '/api/web/agents' },
    cli: { words: ['agent'], args: ['prompt'], ...agentText },
    check: async ({ schema, urls = [], onlyUrls }) => {
      for (const url of urls) parseUrl(url);
      if (onlyUrls && urls.length === 0) {
        throw new AppError('invalidInput', '`onlyUrls` requires `urls`.', {
          hint: 'Pass `urls`, or omit `onlyUrls` to search for pages.',
        });
      }
      if (schema) await services.reader.check(schema);
    },
  });
}

function webUsage(services: WebDeps): Operation {
  return defineOperation({
    ...contracts.webUsage,
    title: 'Web usage',
    description:
      'Shows the credit prices of web jobs, spending by day and action, and the remaining budgets. Credits are a local measure: nothing is billed. Use it before a large crawl_site, or when a job stopped because credits ran out. For the cost of one job use get_job.',
    effect: 'read',
    scope: 'read',
    reach: webJobs,
    toolsets: ['web'],
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
