// `errand result ID`: what came of a job, as the command that started it would have printed it; waited for if need be.
import { AppError } from '../../../errors.ts';
import { sayAnswer } from '../answer.ts';
import { command } from '../command.ts';
import { awaited } from '../progress.ts';

export const result = command({
  summary: 'result of a job; waits for its end',
  args: 'ID',
  flags: { json: { type: 'boolean', help: 'print JSON, for scripts' } },
  async run(context, { values, positionals: [id, ...more], usage }) {
    if (id === undefined || more.length > 0)
      throw new AppError('invalidInput', 'Name one job.', { hint: usage });
    const json = values.json === true;
    const server = await context.client();
    const { output } = await server.call('get_job', { id });
    const answer = await awaited(
      context,
      () => Promise.resolve({ name: 'get_job', output, jobId: output.id as string }),
      json,
    );
    if (typeof answer === 'number') return answer;
    const { operations } = await server.catalog();
    return sayAnswer(context.screen, answer, { json, operations });
  },
});
