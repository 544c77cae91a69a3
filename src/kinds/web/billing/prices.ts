// The minimum price of each action, checked before a job starts.
import type { Action, ActionInput } from '../jobs/inputs.ts';
import { pageCost } from '../crawl/limits.ts';
import { creditTable, type Charge } from './credits.ts';

export const searchCharge: Record<ActionInput<'search'>['type'], Charge> = {
  web: 'search',
  news: 'news',
  images: 'images',
  suggest: 'suggest',
  answer: 'searchAi',
  crawled: 'searchCrawled',
};

const prices: { [A in Action]: (input: ActionInput<A>) => number } = {
  crawl: pageCost,
  map: () => creditTable.map,
  markdown: () => creditTable.markdown,
  extract: () => creditTable.extract,
  submission: () => 0,
  screenshot: () => creditTable.screenshot,
  browse: () => creditTable.browse,
  search: ({ type }) => creditTable[searchCharge[type]],
  pipeline: () => creditTable.pipelineSearch + creditTable.pipelineExtraction,
  agent: () => creditTable.agentSearch,
};

export const priceOf = <A extends Action>(action: A, input: ActionInput<A>): number =>
  prices[action](input);
