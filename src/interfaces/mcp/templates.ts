// The resource template for jobs. It has its own file, so that a bridge does not load the local source.
import type { ResourceTemplate } from './source.ts';

export const jobTemplates: ResourceTemplate[] = [
  {
    uriTemplate: 'job://{id}',
    name: 'job',
    title: 'A job',
    description:
      'State, result and timings of one job, as returned by get_job. Supports subscriptions.',
    mimeType: 'application/json',
  },
];
