// The resource template of jobs; beside the sources, so that a front needs nothing of the local one.
import type { ResourceTemplateCard } from './source.ts';

export const jobTemplates: ResourceTemplateCard[] = [
  {
    uriTemplate: 'job://{id}',
    name: 'job',
    title: 'A job',
    description:
      'State, result and timings of one job, as get_job answers them; can be subscribed to.',
    mimeType: 'application/json',
  },
];
