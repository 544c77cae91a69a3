// Keeps the address of one worker available while the server restarts. With a server it forwards every call. Without
// one, polls wait, pings succeed and posts are stored on disk, to be delivered in order and exactly once when the
// server is back. RunPod's package does not repeat a post whose connection was refused, and polls again without a
// pause.
import { aborted, systemClock } from '../../../runtime/clock.ts';
import { progressStatus } from '../runner/protocol.ts';
import { Outbox, type Post, type PostVerb } from './outbox.ts';
import type { Reply, Upstream } from './upstream.ts';

interface RelayOptions {
  endpointId: string;
  workerId: string;
  upstream: Upstream;
  outbox: Outbox;
  /** Posts wait when the stored posts exceed this size. */
  maxOutboxBytes: number;
  /** Called when the server no longer knows this worker or stays away. */
  forceStop(reason: string): void;
}

interface PollRequest {
  verb: 'job-take' | 'job-take-batch' | 'job-stop';
  query: string;
  /** Aborts when the worker closes the connection. */
  signal: AbortSignal;
}

interface HeldJob {
  attemptId: string | undefined;
  chunks: number;
  at: number;
  /** Its result is stored, but not delivered yet. */
  isDone?: boolean;
}

/** Below the 90 s after which the package gives up. */
const holdMs = 50_000;
/** Polls of a stopping worker return quickly, but not as fast as it can send them. */
const drainPauseMs = 200;
const retryMs = 1000;
/** A worker may report that it runs nothing while a job is on its way to it. */
const settleMs = 2000;
/** Maximum number of job ids in one URL. */
const maxNamed = 1000;
const nothing: Reply = { status: 204, body: Buffer.alloc(0) };

export class Relay {
  private readonly options: RelayOptions;
  /** Jobs that were assigned to the worker and have not ended. */
  private readonly held = new Map<string, HeldJob>();
  private readonly draining = new AbortController();
  /** Ends open polls without a job. */
  private interruption = new AbortController();
  /** Open polls for jobs, and open posts. */
  private readonly open = { takes: 0, posts: 0 };
  /** Takes are serialized, because the server compares the running jobs with the assigned ones. */
  private turn: Promise<void> = Promise.resolve();
  private delivering: Promise<void> | undefined;

  constructor(options: RelayOptions) {
    this.options = options;
  }

  /** The worker is stopping: open polls return immediately without jobs. */
  drain(): void {
    this.draining.abort();
  }

  /** The worker only waits for a job. */
  get isIdle(): boolean {
    const { takes, posts } = this.open;
    return takes > 0 && posts === 0 && [...this.held.values()].every(({ isDone }) => isDone);
  }

  /** Open polls return without a job, and the worker sends new ones. */
  interruptPolls(): void {
    this.interruption.abort();
    this.interruption = new AbortController();
  }

  async poll({ verb, query, signal }: PollRequest): Promise<Reply> {
    if (this.draining.signal.aborted) {
      await systemClock.sleep(drainPauseMs, signal);
      return nothing;
    }
    const over = new AbortController();
    const off = systemClock.after(holdMs, () => over.abort());
    const until = AbortSignal.any([
      over.signal,
      signal,
      this.draining.signal,
      this.interruption.signal,
    ]);
    const isTake = verb !== 'job-stop';
    if (isTake) this.open.takes += 1;
    try {
      return isTake
        ? await this.take(verb, query, until)
        : await this.forward(() => this.url(verb, '', query), until);
    } finally {
      if (isTake) this.open.takes -= 1;
      off();
    }
  }

  /** Forwards a heartbeat. Without a server it is not needed. */
  async ping(query: string): Promise<void> {
    const path = this.url('ping', '', query);
    await this.options.upstream.call({ method: 'GET', path }).catch(() => {});
  }

  /** Resolves when the server has the post, or when it is on disk. */
  async post(verb: PostVerb, jobId: string, body: Buffer): Promise<void> {
    this.open.posts += 1;
    try {
      await this.handOver(verb, jobId, body);
    } finally {
      this.open.posts -= 1;
    }
  }

  private async handOver(verb: PostVerb, jobId: string, body: Buffer): Promise<void> {
    const held = this.held.get(jobId);
    const isChunk = verb === 'job-stream';
    if (held && isChunk) held.chunks += 1;
    const attemptId = held?.attemptId;
    const n = isChunk ? held?.chunks : undefined;
    const post = { verb, jobId, attemptId, n, body };
    if (this.options.outbox.isEmpty && (await this.deliver(post))) return;
    await this.store(post);
    if (held && isEnd(post)) held.isDone = true;
    this.delivering ??= this.deliverStored().finally(() => (this.delivering = undefined));
  }

  /** The worker's log reports a dropped result: fails the job with that error. */
  async drop(jobId: string, error: string): Promise<void> {
    if (this.held.has(jobId))
      await this.post('job-done', jobId, Buffer.from(JSON.stringify({ error })));
  }

  private async take(verb: PollRequest['verb'], query: string, until: AbortSignal): Promise<Reply> {
    const arrivedAt = systemClock.now();
    const before = this.turn;
    let release = () => {};
    this.turn = new Promise((resolve) => (release = resolve));
    try {
      await Promise.race([before, aborted(until)]);
      await this.delivering;
      if (until.aborted) return nothing;
      const isIdle = this.reportsIdle(query, arrivedAt);
      const adjustedQuery = isIdle
        ? query
        : query.replace('job_in_progress=0', 'job_in_progress=1');
      const reply = await this.forward(
        () => this.url(verb, '', `${adjustedQuery}&relay=1${this.running()}`),
        until,
      );
      if (isIdle) this.forgetDropped(arrivedAt);
      return reply.status === 200 ? this.recordAttempts(reply) : reply;
    } finally {
      void before.then(release);
    }
  }

  /** Repeats a poll until the server responds or the wait times out. */
  private async forward(path: () => string, until: AbortSignal): Promise<Reply> {
    const { upstream } = this.options;
    while (!until.aborted) {
      try {
        const reply = await upstream.call({ method: 'GET', path: path(), signal: until });
        if (reply.status === 200 || reply.status === 204) return reply;
        if (isRefusal(reply.status))
          this.options.forceStop(`the server responded with ${reply.status}`);
        await systemClock.sleep(retryMs, until);
      } catch {
        await upstream.waitUntilReachable(until);
        await this.delivering;
      }
    }
    return nothing;
  }

  /** The first line contains the attempts. The rest is forwarded to the worker unchanged. */
  private recordAttempts({ body }: Reply): Reply {
    const end = body.indexOf(10);
    const attempts = JSON.parse(body.subarray(0, end).toString('utf8')) as Record<string, string>;
    const at = systemClock.now();
    for (const [jobId, attemptId] of Object.entries(attempts))
      this.held.set(jobId, { attemptId, chunks: 0, at });
    return { status: 200, body: body.subarray(end + 1) };
  }

  /** Old packages send several polls concurrently, so a job may have arrived after this poll was sent. */
  private reportsIdle(query: string, arrivedAt: number): boolean {
    const isNew = ({ at }: HeldJob) => at >= arrivedAt - settleMs;
    return /(^|&)job_in_progress=0(&|$)/.test(query) && ![...this.held.values()].some(isNew);
  }

  /** The worker runs nothing, so it dropped the jobs assigned before. The server knows this as well. */
  private forgetDropped(arrivedAt: number): void {
    for (const [jobId, { at }] of this.held) if (at < arrivedAt) this.held.delete(jobId);
  }

  private running(): string {
    const ids = [...this.held.keys()];
    return ids.length > maxNamed ? '' : `&running=${ids.join(',')}`;
  }

  /** Returns true if the server has the post or will never accept it. */
  private async deliver(post: Post): Promise<boolean> {
    const { verb, jobId, attemptId, n, body } = post;
    const attempt = attemptId === undefined ? '' : `&attempt=${attemptId}`;
    const number = n === undefined ? '' : `&n=${n}`;
    const path = this.url(verb, `/${encodeURIComponent(jobId)}`, `${attempt}${number}`);
    try {
      const { status } = await this.options.upstream.call({ method: 'POST', path, body });
      if (status >= 500 || status === 429) return false;
    } catch {
      return false;
    }
    if (isEnd(post) && this.held.get(jobId)?.attemptId === attemptId) this.held.delete(jobId);
    return true;
  }

  private async deliverStored(): Promise<void> {
    const { outbox, upstream } = this.options;
    const always = new AbortController().signal;
    for (let post = outbox.first(); post; post = outbox.first()) {
      if (await this.deliver(post)) outbox.drop();
      else if (await upstream.waitUntilReachable(always)) await systemClock.sleep(retryMs / 10);
    }
  }

  /** If the disk or the outbox is full, the worker waits for its response. */
  private async store(post: Post): Promise<void> {
    const { outbox, maxOutboxBytes } = this.options;
    for (;;) {
      const fits = outbox.isEmpty || outbox.bytes + post.body.length <= maxOutboxBytes;
      try {
        if (fits) return outbox.append(post);
      } catch (error) {
        console.error(`relay: a result could not be stored: ${(error as Error).message}`);
      }
      await systemClock.sleep(retryMs);
    }
  }

  private url(verb: string, more: string, query: string): string {
    const { endpointId, workerId } = this.options;
    return `/v2/${endpointId}/${verb}/${workerId}${more}?${query.replace(/^&/, '')}`;
  }
}

const isRefusal = (status: number): boolean => status === 401 || status === 403 || status === 404;

const isEnd = ({ verb, body }: Post): boolean => verb === 'job-done' && !isProgress(body);

/** Only a small post can be progress. A result that contains the word is parsed completely. */
function isProgress(body: Buffer): boolean {
  if (!body.includes(progressStatus)) return false;
  try {
    return (JSON.parse(body.toString('utf8')) as { status?: unknown }).status === progressStatus;
  } catch {
    return false;
  }
}
