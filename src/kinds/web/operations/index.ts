// All operations of the web kind. The toolset `web` is limited to twelve tools and 16 kB.
import type { Operation } from '../../../operation.ts';
import type { WebDeps } from '../deps.ts';
import { crawlOperations } from './crawl-site.ts';
import { pageOperations } from './pages.ts';
import { researchOperations } from './research.ts';

export function webOperations(services: WebDeps): Operation[] {
  return [
    ...crawlOperations(services),
    ...pageOperations(services),
    ...researchOperations(services),
  ];
}
