// Sends calls that need a job's files to the node that has them, over that node's internal route, signed with the cluster
// secret. If that node is gone, archived files are fetched from object storage and read here.
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
import { currentTrace, formatTraceparent } from '../runtime/trace.ts';
import { waitForDrain, readLines, readBody } from '../runtime/wire.ts';
import type { Nodes } from './nodes.ts';

interface RouterOptions {
  jobs: Jobs;
  nodes: Nodes;
  operations: Operations;
  egress: Egress;
  clock: Clock;
  secret: Buffer;
  /** Downloads the files of an ended job; false if they were not archived. */
  restore(job: Job): Promise<boolean>;
  /** Whether this node has the job's files. */
  isHere(job: Job): boolean;
}

export const clusterPath = '/internal/cluster';
const tokenPrefix = 'errandnode';
/** Older signatures are rejected as replays. */
const maxSignatureMs = 60_000;
/** A call may wait on the other node. */
const maxCallMs = 120_000;
/** Egress treats 30 s of silence as a dead peer. */
const keepAliveMs = 10_000;
const maxBodyBytes = 32 * 1024 * 1024;
const maxResponseBytes = 64 * 1024 * 1024;

interface Call {
  name: string;
  input: unknown;
  caller: Record<string, unknown> | null;
  follow: boolean;
  /** Set if a model reads the response. */
  maxResponseBytes?: number;
  /** The intended node. A wrong address may reach another node, which would read the wrong files. */
  node?: string;
}

export class Router implements Elsewhere {
  private readonly options: RouterOptions;

  constructor(options: RouterOptions) {
    this.options = options;
  }

  /** The node that must run a call for this job; undefined if it is this one. */
  async place(input: unknown, at: 'job' | 'attempt'): Promise<Place | undefined> {
    const { jobs, nodes, isHere } = this.options;
    const { id, attempt } = input as { id?: unknown; attempt?: number };
    const job = typeof id === 'string' ? await jobs.ledger.find(id) : undefined;
    if (!job) return undefined;
    const node = await this.nodeOfAttempt(job, attempt ?? job.attempt);
    if (node === null || node === nodes.id) return undefined;
    const row = await nodes.rows.find(node);
    // A restarted node takes work before its next heartbeat. Having started this job also proves that it is alive.
    const seenAt = Math.max(row?.seenAt ?? 0, job.startedAt ?? 0);
    if (row?.url && nodes.isAlive({ ...row, seenAt })) return { node, url: row.url };
    if (at === 'attempt') return undefined;
    if (isHere(job) || (await this.options.restore(job))) return undefined;
    const where = row ? `${row.name} (${row.id})` : node;
    const seen = row ? `, which was last seen ${isoTime(row.seenAt)}` : '';
    throw new AppError('gone', `The files of ${job.id} are on node ${where}${seen}.`, {
      hint: 'They are readable again when the node is back. With object storage (setting cluster.archive), output outlives its node.',
      data: { node },
    });
  }

  /** Every attempt may have run on a different node. */
  private async nodeOfAttempt(job: Job, attempt: number): Promise<string | null> {
    if (attempt === job.attempt) return job.node;
    const attempts = await this.options.jobs.ledger.attempts(job.id);
    return attempts.find((one) => one.attempt === attempt)?.node ?? null;
  }

  async call(place: Place, name: string, input: unknown, context: CallContext): Promise<unknown> {
    const response = await this.send(
      place,
      { name, input, ...serializeContext(context), follow: false },
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
      { name, input, ...serializeContext(context), follow: true },
      context.signal,
    );
    for await (const line of readLines(response.body)) {
      const item = JSON.parse(line) as StreamItem & { error?: ErrorBody; still?: true };
      if (item.error) throw errorFromBody(item.error);
      if (!item.still) yield item;
    }
  }

  /** Calls from other nodes are authenticated by signature; permissions come from the forwarded caller. */
  authenticate(key: string): Caller | undefined {
    const [prefix, time, signature] = key.split('.');
    if (prefix !== tokenPrefix || !time || !signature) return undefined;
    if (!this.isFresh(time) || !isEqual(signature, sign(this.options.secret, time, '')))
      return undefined;
    return { owner: 'cluster', scopes: new Set(), admin: false, local: false };
  }

  /** Handles a call from another node. */
  async handle(
    request: IncomingMessage,
    response: ServerResponse,
    { signal, becomeStream }: { signal: AbortSignal; becomeStream(): void },
  ): Promise<void> {
    try {
      const body = await readBody(request, { maxBytes: maxBodyBytes });
      this.verify(request, body);
      const call = parseJson(body.toString()) as Call;
      this.rejectMisrouted(call);
      const caller = parseCaller(call.caller);
      const context: CallContext = {
        caller,
        signal,
        ...(typeof call.maxResponseBytes === 'number'
          ? { maxResponseBytes: call.maxResponseBytes }
          : {}),
      };
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
    // Send keep-alives during silence. Otherwise the other node would treat this one as dead.
    const items = this.options.operations.streamHere(call.name, call.input, context);
    const stop = this.sendKeepAlives(response);
    try {
      for await (const item of items) {
        response.write(itemLine(item));
        await waitForDrain(response);
      }
      response.end();
    } finally {
      stop();
    }
  }

  private sendKeepAlives(response: ServerResponse): () => void {
    let cancel = () => {};
    const next = () => {
      cancel = this.options.clock.after(keepAliveMs, () => {
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
    throw toError(place, response.status, await response.body.text());
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
          authorization: `Bearer ${tokenPrefix}.${time}.${sign(secret, time, '')}`,
          'x-errand-time': time,
          'x-errand-signature': sign(secret, time, body),
          ...traceHeader(),
        },
        body,
        signal,
        maxBytes: maxResponseBytes,
        headersTimeoutMs: maxCallMs,
        timeoutMs: call.follow ? 0 : maxCallMs,
      });
    } catch (error) {
      if (signal.aborted) throw error;
      throw new AppError(
        'unavailable',
        `The node at ${place.url}, which has the files of this job, does not respond.`,
        {
          hint: 'Try again. `errand node list` shows which nodes are alive. If the node has a different address, set ERRAND_NODE_URL there.',
          cause: error,
        },
      );
    }
  }

  private rejectMisrouted({ node }: Call): void {
    const { id } = this.options.nodes;
    // Nodes of an older version do not name the intended node.
    if (node === undefined || node === id) return;
    throw new AppError('unavailable', `A call for node ${node} reached node ${id}.`, {
      hint: `Set ERRAND_NODE_URL on ${node} to an address at which every other node reaches it.`,
    });
  }

  private isFresh(time: string): boolean {
    return Math.abs(this.options.clock.now() - Number(time)) <= maxSignatureMs;
  }

  private verify(request: IncomingMessage, body: Buffer): void {
    const time = String(request.headers['x-errand-time'] ?? '');
    const signature = String(request.headers['x-errand-signature'] ?? '');
    const expected = sign(this.options.secret, time, body.toString());
    if (this.isFresh(time) && isEqual(signature, expected)) return;
    throw new AppError('unauthorized', 'This call is not from a node of this cluster.', {
      hint: 'Set the same ERRAND_CLUSTER_KEY on all nodes.',
    });
  }
}

/** Passes an error of the other node on. Any other response did not come from its internal route. */
function toError(place: Place, status: number, text: string): AppError {
  const body = tryParse(text);
  if (body?.error) return errorFromBody(body.error);
  const detail = body?.detail ?? text.slice(0, 200);
  return new AppError(
    'unavailable',
    `The node at ${place.url} responded with status ${status}: ${detail}`,
    {
      hint: `ERRAND_NODE_URL of node ${place.node} must reach it without a proxy that changes requests.`,
    },
  );
}

function tryParse(text: string): { error?: ErrorBody; detail?: string } | undefined {
  try {
    return JSON.parse(text) as { error?: ErrorBody; detail?: string };
  } catch {
    return undefined;
  }
}

/** Makes the call on the other node part of the same trace. */
function traceHeader(): Record<string, string> {
  const trace = currentTrace();
  return trace ? { traceparent: formatTraceparent(trace) } : {};
}

function isEqual(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}

function sign(secret: Buffer, time: string, body: string): string {
  const digest = createHash('sha256').update(body).digest('hex');
  return createHmac('sha256', secret).update(`cluster\n${time}\n${digest}`).digest('hex');
}

function serializeContext({ caller, maxResponseBytes: maxBytes }: CallContext) {
  const limit = maxBytes === undefined ? {} : { maxResponseBytes: maxBytes };
  return { caller: serializeCaller(caller), ...limit };
}

/** JSON has no sets. */
function serializeCaller(caller: Caller | undefined): Record<string, unknown> | null {
  return caller ? { ...caller, scopes: [...caller.scopes] } : null;
}

function parseCaller(serialized: Record<string, unknown> | null): Caller | undefined {
  if (!serialized) return undefined;
  const held = new Set(serialized.scopes as string[]);
  return {
    ...(serialized as unknown as Caller),
    scopes: new Set(scopes.filter((s) => held.has(s))),
  };
}
