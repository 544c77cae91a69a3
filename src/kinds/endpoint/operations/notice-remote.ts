// The callback of a remote: a job has changed. The signature in its URL authenticates it. The state of the job is
// read from the remote, not from the callback.
import { AppError } from '../../../errors.ts';
import { defineOperation, type Operation } from '../../../operation.ts';
import * as contracts from '../contracts/jobs.ts';
import type { RemoteDriver } from '../remote/driver.ts';

export function noticeRemote(driver: RemoteDriver): Operation {
  return defineOperation({
    ...contracts.noticeRemote,
    isInternal: true,
    title: 'Notice remote',
    description:
      'For remotes: reports that a job has changed, so that it is polled now. Requires the signature of the callback URL.',
    effect: 'write',
    idempotent: true,
    scope: 'public',
    reach: 'nothing',
    run: async ({ attemptId, token }) => {
      if (await driver.handleCallback(attemptId, token)) return {};
      throw new AppError('notFound', 'The callback does not exist.');
    },
  });
}
