// The operations every kind of job shares: look, list, wait, cancel, retry, events, pins.
import type { Operation } from '../operation.ts';
import { cancelJob, pinJob, retryJob } from './control-operations.ts';
import { getJob, jobEvents, listJobs } from './look-operations.ts';
import type { JobOperationsNeeds } from './operation-needs.ts';
import { rerunJob } from './removal-operations.ts';
import { waitForJobs } from './wait-operation.ts';

export function jobOperations(needs: JobOperationsNeeds): Operation[] {
  return [
    getJob(needs),
    listJobs(needs),
    waitForJobs(needs),
    cancelJob(needs),
    retryJob(needs),
    jobEvents(needs),
    pinJob(needs),
    rerunJob(needs),
  ];
}
