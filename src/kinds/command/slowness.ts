// Notices that an attempt runs longer than the same command usually does, and records it once, as an event.
import type { Run } from '../../jobs/kind.ts';
import type { CommandDeps } from './deps.ts';

/** Returns a function that stops the check. */
export function reportSlowness(
  run: Run,
  historyKey: string,
  { clock, history, settings }: Pick<CommandDeps, 'clock' | 'history' | 'settings'>,
): () => void {
  const { job } = run;
  // Another server recorded it before this one took over.
  if (job.facts.slowAttempt === job.attempt) return () => {};
  const startedAt = job.startedAt ?? clock.now();
  const ranMs = () => clock.now() - startedAt;
  let stop = () => {};
  const check = async () => {
    const { expectedMs = Infinity } = (await history.get(historyKey)) ?? {};
    const slowMs = Math.max(expectedMs * settings.slowFactor, settings.minSlowMs);
    if (ranMs() >= slowMs)
      await run.report({ notice: 'slowerThanUsual', facts: { slowAttempt: job.attempt } });
    else if (slowMs < Infinity) schedule(slowMs - ranMs());
  };
  const schedule = (ms: number) => {
    // The notice is a convenience: if it cannot be stored, the job itself is not affected.
    stop = clock.after(Math.max(ms, 0), () => void check().catch(() => {}));
  };
  // Most commands end earlier, so their history is not read.
  schedule(settings.minSlowMs - ranMs());
  return () => stop();
}
