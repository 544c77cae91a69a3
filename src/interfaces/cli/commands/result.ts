// `errand result ID`: waits for a job and prints its result as the command that started it would have.
import { AppError } from '../../../errors.ts';
import { printResponse } from '../print-response.ts';
import { command } from '../command.ts';
import { waitForResponse } from '../progress.ts';
import type { getJob } from '../../../contracts/jobs.ts';

export const result = command({
  summary: 'wait for a job and print its result',
  about:
    'Waits for a job and prints its result as the command that started it would have. ctrl-c leaves the job running.',
  examples: ['errand result @last', 'errand result job_… --json'],
  args: 'ID',
  flags: { json: { type: 'boolean', help: 'print JSON for scripts' } },
  async run(context, { values, positionals: [id, ...more], usage }) {
    if (id === undefined || more.length > 0)
      throw new AppError('invalidInput', 'Exactly one job is required.', { hint: usage });
    const json = values.json === true;
    const server = await context.client();
    const { output } = await server.call<typeof getJob>('get_job', { id });
    const response = await waitForResponse(
      context,
      () => Promise.resolve({ name: 'get_job', output, jobId: output.id }),
      json,
    );
    if (typeof response === 'number') return response;
    const { operations } = await server.catalog();
    return printResponse(context.screen, response, { json, operations });
  },
});
