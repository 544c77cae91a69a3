// The call of a remote that a job there has changed. It proves itself by the signature in its address, and is believed
// only so far: the remote is asked what the job's state is.
import { z } from 'zod';
import { AppError } from '../../../errors.ts';
import { defineOperation, type Operation } from '../../../operation.ts';
import type { RemoteDriver } from './driver.ts';

export function noticeRemote(driver: RemoteDriver): Operation {
  return defineOperation({
    name: 'notice_remote',
    title: 'Notice remote',
    description:
      'For remotes: says that a job given to them has changed, so that it is looked at now instead of at the next poll. Needs the signature of the callback address.',
    effect: 'write',
    idempotent: true,
    scope: 'public',
    reach: 'nothing',
    input: z.object({ attemptId: z.string().max(100), token: z.string().max(200) }),
    output: z.object({}),
    run: async ({ attemptId, token }) => {
      if (await driver.called(attemptId, token)) return {};
      throw new AppError('notFound', 'There is no such callback.');
    },
  });
}
