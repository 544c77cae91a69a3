// Calls that need the files of a job go to the node that has them: over an internal route of that node, signed with the
// cluster's secret. When that node is gone, files that were kept in object storage are fetched and read here.
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { AppError, errorBody, errorFromBody, errorKind, type ErrorBody } from '../errors.ts';
import type { Job } from '../jobs/job.ts';
import type { Jobs } from '../jobs/jobs.ts';
import {
  itemLine,
  scopes,
  type CallContext,
  type Caller,
  type Elsewhere,
  type Operations,
  type Place,
  type StreamItem,
} from '../operation.ts';
import { isoTime, type Clock } from '../runtime/clock.ts';
import type { Egress, EgressResponse } from '../runtime/egress/index.ts';
import { parseJson } from '../runtime/json.ts';
import { currentTrace, traceparentOf } from '../runtime/trace.ts';
import { drained, linesOf, readBody } from '../runtime/wire.ts';
import type { Nodes } from './nodes.ts';

export interface RouterOptions {
  jobs: Jobs;
  nodes: Nodes;
  operations: Operations;
  egress: Egress;
  clock: Clock;
  secret: Buffer;
  /** Brings the files of an ended job here; false when they are not kept anywhere. */
  restore(job: Job): Promise<boolean>;
  /** Whether the files of this job are on this node. */
  isHere(job: Job): boolean;
}

export const clusterPath = '/internal/cluster';
const tokenWord = 'errandnode';
/** A signature older than this is refused: it was heard somewhere and is being repeated. */
const signatureMsMax = 60_000;
/** A call may wait for something to happen there. */
const callMsMax = 120_000;
/** Egress takes silence of 30 s for a dead peer. */
const stillMs = 10_000;
const bodyBytesMax = 32 * 1024 * 1024;
const answerBytesMax = 64 * 1024 * 1024;

interface Call {
  name: string;
  input: unknown;
  caller: Record<string, unknown> | null;
  follow: boolean;
  /** Who is meant. The address of a node may lead to another one; its answer would be about the wrong files. */
  node?: string;
}

export class Router implements Elsewhere {
  private readonly options: RouterOptions;

  constructor(options: RouterOptions) {
    this.options = options;
  }

  /** The node that must run a call about this job; undefined: this one. */
  async place(input: unknown, at: 'job' | 'attempt'): Promise<Place | undefined> {
    const { jobs, nodes, isHere } = this.options;
    const { id, attempt } = input as { id?: unknown; attempt?: number };
    const job = typeof id === 'string' ? await jobs.ledger.find(id) : undefined;
    if (!job) return undefined;
    const node = await this.nodeOf(job, attempt ?? job.attempt);
    if (node === null || node === nodes.id) return undefined;
    const row = await nodes.rows.find(node);
    // A node that is just back takes work before its next beat: having started this job is a sign of life, too.
    const seenAt = Math.max(row?.seenAt ?? 0, job.startedAt ?? 0);
    if (row?.url && nodes.isAlive({ ...row, seenAt })) return { node, url: row.url };
    if (at === 'attempt') return undefined;
    if (isHere(job) || (await this.options.restore(job))) return undefined;
    const where = row ? `${row.name} (${row.id})` : node;
    const seen = row ? `, which was last seen ${isoTime(row.seenAt)}` : '';
    throw new AppError('gone', `The files of ${job.id} are on the node ${where}${seen}.`, {
      hint: 'They can be read when it is back. With object storage (setting cluster.archive) output outlives its node.',
      data: { node },
    });
  }

  /** Every attempt may have run somewhere else. */
  private async nodeOf(job: Job, attempt: number): Promise<string | null> {
    if (attempt === job.attempt) return job.node;
    const attempts = await this.options.jobs.ledger.attempts(job.id);
    return attempts.find((one) => one.attempt === attempt)?.node ?? null;
  }

  async call(place: Place, name: string, input: unknown, context: CallContext): Promise<unknown> {
    const response = await this.send(
      place,
      { name, input, caller: plain(context.caller), follow: false },
      context.signal,
    );
    return (JSON.parse(await response.body.text()) as { output?: unknown }).output;
  }

  async *stream(
    place: Place,
    name: string,
    input: unknown,
    context: CallContext,
  ): AsyncIterable<StreamItem> {
    const response = await this.send(
      place,
      { name, input, caller: plain(context.caller), follow: true },
      context.signal,
    );
    for await (const line of linesOf(response.body)) {
      const item = JSON.parse(line) as StreamItem & { error?: ErrorBody; still?: true };
      if (item.error) throw errorFromBody(item.error);
      if (!item.still) yield item;
    }
  }

  /** A call of another node counts as one with a key; what it may do says the caller it brings. */
  authenticate(key: string): Caller | undefined {
    const [word, time, given] = key.split('.');
    if (word !== tokenWord || !time || !given) return undefined;
    if (!this.isFresh(time) || !same(given, sign(this.options.secret, time, ''))) return undefined;
    return { owner: 'cluster', scopes: new Set(), admin: false, local: false };
  }

  /** The other side: a call from another node. */
  async handle(
    request: IncomingMessage,
    response: ServerResponse,
    { signal, becomeStream }: { signal: AbortSignal; becomeStream(): void },
  ): Promise<void> {
    try {
      const body = await readBody(request, { bytesMax: bodyBytesMax });
      this.verify(request, body);
      const call = parseJson(body.toString()) as Call;
      this.refuseMistaken(call);
      const caller = callerOf(call.caller);
      const context: CallContext = { caller, signal };
      if (call.follow) {
        becomeStream();
        await this.follow(response, call, context);
      } else {
        const output = await this.options.operations.callHere(call.name, call.input, context);
        response
          .writeHead(200, { 'content-type': 'application/json' })
          .end(JSON.stringify({ output }));
      }
    } catch (error) {
      const body = errorBody(error);
      if (response.headersSent) return void response.end(`${JSON.stringify({ error: body })}\n`);
      response
        .writeHead(errorKind(body.code).http, { 'content-type': 'application/json' })
        .end(JSON.stringify({ error: body }));
    }
  }

  private async follow(response: ServerResponse, call: Call, context: CallContext): Promise<void> {
    response.writeHead(200, { 'content-type': 'application/x-ndjson' });
    // A quiet job says so from time to time, or its followers would take us for dead.
    const items = this.options.operations.streamHere(call.name, call.input, context);
    const stop = this.sayStill(response);
    try {
      for await (const item of items) {
        response.write(itemLine(item));
        await drained(response);
      }
      response.end();
    } finally {
      stop();
    }
  }

  private sayStill(response: ServerResponse): () => void {
    let cancel = () => {};
    const next = () => {
      cancel = this.options.clock.after(stillMs, () => {
        response.write('{"still":true}\n');
        next();
      });
    };
    next();
    return () => cancel();
  }

  private async send(place: Place, call: Call, signal: AbortSignal): Promise<EgressResponse> {
    const response = await this.request(place, { ...call, node: place.node }, signal);
    if (response.status === 200) return response;
    throw refusal(place, response.status, await response.body.text());
  }

  private async request(place: Place, call: Call, signal: AbortSignal): Promise<EgressResponse> {
    const { egress, clock, secret } = this.options;
    const body = JSON.stringify(call);
    const time = String(clock.now());
    try {
      return await egress.request({
        url: `${place.url}${clusterPath}`,
        method: 'POST',
        trust: 'trusted',
        headers: {
          'content-type': 'application/json',
          authorization: `Bearer ${tokenWord}.${time}.${sign(secret, time, '')}`,
          'x-errand-time': time,
          'x-errand-signature': sign(secret, time, body),
          ...traceHeader(),
        },
        body,
        signal,
        bytesMax: answerBytesMax,
        headersTimeoutMs: callMsMax,
        timeoutMs: call.follow ? 0 : callMsMax,
      });
    } catch (error) {
      if (signal.aborted) throw error;
      throw new AppError(
        'unavailable',
        `The node at ${place.url}, which has the files of this job, does not answer.`,
        {
          hint: 'Try again; `errand node list` shows which nodes are alive. When it is reached under another address, set ERRAND_NODE_URL there.',
          cause: error,
        },
      );
    }
  }

  private refuseMistaken({ node }: Call): void {
    const { id } = this.options.nodes;
    // Nodes of an older version do not say whom they mean.
    if (node === undefined || node === id) return;
    throw new AppError('unavailable', `A call for the node ${node} came to ${id}.`, {
      hint: `Set ERRAND_NODE_URL on ${node} to an address that leads to it from every other node.`,
    });
  }

  private isFresh(time: string): boolean {
    return Math.abs(this.options.clock.now() - Number(time)) <= signatureMsMax;
  }

  private verify(request: IncomingMessage, body: Buffer): void {
    const time = String(request.headers['x-errand-time'] ?? '');
    const given = String(request.headers['x-errand-signature'] ?? '');
    const right = sign(this.options.secret, time, body.toString());
    if (this.isFresh(time) && same(given, right)) return;
    throw new AppError('unauthorized', 'This call is not from a node of this cluster.', {
      hint: 'All nodes need the same ERRAND_CLUSTER_KEY.',
    });
  }
}

/** An error of the other node is passed on; anything else did not come from its route at all. */
function refusal(place: Place, status: number, text: string): AppError {
  const body = parsed(text);
  if (body?.error) return errorFromBody(body.error);
  const said = body?.detail ?? text.slice(0, 200);
  return new AppError('unavailable', `The node at ${place.url} answered ${status}: ${said}`, {
    hint: `ERRAND_NODE_URL of the node ${place.node} must lead to it without a proxy that changes anything.`,
  });
}

function parsed(text: string): { error?: ErrorBody; detail?: string } | undefined {
  try {
    return JSON.parse(text) as { error?: ErrorBody; detail?: string };
  } catch {
    return undefined;
  }
}

/** The other node's part of a call belongs to the same trace. */
function traceHeader(): Record<string, string> {
  const trace = currentTrace();
  return trace ? { traceparent: traceparentOf(trace) } : {};
}

function same(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}

function sign(secret: Buffer, time: string, body: string): string {
  const digest = createHash('sha256').update(body).digest('hex');
  return createHmac('sha256', secret).update(`cluster\n${time}\n${digest}`).digest('hex');
}

/** Sets do not survive JSON. */
function plain(caller: Caller | undefined): Record<string, unknown> | null {
  return caller ? { ...caller, scopes: [...caller.scopes] } : null;
}

function callerOf(plainCaller: Record<string, unknown> | null): Caller | undefined {
  if (!plainCaller) return undefined;
  const held = new Set(plainCaller.scopes as string[]);
  return {
    ...(plainCaller as unknown as Caller),
    scopes: new Set(scopes.filter((s) => held.has(s))),
  };
}
