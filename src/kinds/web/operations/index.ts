// Every operation of the web kind. Toolset `web` has at most twelve tools and 16 kB.
import type { Operation } from '../../../operation.ts';
import type { Services } from '../services.ts';
import { crawlOperations } from './crawl.ts';
import { pageOperations } from './pages.ts';
import { researchOperations } from './research.ts';

export function webOperations(services: Services): Operation[] {
  return [
    ...crawlOperations(services),
    ...pageOperations(services),
    ...researchOperations(services),
  ];
}
