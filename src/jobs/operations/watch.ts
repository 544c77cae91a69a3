// watch_jobs: one stream with the events of all jobs that the caller may see.
import { z } from 'zod';
import { defineOperation, type Caller, type Operation, type StreamItem } from '../../operation.ts';
import { filterFields } from '../../contracts/jobs.ts';
import { toJobFilter } from './filter.ts';
import type { JobFilter } from '../ledger.ts';
import { isWithinLimits } from '../limits.ts';
import { matchesCurrent, matchesFixed } from '../matches.ts';
import type { JobOperationsDeps } from './deps.ts';
import { cursorNumber } from './list-page.ts';
import { viewEvent } from './read.ts';
import type { JobState, JobWatch, WatchedEvent } from '../watch.ts';

/** A reader that is further behind loads the list again: that costs less than sending every event. */
const maxReplay = 10_000;
/** After this many events that the reader does not get, it gets the cursor. */
const maxSkipped = 1000;

export function watchJobs({
  jobs,
  watch,
}: Pick<JobOperationsDeps, 'jobs'> & { watch: JobWatch }): Operation {
  return defineOperation({
    name: 'watch_jobs',
    title: 'Watch jobs',
    description:
      'Streams the events of all jobs that match the filters, each with the current state of its job (over HTTP with Accept: text/event-stream, or as a WebSocket). Without a stream it returns the cursor of the newest event. Read this cursor, then list_jobs, then stream from the cursor: nothing is missed. To wait for known jobs use wait_for_jobs. Changes nothing.',
    effect: 'read',
    scope: 'read',
    reach: { filters: ['kinds', 'queues', 'subject'] },
    input: z.strictObject({
      ...filterFields,
      cursor: z.string().max(40).optional().describe('Only events after this cursor'),
      complete: z
        .boolean()
        .default(false)
        .describe(
          'Send every event since the cursor; default: reset a reader that is 10,000 behind',
        ),
    }),
    output: z.object({ cursor: z.string().describe('The newest event') }),
    http: { method: 'GET', path: '/api/jobs/watch' },
    run: async (input, { caller }) => {
      toJobFilter(jobs, input, caller!);
      return { cursor: String(await watch.newest()) };
    },
    stream: async function* (input, { caller, signal }) {
      const filter = toJobFilter(jobs, input, caller!);
      const newest = await watch.newest();
      const given = input.cursor === undefined ? newest : cursorNumber(input.cursor);
      const isUsable = given <= newest && (input.complete || newest - given <= maxReplay);
      const start = isUsable ? given : newest;
      if (!isUsable) yield item('reset', start, { cursor: String(start), reset: true });
      const reader = new Reader(caller!, filter, async (state) => ({
        isVisible: await isWithinLimits(jobs, state.job, caller!),
        input: state.lacksInput ? (await jobs.ledger.find(state.job.id))?.input : state.job.input,
      }));
      let skipped = 0;
      for await (const entries of watch.follow(start, signal)) {
        for (const entry of entries) {
          const shown = await reader.show(entry);
          skipped = shown ? 0 : skipped + 1;
          if (shown) yield shown;
          if (skipped < maxSkipped) continue;
          skipped = 0;
          const { cursor } = entry.event;
          yield item('cursor', cursor, { cursor: String(cursor) });
        }
      }
    },
  });
}

/** Decides what one reader gets. */
class Reader {
  private readonly caller: Caller;
  private readonly filter: JobFilter;
  private readonly examine: (state: JobState) => Promise<{ isVisible: boolean; input: unknown }>;

  constructor(caller: Caller, filter: JobFilter, examine: Reader['examine']) {
    this.caller = caller;
    this.filter = filter;
    this.examine = examine;
  }

  async show(entry: WatchedEvent): Promise<StreamItem | undefined> {
    const { event, state } = entry;
    if (entry.deleted) return this.showDeleted(entry);
    if (!state || !matchesFixed(state.job, this.filter)) return undefined;
    const matches = await this.match(state);
    if (matches === undefined) return undefined;
    let encoded = entry.encoded.get(matches);
    const data = {
      cursor: String(event.cursor),
      event: viewEvent(event),
      job: state.line,
      matches,
    };
    if (encoded === undefined) entry.encoded.set(matches, (encoded = JSON.stringify(data)));
    return { event: 'job', id: data.cursor, data, encoded };
  }

  /** Undefined if the caller may not see the job. The filter already contains its owner, kinds and queues. */
  private async match(state: JobState): Promise<boolean | undefined> {
    const { subject } = this.caller;
    const needsInput = this.filter.text !== undefined && state.lacksInput;
    if (subject === undefined && !needsInput) return matchesCurrent(state.job, this.filter);
    const { isVisible, input } = await this.examine(state);
    return isVisible ? matchesCurrent({ ...state.job, input }, this.filter) : undefined;
  }

  /** The other fields of a deleted job are unknown, so readers with any filter get its id. */
  private showDeleted({ event, deleted }: WatchedEvent): StreamItem | undefined {
    const { owner, kinds, queues, queue } = this.filter;
    const isHidden =
      (owner !== undefined && owner !== deleted!.owner) ||
      (kinds !== undefined && !kinds.includes(deleted!.kind)) ||
      (queues !== undefined && !queues.includes(deleted!.queue)) ||
      (queue !== undefined && queue !== deleted!.queue) ||
      (this.caller.subject !== undefined && queues === undefined);
    if (isHidden) return undefined;
    const { cursor, jobId } = event;
    return item('removed', cursor, { cursor: String(cursor), removed: jobId });
  }
}

const item = (event: string, cursor: number, data: object): StreamItem => ({
  event,
  id: String(cursor),
  data,
});
