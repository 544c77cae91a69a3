// The trace of an attempt: a span of the trace that submitted the job, with an id that follows from the attempt's own, so
// that it is the same before and after a crash, and what the attempt starts can name it as its parent.
import { derivedId, parseTraceparent, type TraceContext, type Tracer } from '../runtime/trace.ts';
import type { Fact } from './decision.ts';
import { waitedMs, type Job } from './job.ts';

/** What runs in this attempt belongs to this; undefined when nobody traces the job. */
export function attemptTrace(job: Pick<Job, 'attemptId' | 'trace'>): TraceContext | undefined {
  const parent = parseTraceparent(job.trace);
  return parent && { ...parent, spanId: derivedId(job.attemptId, 16) };
}

/** An attempt ended or was lost: its span from its start until now. */
export function recordAttempt(tracer: Tracer, before: Job, fact: Fact, after: Job): void {
  if ((fact.type !== 'ended' && fact.type !== 'lost') || before.startedAt === null) return;
  const parent = parseTraceparent(before.trace);
  if (parent && !parent.sampled) return;
  const outcome = fact.type === 'lost' ? 'lost' : fact.outcome.type;
  if (outcome === 'snoozed') return;
  tracer.record({
    traceId: parent?.traceId ?? derivedId(before.id, 32),
    spanId: derivedId(before.attemptId, 16),
    parentId: parent?.spanId,
    name: `attempt ${before.kind}${before.action === null ? '' : ` ${before.action}`}`,
    kind: 'consumer',
    startMs: before.startedAt,
    endMs: tracer.now(),
    attributes: {
      'errand.job.id': before.id,
      'errand.job.kind': before.kind,
      'errand.job.queue': before.queue,
      'errand.job.attempt': before.attempt,
      'errand.job.status': after.status,
      'errand.job.wait_ms': waitedMs(before, before.startedAt),
      'errand.node.id': before.node ?? undefined,
      'errand.outcome': outcome,
    },
    ...(outcome === 'completed' ? {} : { error: after.error?.code ?? outcome }),
  });
}
