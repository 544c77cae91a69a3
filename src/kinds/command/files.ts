// Locates a job's files, and provides the log views for reading them.
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '../../errors.ts';
import { isFinal, type Job } from '../../jobs/job.ts';
import type { Jobs } from '../../jobs/jobs.ts';
import { movedTo } from '../../operation.ts';
import type { CommandInput } from './input.ts';
import type { LogView } from './output/log.ts';
import { launchFolder, type LaunchFolder } from './process/folder.ts';
import { droppedBytes } from './process/limits.ts';

export type StreamName = 'merged' | 'stdout' | 'stderr';

export class JobFiles {
  private readonly root: string;
  private readonly node: string;
  private readonly isCluster: boolean;

  constructor(folder: string, node: string, isCluster = true) {
    this.root = join(folder, 'jobs');
    this.node = node;
    this.isCluster = isCluster;
  }

  /** Two characters of the id spread a hundred thousand folders. */
  folder(jobId: string): string {
    return join(this.root, jobId.slice(-2), jobId);
  }

  /** In a cluster: another node has the files, and they were not copied here. */
  isElsewhere(job: Job): boolean {
    return job.node !== null && job.node !== this.node && !existsSync(this.folder(job.id));
  }

  /** Returns undefined if the attempt was not launched yet. */
  launch(job: Job, attempt = job.attempt): LaunchFolder | undefined {
    if (this.isElsewhere(job) && !this.isCluster) {
      throw new AppError('gone', `The output of ${job.id} is not in this home folder.`, {
        hint: 'The database was restored from a backup without output. Create the backup with `errand backup --with-output`, or copy the folder `command` from the old home.',
      });
    }
    if (this.isElsewhere(job)) {
      throw new AppError('unavailable', `The files of ${job.id} are on the server ${job.node}.`, {
        hint: 'Send the request to that server.',
        data: { [movedTo]: job.node },
      });
    }
    return launchFolder(this.folder(job.id), attempt);
  }

  /** The logs of an attempt, in display order. */
  logs(job: Job, attempt = job.attempt): { stream: StreamName; view: LogView }[] {
    const launch = this.launch(job, attempt);
    const { streams } = job.input as CommandInput;
    const growing = attempt === job.attempt && !isFinal(job.status);
    const start = launch ? droppedBytes(launch) : 0;
    const view = (path: string | undefined) => ({ path: path ?? '', start, growing });
    if (streams === 'merged') return [{ stream: 'merged', view: view(launch?.out) }];
    return [
      { stream: 'stdout', view: view(launch?.out) },
      { stream: 'stderr', view: view(launch?.err) },
    ];
  }

  async remove(jobId: string): Promise<void> {
    await rm(this.folder(jobId), { recursive: true, force: true });
  }
}

/** The logs of an attempt: a command's own files, or the output that another kind provides. */
export async function logsOf(
  job: Job,
  attempt: number | undefined,
  { jobs, files }: { jobs: Pick<Jobs, 'kind'>; files: JobFiles },
): Promise<{ stream: StreamName; view: LogView; omitted?: string }[]> {
  const { output } = jobs.kind(job.kind);
  if (!output) return files.logs(job, attempt);
  const { bytes, omitted } = await output(job, attempt ?? job.attempt);
  const view = { path: '', bytes, start: 0, growing: !isFinal(job.status) };
  return [{ stream: 'merged', view, ...(omitted === undefined ? {} : { omitted }) }];
}
