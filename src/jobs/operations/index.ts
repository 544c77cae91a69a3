// The operations that all job kinds share.
import type { Operation } from '../../operation.ts';
import { cancelJobOperation, pinJobOperation, retryJobOperation } from './control.ts';
import { getJobOperation, listEventsOperation, listJobsOperation } from './read.ts';
import type { JobOperationsDeps } from './deps.ts';
import { rerunJob } from './removal.ts';
import { waitForJobsOperation } from './wait.ts';

export function jobOperations(deps: JobOperationsDeps): Operation[] {
  return [
    getJobOperation(deps),
    listJobsOperation(deps),
    waitForJobsOperation(deps),
    cancelJobOperation(deps),
    retryJobOperation(deps),
    listEventsOperation(deps),
    pinJobOperation(deps),
    rerunJob(deps),
  ];
}
