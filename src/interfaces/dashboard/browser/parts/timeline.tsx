// Waiting and attempts on one time axis, to scale, with events as marks.
import { duration, localTime } from '../format.ts';
import { now } from '../now.ts';
import { isFinal, type Attempt, type Job, type JobEvent } from '../types.ts';
import { lookOf } from './status.tsx';
import { utcText } from './time.tsx';

interface Bar {
  label: string;
  from: number;
  to: number;
  tone: string;
  note: string;
}

interface TimelineProps {
  job: Job;
  events: readonly JobEvent[];
  onAttempt(number: number): void;
}

const minShare = 0.4;

export function Timeline({ job, events, onAttempt }: TimelineProps) {
  const start = Date.parse(job.timings.createdAt);
  const isOver = isFinal(job.status);
  const end = Math.max(
    start + 1,
    isOver ? Date.parse(job.timings.finishedAt ?? job.timings.createdAt) : now.value,
  );
  const bars = barsOf(job, start, end);
  const share = (at: number) => Math.min(100, Math.max(0, ((at - start) / (end - start)) * 100));
  const marks = events.filter(({ type }) => type !== 'progress').slice(0, 200);
  return (
    <section class="timeline" aria-label="Timeline">
      {bars.map(({ label, from, to, tone, note }, i) => (
        <div key={label} class="bar-row">
          {i === 0 || bars.length < 3 ? (
            <span>{label}</span>
          ) : (
            <button type="button" class="link" onClick={() => onAttempt(i)}>
              {label}
            </button>
          )}
          <span class="track">
            <i
              class={`bar ${tone}`}
              style={{
                left: `${Math.min(100 - minShare, share(from))}%`,
                width: `${Math.max(minShare, share(to) - share(from))}%`,
              }}
              title={`${localTime(new Date(from).toISOString(), 0)} – ${localTime(new Date(to).toISOString(), 0)}`}
            />
          </span>
          <span class="bar-note">{note}</span>
        </div>
      ))}
      <div class="bar-row marks" aria-hidden="true">
        <span>events</span>
        <span class="track">
          {marks.map(({ n, type, at }) => (
            <i
              key={n}
              class="mark"
              style={{ left: `${Math.min(99.6, share(Date.parse(at)))}%` }}
              title={`${type} · ${localTime(at, 0)} · ${utcText(at)}`}
            />
          ))}
        </span>
        <span class="bar-note">{duration(end - start)}</span>
      </div>
    </section>
  );
}

function barsOf(job: Job, start: number, end: number): Bar[] {
  const { timings, attempts, status } = job;
  const earlier = (job.earlierAttempts ?? []).filter(({ number }) => number < attempts.number);
  const tries: Attempt[] = [
    ...earlier,
    {
      number: attempts.number,
      status,
      ...(timings.startedAt === undefined ? {} : { startedAt: timings.startedAt }),
      ...(timings.finishedAt === undefined ? {} : { finishedAt: timings.finishedAt }),
    },
  ];
  const firstStart = tries.find(({ startedAt }) => startedAt !== undefined)?.startedAt;
  const waitEnd = firstStart === undefined ? end : Date.parse(firstStart);
  return [
    { label: 'waited', from: start, to: waitEnd, tone: 'wait', note: duration(waitEnd - start) },
    ...tries.flatMap(({ number, status: outcome, startedAt, finishedAt, error }) => {
      if (startedAt === undefined) return [];
      const from = Date.parse(startedAt);
      const to = finishedAt === undefined ? end : Date.parse(finishedAt);
      const isCurrent = number === attempts.number;
      const { tone, word } = lookOf(error?.code === 'lost' ? 'lost' : outcome);
      return [
        {
          label: `attempt ${number}`,
          from,
          to,
          tone,
          note:
            isCurrent && outcome !== 'failed'
              ? duration(to - from)
              : `${word} ${duration(to - from)}`,
        },
      ];
    }),
  ];
}
