// Records one trace span per attempt, as a child of the span that submitted the job. The span id is derived from the
// attempt id, so it stays the same across a crash and child processes can use it as their parent.
import { deriveId, parseTraceparent, type TraceContext, type Tracer } from '../runtime/trace.ts';
import type { Fact } from './decision.ts';
import { queuedMs, type Job } from './job.ts';

/** The parent context for everything this attempt starts. Undefined if the job is not traced. */
export function attemptTrace(job: Pick<Job, 'attemptId' | 'trace'>): TraceContext | undefined {
  const parent = parseTraceparent(job.trace);
  return parent && { ...parent, spanId: deriveId(job.attemptId, 16) };
}

/** Records the span of an attempt that ended or was lost. */
export function recordAttempt(tracer: Tracer, before: Job, fact: Fact, after: Job): void {
  if ((fact.type !== 'ended' && fact.type !== 'lost') || before.startedAt === null) return;
  const parent = parseTraceparent(before.trace);
  if (parent && !parent.sampled) return;
  const outcome = fact.type === 'lost' ? 'lost' : fact.outcome.type;
  if (outcome === 'snoozed') return;
  tracer.record({
    traceId: parent?.traceId ?? deriveId(before.id, 32),
    spanId: deriveId(before.attemptId, 16),
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
      'errand.job.queued_ms': queuedMs(before, before.startedAt),
      'errand.node.id': before.node ?? undefined,
      'errand.outcome': outcome,
    },
    ...(outcome === 'completed' ? {} : { error: after.error?.code ?? outcome }),
  });
}
